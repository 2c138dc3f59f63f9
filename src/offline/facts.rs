//! Creates the report from fabric and plan.

use super::host_paths::{HostPaths, numbers};
use super::json::*;
use super::scenario::OfflineScenario;
use super::trial::{OfflineTrial, TrialOutcome};
use crate::cli::{CommandFailure, ExitCode};
use crate::fabric::node_name;
use crate::fabric::{Fabric, NodeId, PortId, SwitchId};
use crate::ids::{Guid, Lid, Sl};
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::adaptive::AdaptiveGroups;
use crate::plan::qos::policy::EffectivePolicy;
use crate::plan::routing::RoutingPolicy;
use crate::plan::routing::structure::EngineStructure;
use crate::plan::routing::torus::{AXIS_NAMES, Direction, Torus, TorusLayout};
use crate::publish::path::{WalkEnd, vl, walk};
use crate::publish::repair::RepairView;
use crate::publish::report::{link_loads, mean_load, worst_link};
use crate::verify::Verified;
use crate::wire::attr::NodeKind;

/// The report on a planned fabric, without the parts made on request.
pub(super) fn report(
    scenario: &OfflineScenario,
    fabric: &Fabric,
    trial: &OfflineTrial,
    layout: Option<&TorusLayout>,
) -> PlanReport {
    let mut report = PlanReport {
        fabric: fabric_facts(fabric),
        engines: scenario.chain.names().collect(),
        torus: layout.map(|layout| torus_facts(fabric, layout)),
        lids: Lids { count: trial.lids.iter().count(), highest: trial.lids.max().0 },
        notes: scenario.notes.clone(),
        ..PlanReport::default()
    };
    match &trial.outcome {
        TrialOutcome::Routed(verified) => {
            add_plan(&mut report, fabric, verified);
            if let Some(policy) = scenario.qos_policy.clone() {
                let keys = &verified.plan().partitions.keys;
                let own = Some(fabric.local());
                let (_, found) =
                    EffectivePolicy::new(policy, fabric, keys, &scenario.partitions, own);
                add_notes(&mut report.notes, &found);
            }
            report.fallback = report.engine.is_some_and(|engine| !scenario.asks_for(engine));
        }
        TrialOutcome::Unrouted { notes, routing_errors } => {
            add_notes(&mut report.notes, notes);
            let facts = routing_errors
                .iter()
                .map(|error| EngineErrors { engine: error.engine, notes: error.notes.clone() });
            report.engine_errors = facts.collect();
        }
        TrialOutcome::Faulty(failure) => {
            report.faults = failure.faults.iter().map(ToString::to_string).collect();
            let more = failure.total.saturating_sub(failure.faults.len());
            if more > 0 {
                report.faults.push(format!("and {more} more"));
            }
            report.faults.extend(failure.cause.clone());
        }
    }
    report
}

fn add_plan(report: &mut PlanReport, fabric: &Fabric, verified: &Verified) {
    let plan = verified.plan();
    let summary = verified.summary();
    report.routed = true;
    report.engine = Some(plan.routing.engine);
    let hosts = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
    report.unreachable_hosts = hosts
        .filter(|port| {
            plan.lids.base(*port).is_none() || summary.left_out.binary_search(port).is_ok()
        })
        .count();
    report.checks = Some(ChecksFacts {
        reached_lids: summary.lids,
        unrouted_hosts: summary.unrouted.hosts,
        unrouted_with_switches: summary.unrouted.with_switches,
        left_out: summary.left_out.iter().map(|&port| fabric.describe(port)).collect(),
        longest_path: summary.longest_path,
        dependencies: summary.dependencies,
        credit_loop: summary.cycle.as_ref().map(ToString::to_string),
    });
    let load = link_loads(fabric, plan);
    report.worst_link = worst_link(fabric, &load)
        .map(|(port, lids)| WorstLink { port: fabric.describe(port), lids });
    if let Some((mean, links)) = mean_load(fabric, &load) {
        (report.mean_link, report.links) = (Some(mean), links);
    }
    report.repair = RepairView::of(plan);
    report.structure = structure(fabric, &*plan.routing.policy);
    let paths = HostPaths::new(fabric, plan);
    report.sls = numbers(paths.sls);
    report.vls = numbers(paths.vls);
    report.hops = paths.lengths;
    add_notes(&mut report.notes, &plan.notes);
    add_notes(&mut report.notes, &summary.notes);
}

