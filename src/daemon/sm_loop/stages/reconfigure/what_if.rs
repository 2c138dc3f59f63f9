//! The effect of the loss of a link on the running subnet, planned and verified before it is pulled.

use crate::contained;
use crate::daemon::process::priority::spawn_study;

use crate::daemon::sm_loop::planning::PlanRequest;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::fabric::{End, Fabric, Node};
use crate::ids::Guid;
use crate::incidents::fact::Cable;
use crate::notes::counted;
use crate::observe::{Observation, quarantine};
use crate::plan::Plan;
use crate::publish::report::{link_loads, worst_link};
use crate::verify::Verified;
use std::collections::VecDeque;
use std::sync::Arc;

/// Nodes that are named; further ones are counted.
const MAX_NAMES: usize = 8;

/// A link that may be pulled, and the input of the plan without it.
pub struct LinkStudy {
    name: String,
    /// The fabric with the link.
    whole: Arc<Fabric>,
    in_force: Arc<Plan>,
    request: PlanRequest,
}

/// The loss of a link that the fabric can do without.
pub(super) struct LinkLoss {
    cable: Cable,
    whole: Arc<Fabric>,
    /// The observation without the link.
    pub without: Observation,
}

impl LinkLoss {
    /// The loss of the link at a port.
    ///
    /// # Errors
    /// There is no such link, or a part of the fabric is reached by it alone.
    pub(super) fn at(observation: &Observation, end: End) -> Result<Self, String> {
        let whole = observation.fabric.clone();
        let port = whole.port_by_end(end);
        let cable = port.and_then(|port| Cable::of(&whole, port));
        let cable = cable.ok_or_else(|| format!("{}[{}] has no link", end.0, end.1))?;
        let cause = QuarantineCause::Operator;
        let link = QuarantinedLink { ends: cable.key(), cause, calm: None };
        let (without, needed) = quarantine::without_links(observation.clone(), &[link]);
        if !needed.is_empty() {
            return Err(format!("without the cable {cable}, {}", cut_off(&whole, cable.key())));
        }
        Ok(Self { cable, whole, without })
    }
}

impl LinkStudy {
    /// `request` is the input of the plan after the loss.
    pub(super) fn new(loss: LinkLoss, in_force: Arc<Plan>, request: PlanRequest) -> Self {
        Self { name: loss.cable.to_string(), whole: loss.whole, in_force, request }
    }
    /// Plans and verifies the fabric without the link, on a thread of its own: an operator waits for it. Returns the effect in
    /// words.
    ///
    /// # Errors
    /// Planning has failed.
    pub async fn run(self) -> Result<String, String> {
        let planned = spawn_study(move || contained::run(|| self.effect())).await;
        match planned {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(panic)) => {
                contained::log("planning without a link", &panic, "the request fails");
                Err("planning has failed; the log has the reason".to_owned())
            }
            Err(problem) => Err(format!("planning has failed: {problem}")),
        }
    }

    fn effect(&self) -> String {
        let Self { name, in_force, request, .. } = self;
        let verified = match request.plan(Some(in_force), None) {
            Ok(outcome) => outcome.verdict.map_err(|failure| failure.to_string()),
            Err(rejected) => Err(match rejected.routing_errors.iter().find_map(|it| it.reason()) {
                Some(reason) => reason.to_string(),
                None => "no routing engine routes the rest".to_owned(),
            }),
        };
        match verified {
            Ok(verified) => {
                let parts = self.parts(&verified);
                format!("without the cable {name}: {}", parts.join("; "))
            }
            Err(reason) => format!(
                "without the cable {name} there is NO VALID PLAN, and the devices would keep their tables: {reason}"
            ),
        }
    }

    fn parts(&self, verified: &Verified) -> Vec<String> {
        let Self { whole, in_force, request, .. } = self;
        let left = &request.fabric;
        let plan = verified.plan();
        let summary = verified.summary();
        let engine = plan.routing.engine;
        let mut parts = vec![if engine == in_force.routing.engine {
            format!("{engine} routes the rest")
        } else {
            format!("{engine} routes the rest INSTEAD OF {}", in_force.routing.engine)
        }];
        parts.push(match &summary.cycle {
            None => "verified, no credit loop".to_owned(),
            Some(cycle) => format!("verified with a CREDIT LOOP: {cycle}"),
        });
        let lost = whole.nodes().len() - left.nodes().len();
        if lost > 0 {
            let gone = whole.nodes().iter().filter(|node| left.node_by_guid(node.guid()).is_none());
            let names = nodes_text(whole, gone.map(Node::guid));
            parts.push(format!("{} CUT OFF: {names}", counted(lost, "node is", "nodes are")));
        }
        let hosts = summary.unrouted.hosts;
        if hosts > 0 {
            parts.push(format!(
                "{} NO ROUTE",
                counted(hosts, "pair of hosts has", "pairs of hosts have")
            ));
        }
        let longest = counted(summary.longest_path as usize, "switch", "switches");
        parts.push(format!("longest path {}{longest}", summary.bound()));
        let before = worst_link(whole, &link_loads(whole, in_force)).map(|(_, lids)| lids);
        let after = worst_link(left, &link_loads(left, plan)).map(|(_, lids)| lids);
        if let (Some(before), Some(after)) = (before, after) {
            parts.push(format!(
                "at most {} on one link, now {before}",
                counted(after, "LID", "LIDs")
            ));
        }
        parts
    }
}

