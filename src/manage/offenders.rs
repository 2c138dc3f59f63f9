//! Requests that only defective or hostile programs send, counted by source LID.

use crate::ids::Lid;
use crate::sa::SaCounters;
use crate::sa::counters::DropReason;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// An offence of a source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Offence {
    /// Traps above the limit of a port.
    TrapFlood,
    /// Traps that the device cannot have.
    ImpossibleTrap,
    /// SMInfo requests without effect.
    RefusedSmInfo,
    /// Subscriptions that ended because the queue pair did not respond.
    SilentSubscriber,
    /// SA requests with the GID of another port.
    ForgedGid,
    /// SA requests with a wrong SM_Key.
    WrongSmKey,
    /// SA requests answered with BUSY.
    Busy,
    /// Changes of SA records that were denied or exceeded a limit.
    RejectedChange,
}

impl Offence {
    /// The name in status and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::TrapFlood => "trap_flood",
            Self::ImpossibleTrap => "impossible_trap",
            Self::RefusedSmInfo => "refused_sm_info",
            Self::SilentSubscriber => "silent_subscriber",
            Self::ForgedGid => "forged_gid",
            Self::WrongSmKey => "wrong_sm_key",
            Self::Busy => "busy",
            Self::RejectedChange => "rejected_change",
        }
    }
}

/// The offences that the SA server has counted.
pub fn of_sa_server(counters: &SaCounters) -> Vec<((Lid, Offence), u64)> {
    let mut counts = Vec::new();
    for (lid, [busy, rejected]) in counters.refused_by_lid() {
        counts.push(((lid, Offence::Busy), busy));
        counts.push(((lid, Offence::RejectedChange), rejected));
    }
    counts.extend(counters.forged_by_lid().map(|((lid, reason), count)| {
        let offence = match reason {
            DropReason::WrongKey => Offence::WrongSmKey,
            _ => Offence::ForgedGid,
        };
        ((lid, offence), count)
    }));
    counts
}

/// Counts since the start of the daemon. LIDs bound their number.
#[derive(Debug, Default)]
pub struct Offenders(Mutex<BTreeMap<(Lid, Offence), u64>>);

impl Offenders {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(Lid, Offence), u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts `times` offences of a source. Returns their number so far.
    pub fn count(&self, lid: Lid, offence: Offence, times: u64) -> u64 {
        let mut counts = self.lock();
        let count = counts.entry((lid, offence)).or_default();
        *count += times;
        *count
    }

    /// All counts.
    pub fn list(&self) -> Vec<((Lid, Offence), u64)> {
        self.lock().iter().map(|(&key, &count)| (key, count)).collect()
    }
}

/// True for the counts at which an offence is logged, so that a flood fills no log: powers of 4.
pub fn is_logged(count: u64) -> bool {
    count.is_power_of_two() && count.trailing_zeros().is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offences_are_counted_by_source_and_logged_at_powers_of_4() {
        let offenders = Offenders::default();
        let counts = (0..5000).map(|_| offenders.count(Lid(5), Offence::TrapFlood, 1));
        let logged: Vec<u64> = counts.filter(|&count| is_logged(count)).collect();
        assert_eq!(logged, [1, 4, 16, 64, 256, 1024, 4096]);
        assert_eq!(offenders.count(Lid(6), Offence::TrapFlood, 3), 3);
        let expected = [((Lid(5), Offence::TrapFlood), 5000), ((Lid(6), Offence::TrapFlood), 3)];
        assert_eq!(offenders.list(), expected);
    }

    #[test]
    fn busy_and_rejected_requests_are_offences() {
        let mut counters = SaCounters::default();
        counters.count_busy(Lid(4));
        counters.count_rejected(Lid(4));
        let counts = of_sa_server(&counters);
        assert!(counts.contains(&((Lid(4), Offence::Busy), 1)), "{counts:?}");
        assert!(counts.contains(&((Lid(4), Offence::RejectedChange), 1)), "{counts:?}");
    }
}
