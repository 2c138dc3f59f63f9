//! The role state machine of an SM (IBA vol. 1, 14.4.1) as a table: one row per legal transition.
//!
//! The specification leaves open what a master does about other masters; those rows follow OpenSM.

use crate::wire::attr::SmState;
use std::fmt;

/// An event that may change the role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoleEvent {
    /// A sweep found no SM that is master or should become master.
    SweepAlone,
    /// A sweep found an SM that wins the election against this one, or, while DISCOVERING, a
    /// master.
    SweepMetBetter,
    /// A sweep found another master, which loses the election against this one.
    SweepMetLowerMaster,
    /// The polled SM does not answer.
    MasterSilent,
    /// The polled SM is no longer the master that this one waits for.
    MasterYielded,
    /// Another SM accepted the HANDOVER of this one.
    HandoverAccepted,
    /// The link of the local port is down.
    PortDown,
    /// HANDOVER (SubnSet(SMInfo), AttributeModifier 1): this SM becomes master.
    Handover,
    /// ACKNOWLEDGE (AttributeModifier 2): the sender became master after a HANDOVER.
    Acknowledge,
    /// DISABLE (AttributeModifier 3): this SM stops.
    Disable,
    /// STANDBY (AttributeModifier 4): this SM polls the sender.
    Standby,
    /// DISCOVER (AttributeModifier 5): this SM sweeps.
    Discover,
}

impl RoleEvent {
    /// The event that SubnSet(SMInfo) with this AttributeModifier requests (IBA vol. 1, 14.4.2).
    pub fn requested_by(modifier: u32) -> Option<Self> {
        match modifier {
            1 => Some(Self::Handover),
            2 => Some(Self::Acknowledge),
            3 => Some(Self::Disable),
            4 => Some(Self::Standby),
            5 => Some(Self::Discover),
            _ => None,
        }
    }
}

impl fmt::Display for RoleEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SweepAlone => "no other SM found",
            Self::SweepMetBetter => "better SM found",
            Self::SweepMetLowerMaster => "second master found",
            Self::MasterSilent => "master does not answer",
            Self::MasterYielded => "master yielded",
            Self::HandoverAccepted => "HANDOVER accepted",
            Self::PortDown => "SM port is down",
            Self::Handover => "HANDOVER",
            Self::Acknowledge => "ACKNOWLEDGE",
            Self::Disable => "DISABLE",
            Self::Standby => "STANDBY",
            Self::Discover => "DISCOVER",
        })
    }
}

/// An action that a transition requires. Actions are performed in the order of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Plan and program the fabric.
    Configure,
    /// Send HANDOVER to the better SM.
    HandOver,
    /// Poll the other master until it hands over. The fabric is not programmed meanwhile.
    AwaitHandover,
    /// Send ACKNOWLEDGE to the sender of the HANDOVER.
    Acknowledge,
    /// Poll the master at intervals.
    StartPolling,
    StopPolling,
    /// Discard what the devices are known to hold: another SM may have written to them.
    Distrust,
    Sweep,
}