fn structure(fabric: &Fabric, policy: &dyn RoutingPolicy) -> Option<StructureFacts> {
    let found = policy.structure();
    let is_known = found != EngineStructure::default();
    let EngineStructure { ranks, roots, layers } = found;
    is_known.then(|| StructureFacts {
        ranks,
        roots: roots.iter().map(|a| root(fabric, a)).collect(),
        layers,
    })
}

fn root(fabric: &Fabric, &switch: &SwitchId) -> RootSwitch {
    let node = fabric.switch(switch);
    RootSwitch { guid: node.guid(), description: node.name().to_string() }
}

/// Adds messages that are not listed yet.
fn add_notes(notes: &mut Vec<Note>, more: &[Note]) {
    for note in more {
        if !notes.contains(note) {
            notes.push(note.clone());
        }
    }
}

pub(super) fn fabric_facts(fabric: &Fabric) -> FabricFacts {
    FabricFacts {
        switches: count(fabric, NodeKind::Switch),
        channel_adapters: count(fabric, NodeKind::Ca),
        routers: count(fabric, NodeKind::Router),
        cables: fabric.ports().iter().filter(|port| port.peer.is_some()).count() / 2,
    }
}

fn count(fabric: &Fabric, kind: NodeKind) -> usize {
    fabric.nodes().iter().filter(|node| node.kind() == kind).count()
}

fn torus_facts(fabric: &Fabric, layout: &TorusLayout) -> TorusFacts {
    let mut placed = Vec::new();
    let mut missing_switches = Vec::new();
    let mut missing_cables = Vec::new();
    for at in layout.positions() {
        let Some(switch) = layout.switch(at) else {
            missing_switches.push(at.0);
            continue;
        };
        let node = fabric.switch(switch);
        let description = node.name().to_string();
        placed.push(Placed { coordinates: at.0, guid: node.guid(), description });
        for (axis, name) in AXIS_NAMES.into_iter().enumerate() {
            let up = Direction::plus(axis);
            if let Some(to) = layout.neighbour(at, up).filter(|_| layout.lacks_cable(at, up)) {
                missing_cables.push(MissingTorusLink { from: at.0, to: to.0, axis: name });
            }
        }
    }
    let rings = layout.rings();
    let broken = rings.iter().filter(|ring| !ring.gaps.is_empty()).map(|ring| BrokenRing {
        axis: AXIS_NAMES[ring.axis],
        first: ring.first.0,
        gaps: ring.gaps.iter().map(|at| at.0).collect(),
    });
    TorusFacts {
        radices: layout.radices(),
        looped: std::array::from_fn(|axis| layout.is_looped(axis)),
        placed,
        missing_switches,
        missing_cables,
        broken_rings: broken.collect(),
        rings: rings.len(),
    }
}

