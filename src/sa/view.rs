//! Attributes of ports as a snapshot publishes them: PortInfo, P_Keys, GIDs.

use super::path_index::{MtuRate, PathIndex, sls_to_vl15};
use crate::config::options::Options;
use crate::fabric::virtual_ports::EndPort;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Gid, Guid, Lid, Pkey, PortNum};
use crate::plan::qos::policy::EffectivePolicy;
use crate::plan::{LidTable, Plan};
use crate::publish::Subnet;
use crate::wire::attr::{PortInfo, PortState};
use std::sync::Arc;

/// A snapshot with its [`PathIndex`].
#[derive(Clone, Copy)]
pub(super) struct SubnetView<'a> {
    subnet: &'a Subnet,
    path_index: &'a PathIndex,
}

impl<'a> SubnetView<'a> {
    /// `path_index` must have been computed from `subnet`.
    pub(super) fn new(subnet: &'a Subnet, path_index: &'a PathIndex) -> Self {
        Self { subnet, path_index }
    }

    pub(super) fn fabric(&self) -> &'a Fabric {
        &self.subnet.fabric
    }

    /// The fabric, for callers that keep it.
    pub(super) fn shared_fabric(&self) -> Arc<Fabric> {
        self.subnet.fabric.clone()
    }

    pub(super) fn plan(&self) -> &'a Plan {
        &self.subnet.plan
    }

    pub(super) fn lids(&self) -> &'a LidTable {
        &self.subnet.plan.lids
    }

    pub(super) fn options(&self) -> &'a Options {
        &self.subnet.options
    }

    pub(super) fn qos_policy(&self) -> Option<&'a EffectivePolicy> {
        self.subnet.qos_policy.as_deref()
    }

    pub(super) fn path_index(&self) -> &'a PathIndex {
        self.path_index
    }

    /// The port through which a switch forwards packets to a LID; port 0 for its own LIDs.
    pub(super) fn egress(&self, switch: SwitchId, lid: Lid) -> Option<PortId> {
        let out = self.plan().routing.lfts.get(switch.index())?.out(lid)?;
        self.fabric().switch_port(switch, PortNum(out))
    }

    /// The switch that an end port is attached to, and the MTU and rate up to it. `None` if the
    /// port has no switch or if the routing engine left it out.
    pub(super) fn attachment(&self, port: PortId) -> Option<(SwitchId, MtuRate)> {
        if self.subnet.summary.left_out.binary_search(&port).is_ok() {
            return None;
        }
        match self.path_index.link(port) {
            Some(link) => Some((link.switch?, link.mtu_rate)),
            None => Some((self.fabric().node_of(port).switch?, self.path_index.mtu_rate(port))),
        }
    }

    /// The SLs whose packets a node drops between the ports `input` and `output`: bit n for SL n.
    /// `input` is 0 for packets that the node itself sends.
    pub(super) fn dropped_sls(&self, input: PortNum, output: PortId) -> u16 {
        let output = self.fabric().port(output);
        let Some(maps) = self.plan().qos.sl_to_vl.get(output.node.index()) else { return 0 };
        // Tables are sorted by output port first.
        let wanted = (output.num.0, input.0);
        let found = maps.binary_search_by_key(&wanted, |(input, output, _)| (*output, *input));
        found.ok().and_then(|index| maps.get(index)).map_or(0, |(_, _, map)| sls_to_vl15(map))
    }

    /// The P_Keys of an end port, or of port 0 for the ports of a switch; of a physical port without
    /// those that it holds for its vports only. Without planned P_Key tables, every port has the
    /// default P_Key.
    pub(super) fn pkeys(&self, end: impl Into<EndPort>) -> &'a [Pkey] {
        let EndPort { physical: port, vport } = end.into();
        let tables = &self.subnet.plan.partitions;
        if tables.keys.is_empty() {
            return &[Pkey::DEFAULT_FULL];
        }
        let node = self.fabric().node_of(port);
        let owner = if node.is_switch() { node.first_port } else { port };
        tables.own_keys(EndPort { physical: owner, vport })
    }

    /// The P_Key of `from` for packets to `to`, in a partition that both are members of. If there
    /// are several, returns the one that OpenSM chooses on little-endian machines, where P_Keys are
    /// ordered by their low byte, so that a takeover does not move paths to other partitions.
    pub(super) fn common_pkey(&self, from: EndPort, to: EndPort) -> Option<Pkey> {
        let ours = self.pkeys(from);
        let theirs = self.pkeys(to);
        if !self.options().allow_both_pkeys {
            // A full membership precedes a limited one of the same partition.
            return ours
                .iter()
                .filter(|key| theirs.iter().any(|other| key.matches(*other)))
                .min_by_key(|key| (key.base_opensm_order(), !key.is_full()))
                .copied();
        }
        first_match(ours.to_vec(), theirs.to_vec(), Pkey::opensm_order)
            .or_else(|| {
                first_match(
                    keys_of_kind(ours, true),
                    keys_of_kind(theirs, false),
                    Pkey::base_opensm_order,
                )
            })
            .or_else(|| {
                first_match(
                    keys_of_kind(ours, false),
                    keys_of_kind(theirs, true),
                    Pkey::base_opensm_order,
                )
            })
    }

    /// The lowest P_Key of the `allowed` partitions that the ports share. As in OpenSM, it is the number
    /// of the partition, without the membership bit.
    pub(super) fn common_pkey_of(
        &self,
        from: EndPort,
        to: EndPort,
        allowed: impl Fn(Pkey) -> bool,
    ) -> Option<Pkey> {
        let ours = self.pkeys(from);
        let theirs = self.pkeys(to);
        ours.iter()
            .filter(|key| theirs.iter().any(|other| key.matches(*other)) && allowed(**key))
            .map(|key| Pkey(key.base()))
            .min_by_key(|key| key.base())
    }

    /// True if the ports may exchange packets in some partition, or are the same port.
    pub(super) fn share_partition(&self, a: impl Into<EndPort>, b: impl Into<EndPort>) -> bool {
        let a: EndPort = a.into();
        let b: EndPort = b.into();
        a == b || Pkey::any_match(self.pkeys(a), self.pkeys(b))
    }

    /// True if both ports are members of the partition of `key`, one of them a full one.
    pub(super) fn share_pkey(&self, a: EndPort, b: EndPort, key: Pkey) -> bool {
        let of = |port| self.pkeys(port).iter().filter(move |other| other.base() == key.base());
        key.base() != 0 && of(a).any(|ours| of(b).any(|theirs| ours.matches(*theirs)))
    }

    /// True if the port is a full or limited member of the partition of `key`.
    pub(super) fn has_pkey(&self, port: impl Into<EndPort>, key: Pkey) -> bool {
        key.base() != 0 && self.pkeys(port).iter().any(|other| other.base() == key.base())
    }

    /// True for the prefix of this subnet and for the default prefix fe80::/64.
    pub(super) fn is_local_prefix(&self, prefix: u64) -> bool {
        prefix == self.options().subnet_prefix || prefix == DEFAULT_PREFIX
    }

    pub(super) fn gid(&self, port: impl Into<EndPort>) -> Gid {
        Gid::new(self.options().subnet_prefix, self.guid(port))
    }

    pub(super) fn guid(&self, port: impl Into<EndPort>) -> Guid {
        self.fabric().end_port_guid(port.into())
    }

    /// PortInfo as published. Ports in the plan are shown as ACTIVE with ClientReregister cleared:
    /// the device may not have reported the state change yet.
    pub(super) fn port_info(&self, port: PortId) -> Option<PortInfo> {
        let mut info = self.fabric().port(port).info()?;
        if self.plan().ports.of(port).is_none() {
            return Some(info);
        }
        if matches!(info.port_state(), PortState::Init | PortState::Armed) {
            info.set_port_state(PortState::Active);
        }
        info.set_client_reregister(false);
        resolve_enabled(&mut info);
        Some(info)
    }
}

