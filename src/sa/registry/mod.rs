//! The registry: the registrations of SA clients.
//!
//! The registry refers to ports by GUID, so that it does not depend on a snapshot of the fabric.
//! The same requests in the same order produce the same registry.
//!
//! * [`groups`]: multicast groups and their members
//! * [`services`]: service records; [`subscriptions`]: subscriptions to notices
//! * [`aliases`]: alias GUIDs
//! * `absence`: ports that are not in the snapshot
//! * [`replica`]: exports changes to a standby and imports them; `change_log`: their order
//! * [`dump`]: saves the registry to opensm-sa.dump and restores it

mod absence;
pub mod aliases;
mod change_log;
pub mod dump;
pub mod groups;
pub mod replica;
pub mod services;
pub mod subscriptions;
#[cfg(test)]
mod tests;

pub use absence::MAX_ABSENCE;
pub use groups::{
    Group, GroupActivity, GroupChange, GroupEvent, GroupMember, GroupSpec, Groups, UnmetGroups,
    last_mlid,
};

use crate::fabric::{DiscoveryFault, Fabric};
use crate::ids::{Gid, Guid, Mlid};
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use absence::AbsentPorts;
use aliases::Aliases;
use services::Services;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;
use subscriptions::Subscriptions;

/// The registrations of SA clients.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    pub(crate) multicast: Groups,
    pub(crate) services: Services,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) aliases: Aliases,
    /// Ports that the last heavy sweep did not find, with the number of consecutive sweeps.
    missed: BTreeMap<Guid, u32>,
    absent: AbsentPorts,
    exporter: replica::Exporter,
}

/// Number of consecutive heavy sweeps that must miss a port before its subscriptions and services
/// are removed, and its memberships and alias GUIDs if the sweeps were incomplete.
pub const MAX_MISSED_SWEEPS: u32 = 4;

impl Registry {
    /// Number of changes that affect the multicast forwarding tables, which must be planned again
    /// when it differs from that of the last plan.
    pub fn generation(&self) -> u64 {
        self.multicast.generation()
    }

    /// Number of all changes. The dump file is up to date while it equals that of the last dump.
    pub fn changes(&self) -> u64 {
        let others = self.services.changes() + self.subscriptions.changes();
        self.multicast.changes() + others + self.aliases.changes()
    }

