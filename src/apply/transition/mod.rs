//! The order in which the tables of a live fabric change, so that packets in flight neither loop
//! nor get lost.
//!
//! Switches are programmed one after the other, so old and new routes coexist for a while. Input: a
//! [`Delta`] between the tables that the devices hold and the plan. Result: [`Steps`], which name
//! for every Set the Sets that must be acknowledged before it. Invariant: whichever Sets have been
//! acknowledged in an order that respects the steps, no packet loops, and a packet that arrived
//! before and will arrive afterwards arrives in between, too (`lid_change` has the argument).
//! Independent Sets do not wait for each other, so ordering costs little time.
//!
//! * `lid_change`: the dependencies for one LID, from paths along a `link_table`; `block`: for all
//!   LIDs of a block;
//! * `schedule`: converts dependencies of LIDs to Sets of blocks of 64 LIDs, with intermediate
//!   versions of blocks that depend on each other; `strong_components` finds potential loops in a
//!   `graph`;
//! * `multicast`: multicast forwarding tables;
//! * [`dispatch`]: the Sets that may be sent next; `progress`: which were acknowledged, and which could
//!   not be applied.
//!
//! In addition:
//!
//! * SL to VL mappings that open a dropped SL precede all forwarding tables; mappings that begin to
//!   drop an SL follow all of them. Other mappings depend on nothing, and a switch may have a thousand
//!   of them, so that Sets of forwarding tables are sent first. Mappings of links that come up are
//!   sent before the ports are ACTIVE, those of links in use afterwards.
//! * LinearFDBTop is raised after the entries beyond it were written, because the switch may hold
//!   stale entries there, and before entries of other switches lead to it. A table about which
//!   nothing is known has no stale entries; its LinearFDBTop is raised at once.
//! * Routes over links that come up with this plan are set after the ports are ACTIVE, unless there
//!   is no route at present ([`TransitionStep::is_deferred`]).
//!
//! Nothing is ordered on an unprogrammed fabric (see [`is_live`]). With `strict_transitions` the order is
//! that of [`strict`].

mod block;
pub mod dispatch;
mod graph;
mod lid_change;
mod link_table;
mod multicast;
pub(super) mod progress;
mod schedule;
pub mod strict;
mod strong_components;
mod switch_update;

use super::delta::Delta;
use super::set_id::SetId;
use crate::fabric::{Fabric, NodeId, PortId, SwitchId};
use crate::ids::{Lid, PortNum};
use crate::wire::attr::PortState;
use crate::wire::attr::tables::{LFT_BLOCK, SlToVl};
use block::Block;
use link_table::LinkTable;
use rayon::prelude::*;
use schedule::BlockWrite;
use std::collections::{BTreeMap, HashMap};

/// VL 15 in an SL to VL mapping drops the packets of that SL.
const DROPPED_VL: u8 = 15;

/// A Set, or a barrier between several Sets before it and several after it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransitionStep {
    /// The Set; `None` for a barrier.
    pub set: Option<SetId>,
    /// The data of the Set; `None` for the planned block of a linear forwarding table.
    pub data: Option<Box<[u8; 64]>>,
    /// The steps, by index, that must be acknowledged before this one.
    pub after: Vec<u32>,
    /// True if the step must wait until the ports of the plan are ACTIVE.
    pub is_deferred: bool,
    /// Ports on the new routes that are not ACTIVE yet. The step is withheld until they are.
    pub links: Vec<PortId>,
    /// True for the planned version of a table block, false for intermediate versions.
    pub is_last: bool,
    /// True for a Set that neither moves nor restores a path: others are sent first.
    pub is_secondary: bool,
}

/// All steps of a transition, in an order that satisfies their dependencies.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Steps {
    steps: Vec<TransitionStep>,
    committed_routes: CommittedRoutes,
    /// The barrier that is done when packets have drained; `None` unless the transition is strict.
    drain: Option<u32>,
    /// Entries of linear forwarding tables that are removed before new ones are written.
    removed_entries: usize,
}

