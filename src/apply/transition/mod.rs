//! The order in which the tables of a live fabric change, so that packets under way neither
//! circle nor get lost.
//!
//! Switches are written one after the other, and while that lasts old and new routes coexist.
//! [`order`] says for every Set which others must be acknowledged before it goes out. Sets that
//! have nothing to do with each other wait for nothing, so that a reroute takes hardly longer.
//!
//! * [`mod@column`]: who waits for whom with one LID; [`blocks`]: with all LIDs of a block;
//! * [`schedule`]: from LIDs to blocks of 64 of them, with mixed blocks where blocks would wait
//!   for each other; [`rings`] finds who can reach whom;
//! * [`trees`]: multicast forwarding tables;
//! * [`Steps`]: the result, as data; [`dispatch`] hands it out Set by Set.
//!
//! Also:
//!
//! * SL to VL mappings that let an SL pass which was dropped come before all forwarding tables,
//!   those that begin to drop one come after all of them;
//! * LinearFDBTop is raised after the entries beyond it were written, for what a switch has there
//!   may be leftovers; and before others point at these entries. A table of which nothing
//!   is known has no leftovers: there it is raised at once;
//! * routes over links that come up with this plan are taken after the ports are ACTIVE, unless
//!   there is no route at present ([`Step::is_deferred`]).
//!
//! Nothing is held back in a fabric that nobody has programmed: see [`is_live`]. Nor is there an
//! order where this SM does not know what the switches hold, after it took over from another.

mod block;
pub mod dispatch;
mod lid_change;
mod multicast;
mod schedule;
mod strong_components;
mod switch_update;

use super::delta::Delta;
use super::set_id::SetId;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, PortNum};
use crate::wire::attr::PortState;
use crate::wire::attr::tables::{LFT_BLOCK, SlToVl};
use block::Block;
use rayon::prelude::*;
use schedule::BlockWrite;
use std::collections::{BTreeMap, HashMap};

/// The VL of an SL that is dropped.
const DROP: u8 = 15;

/// A Set, or a mere meeting point of many that come before with many that come after.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// The Set; `None` for a meeting point.
    pub set: Option<SetId>,
    /// Its data; `None` for a block of a linear forwarding table as planned.
    pub data: Option<Box<[u8; 64]>>,
    /// Steps, by index, that must be acknowledged before.
    pub after: Vec<u32>,
    /// It must wait until the ports of the plan are ACTIVE.
    pub is_deferred: bool,
    /// Ports whose links it leads to and which are not ACTIVE yet: it must not go out before
    /// they are.
    pub links: Vec<PortId>,
    /// The device holds what is planned after it: false for versions in between.
    pub is_last: bool,
}

/// All steps of a transition.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Steps {
    steps: Vec<Step>,
    committed_routes: CommittedRoutes,
}

/// Which packets are bound to new entries: one that a switch sends to a LID by its new entry meets
/// the new entry of the next switch that changes, too, as that is written before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommittedRoutes(HashMap<(SwitchId, u32), u64>);

impl CommittedRoutes {
    /// True for packets that `switch` sends to `lid` by its new entry.
    pub fn holds(&self, switch: SwitchId, lid: Lid) -> bool {
        let block = (lid.index() / LFT_BLOCK) as u32;
        let lids = self.0.get(&(switch, block)).copied().unwrap_or_default();
        lids >> (lid.index() % LFT_BLOCK) & 1 == 1
    }
}

impl Steps {
    /// The steps.
    pub fn iter(&self) -> std::slice::Iter<'_, Step> {
        self.steps.iter()
    }

    /// A step.
    pub fn get(&self, index: u32) -> Option<&Step> {
        self.steps.get(index as usize)
    }

    /// Number of steps, meeting points included.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True if there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Which packets are bound to new entries as long as no Set fails.
    pub fn committed_routes(&self) -> &CommittedRoutes {
        &self.committed_routes
    }

    /// The same, when all is done.
    pub fn into_committed_routes(self) -> CommittedRoutes {
        self.committed_routes
    }

    /// Sets beyond one for each block that changes.
    pub fn intermediate(&self) -> usize {
        self.steps.iter().filter(|step| step.set.is_some() && !step.is_last).count()
    }

    fn push(&mut self, step: Step) -> u32 {
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
        let data = Some(Box::new(data));
        self.push(Step { set: Some(set), data, after, is_deferred, links: Vec::new(), is_last })
    }

    /// Makes a Set wait for these links.
    fn await_links(&mut self, step: u32, links: &[PortId]) {
        self.steps[step as usize].links = links.to_vec();
    }

    fn barrier(&mut self, after: Vec<u32>, is_deferred: bool) -> u32 {
        let links = Vec::new();
        self.push(Step { set: None, data: None, after, is_deferred, links, is_last: false })
    }
}

/// True if the last plan was applied by this SM: there are routes which must not be torn.
pub fn is_live(delta: &Delta<'_>) -> bool {
    !delta.acknowledged.is_empty()
}

