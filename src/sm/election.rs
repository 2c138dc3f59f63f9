//! The election of the master SM: the higher priority wins, and at equal priority the lower port
//! GUID (IBA vol. 1, 14.4.1).

use crate::ids::Guid;
use crate::wire::attr::{SmInfo, SmState};
use std::cmp::Reverse;

/// The properties of an SM that decide the election.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// 0 to 15.
    pub priority: u8,
    /// Port GUID.
    pub guid: Guid,
}

impl Candidate {
    /// True if this SM wins against `other`.
    pub fn beats(self, other: Self) -> bool {
        (self.priority, Reverse(self.guid)) > (other.priority, Reverse(other.guid))
    }
}

impl From<&SmInfo> for Candidate {
    fn from(info: &SmInfo) -> Self {
        Self { priority: info.priority(), guid: info.guid() }
    }
}

/// The SM among `others` that keeps `own` from becoming master: a master, whatever its priority,
/// else the best active SM that wins against `own`.
pub fn obstacle<'a>(
    own: Candidate,
    others: impl IntoIterator<Item = &'a SmInfo>,
) -> Option<&'a SmInfo> {
    let mut best: Option<&SmInfo> = None;
    for other in others {
        let is_master = other.state() == SmState::Master;
        let is_active = matches!(other.state(), SmState::Discovering | SmState::Standby);
        let is_better = is_active && Candidate::from(other).beats(own);
        if !is_master && !is_better {
            continue;
        }
        let outranks = |held: &SmInfo| match (is_master, held.state() == SmState::Master) {
            (true, false) => true,
            (false, true) => false,
            _ => Candidate::from(other).beats(Candidate::from(held)),
        };
        if best.is_none_or(outranks) {
            best = Some(other);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(priority: u8, guid: u64, state: SmState) -> SmInfo {
        let mut info = SmInfo::default();
        info.set_priority(priority);
        info.set_guid(Guid(guid));
        info.set_state(state);
        info
    }

    #[test]
    fn priority_decides_before_the_lower_guid() {
        let own = Candidate { priority: 5, guid: Guid(10) };
        assert!(own.beats(Candidate { priority: 4, guid: Guid(1) }));
        assert!(own.beats(Candidate { priority: 5, guid: Guid(11) }));
        assert!(!own.beats(Candidate { priority: 5, guid: Guid(9) }));
        assert!(!own.beats(own));
    }

    #[test]
    fn a_master_stays_master_whatever_its_priority() {
        let own = Candidate { priority: 15, guid: Guid(1) };
        let weak_master = info(0, 9, SmState::Master);
        let better = info(15, 0, SmState::Standby);
        let off = info(15, 0, SmState::NotActive);
        assert_eq!(obstacle(own, [&weak_master]), Some(&weak_master));
        assert_eq!(obstacle(own, [&better, &weak_master]), Some(&weak_master));
        assert_eq!(obstacle(own, [&better]), Some(&better));
        assert_eq!(obstacle(own, [&off]), None);
        assert_eq!(obstacle(own, [&info(3, 0, SmState::Standby)]), None);
    }
}