/// The (switch, LID) pairs for which the next switch on the new route that changes has its new
/// entry first. A packet that the switch forwards by its new entry therefore meets the new entry
/// there, too.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommittedRoutes(HashMap<(SwitchId, u32), u64>);

impl CommittedRoutes {
    /// True if packets that `switch` forwards to `lid` by its new entry meet new entries at the
    /// next switch that changes.
    pub fn holds(&self, switch: SwitchId, lid: Lid) -> bool {
        let block = (lid.index() / LFT_BLOCK) as u32;
        let lids = self.0.get(&(switch, block));
        lids.is_some_and(|lids| lids >> (lid.index() % LFT_BLOCK) & 1 == 1)
    }
}

impl Steps {
    pub fn iter(&self) -> std::slice::Iter<'_, TransitionStep> {
        self.steps.iter()
    }

    pub fn get(&self, index: u32) -> Option<&TransitionStep> {
        self.steps.get(index as usize)
    }

    /// Number of steps, barriers included.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The committed routes, valid as long as no Set fails.
    pub fn committed_routes(&self) -> &CommittedRoutes {
        &self.committed_routes
    }

    /// Converts the steps to their committed routes.
    pub fn into_committed_routes(self) -> CommittedRoutes {
        self.committed_routes
    }

    /// The barrier that waits until packets have drained.
    pub fn drain(&self) -> Option<u32> {
        self.drain
    }

    /// Number of entries that a strict transition removes before it writes new ones.
    pub fn removed_entries(&self) -> usize {
        self.removed_entries
    }

    /// Number of Sets of intermediate versions.
    pub fn intermediate(&self) -> usize {
        self.steps.iter().filter(|step| step.set.is_some() && !step.is_last).count()
    }

    fn push(&mut self, step: TransitionStep) -> u32 {
        debug_assert!(
            step.after.iter().all(|&earlier| (earlier as usize) < self.steps.len()),
            "the sequence of the steps is a valid order"
        );
        self.steps.push(step);
        self.steps.len() as u32 - 1
    }

    fn push_set(
        &mut self,
        set: SetId,
        data: [u8; 64],
        after: Vec<u32>,
        is_deferred: bool,
        is_last: bool,
    ) -> u32 {
        self.push(TransitionStep {
            set: Some(set),
            data: Some(Box::new(data)),
            after,
            is_deferred,
            links: Vec::new(),
            is_last,
            is_secondary: false,
        })
    }

    /// Withholds a step until these links are ACTIVE.
    fn await_links(&mut self, step: u32, links: &[PortId]) {
        self.steps[step as usize].links = links.to_vec();
    }

    fn barrier(&mut self, after: Vec<u32>, is_deferred: bool) -> u32 {
        self.push(TransitionStep {
            set: None,
            data: None,
            after,
            is_deferred,
            links: Vec::new(),
            is_last: false,
            is_secondary: false,
        })
    }
}

/// True if this SM applied a plan or adopted one from the devices, so that there are routes to
/// preserve.
pub fn is_live(delta: &Delta<'_>) -> bool {
    !delta.acknowledged.is_empty()
}

/// Orders the Sets of SwitchInfo, forwarding tables and SL to VL mappings. The sequence of the
/// steps is itself a valid order; [`TransitionStep::after`] contains the necessary dependencies.
pub fn order(delta: &Delta<'_>) -> Steps {
    let mut steps = Steps::default();
    let rows = rows(delta);
    let barrier = opening(&rows, &mut steps);
    let tops = tops(delta, &mut steps);
    let begin = steps.len() as u32;
    forwarding(delta, barrier, &tops, &mut steps);
    multicast::add(delta, barrier, &mut steps);
    closing(&rows, begin, &mut steps);
    independent(&rows, &mut steps);
    steps
}

/// Orders the Sets of a plan that differs in multicast groups only: SwitchInfo and multicast
/// forwarding tables.
pub fn order_groups(delta: &Delta<'_>) -> Steps {
    let mut steps = Steps::default();
    tops(delta, &mut steps);
    multicast::add(delta, None, &mut steps);
    steps
}