/// The Sets of SwitchInfo, forwarding tables and SL to VL mappings that lead to the plan, in an
/// order that may be kept one by one; [`Step::after`] tells how much of it must be.
pub fn order(delta: &Delta<'_>) -> Steps {
    let mut steps = Steps::default();
    let rows = rows(delta);
    let barrier = opening(&rows, &mut steps);
    let tops = tops(delta, &mut steps);
    let begin = steps.len() as u32;
    forwarding(delta, barrier, &tops, &mut steps);
    multicast::add(delta, barrier, &mut steps);
    closing(rows, begin, &mut steps);
    steps
}

/// The same for a plan of which only the multicast groups are other ones: the Sets of SwitchInfo
/// and of multicast forwarding tables.
pub fn order_groups(delta: &Delta<'_>) -> Steps {
    let mut steps = Steps::default();
    tops(delta, &mut steps);
    multicast::add(delta, None, &mut steps);
    steps
}

/// What a SL to VL Set does to packets that may be under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Effect {
    Opens,
    Closes,
    Neither,
}

type Row = (SetId, [u8; 64], Effect);

fn rows(delta: &Delta<'_>) -> Vec<Row> {
    let row = |(set, request): super::delta::SetRequest| {
        let effect = effect(delta, set, &request.data);
        (set, request.data, effect)
    };
    delta.sl_to_vls().map(row).collect()
}

fn effect(delta: &Delta<'_>, set: SetId, data: &[u8; 64]) -> Effect {
    let held = delta.known(set.node).filter(|_| delta.fabric.node(set.node).is_switch());
    let (input, output) = ((set.attr_mod >> 8) as u8, set.attr_mod as u8);
    let is_live = |num: u8| {
        let slot = delta.fabric.port_of(set.node, PortNum(num));
        let peer = slot.and_then(|slot| delta.fabric.port(slot).peer);
        num == 0 || slot.zip(peer).is_some_and(|(a, b)| is_active(delta.fabric, a, b))
    };
    let Some(held) = held.filter(|_| is_live(input) && is_live(output)) else {
        return Effect::Neither;
    };
    let mut rows = held.sl_to_vl().iter();
    let Some(&(.., old)) = rows.rfind(|row| (row.0, row.1) == (input, output)) else {
        return Effect::Neither;
    };
    let new = SlToVl(std::array::from_fn(|index| data[index]));
    let mut pairs = old.vls().into_iter().zip(new.vls());
    if pairs.clone().any(|(old, new)| old == DROP && new != DROP) {
        Effect::Opens
    } else if pairs.any(|(old, new)| old != DROP && new == DROP) {
        Effect::Closes
    } else {
        Effect::Neither
    }
}

/// Adds the mappings that come first; the meeting point behind them.
fn opening(rows: &[Row], steps: &mut Steps) -> Option<u32> {
    let mut opened = Vec::new();
    for (set, data, effect) in rows.iter().filter(|row| row.2 != Effect::Closes) {
        let step = steps.push_set(*set, *data, Vec::new(), false, true);
        if *effect == Effect::Opens {
            opened.push(step);
        }
    }
    (!opened.is_empty()).then(|| steps.barrier(opened, false))
}

/// Adds the mappings that come last, after all steps from `begin` on.
fn closing(rows: Vec<Row>, begin: u32, steps: &mut Steps) {
    let mut closing = rows.into_iter().filter(|row| row.2 == Effect::Closes).peekable();
    if closing.peek().is_none() {
        return;
    }
    let is_deferred = steps.steps[begin as usize..].iter().any(|step| step.is_deferred);
    let barrier = steps.barrier((begin..steps.len() as u32).collect(), is_deferred);
    for (set, data, _) in closing {
        steps.push_set(set, data, vec![barrier], is_deferred, true);
    }
}

/// By switch: the step that raises LinearFDBTop; and whether entries must be written before.
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
    for set in delta.lft_sets() {
        sets.entry(set.attr_mod).or_default().push(set);
    }
    let sets: Vec<Vec<SetId>> = sets.into_values().collect();
    let ordered: Vec<_> = sets
        .par_iter()
        .map(|sets| {
            let block = Block::new(delta, sets);
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
        let step = steps.push(Step { set, data, after, is_deferred, links, is_last });
        // The top rises over what was written.
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

/// The links that these LIDs of a update wait for.
fn links(block: &Block<'_>, update: u32, lids: u64) -> Vec<PortId> {
    let own = block.links.iter().filter(|&&(of, lid, _)| of == update && lids & lid != 0);
    let mut links: Vec<PortId> = own.map(|&(.., link)| link).collect();
    links.sort_unstable();
    links.dedup();
    links
}

/// True if data pass the cable between two ports.
pub fn is_active(fabric: &Fabric, port: PortId, peer: PortId) -> bool {
    [port, peer].into_iter().all(|end| fabric.port(end).state() == PortState::Active)
}