/// The transition from `role` on `event`; `None` if there is none, in which case the role stays.
pub fn step(role: SmState, event: RoleEvent) -> Option<(SmState, &'static [Action])> {
    use Action::{
        Acknowledge, AwaitHandover, Configure, Distrust, HandOver, StartPolling, StopPolling, Sweep,
    };
    use RoleEvent as E;
    use SmState::{Discovering, Master, NotActive, Standby};
    Some(match (role, event) {
        (Discovering, E::SweepAlone) => (Master, &[Configure]),
        (Discovering, E::SweepMetBetter) => (Standby, &[StartPolling]),
        (Discovering, E::Handover) => (Master, &[Acknowledge, Distrust, Sweep]),
        (Discovering, E::PortDown) => (Discovering, &[]),
        (Standby, E::MasterSilent | E::Discover) => (Discovering, &[StopPolling, Distrust, Sweep]),
        (Standby, E::Handover) => (Master, &[StopPolling, Acknowledge, Distrust, Sweep]),
        (Standby, E::Acknowledge) => (Standby, &[]),
        (Standby, E::Disable) => (NotActive, &[StopPolling]),
        (NotActive, E::Standby) => (Standby, &[StartPolling]),
        // This SM ends, and its successor has taken over.
        (NotActive, E::Acknowledge) => (NotActive, &[]),
        (Master, E::SweepAlone) => (Master, &[StopPolling, Configure]),
        (Master, E::SweepMetBetter) => (Master, &[StopPolling, HandOver]),
        (Master, E::SweepMetLowerMaster) => (Master, &[AwaitHandover]),
        (Master, E::MasterSilent | E::MasterYielded) => (Master, &[StopPolling, Distrust, Sweep]),
        (Master, E::HandoverAccepted) => (Standby, &[StartPolling]),
        (Master, E::Handover) => (Master, &[StopPolling, Acknowledge, Distrust, Sweep]),
        (Master, E::Acknowledge) => (Master, &[]),
        (Master, E::PortDown) => (Discovering, &[StopPolling, Distrust]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All transitions: the next role, and the initials of the actions. `-`: none.
    const TABLE: &str = "
        event               DISCOVERING     STANDBY          MASTER         NOT-ACTIVE
        SweepAlone          MASTER:C        -                MASTER:tC      -
        SweepMetBetter      STANDBY:P       -                MASTER:tH      -
        SweepMetLowerMaster -               -                MASTER:W       -
        MasterSilent        -               DISCOVERING:tDS  MASTER:tDS     -
        MasterYielded       -               -                MASTER:tDS     -
        HandoverAccepted    -               -                STANDBY:P      -
        PortDown            DISCOVERING:    -                DISCOVERING:tD -
        Handover            MASTER:ADS      MASTER:tADS      MASTER:tADS    -
        Acknowledge         -               STANDBY:         MASTER:        NOT-ACTIVE:
        Disable             -               NOT-ACTIVE:t     -              -
        Standby             -               -                -              STANDBY:P
        Discover            -               DISCOVERING:tDS  -              -
    ";

    const STATES: [SmState; 4] =
        [SmState::Discovering, SmState::Standby, SmState::Master, SmState::NotActive];

    const EVENTS: [RoleEvent; 12] = [
        RoleEvent::SweepAlone,
        RoleEvent::SweepMetBetter,
        RoleEvent::SweepMetLowerMaster,
        RoleEvent::MasterSilent,
        RoleEvent::MasterYielded,
        RoleEvent::HandoverAccepted,
        RoleEvent::PortDown,
        RoleEvent::Handover,
        RoleEvent::Acknowledge,
        RoleEvent::Disable,
        RoleEvent::Standby,
        RoleEvent::Discover,
    ];

    fn initial(action: Action) -> char {
        match action {
            Action::Configure => 'C',
            Action::HandOver => 'H',
            Action::AwaitHandover => 'W',
            Action::Acknowledge => 'A',
            Action::StartPolling => 'P',
            Action::StopPolling => 't',
            Action::Distrust => 'D',
            Action::Sweep => 'S',
        }
    }

    fn cell(state: SmState, event: RoleEvent) -> String {
        let Some((next, actions)) = step(state, event) else { return "-".into() };
        format!("{next}:{}", actions.iter().copied().map(initial).collect::<String>())
    }

    #[test]
    fn all_transitions_are_those_of_the_table() {
        let mut rows = TABLE.lines().map(str::trim).filter(|line| !line.is_empty());
        let header: Vec<&str> = rows.next().expect("a header").split_whitespace().collect();
        assert_eq!(header[1..], STATES.map(|state| state.to_string()));
        let rows: Vec<Vec<&str>> = rows.map(|row| row.split_whitespace().collect()).collect();
        let found: Vec<Vec<String>> = EVENTS
            .iter()
            .map(|&event| {
                let cells = STATES.iter().map(|&state| cell(state, event));
                std::iter::once(format!("{event:?}")).chain(cells).collect()
            })
            .collect();
        assert_eq!(found, rows);
    }

    #[test]
    fn an_undefined_state_has_no_transition() {
        assert!(EVENTS.iter().all(|&event| step(SmState::Unknown(7), event).is_none()));
    }

    #[test]
    fn attribute_modifiers_are_those_of_the_specification() {
        let events = (0..=6).map(RoleEvent::requested_by);
        let named = ["", "HANDOVER", "ACKNOWLEDGE", "DISABLE", "STANDBY", "DISCOVER", ""];
        let names = events.map(|event| event.map_or(String::new(), |event| event.to_string()));
        assert!(names.eq(named));
    }
}