fn keys_of_kind(keys: &[Pkey], full: bool) -> Vec<Pkey> {
    keys.iter().copied().filter(|key| key.is_full() == full).collect()
}

/// The first of `ours` that matches one of `theirs` in a merge of both lists, sorted by `order`.
/// The lower key advances, equal keys advance together, as in OpenSM.
fn first_match(mut ours: Vec<Pkey>, mut theirs: Vec<Pkey>, order: fn(Pkey) -> u16) -> Option<Pkey> {
    ours.sort_unstable_by_key(|&key| order(key));
    theirs.sort_unstable_by_key(|&key| order(key));
    let mut ours = ours.into_iter().peekable();
    let mut theirs = theirs.into_iter().peekable();
    while let (Some(&our), Some(&their)) = (ours.peek(), theirs.peek()) {
        if our.matches(their) {
            return Some(our);
        }
        let a = order(our);
        let b = order(their);
        if a <= b {
            ours.next();
        }
        if b <= a {
            theirs.next();
        }
    }
    None
}

/// Replaces the code for "all supported" (IBA vol. 1, 14.2.5.6), which some devices return as the
/// enabled widths and speeds, by the supported ones.
fn resolve_enabled(info: &mut PortInfo) {
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

/// The default subnet prefix, fe80::/64 (IBA vol. 1, 4.1.1).
const DEFAULT_PREFIX: u64 = 0xfe80_0000_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_for_all_supported_is_resolved() {
        let mut info = PortInfo::default();
        info.set_link_width_supported(3);
        info.set_link_speed_supported(7);
        info.set_link_speed_ext_supported(1);
        info.set_link_width_enabled(0xFF);
        info.set_link_speed_enabled(2);
        info.set_link_speed_ext_enabled(0x1F);
        resolve_enabled(&mut info);
        assert_eq!((info.link_width_enabled(), info.link_speed_enabled()), (3, 2));
        assert_eq!(info.link_speed_ext_enabled(), 1);
    }
}
