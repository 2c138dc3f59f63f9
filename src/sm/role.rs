//! The role state machine of an SM (IBA vol. 1, 14.4.1): one row per legal transition.

use crate::wire::attr::SmState;
use std::fmt;

/// An event that may change the role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleEvent {
    /// A sweep found no SM that is or should become master.
    SweepAlone,
    /// A sweep found a master, or an SM that wins the election against this one.
    SweepMetBetter,
    /// The master does not answer polls.
    MasterSilent,
    /// HANDOVER (SubnSet(SMInfo), AttributeModifier 1): this SM becomes master.
    Handover,
    /// DISABLE (AttributeModifier 3): this SM stops.
    Disable,
    /// STANDBY (AttributeModifier 4): this SM polls the master.
    Standby,
    /// DISCOVER (AttributeModifier 5): this SM sweeps.
    Discover,
}

impl fmt::Display for RoleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SweepAlone => "no other SM found",
            Self::SweepMetBetter => "better SM found",
            Self::MasterSilent => "master does not answer",
            Self::Handover => "HANDOVER",
            Self::Disable => "DISABLE",
            Self::Standby => "STANDBY",
            Self::Discover => "DISCOVER",
        })
    }
}

/// An action that a transition requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Plan and program the fabric.
    Configure,
    /// Poll the master at intervals.
    StartPolling,
    StopPolling,
    Sweep,
}

/// The transition from `role` on `event`; `None` if the specification defines none, in which case
/// the role stays.
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
    fn an_sm_becomes_master_alone_or_by_handover() {
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
