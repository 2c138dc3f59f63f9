//! Sends the Sets of a plan and takes note of the answers.

use super::acknowledged::Acknowledged;
use super::delta::{Change, Delta, settled};
use super::item::Item;
use super::phases::{ORDER, Phase};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::observe::Observation;
use crate::plan::Plan;
use crate::transport::client::SmpClient;
use crate::transport::tagged::Tagged;
use crate::transport::transactions::{SmpError, SmpReply};
use crate::verify::Verified;
use crate::wire::attr::tables::PkeyBlock;
use crate::wire::attr::{AttrId, PortInfo, PortState, SwitchInfo};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Sets that are handed to the client ahead of the window, to keep it full.
const AHEAD: usize = 4096;

/// What an application of a plan did.
#[derive(Clone, Debug, Default)]
pub struct ApplyReport {
    /// Sets sent, by phase.
    pub sent: [(usize, Duration); ORDER.len()],
    /// Blocks of linear forwarding tables among them.
    pub lft_blocks: usize,
    /// From the start to the last acknowledged block of a forwarding table.
    pub lfts_done: Option<Duration>,
    /// Sets that failed, with the reason.
    pub failed: Vec<(Item, SmpError)>,
}

impl ApplyReport {
    /// Number of Sets sent.
    pub fn sets(&self) -> usize {
        self.sent.iter().map(|(sets, _)| sets).sum()
    }
}

/// What the devices answered, by slot: how the picture changed.
#[derive(Default)]
struct Changes {
    ports: Vec<(PortId, PortInfo)>,
    switches: Vec<(SwitchId, SwitchInfo)>,
    pkeys: Vec<(PortId, usize, PkeyBlock)>,
}

/// Brings the devices of `observation` to `plan`. Afterwards the observation shows what the
/// devices acknowledged, and `acknowledged` knows what they hold.
pub async fn apply(
    client: &SmpClient,
    observation: &mut Observation,
    plan: &Verified,
    acknowledged: &mut Acknowledged,
    m_key: u64,
) -> ApplyReport {
    let start = Instant::now();
    let mut report = ApplyReport::default();
    for phase in ORDER {
        let phase_start = Instant::now();
        let mut sets = 0;
        for _ in 0..phase.most_rounds() {
            let delta = Delta {
                fabric: &observation.fabric,
                pkeys: &observation.pkeys,
                plan: plan.plan(),
                acknowledged,
                m_key,
            };
            let failures = report.failed.len();
            let mut run = Run { client, start, report: &mut report, changes: Changes::default() };
            let sent = run.phase(phase, delta).await;
            let changes = run.changes;
            take_over(observation, changes);
            sets += sent;
            // What failed would fail again.
            if sent == 0 || report.failed.len() > failures {
                break;
            }
        }
        report.sent[phase as usize] = (sets, phase_start.elapsed());
    }
    let failed: Vec<Item> = report.failed.iter().map(|(item, _)| *item).collect();
    remember(acknowledged, observation, plan.plan(), &failed);
    report
}

fn remember(
    acknowledged: &mut Acknowledged,
    observation: &Observation,
    plan: &Arc<Plan>,
    failed: &[Item],
) {
    acknowledged.replace(&observation.fabric, plan, failed);
}

struct Run<'a> {
    client: &'a SmpClient,
    start: Instant,
    report: &'a mut ApplyReport,
    changes: Changes,
}

impl Run<'_> {
    async fn phase(&mut self, phase: Phase, delta: Delta<'_>) -> usize {
        let fabric = delta.fabric;
        match phase {
            Phase::Tables => {
                let changes = delta
                    .switch_infos()
                    .chain(delta.lfts())
                    .chain(delta.mfts())
                    .chain(delta.sl_to_vls())
                    .chain(delta.vl_arbitrations())
                    .chain(delta.pkey_tables());
                self.send(fabric, changes).await
            }
            Phase::Keys if self.report.failed.is_empty() => {
                self.send(fabric, delta.pkey_tables()).await
            }
            Phase::Keys => 0,
            Phase::Ports => self.send(fabric, delta.port_infos()).await,
            Phase::Activation => {
                self.send(fabric, delta.activations(|slot| is_ready(fabric, slot))).await
            }
        }
    }

    async fn send(&mut self, fabric: &Fabric, changes: impl Iterator<Item = Change>) -> usize {
        let mut changes = changes.fuse();
        let mut batch = Tagged::new(self.client);
        let mut sent = 0;
        loop {
            while batch.outstanding() < AHEAD
                && let Some((item, request)) = changes.next()
            {
                batch.submit(item, request);
                sent += 1;
            }
            let Some((item, answer)) = batch.next().await else { break };
            self.answered(fabric, item, answer);
        }
        sent
    }

    fn answered(&mut self, fabric: &Fabric, item: Item, answer: Result<SmpReply, SmpError>) {
        let reply = match answer {
            Ok(reply) => reply,
            Err(error) => {
                self.report.failed.push((item, error));
                return;
            }
        };
        let slot = item.slot(fabric);
        match item.attr_id {
            AttrId::LINEAR_FT => {
                self.report.lft_blocks += 1;
                self.report.lfts_done = Some(self.start.elapsed());
            }
            AttrId::PORT_INFO => self.changes.ports.push((slot, PortInfo::read(&reply.data))),
            AttrId::SWITCH_INFO => {
                if let Some(switch) = fabric.node(item.node).switch {
                    let info = settled(SwitchInfo::read(&reply.data));
                    self.changes.switches.push((switch, info));
                }
            }
            AttrId::PKEY_TABLE => {
                let block = (item.attr_mod & 0xFFFF) as usize;
                self.changes.pkeys.push((slot, block, PkeyBlock::read(&reply.data)));
            }
            _ => {}
        }
    }
}

/// True if a port is ARMED and its peer at least that.
fn is_ready(fabric: &Fabric, slot: PortId) -> bool {
    let port = fabric.port(slot);
    let peer_state = port.peer.map(|peer| fabric.port(peer).state());
    port.state() == PortState::Armed
        && matches!(peer_state, Some(PortState::Armed | PortState::Active))
}

/// Brings the picture to what the devices answered.
fn take_over(observation: &mut Observation, changes: Changes) {
    for (slot, block, table) in changes.pkeys {
        if let Some(tables) = observation.pkeys.get_mut(slot.index()) {
            if tables.len() <= block {
                tables.resize(block + 1, PkeyBlock::default());
            }
            tables[block] = table;
        }
    }
    if changes.ports.is_empty() && changes.switches.is_empty() {
        return;
    }
    Arc::make_mut(&mut observation.fabric).acknowledge(&changes.ports, &changes.switches);
}
