//! The shadow: it passes over the fabric again and again, and compares what the devices hold with what
//! this program would program.

use super::dry_start::managers;
use super::first_start::{FirstPlan, FirstStart};
use super::in_force::{self, groups, held_multicast, multicast_sets, verify_in_force};
use super::path_sls;
use super::port::ShadowPort;
use super::report::{SeenChange, ShadowReport};
use super::set_view::{SetView, outcomes};
use crate::config::options::Options;
use crate::fabric::difference::Difference;
use crate::fabric::{End, Fabric, PortId};
use crate::ids::{Guid, Lid};
use crate::notes::{Severity, counted};
use crate::observe::{Observation, SweepError};
use crate::plan::Plan;
use crate::plan::links::settable;
use crate::replication::comparison::describe;
use crate::transport::rehearsal::RehearsedSet;
use crate::verify::Verified;
use crate::wire::attr::AttrId;
use crate::wire::attr::PortInfo;
use crate::wire::attr::PortState;
use chrono::Local;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of nodes and links that the text of a change names.
const MAX_NAMED: usize = 8;

/// Passes over the fabric, and the report so far.
pub struct Shadow {
    port: ShadowPort,
    start: FirstStart,
    report: ShadowReport,
    /// Settings of ports that are not compared.
    ignored: Vec<String>,
    /// Gets of earlier runs.
    earlier_gets: u64,
    /// The reason why the port does not send any more: its device failed or was removed.
    port_loss: Option<String>,
    /// The last observation, with its plan if that was accepted.
    last: Option<(Arc<Fabric>, Option<Arc<Plan>>)>,
}

impl Shadow {
    /// `ignored`: settings of ports that are not compared, as the report names them. `earlier`: the report of
    /// an earlier run, which is continued if it is of the same port.
    pub fn new(
        port: ShadowPort,
        start: FirstStart,
        ignored: Vec<String>,
        earlier: Option<ShadowReport>,
    ) -> Self {
        let since = now();
        let port_guid = port.client.port().identity().guid.to_string();
        let earlier = earlier.filter(|report| report.port_guid == port_guid);
        let report =
            earlier.unwrap_or_else(|| ShadowReport { port_guid, since, ..ShadowReport::default() });
        let earlier_gets = report.gets;
        Self { port, start, report, ignored, earlier_gets, port_loss: None, last: None }
    }

    /// Records the configuration of this run; a message if the report was made with another one.
    pub fn configure(&mut self, options: &Options) -> Option<String> {
        self.report.configure(describe(options), &now())
    }

    /// The reason why the port does not send any more; `None` if it does.
    pub fn port_loss(&self) -> Option<&str> {
        self.port_loss.as_deref()
    }

    pub fn report(&self) -> &ShadowReport {
        &self.report
    }

    /// Passes over the fabric once, and updates the report.
    pub async fn pass(&mut self) {
        match self.compare().await {
            Ok(()) => self.report.passes += 1,
            Err(problem) => {
                self.report.failed_passes += 1;
                self.report.last_failure = Some(problem);
            }
        }
        let counters = self.port.client.counters();
        self.report.gets = self.earlier_gets + counters.gets() + counters.sets();
        self.report.updated = now();
    }

    async fn compare(&mut self) -> Result<(), String> {
        let client = self.port.client.clone();
        let observation = self.start.sweep(&client).await.map_err(|error| {
            self.port_loss = matches!(error, SweepError::LocalLost(_)).then(|| error.to_string());
            error.to_string()
        })?;
        let fabric = observation.fabric.clone();
        self.report.switches = fabric.switches().len();
        self.report.hosts = fabric.nodes().len() - fabric.switches().len();
        self.report.managers = managers(&observation, &fabric);
        let change = self.plan_change(&observation);
        let planned = self.start.plan(&observation, Vec::new())?;
        let verified = match &planned.outcome {
            Ok(verified) => verified.clone(),
            Err(rejected) => {
                self.report.engine = None;
                self.report.rejected = Some(rejected.headline.clone());
                self.report.set_differences(std::iter::empty(), &[]);
                self.finish(change, fabric, None);
                return Ok(());
            }
        };
        self.report.engine = Some(verified.plan().routing.engine.to_owned());
        self.report.rejected = None;
        let first =
            self.start.program(&client, &self.port.rehearsal, &observation, &verified).await;
        self.report.unanswered = in_force::unanswered(&fabric, &first.report);
        let sets = self.with_groups(&observation, outcomes(&first.sets))?;
        let views = sets.iter().filter_map(|set| SetView::new(&fabric, set));
        self.report.set_differences(views, &self.ignored);
        // Pairs without a route and loops of every engine count as faults.
        let checks = planned.request.checks().strict();
        let held = verify_in_force(&fabric, &verified, &sets, &checks);
        self.report.credit_loop = held.credit_loop;
        self.report.faults_in_force = held.faults;
        self.compare_paths(&fabric, &planned, &verified).await;
        self.finish(change, fabric, Some(verified.plan().clone()));
        Ok(())
    }

