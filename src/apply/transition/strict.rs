//! The order of a strict transition (`strict_transitions`), in which old and new routes never mix.
//!
//! 1. The entries that change are removed from all tables. What remains in force is a subset of the
//!    old plan.
//! 2. Packets drain: no Set is sent until the last packets that were forwarded by removed entries
//!    have left the fabric ([`drain_time`]). What remains is a subset of the new plan by then, too.
//! 3. The new entries are written, in any order. What is in force is a subset of the new plan.
//!
//! A subset of a plan without credit loops has none, so no deadlock is possible at any time. Pairs
//! whose routes change are not connected between the first step and the third.
//!
//! * Entries are those of linear and of multicast forwarding tables. If SL to VL mappings of links in
//!   use change, the entries that lead to these links are removed as well, and the mappings are
//!   written between the second and the third step.
//! * A switch that may have lost its tables holds entries of the last plan, or none.
//! * If a switch may hold either of two versions of a block, or an unknown one, the whole block is
//!   removed.
//! * If links come up with the plan, removals wait until the ports are ACTIVE, so that the pairs are
//!   disconnected for the drain only.
//! * If nothing is removed, as when a host is new, nothing waits.

use super::{Effect, Row, Steps, multicast, rows, tops};
use crate::apply::delta::Delta;
use crate::apply::set_id::SetId;
use crate::config::options::Options;
use crate::fabric::NodeId;
use crate::ids::PortNum;
use crate::plan::routing::Lft;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use std::collections::HashSet;
use std::time::Duration;

/// Codes of packet lifetimes from this one on stand for an unlimited time (IBA vol. 1, 18.2.5.4).
const UNLIMITED_LIFE: u8 = 0x14;
/// The default of `packet_life_time`.
const DEFAULT_LIFE: u8 = 0x12;

/// The time for which packets drain. A packet that a removed entry forwarded waits in this switch
/// and in the next one at most, before it follows entries that the new plan has, too; each discards
/// it after 4.096 µs · 2^`packet_life_time`.
pub fn drain_time(options: &Options) -> Duration {
    if options.transition_drain_time > 0 {
        return Duration::from_millis(u64::from(options.transition_drain_time));
    }
    let life = options.packet_life_time;
    let life = if life < UNLIMITED_LIFE { life } else { DEFAULT_LIFE };
    2 * Duration::from_nanos(4096 << life)
}

/// Ports of switches, by the SL to VL mappings of packets that leave there.
type RemappedPorts = HashSet<(NodeId, u8)>;

/// The change of one block of a linear forwarding table.
struct BlockChange {
    set: SetId,
    /// The block without the entries that change; `None` if none of them is in effect.
    without: Option<[u8; LFT_BLOCK]>,
    /// Number of entries that are removed, as far as they are known.
    removed: usize,
    /// True if the block has entries of the last plan, or none.
    is_known: bool,
    /// True if nothing is left to write after the removal.
    is_removal_only: bool,
}

/// Orders the Sets of SwitchInfo, forwarding tables and SL to VL mappings for a strict transition.
pub fn order(delta: &Delta<'_>) -> Steps {
    let mut steps = Steps::default();
    let rows = rows(delta);
    let blocks = block_changes(delta, &remapped_ports(&rows));
    let trees = multicast::separated(delta);
    let has_removals = blocks.iter().any(|block| block.is_known && block.without.is_some())
        || trees.removals.iter().any(|removal| removal.is_known);
    let is_deferred = has_removals && !delta.inactive_switch_ports().is_empty();

    let mut removals = Vec::new();
    for block in &blocks {
        let Some(without) = block.without else { continue };
        steps.removed_entries += block.removed;
        let waits = is_deferred && block.is_known;
        removals.push(steps.push_set(block.set, without, Vec::new(), waits, block.is_removal_only));
    }
    for removal in &trees.removals {
        let waits = is_deferred && removal.is_known;
        let data = removal.block.to_wire();
        removals.push(steps.push_set(removal.set, data, Vec::new(), waits, removal.is_last));
    }
    let drain = steps.barrier(removals, is_deferred);
    steps.drain = Some(drain);

    let remapped = add_rows(&rows, drain, is_deferred, &mut steps);
    let begin = if remapped.is_empty() { drain } else { steps.barrier(remapped, is_deferred) };
    let tops = tops(delta, &mut steps);
    for block in blocks.iter().filter(|block| !block.is_removal_only) {
        let step = steps.push(super::TransitionStep {
            set: Some(block.set),
            data: None,
            after: vec![begin],
            is_deferred,
            links: Vec::new(),
            is_last: true,
            is_secondary: false,
        });
        // LinearFDBTop is raised after the entries below it were written.
        let node = delta.fabric.node(block.set.node);
        let last_lid = block.set.attr_mod as usize * LFT_BLOCK + LFT_BLOCK - 1;
        let raise = node.switch.and_then(|switch| tops.get(&switch));
        if let Some(&(raise, _)) = raise
            && last_lid > usize::from(node.switch_info.linear_fdb_top())
        {
            let raise = &mut steps.steps[raise as usize];
            raise.after.push(step);
            raise.is_deferred |= is_deferred;
        }
    }
    for (set, block) in trees.writes {
        steps.push_set(set, block.to_wire(), vec![begin], is_deferred, true);
    }
    steps
}