/// The path between two end ports, each named by LID, GUID or node description, with the other ports of
/// `groups` at its switches.
///
/// # Errors
/// Returns a usage error if a name matches no end port, or more than one.
pub(super) fn path(
    fabric: &Fabric,
    plan: &Plan,
    groups: Option<&AdaptiveGroups>,
    [from, to]: [&str; 2],
) -> Result<PathFacts, CommandFailure> {
    let (source, _) = resolve(fabric, plan, from)?;
    let (destination, lid) = resolve(fabric, plan, to)?;
    let sl = plan.path_sl(source, destination, lid, Sl(0));
    let walk = walk(fabric, plan, source, lid);
    let torus = Torus::of(&plan.routing);
    let hops = walk.hops.iter().map(|hop| {
        let node = fabric.switch(hop.switch);
        let output = fabric.port(hop.output).num.0;
        let ports = groups.map(|groups| groups.ports(hop.switch, lid, output));
        let others = ports.iter().flat_map(|ports| ports.iter()).filter(|&port| port != output);
        PathHop {
            guid: node.guid(),
            description: node.name().to_string(),
            coordinates: torus.and_then(|torus| torus.coordinates(hop.switch)).map(|at| at.0),
            input: fabric.port(hop.input).num.0,
            output,
            alternatives: others.collect(),
            vl: vl(fabric, plan, hop, sl),
        }
    });
    Ok(PathFacts {
        from: fabric.describe(source),
        to: fabric.describe(destination),
        lid,
        sl,
        hops: hops.collect(),
        delivered: walk.end == WalkEnd::Delivered,
        end: walk.end.describe(fabric),
    })
}

/// The end port with this LID, or of the node with this name, and its LID. Of several ports of a node
/// the first one with a LID is taken; a port GUID names its port.
fn resolve(fabric: &Fabric, plan: &Plan, name: &str) -> Result<(PortId, Lid), CommandFailure> {
    if let Some(lid) = name.parse().ok().map(Lid) {
        let port =
            plan.lids.port(lid).ok_or_else(|| usage_error(format!("no end port has LID {lid}")))?;
        return Ok((port, lid));
    }
    let torus = Torus::of(&plan.routing);
    let nodes = fabric
        .node_ids()
        .filter_map(|id| Some((first_port(fabric, id)?, fabric.node(id).name().to_string())));
    let port = node_name::find(
        name,
        nodes,
        |guid| port_of_guid(fabric, guid),
        |wanted| port_at(fabric, &torus, wanted),
    );
    let port = port.map_err(|error| usage_error(error.to_string()))?;
    let lid = plan.lids.base(port);
    lid.map(|lid| (port, lid))
        .ok_or_else(|| usage_error(format!("the port of \"{name}\" has no LID")))
}

fn port_of_guid(fabric: &Fabric, guid: Guid) -> Option<PortId> {
    fabric
        .port_by_guid(guid)
        .or_else(|| fabric.node_by_guid(guid).and_then(|node| first_port(fabric, node)))
}

fn port_at(fabric: &Fabric, torus: &Option<&Torus>, wanted: [u32; 3]) -> Option<PortId> {
    let mut switches = fabric.switches().iter().copied().zip(fabric.switch_ids());
    let found = switches.find(|&(_, switch)| is_at(torus, switch, wanted));
    found.and_then(|(node, _)| first_port(fabric, node))
}

fn first_port(fabric: &Fabric, node: NodeId) -> Option<PortId> {
    fabric.end_ports().find(|&port| fabric.port(port).node == node)
}

fn is_at(torus: &Option<&Torus>, switch: SwitchId, wanted: [u32; 3]) -> bool {
    torus.and_then(|torus| torus.coordinates(switch)).is_some_and(|at| at.0 == wanted)
}

fn usage_error(text: String) -> CommandFailure {
    CommandFailure::new(ExitCode::Usage, text)
}

/// SLs of all paths between hosts.
pub(super) fn path_sls(fabric: &Fabric, plan: &Plan) -> PathSlMatrix {
    let hosts: Vec<(PortId, Lid)> = fabric
        .end_ports()
        .filter(|port| !fabric.node_of(*port).is_switch())
        .filter_map(|port| Some((port, plan.lids.base(port)?)))
        .collect();
    PathSlMatrix {
        sl: hosts
            .iter()
            .map(|&(from, _)| {
                hosts
                    .iter()
                    .map(|&(to, _)| plan.routing.policy.path_sl(from, to, Sl(0)).0)
                    .collect()
            })
            .collect(),
        hosts: hosts
            .iter()
            .map(|&(port, lid)| HostFacts {
                port_guid: fabric.port(port).guid,
                lid,
                description: fabric.node_of(port).name().to_string(),
            })
            .collect(),
    }
}
