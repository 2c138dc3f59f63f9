//! The Sets that lead from the state of the devices to a plan. All iterators are lazy, because a
//! large fabric has over a million table blocks.

pub(super) mod changed;
pub(super) mod fdr10;
mod in_turn;
mod pkeys;
mod port_infos;
pub mod scope;
pub(super) mod slvl;

use super::acknowledged::{Acknowledged, NodeTables};
use super::set_id::SetId;
use crate::fabric::link_rate::has_extended_speeds;
use crate::fabric::{Fabric, NodeId, PortId, SwitchId};
use crate::ids::{Lid, Mlid, PortNum};
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::plan::routing::{Lft, PortMask};
use crate::plan::{Plan, links};
use crate::transport::transactions::SmpRequest;
use crate::wire::attr::tables::{
    LFT_BLOCK, MFT_BLOCK, MFT_POSITION_PORTS, MftBlock, PkeyTable, SlToVl,
};
use crate::wire::attr::{AttrId, PortState};
use crate::wire::smp::SmpRoute;
use in_turn::in_turn;
use rayon::prelude::*;
use scope::Scope;
use slvl::Combine;
use std::collections::BTreeSet;
use std::ops::Range;
use tokio::time::Instant;

/// Bit of the attribute modifier of PortInfo Sets: the SM knows extended link speeds, so that the
/// port takes LinkSpeedExtEnabled (IBA vol. 1, 14.2.5.6).
const SM_SUPPORTS_EXTENDED_SPEEDS: u32 = 1 << 31;

/// A Set and its identifier.
pub type SetRequest = (SetId, SmpRequest);

/// The input of the comparison.
#[derive(Clone, Copy)]
pub struct Delta<'a> {
    /// The observed state.
    pub fabric: &'a Fabric,
    /// The P_Key tables as last read or acknowledged, by port slot.
    pub pkeys: &'a [PkeyTable],
    /// The desired state.
    pub plan: &'a Plan,
    /// The state that the devices acknowledged.
    pub acknowledged: &'a Acknowledged,
    /// The M_Keys that ports hold.
    pub keys: &'a MKeys,
    /// Write equal SL to VL mappings for many ports at once, on switches that support it
    /// (`use_optimized_slvl`).
    pub optimized_sl_to_vl: bool,
    /// The option `fdr10`; 0 leaves the ports as they are.
    pub fdr10: u8,
    /// The nodes to compare; forwarding tables and SwitchInfo are compared for all switches.
    pub scope: Scope<'a>,
}

impl<'a> Delta<'a> {
    /// Compares all nodes with the observed state, without `optimized_sl_to_vl` and `fdr10`.
    pub fn new(
        observation: &'a Observation,
        plan: &'a Plan,
        acknowledged: &'a Acknowledged,
        keys: &'a MKeys,
    ) -> Self {
        Self {
            fabric: &observation.fabric,
            pkeys: &observation.pkeys,
            plan,
            acknowledged,
            keys,
            optimized_sl_to_vl: false,
            fdr10: 0,
            scope: Scope::All,
        }
    }

    pub(super) fn change(
        &self,
        node: NodeId,
        port: PortNum,
        id: u16,
        modifier: u32,
        data: &[u8],
    ) -> SetRequest {
        let set = SetId { node, port, attr_id: id, attr_mod: modifier };
        (set, self.request(set, data))
    }

    /// Builds a Set with at most 64 bytes of data; missing bytes are 0.
    pub(super) fn request(&self, set: SetId, data: &[u8]) -> SmpRequest {
        let slot = set.slot(self.fabric);
        let route = SmpRoute::Directed(self.fabric.route_to(slot));
        let m_key = self.keys.of_port(self.fabric, slot);
        let mut block = [0; 64];
        let len = data.len().min(64);
        block[..len].copy_from_slice(&data[..len]);
        let mut modifier = set.attr_mod;
        if set.attr_id == AttrId::PORT_INFO && has_extended_speeds(self.fabric, slot) == Some(true)
        {
            modifier |= SM_SUPPORTS_EXTENDED_SPEEDS;
        }
        SmpRequest::set(route, set.attr_id, modifier, block).with_m_key(m_key)
    }

