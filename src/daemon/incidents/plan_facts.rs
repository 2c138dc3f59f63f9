//! Facts from the published subnet: routes, cables of the torus or tree, devices that refuse, full number
//! spaces. They are derived once for each plan.

use super::source::{FactSource, FactView};
use crate::fabric::{End, Fabric};
use crate::ids::{Lid, Mlid};
use crate::incidents::fact::{
    Cable, ExchangedCables, Facts, FullSpace, RefusingDevice, RoutingFacts,
};
use crate::incidents::losses::Register;
use crate::incidents::torus_cables::{self, TorusCables};
use crate::incidents::{grid_squares, tree_levels, tree_links};
use crate::manage::loop_status::LoopStatus;
use crate::notes::{Note, Severity, counted};
use crate::publish::Subnet;
use crate::sa::registry::last_mlid;
use std::collections::BTreeSet;

#[derive(Default)]
pub struct PlanSource {
    /// The generation of a published subnet, and its facts.
    last: Option<(u64, PlanFacts)>,
}

#[derive(Default)]
struct PlanFacts {
    routing: RoutingFacts,
    torus: TorusCables,
    refusing: Vec<RefusingDevice>,
    full: Vec<FullSpace>,
}

impl FactSource for PlanSource {
    fn add_facts(&mut self, view: &FactView<'_>, facts: &mut Facts) {
        let Some(watched) = view.watched else { return };
        let status = view.status;
        let none = PlanFacts::default();
        let of_plan = status.subnet.as_deref().map_or(&none, |subnet| self.of(subnet));
        facts.refusing.extend_from_slice(&of_plan.refusing);
        facts.cables.exchanged = exchanged(watched.losses, watched.fabric, &of_plan.torus, status);
        facts.cables.unexpected.extend_from_slice(&of_plan.torus.unexpected);
        facts.routing = routing(status, &of_plan.routing);
        facts.full.extend_from_slice(&of_plan.full);
    }

    fn reset(&mut self) {
        self.last = None;
    }
}

impl PlanSource {
    fn of(&mut self, subnet: &Subnet) -> &PlanFacts {
        let last = self.last.take().filter(|(of, _)| *of == subnet.generation);
        &self.last.insert(last.unwrap_or_else(|| (subnet.generation, plan_facts(subnet)))).1
    }
}

fn plan_facts(subnet: &Subnet) -> PlanFacts {
    let Subnet { fabric, plan, summary, devices, .. } = subnet;
    let failed = &plan.routing.routing_errors;
    let fallback = failed.first().map(|error| {
        let reason = error.reason().map_or_else(String::new, |reason| format!(": {reason}"));
        format!("{} routes the fabric instead of {}{reason}", plan.routing.engine, error.engine)
    });
    let repair = subnet.repair();
    let repaired = repair.map(|repair| format!("routed around damage: {}", repair.summary));
    let unrouted = summary.unrouted;
    let routing = RoutingFacts {
        rejected: None,
        repaired,
        fallback,
        credit_loop: summary
            .cycle
            .as_ref()
            .map(|cycle| format!("the routes in force have a credit loop: {cycle}")),
        unrouted: (unrouted.hosts > 0).then(|| {
            let pairs = counted(unrouted.hosts, "pair of hosts has", "pairs of hosts have");
            format!("{pairs} no route")
        }),
        repairs: repair.map_or_else(Vec::new, |repair| repair.restored_by.clone()),
    };
    let mut seen = BTreeSet::new();
    let silent: BTreeSet<_> = fabric.unresponsive().map(|id| fabric.node(id).guid()).collect();
    let refused = devices.refused.iter().map(|set| set.node);
    let refusing = refused.chain(devices.silent.iter().copied()).filter(|guid| {
        !silent.contains(guid) && fabric.node_by_guid(*guid).is_some() && seen.insert(*guid)
    });
    let texts: Vec<String> = devices.notes(fabric).into_iter().map(|note| note.text).collect();
    let refusing = refusing.map(|guid| {
        let node = fabric.node_by_guid(guid).map(|id| fabric.node(id));
        let name = node.map_or_else(String::new, |node| node.name().to_string());
        let text = texts.iter().find(|text| text.contains(&guid.to_string()));
        RefusingDevice {
            guid,
            name: format!("\"{name}\" ({guid})"),
            text: text.map_or_else(String::new, String::clone),
        }
    });
    PlanFacts {
        refusing: refusing.collect(),
        torus: torus_cables(subnet),
        full: full(subnet),
        routing,
    }
}

