//! The registry: what clients wrote, one owner for all of it.
//!
//! It holds nothing of the fabric: ports are GUIDs, so that it outlives sweeps. It is
//! deterministic: the same requests in the same order make the same registry.
//!
//! * [`groups`]: multicast groups and their members;
//! * [`services`]: service records; [`subscriptions`]: who wants to hear of which notices;
//! * [`aliases`]: alias GUIDs;
//! * [`dump`]: all of it as the text of opensm-sa.dump, and back.

pub mod aliases;
pub mod dump;
pub mod groups;
pub mod services;
pub mod subscriptions;
#[cfg(test)]
mod tests;

pub use groups::{Group, GroupEvent, GroupSpec, Groups, Member};

use crate::fabric::{DiscoveryFault, Fabric};
use crate::ids::{Gid, Guid, Mlid};
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use aliases::Aliases;
use services::Services;
use std::collections::{BTreeMap, BTreeSet};
use subscriptions::Subscriptions;

/// Everything that clients wrote.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    pub(crate) multicast: Groups,
    pub(crate) services: Services,
    pub(crate) subscriptions: Subscriptions,
    pub(crate) aliases: Aliases,
    /// Ports that the last heavy sweep did not find, and for how many sweeps in a row.
    missed: BTreeMap<Guid, u32>,
}

/// Heavy sweeps with faults that must all miss a port before its memberships are forgotten, and
/// heavy sweeps of any kind before its subscriptions are.
pub const MAX_MISSED_SWEEPS: u32 = 4;

impl Registry {
    /// Counts the changes that matter to forwarding tables: when it is another one than at the
    /// last plan, multicast is to be planned again.
    pub fn generation(&self) -> u64 {
        self.multicast.generation()
    }

    /// Counts all changes: when it is another one than at the last dump, there is something to
    /// write.
    pub fn changes(&self) -> u64 {
        let others = self.services.changes() + self.subscriptions.changes();
        self.multicast.changes() + others + self.aliases.changes()
    }

    /// All groups, ascending by MGID.
    pub fn iter(&self) -> impl Iterator<Item = &Group> {
        self.multicast.iter()
    }

    /// The group of this name.
    pub fn group(&self, mgid: &Gid) -> Option<&Group> {
        self.multicast.get(mgid)
    }

    /// The service records.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// The subscriptions.
    pub fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// The alias GUIDs.
    pub fn aliases(&self) -> &Aliases {
        &self.aliases
    }

    /// The blocks of alias GUIDs as the plan wants them: those of ports of `fabric`.
    pub fn alias_blocks(&self, fabric: &Fabric) -> Vec<crate::plan::aliases::AliasBlock> {
        self.aliases.wanted(fabric)
    }

    /// Takes all alias GUIDs from their ports.
    pub fn clear_aliases(&mut self) {
        self.aliases.forget_all();
    }

    /// PathEnds all subscriptions.
    pub fn clear_subscriptions(&mut self) {
        self.subscriptions.clear();
    }

    /// Groups that came to life or lost the last member that kept them, since the last call.
    pub fn take_group_events(&mut self) -> Vec<GroupEvent> {
        self.multicast.take_events()
    }

    /// Makes the groups of the configuration permanent: creates those that are not there and
    /// releases those that are no longer wanted. Groups that exist keep their MLID, parameters
    /// and members.
    ///
    /// # Errors
    /// The groups for which there was no MLID up to `last`.
    pub fn set_permanent(&mut self, specs: &[GroupSpec], last: Mlid) -> Result<(), Vec<Gid>> {
        self.multicast.set_permanent(specs, last)
    }

    /// Forgets ports that are gone. To be called after each heavy sweep with the fabric it found.
    ///
    /// That a sweep did not find a port proves nothing while other nodes did not answer it: a
    /// lost reply hides all that is behind its sender. A member is forgotten if a sweep without
    /// such faults does not find its port, or if [`MAX_MISSED_SWEEPS`] sweeps in a row do not; so are its
    /// alias GUIDs. Until then
    /// the membership only rests: [`Self::groups`] leaves out ports that are not there.
    ///
    /// Subscriptions go with the memberships if `drop_subscriptions`
    /// (`drop_event_subscriptions`); else they wait for a port that blinks, [`MAX_MISSED_SWEEPS`] sweeps.
    pub fn remove_absent_ports(&mut self, fabric: &Fabric, drop_subscriptions: bool) {
        let is_complete = fabric.faults().iter().all(|fault| !hides_ports(fault));
        let mut known = self.multicast.ports();
        known.extend(self.subscriptions.ports());
        known.extend(self.aliases.ports());
        known.retain(|&guid| fabric.port_by_guid(guid).is_none());
        let missed = |guid: Guid| (guid, self.missed.get(&guid).copied().unwrap_or(0) + 1);
        self.missed = known.into_iter().map(missed).collect();
        let gone_for_good = self.absent(|sweeps| sweeps >= MAX_MISSED_SWEEPS);
        let gone = self.absent(|sweeps| is_complete || sweeps >= MAX_MISSED_SWEEPS);
        self.multicast.forget(&gone);
        self.aliases.forget(&gone);
        self.subscriptions.forget(if drop_subscriptions { &gone } else { &gone_for_good });
        self.missed.retain(|guid, _| !gone_for_good.contains(guid));
    }

    fn absent(&self, is_gone: impl Fn(u32) -> bool) -> BTreeSet<Guid> {
        let missed = self.missed.iter().filter(|&(_, &sweeps)| is_gone(sweeps));
        missed.map(|(&guid, _)| guid).collect()
    }

    /// The groups as the plan wants them: members as ports of `fabric`, ascending; groups
    /// without any are left out.
    pub fn groups(&self, fabric: &Fabric) -> Vec<GroupMembers> {
        self.multicast.members(fabric)
    }

    /// What changed about the groups since the [`generation`](Self::generation) `since`, in terms
    /// of [`Self::groups`].
    pub fn multicast_delta(&self, since: u64, fabric: &Fabric) -> MulticastDelta {
        self.multicast.multicast_delta(since, fabric)
    }
}

/// True if there may be ports that the sweep did not see for this fault.
fn hides_ports(fault: &DiscoveryFault) -> bool {
    matches!(fault, DiscoveryFault::NoAnswer { .. } | DiscoveryFault::InvalidAnswer { .. })
}