/// Adds the SL to VL mappings; returns the steps of those of links in use, which follow the drain.
fn add_rows(rows: &[Row], drain: u32, is_deferred: bool, steps: &mut Steps) -> Vec<u32> {
    let mut remapped = Vec::new();
    for &(set, data, effect) in rows {
        if effect == Effect::Prepares {
            let step = steps.push_set(set, data, Vec::new(), false, true);
            steps.steps[step as usize].is_secondary = true;
        } else {
            remapped.push(steps.push_set(set, data, vec![drain], is_deferred, true));
        }
    }
    remapped
}

/// The output ports of links in use whose mappings change.
fn remapped_ports(rows: &[Row]) -> RemappedPorts {
    let in_use = rows.iter().filter(|row| row.2 != Effect::Prepares);
    in_use.map(|(set, ..)| (set.node, set.attr_mod as u8)).collect()
}

/// The changes of linear forwarding tables.
fn block_changes(delta: &Delta<'_>, remapped: &RemappedPorts) -> Vec<BlockChange> {
    let mut sets = delta.all_lft_sets();
    if !remapped.is_empty() {
        sets.extend(remapped_blocks(delta, remapped));
        sets.sort_unstable_by_key(|set| (set.node, set.attr_mod));
        sets.dedup();
    }
    let changes = sets.into_iter().filter_map(|set| {
        delta.fabric.node(set.node).switch?;
        Some(block_change(delta, set, remapped))
    });
    changes.collect()
}

/// The blocks with entries that lead to these ports.
fn remapped_blocks(delta: &Delta<'_>, remapped: &RemappedPorts) -> Vec<SetId> {
    let nodes: HashSet<NodeId> = remapped.iter().map(|(node, _)| *node).collect();
    let mut sets = Vec::new();
    for node in nodes {
        let held: Option<&Lft> = delta.last(node).and_then(|last| last.lft());
        let count = held.map_or(0, |held| held.blocks().len());
        let blocks = (0..count as u32).map(|attr_mod| SetId {
            node,
            port: PortNum::ZERO,
            attr_id: AttrId::LINEAR_FT,
            attr_mod,
        });
        sets.extend(blocks.filter(|&set| {
            let entries = delta.last_lft_block(set).unwrap_or(&[]);
            entries.iter().any(|&port| remapped.contains(&(node, port)))
        }));
    }
    sets
}

fn block_change(delta: &Delta<'_>, set: SetId, remapped: &RemappedPorts) -> BlockChange {
    let is_pending = delta.is_pending(set.node, AttrId::LINEAR_FT, set.attr_mod);
    let held = delta.last_lft_block(set).filter(|_| !is_pending);
    let wanted = delta.lft_block(set);
    let top = delta.fabric.node(set.node).switch_info.linear_fdb_top();
    let mut change = BlockChange {
        set,
        without: None,
        removed: 0,
        is_known: held.is_some(),
        is_removal_only: false,
    };
    let first_lid = set.attr_mod as usize * LFT_BLOCK;
    let mut without = [LFT_NO_PATH; LFT_BLOCK];
    for (index, left) in without.iter_mut().enumerate() {
        let is_in_effect = first_lid + index <= usize::from(top);
        let held = held.filter(|_| is_in_effect).map_or(LFT_NO_PATH, |held| entry(held, index));
        if held == entry(wanted, index) && !remapped.contains(&(set.node, held)) {
            *left = held;
        } else {
            change.removed += usize::from(held != LFT_NO_PATH);
        }
    }
    // Of an unknown block, everything up to LinearFDBTop may be in effect.
    let removes = match held {
        Some(_) => change.removed > 0,
        None => first_lid <= usize::from(top),
    };
    if removes {
        change.without = Some(without);
        change.is_removal_only = (0..LFT_BLOCK).all(|at| without[at] == entry(wanted, at));
    }
    change
}

fn entry(block: &[u8], index: usize) -> u8 {
    block.get(index).copied().unwrap_or(LFT_NO_PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_drain_for_twice_their_lifetime_in_a_switch() {
        let time = |packet_life_time, transition_drain_time| {
            drain_time(&Options { packet_life_time, transition_drain_time, ..Options::default() })
        };
        assert_eq!(time(0x12, 0).as_millis(), 2147);
        assert_eq!(time(0x0A, 0).as_micros(), 8388);
        // Packets live without limit, so that there is none to take.
        assert_eq!([time(0x14, 0), time(0x1F, 0)], [time(0x12, 0); 2]);
        assert_eq!(time(0x12, 30).as_millis(), 30);
    }
}
