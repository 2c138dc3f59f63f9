//! MTU and rate codes: validity, order, and the rates that clients understand (IBA vol. 1,
//! 15.2.5.16).

use crate::config::options::Options;
use crate::wire::attr::{CapMask, CapMask2, PortInfo};

/// Rate codes in ascending order of data rate: 2.5, 5, 10, 14, 20, 30, 25, 28, 40, 60, 50, 56, 80,
/// 120, 100, 112, 168, 200, 300, 400, 600, 800, 1200 Gb/s of signalling rate. Links up to QDR
/// encode 8 bits in 10, faster ones 64 in 66, so that 25 Gb/s of EDR carry more data than 30 Gb/s
/// of SDR.
const RATES: [u8; 23] =
    [2, 5, 3, 11, 6, 4, 15, 19, 7, 8, 20, 12, 9, 10, 16, 13, 14, 17, 18, 21, 22, 23, 24];

/// Rate code of 300 Gb/s (12x EDR), the highest of the original extended rates.
const RATE_300_GBPS: u8 = 18;

/// Position of a rate code in ascending order of data rate; `None` for undefined codes.
pub(super) fn rate_rank(code: u8) -> Option<usize> {
    RATES.iter().position(|&rate| rate == code)
}

/// The rate code at a position; the highest one beyond the end.
pub(super) fn rate_of_rank(rank: usize) -> u8 {
    RATES[rank.min(RATES.len() - 1)]
}

/// The highest rate code that replies may contain by the options `max_rate_enum` and
/// `use_original_extended_sa_rates_only`, for clients that reject codes they do not know. `None`
/// without a valid limit.
pub(super) fn max_rate(options: &Options) -> Option<u8> {
    let original = options.use_original_extended_sa_rates_only;
    let limit =
        if original { RATE_300_GBPS.min(options.max_rate_enum) } else { options.max_rate_enum };
    rate_rank(limit).map(|_| limit)
}

/// The highest rate up to `rate` with neither a higher code nor a higher data rate than `limit`.
pub(super) fn clamp_rate(rate: u8, limit: u8) -> u8 {
    if rate <= limit {
        return rate;
    }
    let rank = rate_rank(rate).min(rate_rank(limit)).unwrap_or(0);
    let clamped = RATES[..=rank].iter().rev().find(|&&code| code <= limit);
    clamped.copied().unwrap_or(RATES[0])
}

/// The highest rate up to `rate` that a port with these capabilities has a code for: the codes of
/// 2x links, HDR and NDR were added to the specification later.
pub(super) fn rate_known_to(info: &PortInfo, rate: u8) -> u8 {
    let capabilities = if info.has(CapMask::CAP_MASK2) { info.capability_mask2() } else { 0 };
    let has = |any: u16| capabilities & any != 0;
    match rate {
        19 if has(CapMask2::LINK_WIDTH_2X) => 19,
        19 if info.has(CapMask::EXTENDED_SPEEDS) => 15,
        19 => 6,
        20 if !has(CapMask2::LINK_WIDTH_2X | CapMask2::LINK_SPEED_HDR) => 7,
        23 | 24 if has(CapMask2::LINK_SPEED_NDR) => rate,
        23 | 24 if has(CapMask2::LINK_SPEED_HDR) => 22,
        21..=24 if !has(CapMask2::LINK_SPEED_HDR | CapMask2::LINK_SPEED_NDR) => RATE_300_GBPS,
        _ => rate,
    }
}

/// True for the MTU codes 1..=5: 256, 512, 1024, 2048 and 4096 bytes.
pub(super) fn mtu_is_valid(code: u8) -> bool {
    (1..=5).contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn known(info: &PortInfo) -> [u8; 7] {
        [16, 19, 20, 21, 22, 23, 24].map(|rate| rate_known_to(info, rate))
    }

    #[test]
    fn rates_are_limited_by_the_configuration() {
        let mut options = Options::default();
        assert_eq!(max_rate(&options), None);
        options.use_original_extended_sa_rates_only = true;
        assert_eq!(max_rate(&options), Some(18));
        options.max_rate_enum = 10;
        assert_eq!(max_rate(&options), Some(10));
        for (rate, limit, answer) in
            [(16, 18, 16), (20, 18, 8), (19, 18, 15), (24, 22, 22), (16, 10, 10), (15, 10, 4)]
        {
            assert_eq!(clamp_rate(rate, limit), answer, "{rate} up to {limit}");
        }
    }
}