    /// Replaces the Sets of multicast tables of a plan without groups by those of a plan with the groups
    /// that the tables show.
    fn with_groups(
        &mut self,
        observation: &Observation,
        mut sets: Vec<RehearsedSet>,
    ) -> Result<Vec<RehearsedSet>, String> {
        let fabric = &observation.fabric;
        let held = held_multicast(fabric, &sets);
        let members = groups(fabric, &held);
        self.report.groups = members.len();
        if members.is_empty() {
            return Ok(sets);
        }
        if let Ok(verified) = self.start.plan(observation, members)?.outcome {
            sets.retain(|set| set.attr_id != AttrId::MULTICAST_FT);
            sets.extend(multicast_sets(fabric, &held, &verified.plan().multicast));
        }
        Ok(sets)
    }

    async fn compare_paths(
        &mut self,
        fabric: &Arc<Fabric>,
        planned: &FirstPlan,
        verified: &Verified,
    ) {
        let client = &self.port.sa_client;
        let found = path_sls::compare(client, fabric, planned, verified, self.report.passes).await;
        self.report.path_sls = found;
    }

    /// If the fabric has changed since the last pass: plans it as a running daemon would, with the plan
    /// before it.
    fn plan_change(&mut self, observation: &Observation) -> Option<SeenChange> {
        let (before, plan) = self.last.clone()?;
        let what = changes(&before, &observation.fabric);
        if what.is_empty() {
            return None;
        }
        let planned = self.start.plan_after(observation, plan.as_deref());
        let mut change = SeenChange {
            time: now(),
            what,
            planning_ms: 0,
            lft_blocks: 0,
            engine: None,
            rejected: None,
            notes: Vec::new(),
        };
        let planned = match planned {
            Ok(planned) => planned,
            Err(problem) => return Some(SeenChange { rejected: Some(problem), ..change }),
        };
        change.planning_ms = planned.planning.as_millis() as u64;
        match planned.outcome {
            Ok(verified) => {
                let routing = &verified.plan().routing;
                change.engine = Some(routing.engine.to_owned());
                change.lft_blocks =
                    changed_blocks(&before, plan.as_deref(), observation, &verified);
                let notes = routing.notes.iter().filter(|note| note.severity > Severity::Info);
                change.notes = notes.map(ToString::to_string).collect();
            }
            Err(rejected) => change.rejected = Some(rejected.headline),
        }
        Some(change)
    }

    fn finish(&mut self, change: Option<SeenChange>, fabric: Arc<Fabric>, plan: Option<Arc<Plan>>) {
        if let Some(change) = change {
            self.report.add_change(change);
        }
        self.last = Some((fabric, plan));
    }
}

/// The local time, to the second.
fn now() -> String {
    Local::now().format("%Y-%m-%d %H:%M:%S %:z").to_string()
}

/// Time from the start of a pass to that of the next one.
pub fn pause(interval: Duration, start: Instant) -> Duration {
    interval.saturating_sub(start.elapsed())
}

/// What differs between two observations, as far as plans depend on it.
fn changes(before: &Fabric, now: &Fabric) -> Vec<String> {
    let nodes_before = guids(before);
    let nodes_now = guids(now);
    let cables_before: BTreeSet<(End, End)> = cables(before).collect();
    let cables_now: BTreeSet<(End, End)> = cables(now).collect();
    let lids_before = port_lids(before);
    let lids_now = port_lids(now);
    let mut found = Vec::new();
    found.extend(named("gone", before, nodes_before.difference(&nodes_now)));
    found.extend(named("new", now, nodes_now.difference(&nodes_before)));
    found.extend(links("down", before, cables_before.difference(&cables_now)));
    found.extend(links("up", now, cables_now.difference(&cables_before)));
    let moved: Vec<_> = lids_now.difference(&lids_before).collect();
    let moved: Vec<&(Guid, u16)> =
        moved.into_iter().filter(|(guid, _)| before.port_by_guid(*guid).is_some()).collect();
    for &&(guid, lid) in moved.iter().take(MAX_NAMED) {
        let port = before.port_by_guid(guid);
        let old = port.and_then(|port| before.observed_lid(port)).unwrap_or(Lid(0));
        found.push(format!("LID of port {guid} is {lid}, was {old}"));
    }
    if moved.len() > MAX_NAMED {
        found.push(format!("and {} further LIDs", moved.len() - MAX_NAMED));
    }
    if found.is_empty()
        && let Some(difference) = Difference::between(before, now)
    {
        let ports = difference.ports.iter().filter(|&&port| is_changed(before, now, port)).count();
        if ports > 0 {
            found.push(format!("settings or states of {}", counted(ports, "port", "ports")));
        }
    }
    found
}