/// Names the nodes that the loss of a cable cuts off from this SM.
fn cut_off(fabric: &Fabric, ends: [End; 2]) -> String {
    let local = fabric.end_of(fabric.local());
    if let Some(at) = ends.iter().position(|&end| end == local) {
        let own = nodes_text(fabric, [local.0].into_iter());
        let (guid, num) = ends[1 - at];
        let far = nodes_text(fabric, [guid].into_iter());
        return format!(
            "this SM at port {} of {own} would be cut off from all other nodes: its only cable leads to port {num} of {far}",
            local.1
        );
    }
    let lost = unreached(fabric, ends);
    format!(
        "{} would be cut off, since no other path leads there: {}",
        counted(lost.len(), "node", "nodes"),
        nodes_text(fabric, lost.into_iter())
    )
}

/// The nodes that this SM does not reach without the cable between two ports, in the order of the fabric.
fn unreached(fabric: &Fabric, ends: [End; 2]) -> Vec<Guid> {
    let local = fabric.port(fabric.local()).node;
    let mut is_reached = vec![false; fabric.nodes().len()];
    is_reached[local.index()] = true;
    let mut queue = VecDeque::from([local]);
    while let Some(id) = queue.pop_front() {
        let node = fabric.node(id);
        if !node.is_switch() && id != local {
            continue;
        }
        for slot in node.slots().filter(|&slot| !ends.contains(&fabric.end_of(slot))) {
            let Some(peer) = fabric.port(slot).peer else { continue };
            let next = fabric.port(peer).node;
            if !std::mem::replace(&mut is_reached[next.index()], true) {
                queue.push_back(next);
            }
        }
    }
    let ids = fabric.node_ids().filter(|id| !is_reached[id.index()]);
    ids.map(|id| fabric.node(id).guid()).collect()
}

/// Names of nodes with their LIDs.
fn nodes_text(fabric: &Fabric, guids: impl Iterator<Item = Guid>) -> String {
    let mut texts: Vec<String> = guids
        .filter_map(|guid| fabric.node_by_guid(guid))
        .map(|id| {
            let node = fabric.node(id);
            let end_ports = node.slots().filter(|&port| fabric.owner(port) == port);
            let lids = end_ports.filter_map(|port| fabric.observed_lid(port));
            let lids: Vec<String> = lids.map(|lid| lid.to_string()).collect();
            format!("\"{}\" (LID {})", node.name(), lids.join(" and "))
        })
        .collect();
    let more = texts.len().saturating_sub(MAX_NAMES);
    if more > 0 {
        texts.truncate(MAX_NAMES);
        texts.push(format!("{more} more"));
    }
    texts.join(", ")
}