    /// The known tables of a node; `None` if nothing is known, or if the node has visibly lost
    /// them.
    pub(super) fn known(&self, node: NodeId) -> Option<NodeTables<'a>> {
        let guid = self.fabric.node(node).guid();
        (!self.has_lost_tables(node)).then(|| self.acknowledged.node(guid)).flatten()
    }

    /// Detects a reboot: a switch has another LID or LinearFDBTop than it was given, or all its
    /// links are in INIT; a port of a channel adapter or router is in INIT. A switch that was
    /// rebooted while tables were written to it may have LID and LinearFDBTop, but not the tables,
    /// and may have links that were brought up then.
    pub(super) fn has_lost_tables(&self, node: NodeId) -> bool {
        let Some(switch) = self.fabric.node(node).switch else {
            let mut ports = self.fabric.ports_of(node);
            return ports.any(|port| port.state() == PortState::Init);
        };
        let observed_top = self.fabric.node(node).switch_info.linear_fdb_top();
        let target = self.plan.switch_infos.get(switch.index());
        let first = self.fabric.node(node).first_port;
        let lid = self.plan.lids.base(first);
        let has_lid = lid.is_none() || self.fabric.observed_lid(first) == lid;
        // A LinearFDBTop that differs but is not 0 is no sign of a reboot: it follows the assigned
        // LIDs.
        !has_lid
            || observed_top == 0 && target.is_some_and(|target| target.linear_fdb_top() != 0)
            || self.are_links_in_init(node)
    }

    /// True if all links are in INIT, apart from those that were brought up after one in INIT was.
    fn are_links_in_init(&self, node: NodeId) -> bool {
        let guid = self.fabric.node(node).guid();
        let linked = self.fabric.ports_of(node).filter(|port| port.peer.is_some());
        if !linked.clone().any(|port| port.state() == PortState::Init) {
            return false;
        }
        let mut first_up = None;
        let mut first_in_init = None;
        for port in linked {
            let in_init = port.state() == PortState::Init;
            let first = if in_init { &mut first_in_init } else { &mut first_up };
            let raised = self.acknowledged.raised_at((guid, port.num));
            *first = Some(first.map_or(raised, |first: Option<Instant>| first.min(raised)));
        }
        match (first_in_init, first_up) {
            (Some(in_init), Some(up)) => in_init < up,
            (in_init, _) => in_init.is_some(),
        }
    }

    /// The ports of switches with a link in INIT or ARMED.
    pub(super) fn inactive_switch_ports(&self) -> Vec<PortId> {
        let slots = self.scope.slots(self.fabric);
        slots
            .filter(|&id| {
                let port = self.fabric.port(id);
                matches!(port.state(), PortState::Init | PortState::Armed)
                    && port.peer.is_some()
                    && self.fabric.node(port.node).is_switch()
            })
            .collect()
    }

    /// True if a node of the scope needs Sets of tables or ports, apart from forwarding tables,
    /// GUIDs and FDR10.
    pub(super) fn needs_sets(self) -> bool {
        let tables = self.sl_to_vls().chain(self.vl_arbitrations());
        let tables = tables.chain(self.pkey_tables_and_doubtful());
        let ports = self.port_infos().chain(self.activations(|slot| self.is_ready(slot)));
        tables.chain(ports).next().is_some() || self.reset_links().next().is_some()
    }

    /// True if a device may not hold the last plan exactly.
    fn may_have_exceptions(&self, node: NodeId) -> bool {
        // Mostly none has, and the node is far away in memory.
        !self.acknowledged.is_exact()
            && self.acknowledged.may_have_exceptions(self.fabric.node(node).guid())
    }

    /// True if a Set was sent and not acknowledged.
    pub(super) fn is_pending(&self, node: NodeId, attr_id: u16, attr_mod: u32) -> bool {
        self.may_have_exceptions(node)
            && self.acknowledged.is_pending(self.fabric.node(node).guid(), attr_id, attr_mod)
    }

    /// True if what was read may be from before a Set without an answer.
    pub(super) fn is_unanswered(&self, node: NodeId, attr_id: u16, attr_mod: u32) -> bool {
        self.acknowledged.is_unanswered(self.fabric.node(node).guid(), attr_id, attr_mod)
    }

    /// SwitchInfo Sets, which also clear PortStateChange.
    pub fn switch_infos(self) -> impl Iterator<Item = SetRequest> + 'a {
        self.fabric.switch_ids().filter_map(move |switch| {
            let node = self.fabric.switches()[switch.index()];
            let mut target = *self.plan.switch_infos.get(switch.index())?;
            let observed = self.fabric.node(node).switch_info;
            let changed = observed.port_state_change();
            let is_doubtful = self.is_unanswered(node, AttrId::SWITCH_INFO, 0);
            if !links::switch_differs(&observed, &target) && !changed && !is_doubtful {
                return None;
            }
            target.set_port_state_change(changed);
            Some(self.change(node, PortNum::ZERO, AttrId::SWITCH_INFO, 0, &target.0))
        })
    }

    /// SwitchInfo Sets that clear PortStateChange and nothing else, of switches next to devices that have lost their
    /// tables.
    pub(super) fn state_changes_near_restarted(self) -> impl Iterator<Item = SetRequest> + 'a {
        let restarted = self.acknowledged.restarted();
        self.fabric.switch_ids().filter_map(move |switch| {
            let node = self.fabric.switches()[switch.index()];
            let observed = &self.fabric.node(node).switch_info;
            let mut peers = self.fabric.ports_of(node).filter_map(|port| port.peer);
            let is_near = observed.port_state_change()
                && peers.any(|peer| restarted.contains(&self.fabric.end_of(peer).0));
            is_near.then(|| self.change(node, PortNum::ZERO, AttrId::SWITCH_INFO, 0, &observed.0))
        })
    }

    /// Linear forwarding table blocks.
    pub fn lfts(self) -> impl Iterator<Item = SetRequest> + 'a {
        let by_switch = self.fabric.switch_ids().map(move |switch| self.lft_of(switch));
        in_turn(by_switch).map(move |set| (set, self.request(set, self.lft_block(set))))
    }

    /// The linear forwarding table blocks that differ, by switch and block.
    pub(super) fn lft_sets(self) -> impl Iterator<Item = SetId> + 'a {
        self.fabric.switch_ids().flat_map(move |switch| self.lft_of(switch))
    }

    /// [`Self::lft_sets`], compared by all planner threads.
    pub(super) fn all_lft_sets(self) -> Vec<SetId> {
        let switches: Vec<SwitchId> = self.fabric.switch_ids().collect();
        switches.par_iter().flat_map_iter(|&switch| self.lft_of(switch)).collect()
    }

    /// A planned linear forwarding table block.
    pub(super) fn lft_block(&self, set: SetId) -> &'a [u8] {
        let Some(switch) = self.fabric.node(set.node).switch else { return &[] };
        self.plan.routing.lft(switch).block(set.attr_mod)
    }

    /// A linear forwarding table block as the switch holds it; empty beyond the end of its table,
    /// `None` if unknown.
    pub(super) fn held_lft_block(&self, set: SetId) -> Option<&'a [u8]> {
        let held = self.known(set.node)?.lft()?;
        Some(self.held_block(set.node, held, set.attr_mod))
    }

    /// The tables of a node in the last plan, even if it may have lost them since.
    pub(super) fn last(&self, node: NodeId) -> Option<NodeTables<'a>> {
        self.acknowledged.last_tables(self.fabric.node(node).guid())
    }

    /// A linear forwarding table block as the switch held it when the last plan was applied.
    pub(super) fn last_lft_block(&self, set: SetId) -> Option<&'a [u8]> {
        let held = self.last(set.node)?.lft()?;
        Some(self.held_block(set.node, held, set.attr_mod))
    }

    fn held_block(&self, node: NodeId, held: &'a Lft, block: u32) -> &'a [u8] {
        let kept = self.acknowledged.withheld_block(self.fabric.node(node).guid(), block);
        kept.unwrap_or_else(|| held.block(block))
    }

    fn lft_of(self, switch: SwitchId) -> impl Iterator<Item = SetId> + 'a {
        let node = self.fabric.switches()[switch.index()];
        let held = self.known(node).and_then(|known| known.lft());
        let wanted = self.plan.routing.lft(switch);
        // Engines share unchanged tables between plans.
        let is_shared = held.is_some_and(|held| std::ptr::eq(held, wanted));
        let has_exceptions = self.may_have_exceptions(node);
        let is_settled = is_shared && !has_exceptions;
        let capacity = usize::from(self.fabric.node(node).switch_info.linear_fdb_cap());
        let count = if is_settled { 0 } else { capacity.div_ceil(LFT_BLOCK) };
        let blocks = wanted.blocks().take(count).enumerate();
        blocks.filter_map(move |(index, block)| {
            let modifier = index as u32;
            let attr_id = AttrId::LINEAR_FT;
            let set = SetId { node, port: PortNum::ZERO, attr_id, attr_mod: modifier };
            let is_same = held.is_some_and(|held| {
                let held = if has_exceptions {
                    self.held_block(node, held, modifier)
                } else {
                    held.block(modifier)
                };
                held == block
            });
            let is_pending = has_exceptions && self.is_pending(node, attr_id, modifier);
            (!is_same || is_pending).then_some(set)
        })
    }

    /// Multicast forwarding table blocks.
    pub fn mfts(self) -> impl Iterator<Item = SetRequest> + 'a {
        in_turn(self.fabric.switch_ids().map(move |switch| self.mft_of(switch).into_iter()))
    }

    fn mft_of(self, switch: SwitchId) -> Vec<SetRequest> {
        let node = self.fabric.switches()[switch.index()];
        let empty = Vec::new();
        let wanted = self.plan.multicast.by_switch.get(switch.index()).unwrap_or(&empty);
        let known = self.known(node);
        let held = known.map_or(&[][..], |known| known.mft());
        if known.is_some() && wanted == held && !self.may_have_exceptions(node) {
            return Vec::new();
        }
        let top_position = self.fabric.node(node).num_ports() / MFT_POSITION_PORTS as u8;
        // After a reboot that interrupted the writes of the last plan, some of them may be in
        // effect.
        let last = self.acknowledged.last_tables(self.fabric.node(node).guid());
        let entries = wanted.iter().chain(last.map_or(&[][..], |last| last.mft()));
        let mut blocks: BTreeSet<u16> =
            entries.map(|(mlid, _)| (mlid.0 - 0xC000) / MFT_BLOCK as u16).collect();
        if known.is_none() {
            blocks.extend(self.inherited_mft_blocks(node));
        }
        blocks.extend(self.pending_mft_blocks(node, top_position));
        let mut changes = Vec::new();
        for (block, position) in
            blocks.iter().flat_map(|&block| (0..=top_position).map(move |pos| (block, pos)))
        {
            let modifier = u32::from(position) << 28 | u32::from(block);
            let data = mft_block(wanted, block, position);
            let same = known.is_some() && mft_block(held, block, position) == data;
            if !same || self.is_pending(node, AttrId::MULTICAST_FT, modifier) {
                let data = data.to_wire();
                let id = AttrId::MULTICAST_FT;
                changes.push(self.change(node, PortNum::ZERO, id, modifier, &data));
            }
        }
        changes
    }

    /// Blocks in which a switch of unknown tables may have entries that another plan has put there:
    /// none if it was reset, which clears LinearFDBTop; all up to MulticastFDBTop, where this is in
    /// use (IBA vol. 1, 14.2.5.4).
    fn inherited_mft_blocks(&self, node: NodeId) -> Range<u16> {
        let info = &self.fabric.node(node).switch_info;
        let end = match (info.linear_fdb_top(), info.multicast_fdb_top()) {
            (0, _) => 0,
            (_, 0) => info.multicast_fdb_cap(),
            (_, top) => top.saturating_sub(Lid::UNICAST_MAX.0).min(info.multicast_fdb_cap()),
        };
        0..end.div_ceil(MFT_BLOCK as u16)
    }

    /// Blocks with Sets that were not acknowledged: the switch may have entries there that neither
    /// the wanted nor the last plan has.
    fn pending_mft_blocks(&self, node: NodeId, top_position: u8) -> Vec<u16> {
        if !self.may_have_exceptions(node) {
            return Vec::new();
        }
        let cap = self.fabric.node(node).switch_info.multicast_fdb_cap();
        let blocks = 0..cap.div_ceil(MFT_BLOCK as u16);
        blocks
            .filter(|&block| {
                (0..=top_position).any(|position| {
                    let modifier = u32::from(position) << 28 | u32::from(block);
                    self.is_pending(node, AttrId::MULTICAST_FT, modifier)
                })
            })
            .collect()
    }

    /// SL to VL mappings, without those of [`Self::sl_to_vl_exceptions`].
    pub fn sl_to_vls(self) -> impl Iterator<Item = SetRequest> + 'a {
        let nodes = self.scope.nodes(self.fabric);
        in_turn(nodes.map(move |node| self.sl_to_vls_of(node, |write| !write.is_exception)))
    }

    /// SL to VL mappings that follow all others. Few fabrics have any: other nodes are not looked at again.
    pub(super) fn sl_to_vl_exceptions(self) -> impl Iterator<Item = SetRequest> + 'a {
        let nodes = self.scope.nodes(self.fabric);
        let nodes = nodes.filter(move |&node| self.combination(node) == Combine::Mostly);
        in_turn(nodes.map(move |node| self.sl_to_vls_of(node, |write| write.is_exception)))
    }

    fn sl_to_vls_of(
        self,
        node: NodeId,
        is_selected: impl Fn(&slvl::Write) -> bool,
    ) -> impl Iterator<Item = SetRequest> {
        let wanted = self.plan.qos.sl_to_vl_of(node);
        let held = self.known(node).map_or(&[][..], |known| known.sl_to_vl());
        let all_held = wanted == held && !self.may_have_exceptions(node);
        let wanted = if all_held { &[][..] } else { wanted };
        let is_switch = self.fabric.node(node).is_switch();
        let mut writes = slvl::writes(wanted, is_switch, self.combination(node));
        writes.retain(is_selected);
        let writes = writes.into_iter().filter(move |write| {
            let mut rows = wanted.iter().enumerate().skip(write.first).take(write.count);
            // The Set that was not acknowledged may have covered other rows than this one.
            let mut modifiers = rows.clone().flat_map(|(_, row)| slvl::modifiers(row, is_switch));
            modifiers.any(|modifier| self.is_pending(node, AttrId::SL_TO_VL, modifier))
                || rows.any(|(index, row)| !holds(held, index, row))
        });
        writes.map(move |write| {
            self.change(node, write.port, AttrId::SL_TO_VL, write.modifier, &write.map.0)
        })
    }

    fn combination(&self, node: NodeId) -> Combine {
        let switch = self.fabric.node(node);
        if !self.optimized_sl_to_vl || switch.switch_info.optimized_sl2vl() & 1 == 0 {
            return Combine::Nothing;
        }
        // Port 0 of a switch is always ACTIVE. Packets pass the switch when one of its other ports is.
        let mut ports = self.fabric.ports_of(node).filter(|port| port.num != PortNum::ZERO);
        let forwards = ports.any(|port| port.state() == PortState::Active);
        // The exceptions are written if no mapping is held: otherwise some of them may not differ.
        if forwards || self.known(node).is_some() { Combine::Alike } else { Combine::Mostly }
    }

    pub fn vl_arbitrations(self) -> impl Iterator<Item = SetRequest> + 'a {
        let nodes = self.scope.nodes(self.fabric);
        in_turn(nodes.map(move |node| {
            self.fabric.node(node).slots().flat_map(move |slot| self.vl_arbitration_of(slot))
        }))
    }

    fn vl_arbitration_of(self, slot: PortId) -> impl Iterator<Item = SetRequest> + 'a {
        let wanted = self.plan.qos.vl_arbitration.get(slot.index());
        let wanted = wanted.map_or(&[][..], AsRef::as_ref);
        let port = self.fabric.port(slot);
        let known = if wanted.is_empty() { None } else { self.known(port.node) };
        let held = known.map_or(&[][..], |known| known.vl_arbitration(port.num.0));
        wanted.iter().filter_map(move |&(block, table)| {
            let modifier = u32::from(block) << 16 | u32::from(port.num.0);
            let same = held.contains(&(block, table));
            let id = AttrId::VL_ARBITRATION;
            (!same || self.is_pending(port.node, id, modifier))
                .then(|| self.change(port.node, port.num, id, modifier, &table.0))
        })
    }

    /// GUIDInfo blocks, compared with the acknowledged ones: only this SM writes them, so they are
    /// not read.
    pub fn guid_tables(self) -> impl Iterator<Item = SetRequest> + 'a {
        self.plan.aliases.iter().filter_map(move |wanted| {
            let port = self.fabric.port(wanted.port);
            let id = AttrId::GUID_INFO;
            let modifier = u32::from(wanted.block);
            let held = self.known(port.node).and_then(|known| known.guids(port.num, wanted.block));
            let same = held == Some(&wanted.guids) && !self.is_pending(port.node, id, modifier);
            let data = wanted.guids.to_wire();
            (!same).then(|| self.change(port.node, port.num, id, modifier, &data))
        })
    }
}

/// True if `held` contains the mapping, usually at the same index.
fn holds(held: &[(u8, u8, SlToVl)], index: usize, wanted: &(u8, u8, SlToVl)) -> bool {
    held.get(index) == Some(wanted) || held.contains(wanted)
}

/// A multicast forwarding table block with these entries, which are ascending by MLID.
pub(super) fn mft_block(entries: &[(Mlid, PortMask)], block: u16, position: u8) -> MftBlock {
    let mut table = MftBlock::default();
    // A switch may claim more blocks than there are MLIDs.
    let first_mlid = usize::from(Mlid::FIRST.0) + usize::from(block) * MFT_BLOCK;
    let first = entries.partition_point(|(mlid, _)| usize::from(mlid.0) < first_mlid);
    for (mlid, ports) in &entries[first..] {
        let Some(entry) = table.0.get_mut(usize::from(mlid.0) - first_mlid) else { break };
        *entry = ports.position(position);
    }
    table
}