/// The effect of an SL to VL Set on packets in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    Opens,
    Closes,
    /// Changes the VLs of a link in use.
    Moves,
    /// Has no effect on packets in flight, because the link is not in use, or the effect is unknown,
    /// because the former mapping is.
    Prepares,
}

type Row = (SetId, [u8; 64], Effect);

fn rows(delta: &Delta<'_>) -> Vec<Row> {
    delta
        .sl_to_vls()
        .map(|(set, request)| {
            let effect = effect(delta, set, &request.data);
            (set, request.data, effect)
        })
        .collect()
}

fn effect(delta: &Delta<'_>, set: SetId, data: &[u8; 64]) -> Effect {
    let held = delta.known(set.node).filter(|_| delta.fabric.node(set.node).is_switch());
    let input = (set.attr_mod >> 8) as u8;
    let output = set.attr_mod as u8;
    let Some(held) =
        held.filter(|_| [input, output].iter().all(|&num| has_live_link(delta, set.node, num)))
    else {
        return Effect::Prepares;
    };
    let mut rows = held.sl_to_vl().iter();
    let Some(&(.., old)) = rows.rfind(|row| (row.0, row.1) == (input, output)) else {
        return Effect::Prepares;
    };
    let new = SlToVl(std::array::from_fn(|index| data[index]));
    let mut pairs = old.vls().into_iter().zip(new.vls());
    if pairs.clone().any(|(old, new)| old == DROPPED_VL && new != DROPPED_VL) {
        Effect::Opens
    } else if pairs.any(|(old, new)| old != DROPPED_VL && new == DROPPED_VL) {
        Effect::Closes
    } else {
        Effect::Moves
    }
}

/// True for port 0 and for ports with an active link.
fn has_live_link(delta: &Delta<'_>, node: NodeId, num: u8) -> bool {
    let slot = delta.fabric.port_of(node, PortNum(num));
    let peer = slot.and_then(|slot| delta.fabric.port(slot).peer);
    num == 0 || slot.zip(peer).is_some_and(|(a, b)| is_active(delta.fabric, a, b))
}

/// The mappings with this effect.
fn with_effect(rows: &[Row], effect: Effect) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.2 == effect)
}

/// Adds the mappings that open an SL, which precede all forwarding tables. Returns the barrier
/// behind them.
fn opening(rows: &[Row], steps: &mut Steps) -> Option<u32> {
    let opened: Vec<u32> = with_effect(rows, Effect::Opens)
        .map(|&(set, data, _)| steps.push_set(set, data, Vec::new(), false, true))
        .collect();
    (!opened.is_empty()).then(|| steps.barrier(opened, false))
}

/// Adds the mappings that neither open nor close an SL. Those of links in use are deferred, so that
/// routes over links that come up do not wait for them.
fn independent(rows: &[Row], steps: &mut Steps) {
    for (effect, is_deferred) in [(Effect::Prepares, false), (Effect::Moves, true)] {
        for &(set, data, _) in with_effect(rows, effect) {
            let step = steps.push_set(set, data, Vec::new(), is_deferred, true);
            steps.steps[step as usize].is_secondary = true;
        }
    }
}

/// Adds the mappings that follow all steps from `begin` on.
fn closing(rows: &[Row], begin: u32, steps: &mut Steps) {
    let mut closing = with_effect(rows, Effect::Closes).peekable();
    if closing.peek().is_none() {
        return;
    }
    let is_deferred = steps.steps[begin as usize..].iter().any(|step| step.is_deferred);
    let barrier = steps.barrier((begin..steps.len() as u32).collect(), is_deferred);
    for &(set, data, _) in closing {
        steps.push_set(set, data, vec![barrier], is_deferred, true);
    }
}

/// By switch: the step that raises LinearFDBTop, and true if entries must be written before it.
type LinearFdbTops = HashMap<SwitchId, (u32, bool)>;

