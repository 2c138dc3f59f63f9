//! Selectors of MTU, rate and packet lifetime: how a request compares them with a wanted value
//! (IBA vol. 1, 15.2.5.16). Values are codes or ranks that ascend with the quantity.

use crate::wire::record::Selector;

/// Selects the value of a reply, given the largest possible value `have`, and `selector` and
/// `wanted` of the request. `None` if no value from `least` to `have` satisfies the request. With
/// `exact_only`, a request for exactly `wanted` is not satisfied by a larger `have`.
pub(super) fn choose(
    selector: Selector,
    wanted: usize,
    have: usize,
    least: usize,
    exact_only: bool,
) -> Option<usize> {
    match selector {
        Selector::GreaterThan => (have > wanted).then_some(have),
        Selector::LessThan if have < wanted => Some(have),
        Selector::LessThan => wanted.checked_sub(1).filter(|&below| below >= least),
        Selector::Exactly if exact_only => (have == wanted).then_some(have),
        Selector::Exactly => (have >= wanted).then_some(wanted),
        Selector::Best => Some(have),
    }
}

/// True if `have` itself satisfies `selector` and `wanted` of the request.
pub(super) fn satisfies(selector: Selector, wanted: usize, have: usize) -> bool {
    match selector {
        Selector::GreaterThan => have > wanted,
        Selector::LessThan => have < wanted,
        Selector::Exactly => have == wanted,
        Selector::Best => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Selector::*;

    #[test]
    fn every_comparison_code() {
        let table = [
            // selector, wanted, have, exact only -> answer
            (GreaterThan, 3, 4, false, Some(4)),
            (GreaterThan, 4, 4, false, None),
            (LessThan, 4, 3, false, Some(3)),
            (LessThan, 4, 4, false, Some(3)),
            (LessThan, 1, 4, false, None),
            (Exactly, 3, 4, false, Some(3)),
            (Exactly, 3, 4, true, None),
            (Exactly, 4, 4, true, Some(4)),
            (Exactly, 5, 4, false, None),
            (Best, 9, 4, false, Some(4)),
        ];
        for (selector, wanted, have, exact, answer) in table {
            assert_eq!(
                choose(selector, wanted, have, 1, exact),
                answer,
                "{selector:?} {wanted} of {have}"
            );
        }
    }
}
