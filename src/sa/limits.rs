//! MTU, rate and packet life: their order, and the selectors with which queries ask for them
//! (IBA vol. 1, 15.2.5.16).

use crate::config::options::Options;
use crate::wire::attr::{CapMask, CapMask2, PortInfo};
use crate::wire::record::Selector;

/// Rate codes in ascending order of the data they carry: 2.5, 5, 10, 14, 20, 30, 25, 28, 40, 60, 50,
/// 56, 80, 120, 100, 112, 168, 200, 300, 400, 600, 800, 1200 Gb/s. Up to QDR a fifth of the bits is
/// encoding, with faster lanes 2 of 66: 25 Gb/s of EDR are more than 30 of SDR.
const RATES: [u8; 23] =
    [2, 5, 3, 11, 6, 4, 15, 19, 7, 8, 20, 12, 9, 10, 16, 13, 14, 17, 18, 21, 22, 23, 24];

/// Place of a rate code in the order of rates; `None` for codes without a meaning.
pub(super) fn rate_rank(code: u8) -> Option<usize> {
    RATES.iter().position(|&rate| rate == code)
}

/// The rate code with this rank.
pub(super) fn rate_of_rank(rank: usize) -> u8 {
    RATES[rank.min(RATES.len() - 1)]
}

/// The highest rate code to answer with, if the configuration has one: clients of old kernels
/// fail on codes that they do not know.
pub(super) fn rate_limit(options: &Options) -> Option<u8> {
    let original = options.use_original_extended_sa_rates_only;
    let limit = if original { X12_EDR.min(options.max_rate_enum) } else { options.max_rate_enum };
    rate_rank(limit).map(|_| limit)
}

/// The code of 300 Gb/s, the last before there were links of 2x and of HDR.
const X12_EDR: u8 = 18;

/// The highest rate up to `rate` whose code and bandwidth are not beyond those of `limit`.
pub(super) fn limited_rate(rate: u8, limit: u8) -> u8 {
    if rate <= limit {
        return rate;
    }
    let most = rate_rank(rate).min(rate_rank(limit)).unwrap_or(0);
    let known = RATES[..=most].iter().rev().find(|&&code| code <= limit);
    known.copied().unwrap_or(RATES[0])
}

/// The highest rate up to `rate` that who has a port with these capabilities knows: there were
/// no codes for widths and speeds that came later.
pub(super) fn known_rate(rate: u8, info: &PortInfo) -> u8 {
    let second = if info.has(CapMask::CAP_MASK2) { info.capability_mask2() } else { 0 };
    let has = |any: u16| second & any != 0;
    match rate {
        19 if has(CapMask2::LINK_WIDTH_2X) => 19,
        19 if info.has(CapMask::EXTENDED_SPEEDS) => 15,
        19 => 6,
        20 if !has(CapMask2::LINK_WIDTH_2X | CapMask2::LINK_SPEED_HDR) => 7,
        23 | 24 if has(CapMask2::LINK_SPEED_NDR) => rate,
        23 | 24 if has(CapMask2::LINK_SPEED_HDR) => 22,
        21..=24 if !has(CapMask2::LINK_SPEED_HDR | CapMask2::LINK_SPEED_NDR) => X12_EDR,
        _ => rate,
    }
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
        assert!(rate_rank(4) < rate_rank(15), "12x SDR carries less than 1x EDR");
        assert!(rate_rank(10) < rate_rank(16), "12x QDR carries less than 4x EDR");
        assert_eq!(rate_rank(1), None);
        assert_eq!(rate_rank(2), Some(0));
        for code in 2..=24 {
            assert_eq!(rate_of_rank(rate_rank(code).unwrap()), code);
        }
    }

    #[test]
    fn clients_are_told_rates_that_they_know() {
        let mut info = PortInfo::default();
        let known =
            |info: &PortInfo| [16, 19, 20, 21, 22, 23, 24].map(|rate| known_rate(rate, info));
        assert_eq!(known(&info), [16, 6, 7, 18, 18, 18, 18]);
        info.set_capability_mask(CapMask::EXTENDED_SPEEDS);
        assert_eq!(known(&info), [16, 15, 7, 18, 18, 18, 18]);
        info.set_capability_mask2(CapMask2::LINK_SPEED_HDR);
        assert_eq!(known(&info), [16, 15, 7, 18, 18, 18, 18], "there is no second mask");
        info.set_capability_mask(CapMask::EXTENDED_SPEEDS | CapMask::CAP_MASK2);
        assert_eq!(known(&info), [16, 15, 20, 21, 22, 22, 22]);
        info.set_capability_mask2(CapMask2::LINK_WIDTH_2X | CapMask2::LINK_SPEED_NDR);
        assert_eq!(known(&info), [16, 19, 20, 21, 22, 23, 24]);
    }

    #[test]
    fn rates_are_limited_by_the_configuration() {
        let mut options = Options::default();
        assert_eq!(rate_limit(&options), None);
        options.use_original_extended_sa_rates_only = true;
        assert_eq!(rate_limit(&options), Some(18));
        options.max_rate_enum = 10;
        assert_eq!(rate_limit(&options), Some(10));
        for (rate, limit, answer) in
            [(16, 18, 16), (20, 18, 8), (19, 18, 15), (24, 22, 22), (16, 10, 10), (15, 10, 4)]
        {
            assert_eq!(limited_rate(rate, limit), answer, "{rate} up to {limit}");
        }
    }
}
