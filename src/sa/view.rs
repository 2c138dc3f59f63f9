//! What a snapshot says about a port.

use super::facts::{Facts, Speed, dropped_by};
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Gid, Guid, Lid, Pkey, PortNum};
use crate::plan::qos::policy::EffectivePolicy;
use crate::plan::{LidTable, Plan};
use crate::publish::Subnet;
use crate::wire::attr::{PortInfo, PortState};
use std::sync::Arc;

/// A snapshot and its [`Facts`].
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    subnet: &'a Subnet,
    facts: &'a Facts,
}

impl<'a> View<'a> {
    /// `facts` must be those of `subnet`.
    pub(super) fn new(subnet: &'a Subnet, facts: &'a Facts) -> Self {
        Self { subnet, facts }
    }

    /// The fabric.
    pub(super) fn fabric(&self) -> &'a Fabric {
        &self.subnet.fabric
    }

    /// The same, for whoever keeps it.
    pub(super) fn shared_fabric(&self) -> Arc<Fabric> {
        self.subnet.fabric.clone()
    }

    /// The plan.
    pub(super) fn plan(&self) -> &'a Plan {
        &self.subnet.plan
    }

    /// The LIDs.
    pub(super) fn lids(&self) -> &'a LidTable {
        &self.subnet.plan.lids
    }

    /// The configuration.
    pub(super) fn options(&self) -> &'a Options {
        &self.subnet.options
    }

    /// The QoS policy, if there is one.
    pub(super) fn qos_policy(&self) -> Option<&'a EffectivePolicy> {
        self.subnet.qos_policy.as_deref()
    }

    /// What was derived.
    pub(super) fn facts(&self) -> &'a Facts {
        self.facts
    }

    /// The port by which a switch sends packets to a LID on: its port 0 if they are for itself.
    pub(super) fn out(&self, switch: SwitchId, lid: Lid) -> Option<PortId> {
        let out = self.plan().routing.lfts.get(switch.index())?.out(lid)?;
        self.fabric().switch_port(switch, PortNum(out))
    }

    /// The switch at which paths of an end port start and end, and what is between them is capable
    /// of; `None` if it has none, or was left out by the routing.
    pub(super) fn place(&self, port: PortId) -> Option<(SwitchId, Speed)> {
        if self.subnet.summary.left_out.binary_search(&port).is_ok() {
            return None;
        }
        match self.facts.cable(port) {
            Some(cable) => Some((cable.switch?, cable.speed)),
            None => Some((self.fabric().node_of(port).switch?, self.facts.speed(port))),
        }
    }

    /// The SLs whose packets are dropped between the ports `input` and `output` of a node, bit n
    /// for SL n. What the node itself sends comes from port 0.
    pub(super) fn dropped(&self, input: PortNum, output: PortId) -> u16 {
        let output = self.fabric().port(output);
        let Some(maps) = self.plan().qos.sl_to_vl.get(output.node.index()) else { return 0 };
        // Outputs are outermost.
        let wanted = (output.num.0, input.0);
        let found = maps.binary_search_by_key(&wanted, |(input, output, _)| (*output, *input));
        found.ok().and_then(|index| maps.get(index)).map_or(0, |(_, _, map)| dropped_by(map))
    }

    /// The P_Keys of the end port that `port` belongs to. A plan without partition tables leaves
    /// every port with the default key.
    pub(super) fn keys(&self, port: PortId) -> &'a [Pkey] {
        let tables = &self.subnet.plan.partitions.keys;
        if tables.is_empty() {
            return &[Pkey::DEFAULT_FULL];
        }
        let node = self.fabric().node_of(port);
        let owner = if node.is_switch() { node.first_port } else { port };
        tables.get(owner.index()).map_or(&[], Vec::as_slice)
    }

    /// The key by which `from` reaches `to`: its own in a partition both are in. Of several it is
    /// the one that OpenSM finds first on the usual machines, so that paths stay in their
    /// partitions: keys in the order of their low bytes, then the high ones.
    pub(super) fn common_key(&self, from: PortId, to: PortId) -> Option<Pkey> {
        let (ours, theirs) = (self.keys(from), self.keys(to));
        if !self.options().allow_both_pkeys {
            let shared = |key: &&Pkey| theirs.iter().any(|other| key.matches(*other));
            // Of the two keys of one partition the full one goes first.
            let rank = |key: &&Pkey| (key.base().swap_bytes(), !key.is_full());
            return ours.iter().filter(shared).min_by_key(rank).copied();
        }
        let only = |keys: &[Pkey], full| -> Vec<Pkey> {
            keys.iter().copied().filter(|key| key.is_full() == full).collect()
        };
        let base = |key: Pkey| key.base().swap_bytes();
        meeting(ours.to_vec(), theirs.to_vec(), |key| key.0.swap_bytes())
            .or_else(|| meeting(only(ours, true), only(theirs, false), base))
            .or_else(|| meeting(only(ours, false), only(theirs, true), base))
    }

    /// The key by which `from` reaches `to` in the lowest partition of those that are `allowed`.
    pub(super) fn common_key_of(
        &self,
        from: PortId,
        to: PortId,
        allowed: impl Fn(Pkey) -> bool,
    ) -> Option<Pkey> {
        let (ours, theirs) = (self.keys(from), self.keys(to));
        let shared = |key: &&Pkey| theirs.iter().any(|other| key.matches(*other)) && allowed(**key);
        ours.iter().filter(shared).min_by_key(|key| (key.base(), !key.is_full())).copied()
    }

    /// True if packets may pass between the two ports in some partition. A port sees itself.
    pub(super) fn share_partition(&self, a: PortId, b: PortId) -> bool {
        let (a_keys, b_keys) = (self.keys(a), self.keys(b));
        a == b || a_keys.iter().any(|key| b_keys.iter().any(|other| key.matches(*other)))
    }

    /// True if both ports are in the partition of `key` and one of them is a full member.
    pub(super) fn share_key(&self, a: PortId, b: PortId, key: Pkey) -> bool {
        let of = |port| self.keys(port).iter().filter(move |other| other.base() == key.base());
        key.base() != 0 && of(a).any(|ours| of(b).any(|theirs| ours.matches(*theirs)))
    }

    /// True if the port is a member, full or limited, of the partition of `key`.
    pub(super) fn has_key(&self, port: PortId, key: Pkey) -> bool {
        key.base() != 0 && self.keys(port).iter().any(|other| other.base() == key.base())
    }

    /// True for the prefix of this subnet and the default one, which means the same.
    pub(super) fn is_local_prefix(&self, prefix: u64) -> bool {
        prefix == self.options().subnet_prefix || prefix == LINK_LOCAL
    }

    /// The end port whose unicast GID this is.
    pub(super) fn port_by_gid(&self, gid: &Gid) -> Option<PortId> {
        self.is_local_prefix(gid.prefix()).then(|| self.fabric().port_by_guid(gid.guid()))?
    }

    /// The unicast GID of an end port.
    pub(super) fn gid(&self, port: PortId) -> Gid {
        Gid::new(self.options().subnet_prefix, self.guid(port))
    }

    /// The GUID of an end port.
    pub(super) fn guid(&self, port: PortId) -> Guid {
        self.fabric().port(port).guid
    }

    /// PortInfo as the device acknowledged it. A port that is managed is ACTIVE once its peer is,
    /// and does not ask its clients to register again for ever.
    pub(super) fn port_info(&self, port: PortId) -> Option<PortInfo> {
        let mut info = self.fabric().port(port).info?;
        if self.plan().ports.get(port.index()).copied().flatten().is_none() {
            return Some(info);
        }
        if matches!(info.port_state(), PortState::Init | PortState::Armed) {
            info.set_port_state(PortState::Active);
        }
        info.set_client_reregister(false);
        settle_enabled(&mut info);
        Some(info)
    }
}

