//! What the devices are known to hold.
//!
//! Keeping a copy of every table of every device would double the memory of the daemon. What the
//! devices hold is the plan that was applied last, except for the Sets that were not answered:
//! so this is a plan, the fabric it was made for, and the exceptions.

use super::set_id::SetId;
use crate::fabric::{Fabric, NodeId};
use crate::ids::{Guid, Mlid, PortNum};
use crate::plan::Plan;
use crate::plan::multicast::MulticastTables;
use crate::plan::routing::{Lft, PortMask};
use crate::wire::attr::PortInfo;
use crate::wire::attr::tables::{GuidBlock, LFT_BLOCK, SlToVl, VlArbBlock};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A Set as it is remembered across fabrics: node GUID, attribute and modifier.
type Name = (Guid, u16, u32);

/// The last applied plan and its exceptions.
#[derive(Clone, Debug, Default)]
pub struct Acknowledged {
    last: Option<(Arc<Fabric>, Arc<Plan>)>,
    pending: HashSet<Name>,
    /// Blocks of linear forwarding tables, by node GUID and number, that were left as they were.
    kept: HashMap<(Guid, u32), Box<[u8; LFT_BLOCK]>>,
    /// Nodes that lost their tables since.
    forgetful: HashSet<Guid>,
}

/// What one node holds, as far as it is known: `None` where it is not.
#[derive(Clone, Copy)]
pub struct NodeTables<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    node: NodeId,
}

impl<'a> NodeTables<'a> {
    /// The forwarding table of a switch.
    pub fn lft(&self) -> Option<&'a Lft> {
        Some(self.plan.routing.lft(self.fabric.node(self.node).switch?))
    }

    /// The multicast entries of a switch.
    pub fn mft(&self) -> &'a [(Mlid, PortMask)] {
        let switch = self.fabric.node(self.node).switch;
        let tables: &MulticastTables = &self.plan.multicast;
        switch.and_then(|switch| tables.by_switch.get(switch.index())).map_or(&[], Vec::as_slice)
    }

    /// SL to VL mappings.
    pub fn sl_to_vl(&self) -> &'a [(u8, u8, SlToVl)] {
        self.plan.qos.sl_to_vl.get(self.node.index()).map_or(&[], Vec::as_slice)
    }

    /// What port `num` was sent last, and what it made of it.
    pub fn port_info(&self, num: PortNum) -> Option<(PortInfo, PortInfo)> {
        let slot = self.fabric.port_of(self.node, num)?;
        let sent = self.plan.ports.get(slot.index()).copied().flatten()?;
        Some((sent, self.fabric.port(slot).info?))
    }

    /// A block of the GUID table of end port `num`, if it was ever written.
    pub fn guids(&self, num: PortNum, block: u8) -> Option<&'a GuidBlock> {
        let slot = self.fabric.port_of(self.node, num)?;
        let blocks = &self.plan.aliases;
        let place = blocks.binary_search_by_key(&(slot, block), |held| (held.port, held.block));
        Some(&blocks.get(place.ok()?)?.guids)
    }

    /// VL arbitration blocks of port `num`.
    pub fn vl_arbitration(&self, num: u8) -> &'a [(u8, VlArbBlock)] {
        let slot = self.fabric.node(self.node).first_port.index() + usize::from(num);
        self.plan.qos.vl_arbitration.get(slot).map_or(&[], Vec::as_slice)
    }
}

impl Acknowledged {
    /// What the node with this GUID holds; `None` if nothing is known of it.
    pub fn node(&self, guid: Guid) -> Option<NodeTables<'_>> {
        if self.forgetful.contains(&guid) {
            return None;
        }
        let (fabric, plan) = self.last.as_ref()?;
        let node = fabric.node_by_guid(guid)?;
        Some(NodeTables { fabric, plan, node })
    }

    /// True if nothing is known of any device.
    pub fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// The plan that was applied last and the fabric it was made for; `None` if there is none.
    pub fn last(&self) -> Option<&(Arc<Fabric>, Arc<Plan>)> {
        self.last.as_ref()
    }

    /// True if a Set that was sent has not been acknowledged.
    pub fn is_pending(&self, guid: Guid, attr_id: u16, attr_mod: u32) -> bool {
        !self.pending.is_empty() && self.pending.contains(&(guid, attr_id, attr_mod))
    }

    /// A device lost its tables (it was rebooted or replaced).
    pub fn forget(&mut self, guid: Guid) {
        self.forgetful.insert(guid);
    }

    /// Everything is to be sent again.
    pub fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// From now on the devices hold `plan`, except for `unsent`.
    pub fn replace(&mut self, fabric: &Arc<Fabric>, plan: &Arc<Plan>, failed: &[SetId]) {
        let mut pending: HashSet<Name> = HashSet::with_capacity(failed.len());
        for set in failed {
            let (guid, attr_id, attr_mod) = set.name(fabric);
            pending.insert((guid, attr_id, attr_mod));
        }
        self.last = Some((fabric.clone(), plan.clone()));
        self.pending = pending;
        self.kept.clear();
        self.forgetful.clear();
    }

    /// From now on the devices hold `plan`, which differs from the last one in nothing but what was
    /// sent: `arrived`, and `failed`. What was not acknowledged before, or kept, still is not.
    pub fn advance(
        &mut self,
        fabric: &Arc<Fabric>,
        plan: &Arc<Plan>,
        arrived: impl Iterator<Item = SetId>,
        failed: &[SetId],
    ) {
        for set in arrived {
            self.pending.remove(&set.name(fabric));
        }
        self.pending.extend(failed.iter().map(|set| set.name(fabric)));
        self.last = Some((fabric.clone(), plan.clone()));
    }

    /// Other than planned, this block of a linear forwarding table was left as it is.
    pub fn keep(&mut self, guid: Guid, block: u32, data: Box<[u8; LFT_BLOCK]>) {
        self.kept.insert((guid, block), data);
    }

    /// A block of a linear forwarding table that is not as the last plan wants it.
    pub fn kept(&self, guid: Guid, block: u32) -> Option<&[u8]> {
        if self.kept.is_empty() {
            return None;
        }
        self.kept.get(&(guid, block)).map(|data| &data[..])
    }

    /// True if the devices that are known hold the last plan, without exception.
    pub fn is_exact(&self) -> bool {
        self.pending.is_empty() && self.kept.is_empty()
    }

    /// Number of Sets that were not acknowledged.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Failed Sets by node, for reports.
    pub fn pending_by_node(&self) -> Vec<(Guid, usize)> {
        let mut counts: HashMap<Guid, usize> = HashMap::new();
        for (guid, ..) in &self.pending {
            *counts.entry(*guid).or_default() += 1;
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_unstable();
        counts
    }
}
