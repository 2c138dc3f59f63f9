//! MTU, rate and packet life: their order, and the selectors with which queries ask for them
//! (IBA vol. 1, 15.2.5.16).

use crate::wire::record::Selector;

/// Rate codes in ascending order of bandwidth: 2.5, 5, 10, 14, 20, 25, 28, 30, 40, 50, 56, 60, 80,
/// 100, 112, 120, 168, 200, 300, 400, 600, 800, 1200 Gb/s.
const RATES: [u8; 23] =
    [2, 5, 3, 11, 6, 15, 19, 4, 7, 20, 12, 8, 9, 16, 13, 10, 14, 17, 18, 21, 22, 23, 24];

/// Place of a rate code in the order of rates; `None` for codes without a meaning.
pub(super) fn rate_rank(code: u8) -> Option<usize> {
    RATES.iter().position(|&rate| rate == code)
}

/// The rate code with this rank.
pub(super) fn rate_of_rank(rank: usize) -> u8 {
    RATES[rank.min(RATES.len() - 1)]
}

/// True for MTU codes 256..=4096 bytes.
pub(super) fn mtu_is_valid(code: u8) -> bool {
    (1..=5).contains(&code)
}

/// The value to answer if `have` is the largest one possible and the request says `selector`
/// `wanted`; `None` if that cannot be had. Values are ranks from `least` on.
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

/// True if `have` satisfies `selector` `wanted` as it is.
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

    #[test]
    fn rates_are_ordered_by_bandwidth_not_by_code() {
        assert!(rate_rank(5) < rate_rank(3), "5 Gb/s is less than 10 Gb/s");
        assert!(rate_rank(4) < rate_rank(7), "30 Gb/s is less than 40 Gb/s");
        assert_eq!(rate_rank(1), None);
        assert_eq!(rate_rank(2), Some(0));
        for code in 2..=24 {
            assert_eq!(rate_of_rank(rate_rank(code).unwrap()), code);
        }
    }
}
