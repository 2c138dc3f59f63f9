//! Work that events request. Events that arrive during a sweep are merged, so that a trap storm
//! causes one sweep.

use crate::daemon::messages::SmEvent;
use crate::fabric::End;
use crate::ids::{Guid, Lid, PortNum};
use crate::manage::action::RequestId;
use crate::manage::loop_status::{Cause, Causes};
use crate::observe::Observation;
use crate::observe::traps::{ChangedAttributes, TrapEvent};
use crate::sm::peer::Peer;
use crate::sm::role::RoleEvent;
use std::collections::{BTreeMap, BTreeSet};
use tokio::time::Instant;

/// The work that the events since the last reconfiguration request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PendingWork {
    /// The configuration must be read again.
    pub reload: bool,
    pub heavy: bool,
    /// A light sweep must confirm the last focused sweep.
    pub confirmation: bool,
    /// Switches for a focused sweep, by node GUID.
    pub suspects: BTreeSet<Guid>,
    /// Ports whose attributes changed, by LID.
    pub changed_ports: BTreeMap<Lid, ChangedAttributes>,
    /// Ports that report errors of their link, by LID and number, with the number of traps.
    pub link_errors: BTreeMap<(Lid, PortNum), u32>,
    /// Multicast groups changed.
    pub membership: bool,
    /// Everything must be planned again, without a sweep.
    pub plan: bool,
    /// Role changes that other SMs request, in order.
    pub roles: Vec<(RoleEvent, Peer)>,
    /// Priorities that operators set, in order.
    pub priorities: Vec<(RequestId, u8)>,
    /// Requests of operators for all dump files.
    pub dumps: Vec<RequestId>,
    /// Requests of operators for a HANDOVER to the SM at this port, or to the best standby.
    pub handovers: Vec<(RequestId, Option<Guid>)>,
    /// Ports whose links operators quarantine.
    pub quarantined: BTreeSet<End>,
    /// Ports whose links operators release from quarantine.
    pub released: BTreeSet<End>,
    /// An operator allows or inhibits sweeps.
    pub sweeping: Option<bool>,
    /// The port was closed, for this reason.
    pub port_closed: Option<String>,
    /// Why there is work.
    pub causes: Causes,
    /// Arrival of the first trap whose change is not in the devices' tables yet.
    pub trap_arrived: Option<Instant>,
}

impl PendingWork {
    pub fn is_empty(&self) -> bool {
        let (causes, trap_arrived) = (self.causes.clone(), self.trap_arrived);
        *self == Self { causes, trap_arrived, ..Self::default() }
    }

    /// True for work that comes before multicast groups: the fabric or the role has changed.
    pub fn is_urgent(&self) -> bool {
        let is_changed = self.heavy || !self.suspects.is_empty() || !self.roles.is_empty();
        is_changed || self.reload || self.port_closed.is_some()
    }

    /// Drops all sweeps, and the plans that follow them.
    pub fn drop_sweeps(&mut self) {
        (self.heavy, self.plan, self.confirmation) = (false, false, false);
        self.suspects.clear();
        self.changed_ports.clear();
    }

    /// Adds an event. `switch_of` returns the switch that a trap is about, if it is known.
    pub fn add(&mut self, event: SmEvent, switch_of: impl Fn(&TrapEvent) -> Option<Guid>) {
        self.causes.extend(cause_of(&event));
        match event {
            SmEvent::Trap(news) if news.reports_changes() => {
                self.changed_ports.entry(news.subject).or_default().merge(news.changed);
            }
            SmEvent::Trap(news) if news.reports_errors() => {
                self.link_errors.insert((news.subject, news.port), news.count);
            }
            SmEvent::Trap(news) if !news.calls_for_sweep() => {}
            SmEvent::Trap(news) => {
                self.trap_arrived = self.trap_arrived.or(news.arrived);
                match switch_of(&news) {
                    Some(guid) => {
                        self.suspects.insert(guid);
                    }
                    None => self.heavy = true,
                }
            }
            SmEvent::Role(event, peer) => self.roles.push((event, peer)),
            SmEvent::MembershipChanged => self.membership = true,
            SmEvent::AliasesChanged => self.plan = true,
            SmEvent::Reload => {
                self.reload = true;
                self.heavy = true;
            }
            SmEvent::Resweep => self.heavy = true,
            SmEvent::LightSweep => self.confirmation = true,
            SmEvent::Sweeping(is_enabled) => self.sweeping = Some(is_enabled),
            SmEvent::Reroute => self.plan = true,
            SmEvent::SetPriority(request, priority) => self.priorities.push((request, priority)),
            SmEvent::Dump(request) => self.dumps.push(request),
            SmEvent::HandOver(request, to) => self.handovers.push((request, to)),
            SmEvent::Quarantine(end) => drop(self.quarantined.insert(end)),
            SmEvent::Release(end) => drop(self.released.insert(end)),
            SmEvent::PortClosed(reason) => self.port_closed = Some(reason),
        }
    }
}

/// Why the work that an event requests is done; `None` for events without sweeps and plans.
fn cause_of(event: &SmEvent) -> Option<Cause> {
    match event {
        SmEvent::Trap(_) => Some(Cause::Trap),
        SmEvent::Role(..) => Some(Cause::Role),
        SmEvent::MembershipChanged | SmEvent::AliasesChanged => Some(Cause::SaClients),
        SmEvent::Reload => Some(Cause::Reload),
        SmEvent::Resweep
        | SmEvent::LightSweep
        | SmEvent::Reroute
        | SmEvent::Quarantine(_)
        | SmEvent::Release(_) => Some(Cause::Request),
        SmEvent::Sweeping(_)
        | SmEvent::SetPriority(..)
        | SmEvent::Dump(_)
        | SmEvent::HandOver(..)
        | SmEvent::PortClosed(_) => None,
    }
}

/// The switch that a trap is about.
pub(super) fn switch_of(observation: &Observation, trap: &TrapEvent) -> Option<Guid> {
    let fabric = &observation.fabric;
    fabric
        .switches()
        .iter()
        .map(|&node| fabric.node(node))
        .find(|node| fabric.observed_lid(node.first_port) == Some(trap.subject))
        .map(|node| node.guid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trap(number: u16, lid: u16) -> SmEvent {
        let lid = Lid(lid);
        SmEvent::Trap(TrapEvent { issuer: lid, number, subject: lid, ..TrapEvent::default() })
    }

    #[test]
    fn a_trap_storm_requests_one_sweep() {
        let mut pending = PendingWork::default();
        let known = |news: &TrapEvent| (news.issuer.0 < 10).then_some(Guid(news.issuer.0.into()));
        for _ in 0..1000 {
            pending.add(trap(128, 5), known);
            pending.add(trap(257, 5), known);
            pending.add(trap(144, 5), known);
        }
        assert_eq!(pending.changed_ports.len(), 1);
        assert_eq!(pending.suspects, BTreeSet::from([Guid(5)]));
        assert!(!pending.heavy && pending.is_urgent());
        pending.add(trap(128, 50), known);
        assert!(pending.heavy);
    }
}
