//! Judgement of the replies of a polled SM (IBA vol. 1, 14.4.1; the cases that the specification
//! leaves open follow OpenSM).

use super::election::{ElectionCandidate, Voter};
use super::peer::{Peer, is_trusted};
use crate::wire::attr::{SmInfo, SmState};

/// Meaning of the SMInfo of a polled SM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PollVerdict {
    /// The polled SM lives, and this one goes on waiting.
    Alive,
    /// The polled SM is master although this one wins the election: it has to learn of this one.
    Outranked,
    /// The polled SM is not the master that this one waits for. It counts as silent, so that two
    /// standby SMs never wait for each other.
    NoMaster,
    /// Awaiting a HANDOVER: the polled SM is no longer master, or wins the election now.
    Changed,
}

/// Judges the reply `info` of `polled`. As STANDBY `own` polls its master, as MASTER another
/// master whose HANDOVER it awaits.
pub fn judge(own: &Voter, polled: &Peer, info: &SmInfo) -> PollVerdict {
    if info.guid() != polled.guid() || !is_trusted(own.sm_key, info) {
        return PollVerdict::NoMaster;
    }
    let is_higher = ElectionCandidate::from(info).beats(own.candidate);
    match (own.state, info.state(), is_higher) {
        (SmState::Master, SmState::Master, false) => PollVerdict::Outranked,
        (SmState::Master, _, _) => PollVerdict::Changed,
        (_, SmState::Master, true) | (_, SmState::Standby, true) => PollVerdict::Alive,
        (_, SmState::Master, false) => PollVerdict::Outranked,
        _ => PollVerdict::NoMaster,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Guid, Lid, SmKey};
    use crate::wire::smp::SmpRoute;

    fn info(priority: u8, state: SmState) -> SmInfo {
        let mut info = SmInfo::default();
        info.set_priority(priority);
        info.set_guid(Guid(20));
        info.set_state(state);
        info.set_sm_key(SmKey(1));
        info
    }

    fn verdict(own: SmState, info: &SmInfo) -> PollVerdict {
        let candidate = ElectionCandidate { priority: 5, guid: Guid(10) };
        let own = Voter { state: own, candidate, sm_key: SmKey(1) };
        let polled = Peer { info: self::info(5, SmState::Master), route: SmpRoute::Lid(Lid(1)) };
        judge(&own, &polled, info)
    }

    #[test]
    fn a_standby_waits_for_a_master_and_for_a_better_standby_only() {
        use PollVerdict::{Alive, NoMaster, Outranked};
        use SmState::{Discovering, Master, NotActive, Standby, Unknown};
        for (state, lower, higher) in [
            (Master, Outranked, Alive),
            (Standby, NoMaster, Alive),
            (Discovering, NoMaster, NoMaster),
            (NotActive, NoMaster, NoMaster),
            (Unknown(9), NoMaster, NoMaster),
        ] {
            assert_eq!(verdict(Standby, &info(5, state)), lower, "lower {state}");
            assert_eq!(verdict(Standby, &info(6, state)), higher, "higher {state}");
        }
    }

    #[test]
    fn a_master_awaits_the_handover_of_a_lower_master_only() {
        use PollVerdict::{Changed, Outranked};
        use SmState::{Discovering, Master, NotActive, Standby};
        assert_eq!(verdict(Master, &info(5, Master)), Outranked);
        assert_eq!(verdict(Master, &info(6, Master)), Changed);
        for state in [Standby, Discovering, NotActive] {
            assert_eq!(verdict(Master, &info(5, state)), Changed);
        }
    }

    #[test]
    fn another_sm_or_key_does_not_count_as_the_master() {
        let mut other = info(5, SmState::Master);
        other.set_guid(Guid(21));
        assert_eq!(verdict(SmState::Standby, &other), PollVerdict::NoMaster);
        let mut stranger = info(5, SmState::Master);
        stranger.set_sm_key(SmKey(2));
        assert_eq!(verdict(SmState::Standby, &stranger), PollVerdict::NoMaster);
    }
}
