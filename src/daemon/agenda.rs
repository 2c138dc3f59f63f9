//! What is to be done next. Events arrive while a sweep runs; a storm of them becomes one entry.

use crate::ids::Guid;
use crate::observe::traps::TrapNews;
use crate::sm::role;
use std::collections::BTreeSet;

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A trap that is news.
    Trap(TrapNews),
    /// Another SM asks for a change of role.
    Role(role::Event),
    /// Multicast membership changed.
    Membership,
    /// Alias GUIDs changed.
    Aliases,
    /// SIGHUP: read the configuration again and sweep.
    Reload,
    /// The port is gone.
    PortClosed(String),
}

/// What the events since the last pass add up to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Agenda {
    /// Read the configuration again.
    pub reload: bool,
    /// A heavy sweep is due.
    pub heavy: bool,
    /// Switches to be asked at once.
    pub suspects: BTreeSet<Guid>,
    /// Multicast trees are to be planned anew.
    pub membership: bool,
    /// Everything is to be planned anew, for the fabric as it was found.
    pub plan: bool,
    /// Role changes asked for, in order.
    pub roles: Vec<role::Event>,
    /// The port is gone.
    pub port_closed: Option<String>,
}

impl Agenda {
    /// True if nothing is to be done.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds an event. `switch_of` names the switch a LID belongs to, if it is known.
    pub fn add(&mut self, event: Event, switch_of: impl Fn(&TrapNews) -> Option<Guid>) {
        match event {
            Event::Trap(news) if !news.calls_for_sweep() => {}
            Event::Trap(news) => match switch_of(&news) {
                Some(guid) => {
                    self.suspects.insert(guid);
                }
                None => self.heavy = true,
            },
            Event::Role(event) => self.roles.push(event),
            Event::Membership => self.membership = true,
            Event::Aliases => self.plan = true,
            Event::Reload => {
                self.reload = true;
                self.heavy = true;
            }
            Event::PortClosed(reason) => self.port_closed = Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lid, PortNum};

    fn trap(number: u16, lid: u16) -> Event {
        let lid = Lid(lid);
        Event::Trap(TrapNews { issuer: lid, number, subject: lid, port: PortNum(0) })
    }

    #[test]
    fn a_storm_of_traps_is_one_entry() {
        let mut agenda = Agenda::default();
        let known = |news: &TrapNews| (news.issuer.0 < 10).then_some(Guid(news.issuer.0.into()));
        for _ in 0..1000 {
            agenda.add(trap(128, 5), known);
            agenda.add(trap(257, 5), known);
        }
        assert_eq!(agenda.suspects, BTreeSet::from([Guid(5)]));
        assert!(!agenda.heavy);
        agenda.add(trap(128, 50), known);
        assert!(agenda.heavy);
    }
}
