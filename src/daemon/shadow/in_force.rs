//! The tables that the devices hold, from a plan and what a rehearsal has read where they differ from it.

use crate::apply::ApplyReport;
use crate::fabric::{Fabric, NodeId, PortId, RouteEnd, SwitchId};
use crate::ids::{Lid, Mlid, PortNum, Sl};
use crate::plan::Plan;
use crate::plan::multicast::{GroupMembers, MulticastTables};
use crate::plan::routing::PortMask;
use crate::transport::rehearsal::RehearsedSet;
use crate::verify::{Checks, Fault, Verified, verify_shared};
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, MFT_BLOCK, MFT_POSITION_PORTS, MftBlock, SlToVl};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bits of the attribute modifier of MulticastForwardingTable that number the block.
const MFT_BLOCK_BITS: u32 = 0x1FF;

/// Maximum number of faults of the tables in force that are listed.
const MAX_FAULTS: usize = 8;

/// Multicast forwarding blocks with entries, by switch and attribute modifier.
pub(super) type HeldMulticast = BTreeMap<(SwitchId, u32), MftBlock>;

/// The verification of the tables that the devices hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct InForce {
    /// A credit loop.
    pub credit_loop: Option<String>,
    /// Other faults: pairs that do not reach each other, and the like.
    pub faults: Vec<String>,
}

/// The node at the end of the route of a Set.
fn node_of(fabric: &Fabric, set: &RehearsedSet) -> Option<NodeId> {
    match fabric.end_of_route(&set.route)? {
        RouteEnd::Port(port) => Some(fabric.port(port).node),
        RouteEnd::Behind(_) => None,
    }
}

/// Verifies the unicast tables that the devices hold. `sets`: what differs from `verified`, with what is
/// held. Service levels of paths are those of the plan.
pub(super) fn verify_in_force(
    fabric: &Fabric,
    verified: &Verified,
    sets: &[RehearsedSet],
    checks: &Checks,
) -> InForce {
    let mut plan = Plan::clone(verified.plan());
    let mut is_changed = false;
    for set in sets {
        let held = set.held.as_ref().zip(node_of(fabric, set));
        let Some((held, node)) = held else { continue };
        match set.attr_id {
            AttrId::LINEAR_FT => {
                let Some(switch) = fabric.node(node).switch else { continue };
                hold_lft_block(&mut plan, switch, set.attr_mod, held);
                is_changed = true;
            }
            AttrId::SL_TO_VL => {
                hold_mapping(&mut plan, fabric, node, set, held);
                is_changed = true;
            }
            _ => {}
        }
    }
    if !is_changed {
        let cycle = &verified.summary().cycle;
        let credit_loop = cycle.as_ref().map(|cycle| Fault::CreditLoop(cycle.clone()).to_string());
        return InForce { credit_loop, faults: Vec::new() };
    }
    match verify_shared(fabric, &Arc::new(plan), checks) {
        Ok(held) => {
            let cycle = held.summary().cycle.clone();
            let credit_loop = cycle.map(|cycle| Fault::CreditLoop(cycle).to_string());
            InForce { credit_loop, faults: Vec::new() }
        }
        Err(failure) => {
            let others =
                failure.faults.iter().filter(|fault| !matches!(fault, Fault::CreditLoop(_)));
            InForce {
                credit_loop: failure.credit_loop().map(ToString::to_string),
                faults: others.take(MAX_FAULTS).map(ToString::to_string).collect(),
            }
        }
    }
}

fn hold_lft_block(plan: &mut Plan, switch: SwitchId, block: u32, held: &[u8; 64]) {
    let routing = Arc::make_mut(&mut plan.routing);
    let Some(table) = routing.lfts.get_mut(switch.index()) else { return };
    let first = block as usize * LFT_BLOCK;
    let table = Arc::make_mut(table);
    for (lid, port) in (first..).zip(held) {
        table.set(Lid(lid as u16), *port);
    }
}

fn hold_mapping(
    plan: &mut Plan,
    fabric: &Fabric,
    node: NodeId,
    set: &RehearsedSet,
    held: &[u8; 64],
) {
    let is_switch = fabric.node(node).is_switch();
    let ports = match fabric.end_of_route(&set.route) {
        _ if is_switch => ((set.attr_mod >> 8) as u8, set.attr_mod as u8),
        Some(RouteEnd::Port(port)) => (0, fabric.port(port).num.0),
        _ => return,
    };
    let map = SlToVl(std::array::from_fn(|at| held[at]));
    let rows = plan.qos.sl_to_vl_of(node).to_vec();
    let rows: Arc<[(u8, u8, SlToVl)]> = rows
        .into_iter()
        .map(|row| if (row.0, row.1) == ports { (row.0, row.1, map) } else { row })
        .collect();
    plan.qos.sl_to_vl.replace(node.index(), rows);
}

