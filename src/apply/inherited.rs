//! Tables that devices hold from before: another SM was master, or this SM was started again.
//!
//! Before the first plan is applied, the blocks that it would write are read ([`adopt`]). Blocks
//! that are as planned are not written again, and the order of the others preserves the routes in
//! force. A standby SM reads them in advance ([`survey`]); since the master may have written to the
//! devices afterwards, it compares a sample when it becomes master ([`confirm`]), and all of them
//! once the subnet is up ([`find_difference`]).

use super::acknowledged::Acknowledged;
use super::delta::{Delta, SetRequest};
use super::set_id::SetId;
use crate::fabric::NodeId;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::plan::Plan;
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::{SmpError, SmpReply, SmpRequest};
use crate::wire::attr::AttrId;
use crate::wire::mad::Method;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of Gets queued in the client, enough to keep its window of outstanding MADs full.
pub(super) const MAX_OUTSTANDING_GETS: usize = 4096;

/// Unanswered Gets, without an answered one between them, after which a device gets no others.
pub(super) const MAX_UNANSWERED: u32 = 2;

/// Maximum number of blocks that [`confirm`] reads: a fraction of a second at usual rates.
pub const MAX_CONFIRMED_BLOCKS: usize = 20_000;

/// The number of bytes of an SL to VL mapping.
const SL_TO_VL_SIZE: usize = 8;

/// A block to read, and its planned data.
type Block = (SetId, [u8; 64]);

/// Result of [`adopt`] and [`survey`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AdoptReport {
    /// Devices with tables from before.
    pub devices: usize,
    /// Blocks that were read.
    pub blocks: usize,
    /// Blocks that are not as planned, or could not be read.
    pub differing: usize,
}

/// Result of [`confirm`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Confirmation {
    /// All blocks that are believed to be as planned are.
    Exact { blocks: usize },
    /// A sample of them is.
    Sample { blocks: usize },
    /// A block is not. Nothing is believed any more.
    Refuted(SetId),
}

/// Reads the tables that `plan` would write, unless the state of the devices is known. Records in
/// `acknowledged` what they hold; nothing if no device has tables from before.
pub async fn adopt(
    client: &SmpClient,
    observation: &Observation,
    plan: &Arc<Plan>,
    acknowledged: &mut Acknowledged,
    keys: &MKeys,
) -> Option<AdoptReport> {
    if !acknowledged.is_empty() {
        return None;
    }
    survey(client, observation, plan, acknowledged, keys).await
}

/// Reads the tables that `plan` would write, and replaces what `acknowledged` contains by what the
/// devices hold. `None` if no device has tables from before.
pub async fn survey(
    client: &SmpClient,
    observation: &Observation,
    plan: &Arc<Plan>,
    acknowledged: &mut Acknowledged,
    keys: &MKeys,
) -> Option<AdoptReport> {
    acknowledged.forget_tables();
    let delta = Delta::new(observation, plan, acknowledged, keys);
    let live = LiveNodes::of(&delta);
    if live.count == 0 {
        return None;
    }
    let mut readings = Readings::default();
    readings.read(client, live.blocks(delta), false).await;
    let report = AdoptReport {
        devices: live.count,
        blocks: readings.blocks,
        differing: readings.differing.len() + readings.unread.len(),
    };
    let fabric = &observation.fabric;
    let unknown = fabric.node_ids().filter(|&node| !live.has(node) || readings.is_silent(node));
    let unknown = unknown.map(|node| fabric.node(node).guid()).collect();
    acknowledged.adopt(fabric, plan, readings.differing, &readings.unread, unknown);
    Some(report)
}

/// Reads blocks that are as planned according to `acknowledged`, of whose blocks `known` were read
/// before: all of them if that is at most [`MAX_CONFIRMED_BLOCKS`], else a sample of about that
/// number from all devices. Discards `acknowledged` if one is not as planned.
pub async fn confirm(
    client: &SmpClient,
    observation: &Observation,
    plan: &Arc<Plan>,
    acknowledged: &mut Acknowledged,
    known: usize,
    keys: &MKeys,
) -> Confirmation {
    let step = known.div_ceil(MAX_CONFIRMED_BLOCKS).max(1);
    let mut readings = Readings::default();
    let nothing = Acknowledged::default();
    let delta = Delta::new(observation, plan, &nothing, keys);
    readings.read_believed(client, delta, acknowledged, step).await;
    if let Some(&(set, _)) = readings.differing.first() {
        acknowledged.forget_tables();
        return Confirmation::Refuted(set);
    }
    for &set in &readings.unread {
        acknowledged.doubt(&observation.fabric, set);
    }
    match step {
        1 => Confirmation::Exact { blocks: readings.blocks },
        _ => Confirmation::Sample { blocks: readings.blocks },
    }
}

/// Reads all tables, and compares them with those that `acknowledged` contains. Returns a block
/// that a device does not hold as recorded, and the number of blocks that were read until then.
pub async fn find_difference(
    client: &SmpClient,
    observation: &Observation,
    acknowledged: &Acknowledged,
    keys: &MKeys,
) -> (Option<SetId>, usize) {
    let Some((_, plan)) = acknowledged.last() else { return (None, 0) };
    let mut readings = Readings::default();
    let nothing = Acknowledged::default();
    let delta = Delta::new(observation, plan, &nothing, keys);
    readings.read_believed(client, delta, acknowledged, 1).await;
    (readings.differing.first().map(|&(set, _)| set), readings.blocks)
}