/// The first of `ours` that matches one of `theirs` when both are walked through side by side in
/// this order: what is lower steps on, what is equal together.
fn meeting(mut ours: Vec<Pkey>, mut theirs: Vec<Pkey>, order: fn(Pkey) -> u16) -> Option<Pkey> {
    ours.sort_unstable_by_key(|&key| order(key));
    theirs.sort_unstable_by_key(|&key| order(key));
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    while let (Some(&our), Some(&their)) = (ours.peek(), theirs.peek()) {
        if our.matches(their) {
            return Some(our);
        }
        let (a, b) = (order(our), order(their));
        if a <= b {
            ours.next();
        }
        if b <= a {
            theirs.next();
        }
    }
    None
}

/// Some devices echo the code for "all that is supported" (IBA vol. 1, 14.2.5.6): clients want to
/// know what that is.
fn settle_enabled(info: &mut PortInfo) {
    const ALL_WIDTHS: u8 = 0xFF;
    const ALL_SPEEDS: u8 = 0xF;
    const ALL_EXTENDED_SPEEDS: u8 = 0x1F;
    if info.link_width_enabled() == ALL_WIDTHS {
        info.set_link_width_enabled(info.link_width_supported());
    }
    if info.link_speed_enabled() == ALL_SPEEDS {
        info.set_link_speed_enabled(info.link_speed_supported());
    }
    if info.link_speed_ext_enabled() == ALL_EXTENDED_SPEEDS {
        info.set_link_speed_ext_enabled(info.link_speed_ext_supported());
    }
}

/// The prefix of GIDs that never leave their subnet, and the default of every subnet.
pub(super) const LINK_LOCAL: u64 = 0xfe80_0000_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_enabled_is_told_by_its_name() {
        let mut info = PortInfo::default();
        info.set_link_width_supported(3);
        info.set_link_speed_supported(7);
        info.set_link_speed_ext_supported(1);
        info.set_link_width_enabled(0xFF);
        info.set_link_speed_enabled(2);
        info.set_link_speed_ext_enabled(0x1F);
        settle_enabled(&mut info);
        assert_eq!((info.link_width_enabled(), info.link_speed_enabled()), (3, 2));
        assert_eq!(info.link_speed_ext_enabled(), 1);
    }
}