/// The multicast entries that the devices hold beside those of a plan without groups.
pub(super) fn held_multicast(fabric: &Fabric, sets: &[RehearsedSet]) -> HeldMulticast {
    let blocks = sets.iter().filter(|set| set.attr_id == AttrId::MULTICAST_FT);
    let held = blocks.filter_map(|set| {
        let table = MftBlock::read(set.held.as_ref()?);
        let switch = fabric.node(node_of(fabric, set)?).switch?;
        (table != MftBlock::default()).then_some(((switch, set.attr_mod), table))
    });
    held.collect()
}

/// The groups that these entries show: the end ports to which switches forward.
pub(super) fn groups(fabric: &Fabric, held: &HeldMulticast) -> Vec<GroupMembers> {
    let mut members: BTreeMap<u16, BTreeSet<PortId>> = BTreeMap::new();
    for (&(switch, modifier), table) in held {
        for (mlid, mask) in entries(modifier, table) {
            let ports = members.entry(mlid).or_default();
            ports.extend(end_ports(fabric, switch, modifier, mask));
        }
    }
    members
        .into_iter()
        .map(|(mlid, ports): (u16, BTreeSet<PortId>)| GroupMembers {
            mlid: Mlid(mlid),
            // The tables do not tell it.
            sl: Sl(0),
            members: ports.into_iter().collect(),
            senders: Vec::new(),
        })
        .collect()
}

/// The entries of a block that are in use.
fn entries(modifier: u32, table: &MftBlock) -> impl Iterator<Item = (u16, u16)> + '_ {
    let first = usize::from(Mlid::FIRST.0) + (modifier & MFT_BLOCK_BITS) as usize * MFT_BLOCK;
    let used = table.0.iter().enumerate().filter(|(_, mask)| **mask != 0);
    used.map(move |(at, &mask)| ((first + at) as u16, mask))
}

/// The end ports at the ports of an entry.
fn end_ports(
    fabric: &Fabric,
    switch: SwitchId,
    modifier: u32,
    mask: u16,
) -> impl Iterator<Item = PortId> + '_ {
    let first = (modifier >> 28) as usize * MFT_POSITION_PORTS;
    let bits = (0..MFT_POSITION_PORTS).filter(move |bit| mask >> bit & 1 == 1);
    bits.filter_map(move |bit| {
        let port = fabric.switch_port(switch, PortNum((first + bit) as u8))?;
        if fabric.port(port).num == PortNum::ZERO {
            return Some(port);
        }
        let peer = fabric.port(port).peer?;
        (!fabric.node_of(peer).is_switch()).then_some(peer)
    })
}

/// The Sets that lead from the multicast entries that are held to those of a plan.
pub(super) fn multicast_sets(
    fabric: &Fabric,
    held: &HeldMulticast,
    planned: &MulticastTables,
) -> Vec<RehearsedSet> {
    let mut blocks: BTreeSet<(SwitchId, u32)> = held.keys().copied().collect();
    for (switch, table) in fabric.switch_ids().zip(&planned.by_switch) {
        let positions = u32::from(fabric.switch(switch).num_ports()) / MFT_POSITION_PORTS as u32;
        for (mlid, _) in table {
            let block = u32::from(mlid.0 - Mlid::FIRST.0) / MFT_BLOCK as u32;
            blocks.extend((0..=positions).map(|position| (switch, position << 28 | block)));
        }
    }
    let sets = blocks.into_iter().filter_map(|(switch, modifier)| {
        let table = held.get(&(switch, modifier)).copied().unwrap_or_default();
        let wanted = planned_block(planned.by_switch.get(switch.index())?, modifier);
        (table != wanted).then(|| RehearsedSet {
            route: fabric.switch(switch).route,
            attr_id: AttrId::MULTICAST_FT,
            attr_mod: modifier,
            data: wanted.to_wire(),
            held: Some(table.to_wire()),
        })
    });
    sets.collect()
}

fn planned_block(entries: &[(Mlid, PortMask)], modifier: u32) -> MftBlock {
    let first = usize::from(Mlid::FIRST.0) + (modifier & MFT_BLOCK_BITS) as usize * MFT_BLOCK;
    let mut block = MftBlock::default();
    for (mlid, mask) in entries {
        let at = usize::from(mlid.0).checked_sub(first);
        if let Some(entry) = at.and_then(|at| block.0.get_mut(at)) {
            *entry = mask.position((modifier >> 28) as u8);
        }
    }
    block
}

/// The Sets that devices would not answer.
pub(super) fn unanswered(fabric: &Fabric, report: &ApplyReport) -> Vec<String> {
    let failed = report
        .unacknowledged
        .failed
        .iter()
        .map(|(set, _)| set)
        .chain(&report.unacknowledged.unsent);
    failed.map(|set| set.describe(fabric)).collect()
}
