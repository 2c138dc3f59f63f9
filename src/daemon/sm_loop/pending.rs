//! What is to be done next. Events arrive while a sweep runs; a storm of them becomes one entry.

use crate::daemon::messages::SmEvent;
use crate::ids::Guid;
use crate::observe::traps::TrapEvent;
use crate::sm::role::RoleEvent;
use std::collections::BTreeSet;

/// What the events since the last pass add up to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PendingWork {
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
    pub roles: Vec<RoleEvent>,
    /// The port is gone.
    pub port_closed: Option<String>,
}

impl PendingWork {
    /// True if nothing is to be done.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds an event. `switch_of` names the switch a LID belongs to, if it is known.
    pub fn add(&mut self, event: SmEvent, switch_of: impl Fn(&TrapEvent) -> Option<Guid>) {
        match event {
            SmEvent::Trap(news) if !news.calls_for_sweep() => {}
            SmEvent::Trap(news) => match switch_of(&news) {
                Some(guid) => {
                    self.suspects.insert(guid);
                }
                None => self.heavy = true,
            },
            SmEvent::Role(event) => self.roles.push(event),
            SmEvent::MembershipChanged => self.membership = true,
            SmEvent::AliasesChanged => self.plan = true,
            SmEvent::Reload => {
                self.reload = true;
                self.heavy = true;
            }
            SmEvent::PortClosed(reason) => self.port_closed = Some(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Lid, PortNum};

    fn trap(number: u16, lid: u16) -> SmEvent {
        let lid = Lid(lid);
        SmEvent::Trap(TrapEvent { issuer: lid, number, subject: lid, port: PortNum(0) })
    }

    #[test]
    fn a_storm_of_traps_is_one_entry() {
        let mut agenda = PendingWork::default();
        let known = |news: &TrapEvent| (news.issuer.0 < 10).then_some(Guid(news.issuer.0.into()));
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