/// Unexpected and swapped cables of a torus, or swapped ones of a fat tree. A swapped cable may mislead the placement of switches, so
/// that others look unexpected: the exchange explains them.
fn torus_cables(subnet: &Subnet) -> TorusCables {
    let Subnet { fabric, plan, options, .. } = subnet;
    let engines = options.engines();
    let is_torus =
        engines.split(',').any(|engine| engine.trim().eq_ignore_ascii_case("torus-2QoS"));
    let unexpected = match torus_cables::unexpected(fabric, plan) {
        Some(unexpected) if unexpected.is_empty() => return TorusCables::default(),
        Some(unexpected) => unexpected,
        None if is_torus => Vec::new(),
        None => {
            let exchanged = tree_links::swapped(fabric).or_else(|| tree_levels::swapped(fabric));
            let exchanged = exchanged.into_iter().collect();
            return TorusCables { unexpected: Vec::new(), exchanged };
        }
    };
    match grid_squares::swapped(fabric) {
        Some(exchanged) => TorusCables { unexpected: Vec::new(), exchanged: vec![exchanged] },
        None => TorusCables { unexpected, exchanged: Vec::new() },
    }
}

/// OpenSM's number of the note about a port whose P_Key table is too small.
const PKEY_OVERFLOW: &str = "0512";

/// Number spaces that are used up.
fn full(subnet: &Subnet) -> Vec<FullSpace> {
    full_lids(subnet).into_iter().chain(full_mlids(subnet)).chain(full_pkeys(subnet)).collect()
}

/// All MLIDs that the smallest multicast forwarding table has entries for have groups. The first MLID is
/// kept for the broadcast group of IPoIB.
fn full_mlids(subnet: &Subnet) -> Option<FullSpace> {
    let first = Mlid::FIRST.0;
    let room = usize::from(last_mlid(&subnet.fabric).0 - first);
    let used = subnet.plan.multicast.sls.iter().filter(|(mlid, _)| mlid.0 != first).count();
    let text = format!(
        "all {room} MLIDs of groups are in use: the switches have no multicast entries for further \
         groups, which share MLIDs or are denied"
    );
    (used >= room).then_some(FullSpace { space: "MLIDs", text })
}

/// Ports that do not get all their P_Keys.
fn full_pkeys(subnet: &Subnet) -> Option<FullSpace> {
    let overflows: Vec<&Note> =
        subnet.plan.notes.iter().filter(|note| note.code == Some(PKEY_OVERFLOW)).collect();
    let first = overflows.first()?;
    let ports = counted(overflows.len(), "port", "ports");
    let text = format!("P_Key tables of {ports} are full, the first: {}", first.text);
    Some(FullSpace { space: "P_Keys", text })
}

/// End ports without a LID because all are in use.
fn full_lids(subnet: &Subnet) -> Option<FullSpace> {
    let Subnet { fabric, plan, .. } = subnet;
    let without = fabric.end_ports().filter(|&port| plan.lids.base(port).is_none()).count();
    let caps = fabric.switch_ids().map(|id| fabric.switch(id).switch_info.linear_fdb_cap());
    // No table has an entry for its capacity itself, nor is 0 a LID.
    let room = caps.filter(|&cap| cap > 1).min().map_or(usize::MAX, |cap| usize::from(cap) - 1);
    let used = plan.lids.iter().count();
    // Ports also lack LIDs for other reasons while there is room.
    let is_full =
        without > 0 && used + (1 << subnet.options.lmc) > room.min(Lid::UNICAST_MAX.index());
    let ports = counted(without, "port gets", "ports get");
    let text = format!("all LIDs are in use: {ports} none and cannot be reached");
    is_full.then_some(FullSpace { space: "LIDs", text })
}

/// Swapped cables: those that a torus shows, and those whose places were exchanged. In a torus, cables
/// that were exchanged and fit are where they belong now.
fn exchanged(
    losses: &Register,
    fabric: &Fabric,
    torus: &TorusCables,
    status: &LoopStatus,
) -> Vec<ExchangedCables> {
    let routing = status.subnet.as_ref().map(|subnet| &subnet.plan.routing);
    let is_torus = routing.is_some_and(|routing| routing.engine == "torus-2QoS");
    let found = torus.exchanged.iter().flat_map(|it| &it.cables);
    let unexpected = torus.unexpected.iter().chain(found);
    let unexpected: BTreeSet<[End; 2]> = unexpected.map(Cable::key).collect();
    let before: Vec<ExchangedCables> = losses
        .exchanged(fabric)
        .into_iter()
        .filter(|it| !is_torus || it.cables.iter().any(|cable| unexpected.contains(&cable.key())))
        .collect();
    let known: BTreeSet<[End; 2]> =
        before.iter().flat_map(|it| &it.cables).map(Cable::key).collect();
    let others = torus.exchanged.iter();
    let others = others.filter(|it| !it.cables.iter().any(|cable| known.contains(&cable.key())));
    before.iter().chain(others).cloned().collect()
}

fn routing(status: &LoopStatus, in_force: &RoutingFacts) -> RoutingFacts {
    let Some(plan) = &status.rejected else { return in_force.clone() };
    let headline = plan.headline.clone();
    let notes = plan.notes.iter().filter(|note| note.severity == Severity::Warning);
    let repairs: Vec<String> = notes.map(|note| note.text.clone()).collect();
    let rejected = Some(format!("no valid plan, the devices keep their tables: {headline}"));
    RoutingFacts { rejected, repairs, ..in_force.clone() }
}
