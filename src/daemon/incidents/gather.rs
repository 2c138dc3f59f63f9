//! Facts from what the SM loop and the performance manager publish. What depends on a snapshot or plan
//! alone is derived once for each.

use super::floods::ObservedFlood;
use crate::fabric::quarantined::QuarantineCause;
use crate::fabric::{End, Fabric};
use crate::ids::{Lid, Mlid};
use crate::incidents::fact::{
    Cable, CableEnd, CableFault, DuplicateGuid, ExchangedCables, Facts, FaultyCable, Flood,
    ForeignManager, FullSpace, KnownNode, OwnFault, RefusingDevice, Reroute, RoutingFacts,
};
use crate::incidents::losses::Register;
use crate::incidents::torus_cables::{self, TorusCables};
use crate::incidents::{grid_squares, next_failure, survey, tree_links};
use crate::manage::loop_status::{LoopStatus, ReconfigureResult};
use crate::notes::{Note, Severity, counted};
use crate::perfmgr::status::PerfStatus;
use crate::publish::Subnet;
use crate::sa::registry::last_mlid;
use chrono::{DateTime, Utc};
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Links that went down so often within a minute flap: those of switches, and those of hosts, which go
/// down two or three times while they boot.
const MIN_FLAPS: [usize; 2] = [3, 5];

/// Increases between two readings from which on a cable has errors, by counter: its number in the
/// database, name and increase. Single symbol errors and dropped packets are usual.
const ERROR_LIMITS: [(usize, &str, u64); 5] = [
    (0, "symbol errors", 100),
    (1, "link error recoveries", 1),
    (3, "receive errors", 100),
    (9, "local link integrity errors", 1),
    (10, "excessive buffer overruns", 1),
];

/// Results that hold as long as their input.
#[derive(Default)]
pub struct Gathered {
    snapshot: Option<(Arc<Fabric>, SnapshotFacts)>,
    /// The generation of a published subnet, and its facts.
    plan: Option<(u64, PlanFacts)>,
    /// The time of the last reconfiguration that was reported.
    last_reroute: Option<DateTime<Utc>>,
}

#[derive(Clone, Default)]
struct SnapshotFacts {
    silent: Vec<KnownNode>,
    unanswered: Vec<CableEnd>,
    duplicates: Vec<DuplicateGuid>,
    degraded: Vec<FaultyCable>,
    /// The worst further failure, computed when something is lost.
    next_failure: OnceCell<Option<String>>,
}

#[derive(Clone, Default)]
struct PlanFacts {
    routing: RoutingFacts,
    torus: TorusCables,
    refusing: Vec<RefusingDevice>,
    full: Vec<FullSpace>,
}

impl Gathered {
    /// What is wrong now, without floods.
    pub fn facts(
        &mut self,
        status: &LoopStatus,
        perf: &PerfStatus,
        fabric: &Arc<Fabric>,
        losses: &Register,
    ) -> Facts {
        let lost_nodes = losses.nodes().to_vec();
        let unused = quarantined(status);
        let missing = losses.cables().filter(|cable| !unused.contains(&cable.key()));
        let lost_cables: Vec<Cable> = missing.cloned().collect();
        let has_losses = !lost_nodes.is_empty() || !lost_cables.is_empty();
        let snapshot = self.snapshot_facts(fabric);
        let next_failure = has_losses
            .then(|| snapshot.next_failure.get_or_init(|| next_failure::worst(fabric)).clone());
        let snapshot = snapshot.clone();
        let plan = status.subnet.as_deref().map(|subnet| self.plan_facts(subnet).clone());
        let plan = plan.unwrap_or_default();
        let torus = plan.torus;
        let mut faulty_cables = flapping(status, fabric);
        faulty_cables.extend(error_traps(status, fabric));
        faulty_cables.extend(snapshot.degraded);
        faulty_cables.extend(counted_errors(perf, fabric));
        Facts {
            lost_nodes,
            lost_cables,
            silent_nodes: snapshot.silent,
            unanswered: snapshot.unanswered,
            is_mass_silence: status.unresponsive.is_alarm,
            refusing: plan.refusing,
            duplicates: snapshot.duplicates,
            faulty_cables,
            exchanged: exchanged(losses, fabric, &torus, status),
            unexpected_cables: torus.unexpected,
            unlisted_cables: Vec::new(),
            managers: managers(status),
            routing: routing(status, plan.routing),
            full: plan.full,
            floods: Vec::new(),
            own: own(status),
            next_failure: next_failure.flatten(),
            reroute: self.reroute(status),
        }
    }