/// Adds the Sets of SwitchInfo.
fn tops(delta: &Delta<'_>, steps: &mut Steps) -> LinearFdbTops {
    let mut tops = LinearFdbTops::new();
    for (set, request) in delta.switch_infos() {
        let node = delta.fabric.node(set.node);
        let Some(switch) = node.switch else { continue };
        let step = steps.push_set(set, request.data, Vec::new(), false, true);
        let wanted = delta.plan.switch_infos.get(switch.index());
        let top = node.switch_info.linear_fdb_top();
        let is_raised = wanted.is_some_and(|wanted| wanted.linear_fdb_top() > top);
        if is_raised {
            tops.insert(switch, (step, delta.known(set.node).is_some()));
        }
    }
    tops
}

/// Adds the Sets of linear forwarding tables.
fn forwarding(delta: &Delta<'_>, barrier: Option<u32>, tops: &LinearFdbTops, steps: &mut Steps) {
    let mut sets: BTreeMap<u32, Vec<SetId>> = BTreeMap::new();
    for set in delta.all_lft_sets() {
        sets.entry(set.attr_mod).or_default().push(set);
    }
    let sets: Vec<Vec<SetId>> = sets.into_values().collect();
    let links = LinkTable::new(delta.fabric);
    let ordered: Vec<_> = sets
        .par_iter()
        .map(|sets| {
            let block = Block::new(delta, &links, sets);
            let writes = schedule::schedule(&block);
            (block, writes)
        })
        .collect();
    for (block, writes) in ordered {
        add_block(delta, &block, writes, barrier, tops, steps);
    }
}

fn add_block(
    delta: &Delta<'_>,
    block: &Block<'_>,
    writes: Vec<BlockWrite>,
    barrier: Option<u32>,
    tops: &LinearFdbTops,
    steps: &mut Steps,
) {
    let base = steps.len() as u32;
    for (update, &lids) in
        block.updates.iter().zip(&block.committed).filter(|(_, lids)| **lids != 0)
    {
        steps.committed_routes.0.insert((update.switch, update.set.attr_mod), lids);
    }
    for BlockWrite { update: index, lids, is_last, after, after_top, is_deferred } in writes {
        let update = &block.updates[index as usize];
        let mut after: Vec<u32> = after.into_iter().map(|write| base + write).collect();
        let raised = after_top
            .iter()
            .filter_map(|&on| tops.get(&block.updates[on as usize].switch).map(|&(step, _)| step));
        after.extend(raised);
        if after.is_empty() {
            after.extend(barrier);
        }
        let data = (!is_last).then(|| Box::new(update.mixed(lids)));
        let links = if is_deferred { links(block, index, lids) } else { Vec::new() };
        let set = Some(update.set);
        let step = steps.push(TransitionStep {
            set,
            data,
            after,
            is_deferred,
            links,
            is_last,
            is_secondary: false,
        });
        // LinearFDBTop is raised after the entries below it were written.
        let last_lid = update.set.attr_mod as usize * LFT_BLOCK + LFT_BLOCK - 1;
        let top = delta.fabric.switch(update.switch).switch_info.linear_fdb_top();
        if is_last
            && last_lid > usize::from(top)
            && let Some(&(raise, true)) = tops.get(&update.switch)
        {
            let raise = &mut steps.steps[raise as usize];
            raise.after.push(step);
            raise.is_deferred |= is_deferred;
        }
    }
}

/// The inactive links for which these LIDs of an update wait.
fn links(block: &Block<'_>, update: u32, lids: u64) -> Vec<PortId> {
    let own = block.links.iter().filter(|&&(of, lid, _)| of == update && lids & lid != 0);
    let mut links: Vec<PortId> = own.map(|&(.., link)| link).collect();
    links.sort_unstable();
    links.dedup();
    links
}

/// True if both ends of a link are ACTIVE, so that it carries data.
pub fn is_active(fabric: &Fabric, port: PortId, peer: PortId) -> bool {
    [port, peer].into_iter().all(|end| fabric.port(end).state() == PortState::Active)
}