fn port_lids(fabric: &Fabric) -> BTreeSet<(Guid, u16)> {
    let ports = fabric.end_ports();
    ports.filter_map(|port| Some((fabric.port(port).guid, fabric.observed_lid(port)?.0))).collect()
}

fn guids(fabric: &Fabric) -> BTreeSet<Guid> {
    fabric.nodes().iter().map(|node| node.guid()).collect()
}

/// True if the settings, the state or the rate of a port differ. Its counters do not matter.
fn is_changed(before: &Fabric, now: &Fabric, port: PortId) -> bool {
    watched_facts(before, port) != watched_facts(now, port)
}

fn watched_facts(fabric: &Fabric, port: PortId) -> Option<(PortInfo, PortState, [u8; 3])> {
    let info = fabric.port(port).info()?;
    let rate = [info.link_width_active(), info.link_speed_active(), info.link_speed_ext_active()];
    Some((settable(&info), info.port_state(), rate))
}

/// Both ends of each cable, the lower one first.
fn cables(fabric: &Fabric) -> impl Iterator<Item = (End, End)> + '_ {
    let ports = (0..fabric.ports().len()).map(|slot| PortId(slot as u32));
    ports.filter_map(|port| {
        let peer = fabric.port(port).peer.filter(|&peer| port < peer)?;
        let one = fabric.end_of(port);
        let other = fabric.end_of(peer);
        Some((one.min(other), one.max(other)))
    })
}

/// The nodes by name, if there are any.
fn named<'a>(what: &str, fabric: &Fabric, guids: impl Iterator<Item = &'a Guid>) -> Option<String> {
    let guids: Vec<&Guid> = guids.collect();
    listed(
        counted(guids.len(), "node", "nodes"),
        what,
        guids.iter().take(MAX_NAMED).map(|&&guid| node_name(fabric, guid)),
    )
}

fn node_name(fabric: &Fabric, guid: Guid) -> String {
    let node = fabric.node_by_guid(guid).map(|id| fabric.node(id).name().to_string());
    format!("\"{}\"", node.unwrap_or_else(|| guid.to_string()))
}

/// The links by their ends, if there are any.
fn links<'a>(
    what: &str,
    fabric: &Fabric,
    links: impl Iterator<Item = &'a (End, End)>,
) -> Option<String> {
    let links: Vec<&(End, End)> = links.collect();
    let names = links
        .iter()
        .take(MAX_NAMED)
        .map(|&&(one, other)| format!("{} - {}", end_text(fabric, one), end_text(fabric, other)));
    listed(counted(links.len(), "link", "links"), what, names)
}

fn end_text(fabric: &Fabric, end: End) -> String {
    let port = fabric.port_by_end(end);
    port.map_or_else(|| format!("{}[{}]", end.0, end.1), |port| fabric.describe(port))
}

fn listed(count: String, what: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let names: Vec<String> = names.collect();
    (!names.is_empty()).then(|| format!("{count} {what} ({})", names.join("; ")))
}

/// Number of forwarding table blocks that a plan changes on the switches that both fabrics have.
fn changed_blocks(
    before: &Fabric,
    plan: Option<&Plan>,
    observation: &Observation,
    verified: &Verified,
) -> usize {
    let Some(plan) = plan else { return 0 };
    let fabric = &observation.fabric;
    let changed = fabric.switch_ids().map(|switch| {
        let node = before.node_by_guid(fabric.switch(switch).guid());
        let old = node.and_then(|node| before.node(node).switch);
        let Some(old) = old.map(|old| plan.routing.lft(old)) else { return 0 };
        let new = verified.plan().routing.lft(switch);
        (0u32..)
            .zip(new.blocks())
            .filter(|(number, block)| old.block(*number) != &block[..])
            .count()
    });
    changed.sum()
}
