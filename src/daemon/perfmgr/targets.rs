//! The ports whose counters are read, and the addresses of their agents.

use crate::fabric::{Fabric, Node, NodeId, PortId};
use crate::ids::{Lid, Pkey, PortNum, Sl};
use crate::perfmgr::redirection::Redirection;
use crate::publish::Subnet;
use crate::transport::{Address, GSI_QKEY};
use crate::wire::attr::NodeKind;

/// The fabric as the performance manager addresses it.
pub(super) struct SweepTargets<'a> {
    pub fabric: &'a Fabric,
    subnet: Option<&'a Subnet>,
}

impl<'a> SweepTargets<'a> {
    /// `subnet`: the published subnet, whose path SLs the requests have; without it they have SL 0.
    pub(super) fn new(fabric: &'a Fabric, subnet: Option<&'a Subnet>) -> Self {
        Self { fabric, subnet }
    }

    /// The nodes whose counters are read.
    pub(super) fn nodes(&self, ignores_cas: bool) -> impl Iterator<Item = NodeId> + use<'_> {
        self.fabric
            .node_ids()
            .filter(move |id| !ignores_cas || self.fabric.node(*id).kind() != NodeKind::Ca)
    }

    /// The ports of a node that have counters: those that exist, and port 0 of a switch if it is an
    /// enhanced one.
    pub(super) fn ports(&self, id: NodeId) -> Vec<PortId> {
        let node = self.fabric.node(id);
        let ports = node.slots().skip(usize::from(!has_port0(node)));
        ports.filter(|&port| self.fabric.port(port).info().is_some()).collect()
    }

    pub(super) fn lid(&self, port: PortId) -> Option<Lid> {
        self.fabric.observed_lid(port)
    }

    /// The address of the agent of a port; `None` if the port has no LID.
    pub(super) fn address(
        &self,
        port: PortId,
        redirection: Option<&Redirection>,
    ) -> Option<Address> {
        if let Some(&Redirection { lid, qpn, pkey_index, .. }) = redirection {
            let sl = self.subnet.map_or(Sl(0), |subnet| subnet.sl_to(lid));
            return Some(Address { qpn, qkey: GSI_QKEY, pkey_index, ..Address::gsi(lid, sl) });
        }
        let lid = self.lid(port)?;
        let sl = self.subnet.map_or(Sl(0), |subnet| subnet.sl_to(lid));
        Some(Address::gsi(lid, sl))
    }

    /// Index of a P_Key in the planned table of the SM's port. Without a plan, only that of the
    /// default partition is known.
    pub(super) fn pkey_index(&self, pkey: Pkey) -> Option<u16> {
        let Some(subnet) = self.subnet else { return default_key_index(pkey) };
        let local = subnet.fabric.local();
        let blocks = &subnet.plan.partitions.blocks[local.index()];
        let found = blocks.iter().find_map(|(number, block)| {
            let at = block.0.iter().position(|key| key.0 != 0 && key.base() == pkey.base())?;
            let start = usize::from(*number) * block.0.len();
            u16::try_from(start + at).ok()
        });
        found.or_else(|| default_key_index(pkey))
    }
}

fn default_key_index(pkey: Pkey) -> Option<u16> {
    (pkey.base() == Pkey(0x7FFF).base()).then_some(0)
}

/// True if port 0 of a switch is an end port with counters.
pub(super) fn has_port0(node: &Node) -> bool {
    node.is_switch() && node.switch_info.enhanced_port0()
}

/// The port whose agent answers for a port: on a switch one agent answers for all.
pub(super) fn agent_port(node: &Node, port: PortNum) -> PortNum {
    if node.is_switch() { PortNum(0) } else { port }
}