    /// All groups, ascending by MGID.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.multicast.iter()
    }

    pub fn group(&self, mgid: &Gid) -> Option<&Group> {
        self.multicast.get(mgid)
    }

    pub fn services(&self) -> &Services {
        &self.services
    }

    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    pub fn aliases(&self) -> &Aliases {
        &self.aliases
    }

    /// The alias GUIDs of the ports of `fabric`, as input of a plan.
    pub fn alias_blocks(&self, fabric: &Fabric) -> Vec<crate::plan::aliases::AliasBlock> {
        self.aliases.planned_blocks(fabric)
    }

    /// Removes all alias GUIDs.
    pub fn clear_aliases(&mut self) {
        self.aliases.clear_all();
    }

    /// Removes all event subscriptions and services (`drop_event_subscriptions`).
    pub fn clear_subscriptions(&mut self) {
        self.subscriptions.clear();
        self.services.clear();
    }

    /// Returns the groups that were created, or lost their last full member, since the last call.
    pub fn take_group_events(&mut self) -> Vec<GroupEvent> {
        self.multicast.take_events()
    }

    /// Records changes of multicast groups for [`Self::take_group_activities`] from now on, or no
    /// longer.
    pub fn record_group_activities(&mut self, is_recording: bool) {
        self.multicast.record_activities(is_recording);
    }

    /// The recorded changes of multicast groups since the last call, and the number of those that were
    /// not kept.
    pub fn take_group_activities(&mut self) -> (Vec<GroupActivity>, u64) {
        self.multicast.take_activities()
    }

    /// Makes the groups of the configuration permanent. Creates missing ones, and ends the
    /// permanence of groups that are no longer configured. Existing groups keep their MLID and
    /// members, and get the parameters of the configuration. MLIDs end with `last`; a group with a
    /// higher one gets another if it has no members.
    pub fn set_permanent(&mut self, specs: &[GroupSpec], last: Mlid) -> UnmetGroups {
        self.multicast.set_permanent(specs, last)
    }

    /// Removes the registrations of ports that left the fabric. Must be called after each heavy
    /// sweep with the fabric that it discovered.
    ///
    /// A sweep with unresponsive nodes may miss ports behind them. Memberships and alias GUIDs are
    /// therefore removed by a complete sweep without the port, or by [`MAX_MISSED_SWEEPS`]
    /// consecutive sweeps of any kind. Until then, [`Self::groups`] omits the absent ports.
    ///
    /// Services are removed after [`MAX_MISSED_SWEEPS`] sweeps, which tolerates links that flap,
    /// and subscriptions too unless `drop_subscriptions` (option `drop_event_subscriptions`)
    /// removes them with the memberships.
    pub fn remove_absent_ports(&mut self, fabric: &Fabric, drop_subscriptions: bool) {
        self.aliases.add_known_ports(fabric);
        let is_complete = fabric.faults().iter().all(|fault| !hides_ports(fault));
        let mut known = self.registered_ports();
        known.retain(|&guid| fabric.end_port_by_guid(guid).is_none());
        self.missed = known
            .into_iter()
            .map(|guid| (guid, self.missed.get(&guid).copied().unwrap_or(0) + 1))
            .collect();
        let expired = self.absent(|sweeps| sweeps >= MAX_MISSED_SWEEPS);
        let absent = self.absent(|sweeps| is_complete || sweeps >= MAX_MISSED_SWEEPS);
        self.multicast.remove_ports(&absent);
        self.aliases.remove_ports(&absent);
        self.services.remove_ports(&expired);
        self.subscriptions.remove_ports(if drop_subscriptions { &absent } else { &expired });
        self.missed.retain(|guid, _| !expired.contains(guid));
    }

    /// Ports with registrations.
    fn registered_ports(&self) -> BTreeSet<Guid> {
        let mut ports = self.multicast.ports();
        ports.extend(self.subscriptions.ports());
        ports.extend(self.aliases.ports());
        ports.extend(self.services.ports());
        ports
    }

    /// Compares the ports with registrations with the fabric of a new snapshot, which may be the
    /// result of a focused sweep.
    pub fn snapshot_published(&mut self, fabric: &Fabric, now: Instant) {
        let ports = self.registered_ports();
        self.absent.update(ports, fabric, now);
    }

    /// Removes the registrations of ports that have been absent from snapshots for [`MAX_ABSENCE`].
    pub fn remove_long_absent(&mut self, now: Instant) {
        let expired = self.absent.take_expired(now);
        if !expired.is_empty() {
            self.multicast.remove_ports(&expired);
            self.aliases.remove_ports(&expired);
            self.services.remove_ports(&expired);
            self.subscriptions.remove_ports(&expired);
        }
    }

    /// Time at which [`Self::remove_long_absent`] has an effect.
    pub fn next_absence_end(&self) -> Option<Instant> {
        self.absent.next_deadline()
    }

    /// Ports whose number of missed sweeps satisfies `is_absent`.
    fn absent(&self, is_absent: impl Fn(u32) -> bool) -> BTreeSet<Guid> {
        let missed = self.missed.iter().filter(|&(_, &sweeps)| is_absent(sweeps));
        missed.map(|(&guid, _)| guid).collect()
    }

    /// The groups with their members as ports of `fabric`, ascending, as input of a plan. Groups
    /// without members in `fabric` are omitted.
    pub fn groups(&self, fabric: &Fabric) -> Vec<GroupMembers> {
        self.multicast.members(fabric)
    }

    /// The groups that changed since the [`generation`](Self::generation) `since`, as in
    /// [`Self::groups`].
    pub fn multicast_delta(&self, since: u64, fabric: &Fabric) -> MulticastDelta {
        self.multicast.multicast_delta(since, fabric)
    }
}

/// True if the fault may have hidden ports from the sweep.
fn hides_ports(fault: &DiscoveryFault) -> bool {
    matches!(fault, DiscoveryFault::NoAnswer { .. } | DiscoveryFault::InvalidAnswer { .. })
}
