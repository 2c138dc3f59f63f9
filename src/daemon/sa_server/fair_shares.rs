//! Who had how much of the hatch lately, so that in a crowd nobody has more than a fair share.

use crate::ids::Lid;

/// Requests after which all begins anew.
const ROUND: u16 = 1024;

/// Ports are told apart by so many of their LIDs' bits: those that are not share their share.
const BITS: u32 = 8;

/// Requests of a round that a port may bring: four times what each has if all bring as many.
const SHARE: u8 = ((4 * ROUND as u32) >> BITS) as u8;

/// What was asked in this round.
#[derive(Debug)]
pub(super) struct FairShares {
    /// By the low bits of the LIDs.
    asked: [u8; 1 << BITS],
    total: u16,
}

impl Default for FairShares {
    fn default() -> Self {
        Self { asked: [0; 1 << BITS], total: 0 }
    }
}

impl FairShares {
    /// Counts a request of the port at `lid`; false if it has had its share.
    pub(super) fn take(&mut self, lid: Lid) -> bool {
        if self.total == ROUND {
            *self = Self::default();
        }
        self.total += 1;
        let asked = &mut self.asked[usize::from(lid.0) % (1 << BITS)];
        *asked = asked.saturating_add(1);
        *asked <= SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_floods_has_its_share_and_others_theirs() {
        let mut shares = FairShares::default();
        let mut taken = [0; 2];
        for number in 0..4 * ROUND {
            // One in four is of one of 64 other ports.
            let lid = if number % 4 == 0 { 2 + number / 4 % 64 } else { 1 };
            taken[usize::from(lid == 1)] += u16::from(shares.take(Lid(lid)));
        }
        assert_eq!(taken, [ROUND, 4 * u16::from(SHARE)]);
    }
}