    fn snapshot_facts(&mut self, fabric: &Arc<Fabric>) -> &SnapshotFacts {
        let last = self.snapshot.take().filter(|(of, _)| Arc::ptr_eq(of, fabric));
        let facts = last.map_or_else(
            || SnapshotFacts {
                silent: survey::silent_nodes(fabric),
                unanswered: survey::unanswered(fabric),
                duplicates: survey::duplicates(fabric),
                degraded: survey::degraded_links(fabric),
                next_failure: OnceCell::new(),
            },
            |(_, facts)| facts,
        );
        &self.snapshot.insert((fabric.clone(), facts)).1
    }

    fn plan_facts(&mut self, subnet: &Subnet) -> &PlanFacts {
        let last = self.plan.take().filter(|(of, _)| *of == subnet.generation);
        let facts = last.map_or_else(|| plan_facts(subnet), |(_, facts)| facts);
        &self.plan.insert((subnet.generation, facts)).1
    }

    /// The last reconfiguration that wrote routes, unless it was reported before.
    fn reroute(&mut self, status: &LoopStatus) -> Option<Reroute> {
        let is_reroute = |record: &&crate::manage::loop_status::ReconfigureRecord| {
            record.result == ReconfigureResult::Up && record.figures.lft_blocks > 0
        };
        let record = status.reconfigurations.iter().rev().find(is_reroute)?;
        if self.last_reroute.replace(record.ended) == Some(record.ended) {
            return None;
        }
        let time = record.trap_to_tables.unwrap_or(record.figures.total);
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Some(Reroute { milliseconds, sets: record.figures.sets as u64 })
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
            text: text.cloned().unwrap_or_default(),
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
    let unexpected = torus_cables::unexpected(fabric, plan);
    if unexpected.is_none() && !is_torus {
        let exchanged = tree_links::swapped(fabric).into_iter().collect();
        return TorusCables { unexpected: Vec::new(), exchanged };
    }
    if unexpected.as_ref().is_some_and(Vec::is_empty) {
        return TorusCables::default();
    }
    match grid_squares::swapped(fabric) {
        Some(exchanged) => TorusCables { unexpected: Vec::new(), exchanged: vec![exchanged] },
        None => TorusCables { unexpected: unexpected.unwrap_or_default(), exchanged: Vec::new() },
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
    let is_overflow = |note: &&Note| note.code == Some(PKEY_OVERFLOW);
    let overflows: Vec<&Note> = subnet.plan.notes.iter().filter(is_overflow).collect();
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

/// The cable between two ports as it is named in `fabric`, plugged in or not.
fn named(fabric: &Fabric, ends: [End; 2]) -> Cable {
    let [one, other] = ends.map(|(guid, port)| {
        let node = fabric.node_by_guid(guid).map(|id| fabric.node(id));
        CableEnd {
            guid,
            port,
            name: node.map_or_else(|| guid.to_string(), |node| node.name().to_string()),
            is_switch: node.is_some_and(crate::fabric::Node::is_switch),
        }
    });
    Cable::new(one, other)
}

/// Links that are treated as down, although they are plugged in.
fn quarantined(status: &LoopStatus) -> BTreeSet<[End; 2]> {
    let published = status.subnet.iter().flat_map(|subnet| &subnet.devices.quarantined);
    let flapping = status.link_downs.iter().filter(|link| link.is_quarantined);
    published.map(|link| link.ends).chain(flapping.map(|link| link.ends)).collect()
}

fn flapping(status: &LoopStatus, fabric: &Fabric) -> Vec<FaultyCable> {
    let links = status.link_downs.iter().map(|link| {
        let cable = named(fabric, link.ends);
        let limit = MIN_FLAPS[usize::from(!cable.joins_switches())];
        let is_flapping = link.is_quarantined || link.downs >= limit;
        let downs = link.downs.max(limit) as u32;
        let fault = CableFault::Flapping { downs, is_quarantined: link.is_quarantined };
        is_flapping.then_some(FaultyCable { cable, fault })
    });
    links.flatten().collect()
}

/// Cables whose ports report errors by traps.
fn error_traps(status: &LoopStatus, fabric: &Fabric) -> Vec<FaultyCable> {
    let quarantined = status.subnet.iter().flat_map(|subnet| &subnet.devices.quarantined);
    let reported = quarantined.filter_map(|link| match link.cause {
        QuarantineCause::Errors((guid, num)) => Some((link.ends, guid, num)),
        _ => None,
    });
    let fault = |(ends, guid, num)| {
        let text = format!("{guid}[{num}] reports errors of the link by traps; it is quarantined");
        FaultyCable { cable: named(fabric, ends), fault: CableFault::Erroring { text } }
    };
    reported.map(fault).collect()
}

/// Cables at ports whose error counters grow.
fn counted_errors(perf: &PerfStatus, fabric: &Fabric) -> Vec<FaultyCable> {
    let mut faulty = Vec::new();
    for node in perf.database.nodes().filter(|node| node.is_active) {
        let Some(id) = fabric.node_by_guid(node.guid) else { continue };
        for (num, port) in node.valid_ports() {
            let increase = port.recent_errors.0;
            let above = ERROR_LIMITS.iter().filter(|(at, _, limit)| increase[*at] >= *limit);
            let texts: Vec<String> =
                above.map(|(at, name, _)| format!("{} {name}", increase[*at])).collect();
            if texts.is_empty() {
                continue;
            }
            let slot = fabric.port_of(id, num.into());
            let Some(cable) = slot.and_then(|slot| Cable::of(fabric, slot)) else { continue };
            let text = format!(
                "\"{}\"[{num}] counts {} between two readings",
                node.name,
                texts.join(", ")
            );
            faulty.push(FaultyCable { cable, fault: CableFault::Erroring { text } });
        }
    }
    faulty
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
    let is_wrong = |it: &ExchangedCables| {
        let is_unexpected = |cable: &Cable| unexpected.contains(&cable.key());
        !is_torus || it.cables.iter().any(is_unexpected)
    };
    let before: Vec<ExchangedCables> =
        losses.exchanged(fabric).into_iter().filter(is_wrong).collect();
    let known: BTreeSet<[End; 2]> =
        before.iter().flat_map(|it| &it.cables).map(Cable::key).collect();
    let others = torus.exchanged.iter();
    let others = others.filter(|it| !it.cables.iter().any(|cable| known.contains(&cable.key())));
    before.iter().chain(others).cloned().collect()
}

fn managers(status: &LoopStatus) -> Vec<ForeignManager> {
    let foreign = status.foreign_master.iter().map(|master| ForeignManager {
        guid: master.guid,
        text: format!(
            "the subnet manager on {} is master with another SM_Key, so that this one waits",
            master.node
        ),
    });
    foreign.collect()
}

fn routing(status: &LoopStatus, in_force: RoutingFacts) -> RoutingFacts {
    let Some(refused) = &status.refused else { return in_force };
    let headline = refused.headline.clone();
    let notes = refused.notes.iter().filter(|note| note.severity == Severity::Warning);
    let repairs: Vec<String> = notes.map(|note| note.text.clone()).collect();
    let rejected = Some(format!("no valid plan, the devices keep their tables: {headline}"));
    RoutingFacts { rejected, repairs, ..in_force }
}

/// What is wrong for an SM that is not master.
pub fn facts_of_waiting(status: &LoopStatus) -> Facts {
    Facts { managers: managers(status), own: own(status), ..Facts::default() }
}

/// Resources of this program.
fn own(status: &LoopStatus) -> Vec<OwnFault> {
    let config = status.config.error.as_ref().map(|error| OwnFault {
        resource: "configuration",
        text: format!(
            "the configuration has errors, and older values stay in force: {}",
            error.lines().next().unwrap_or_default()
        ),
        repair: "correct the file, then reload the configuration".to_owned(),
    });
    let files = status.file_problems.get().map(|problem| OwnFault {
        resource: "files",
        text: format!("files cannot be written: {problem}"),
        repair: "free space, or correct the permissions of the folder".to_owned(),
    });
    config.into_iter().chain(files).collect()
}

/// A flood with the name of its client.
pub fn flood(status: &LoopStatus, flood: ObservedFlood) -> Flood {
    let port = status.subnet.as_ref().and_then(|subnet| {
        let port = subnet.plan.lids.port(flood.lid)?;
        Some(subnet.fabric.node_of(port).name().to_string())
    });
    Flood {
        lid: flood.lid.0,
        name: port.unwrap_or_else(|| "unknown".to_owned()),
        offence: flood.offence.name(),
        count: flood.count,
    }
}
