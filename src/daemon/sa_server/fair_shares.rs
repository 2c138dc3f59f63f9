//! Fair shares of source ports: under load, each port gets a limited part of the answers.

use crate::ids::Lid;

/// Number of requests in a round, after which counting starts again.
const REQUESTS_PER_ROUND: u16 = 1024;

/// Number of low bits of the LID that identify a port; ports with equal low bits have a common
/// share.
const LID_BITS: u32 = 8;

/// Requests per round that a port may make: four times an equal share.
const MAX_REQUESTS_PER_PORT: u8 = ((4 * REQUESTS_PER_ROUND as u32) >> LID_BITS) as u8;

/// Requests counted in the present round.
#[derive(Debug)]
pub(super) struct FairShares {
    /// Index: the low [`LID_BITS`] of the LID.
    by_lid: [u8; 1 << LID_BITS],
    total: u16,
}

impl Default for FairShares {
    fn default() -> Self {
        Self { by_lid: [0; 1 << LID_BITS], total: 0 }
    }
}

impl FairShares {
    /// Counts a request of the port at `lid`; false if the port has used up its share.
    pub(super) fn take(&mut self, lid: Lid) -> bool {
        if self.total == REQUESTS_PER_ROUND {
            *self = Self::default();
        }
        self.total += 1;
        let requests = &mut self.by_lid[usize::from(lid.0) % (1 << LID_BITS)];
        *requests = requests.saturating_add(1);
        *requests <= MAX_REQUESTS_PER_PORT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flooding_port_gets_its_share_and_other_ports_theirs() {
        let mut shares = FairShares::default();
        let mut taken = [0; 2];
        for number in 0..4 * REQUESTS_PER_ROUND {
            // One request in four comes from one of 64 other ports.
            let lid = if number % 4 == 0 { 2 + number / 4 % 64 } else { 1 };
            taken[usize::from(lid == 1)] += u16::from(shares.take(Lid(lid)));
        }
        assert_eq!(taken, [REQUESTS_PER_ROUND, 4 * u16::from(MAX_REQUESTS_PER_PORT)]);
    }
}