/// The devices that have not lost their tables.
struct LiveNodes {
    is_live: Vec<bool>,
    count: usize,
}

impl LiveNodes {
    /// The devices that show that they carry traffic by tables from before. A switch without a link
    /// or with LinearFDBTop 0 does not.
    fn of(delta: &Delta<'_>) -> Self {
        let is_live: Vec<bool> =
            delta.fabric.node_ids().map(|node| !delta.has_lost_tables(node)).collect();
        let count = is_live.iter().filter(|&&is_live| is_live).count();
        Self { is_live, count }
    }

    fn has(&self, node: NodeId) -> bool {
        self.is_live.get(node.index()) == Some(&true)
    }

    /// The table Sets of these devices.
    fn blocks<'a>(&'a self, delta: Delta<'a>) -> impl Iterator<Item = SetRequest> + 'a {
        self.some_blocks(delta, 1, |_| true)
    }

    /// The blocks selected by `is_selected`, one of `step` each of forwarding tables and of other
    /// tables.
    fn some_blocks<'a>(
        &'a self,
        delta: Delta<'a>,
        step: usize,
        is_selected: impl Fn(&SetId) -> bool + Copy + 'a,
    ) -> impl Iterator<Item = SetRequest> + 'a {
        let has = move |set: &SetId| self.has(set.node) && is_selected(set);
        // Most blocks are those of forwarding tables: only the requests to send are built.
        let lfts = delta
            .lft_sets()
            .filter(has)
            .step_by(step)
            .map(move |set| (set, delta.request(set, delta.lft_block(set))));
        let others = delta
            .mfts()
            .chain(delta.sl_to_vls())
            .chain(delta.vl_arbitrations())
            .chain(delta.guid_tables())
            .filter(move |(set, _)| has(set));
        lfts.chain(others.step_by(step))
    }
}

/// The answers of the devices.
#[derive(Default)]
struct Readings {
    blocks: usize,
    /// Blocks that are not as planned, with the data that the devices hold.
    differing: Vec<Block>,
    /// Blocks that devices did not let themselves be asked for.
    unread: Vec<SetId>,
    /// Unanswered Gets since the last answered one, by node.
    unanswered: HashMap<NodeId, u32>,
}

impl Readings {
    /// Reads one of `step` blocks that are as planned according to `acknowledged`, until the first
    /// that is not. `delta`: all blocks of the plan.
    async fn read_believed(
        &mut self,
        client: &SmpClient,
        delta: Delta<'_>,
        acknowledged: &Acknowledged,
        step: usize,
    ) {
        let live = LiveNodes::of(&delta);
        let differing = live.blocks(Delta { acknowledged, ..delta });
        let to_write: HashSet<SetId> = differing.map(|(set, _)| set).collect();
        let believed = live.some_blocks(delta, step, |set| !to_write.contains(set));
        self.read(client, believed, true).await;
    }

    /// Reads the blocks that the Sets would write, until the first that differs if
    /// `until_difference`.
    async fn read(
        &mut self,
        client: &SmpClient,
        blocks: impl Iterator<Item = SetRequest>,
        until_difference: bool,
    ) {
        let mut blocks = blocks.fuse();
        let mut batch: Tagged<Block> = Tagged::new(client);
        loop {
            while batch.outstanding() < MAX_OUTSTANDING_GETS
                && let Some((set, request)) = blocks.next()
            {
                if !self.is_silent(set.node) {
                    batch.submit((set, request.data), get(request));
                }
            }
            let Some((block, answer)) = batch.next().await else { return };
            self.answered(block, answer);
            if until_difference && !self.differing.is_empty() {
                return;
            }
            if self.is_silent(block.0.node) {
                batch.cancel(|(set, _)| set.node == block.0.node);
            }
        }
    }

    fn answered(&mut self, (set, planned): Block, answer: Result<SmpReply, SmpError>) {
        if answer != Err(SmpError::Unanswered) {
            self.unanswered.remove(&set.node);
        }
        let size = if set.attr_id == AttrId::SL_TO_VL { SL_TO_VL_SIZE } else { planned.len() };
        match answer {
            Ok(reply) => {
                self.blocks += 1;
                if reply.data[..size] != planned[..size] {
                    self.differing.push((set, reply.data));
                }
            }
            Err(error) => {
                self.unread.push(set);
                if error == SmpError::Unanswered {
                    *self.unanswered.entry(set.node).or_default() += 1;
                }
            }
        }
    }

    /// True for a device that does not answer, whose tables are unknown.
    fn is_silent(&self, node: NodeId) -> bool {
        self.unanswered.get(&node).is_some_and(|&count| count >= MAX_UNANSWERED)
    }
}

/// The Get of the block that a Set writes.
pub(super) fn get(set: SmpRequest) -> SmpRequest {
    SmpRequest { method: Method::GET, data: [0; 64], ..set }
}
