//! The role of this SM (IBA vol. 1, 14.4.1): one row per legal transition.

use crate::wire::attr::SmState;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleEvent {
    /// A sweep ended, and no other SM has a claim.
    SweepAlone,
    /// A sweep ended and met a master, or a better SM that is about to become one.
    SweepMetBetter,
    /// The master does not answer any more.
    MasterSilent,
    /// The master hands the subnet over (SMInfo Set, modifier 1).
    Handover,
    /// The master switches this SM off (modifier 3).
    Disable,
    /// The master wakes this SM into standby (modifier 4).
    Standby,
    /// The master makes this SM look around again (modifier 5).
    Discover,
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Plan and program the fabric.
    Configure,
    /// Ask the master at intervals whether it lives.
    StartPolling,
    /// Stop asking.
    StopPolling,
    /// Sweep the fabric.
    Sweep,
}

/// The transition from `role` on `event`; `None` where the specification knows none: the role
/// stays.
pub fn step(role: SmState, event: RoleEvent) -> Option<(SmState, &'static [Action])> {
    use Action::{Configure, StartPolling, StopPolling, Sweep};
    use RoleEvent as E;
    use SmState::{Discovering, Master, NotActive, Standby};
    Some(match (role, event) {
        (Discovering, E::SweepAlone) => (Master, &[Configure]),
        (Discovering, E::SweepMetBetter) => (Standby, &[StartPolling]),
        (Discovering, E::Standby) => (Standby, &[StartPolling]),
        (Standby, E::MasterSilent | E::Discover) => (Discovering, &[StopPolling, Sweep]),
        (Standby, E::Handover) => (Master, &[StopPolling, Sweep]),
        (Standby, E::Disable) => (NotActive, &[StopPolling]),
        (NotActive, E::Standby) => (Standby, &[StartPolling]),
        (Master, E::SweepAlone | E::SweepMetBetter) => (Master, &[Configure]),
        (Master, E::Handover) => (Master, &[Sweep]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lonely_or_appointed_sm_becomes_master() {
        let states =
            [SmState::NotActive, SmState::Discovering, SmState::Standby, SmState::Unknown(7)];
        let events = [
            RoleEvent::SweepAlone,
            RoleEvent::SweepMetBetter,
            RoleEvent::MasterSilent,
            RoleEvent::Handover,
            RoleEvent::Disable,
            RoleEvent::Standby,
            RoleEvent::Discover,
        ];
        for state in states {
            for event in events {
                let becomes = step(state, event).is_some_and(|(next, _)| next == SmState::Master);
                let may = (state, event) == (SmState::Discovering, RoleEvent::SweepAlone)
                    || (state, event) == (SmState::Standby, RoleEvent::Handover);
                assert_eq!(becomes, may, "{state} on {event:?}");
            }
        }
    }

    #[test]
    fn a_standby_takes_over_when_the_master_is_silent() {
        let (next, actions) =
            step(SmState::Standby, RoleEvent::MasterSilent).expect("a transition");
        assert_eq!(next, SmState::Discovering);
        assert_eq!(actions, [Action::StopPolling, Action::Sweep]);
        let (next, _) = step(next, RoleEvent::SweepAlone).expect("a transition");
        assert_eq!(next, SmState::Master);
    }
}
