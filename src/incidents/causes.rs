//! Causes: what facts come down to, with the symptoms of each folded under it.

use super::cause::{IncidentCause, Subject, listed};
use super::fact::{
    Cable, CableDefect, DuplicateGuid, ExchangedCables, Facts, FaultyCable, KnownNode, RoutingFacts,
};
use super::incident::{IncidentSeverity, Kind, Losses, MAX_LINES};
use super::outages::Outage;
use crate::fabric::End;
use crate::ids::Guid;
use crate::ids::PortNum;
use crate::notes::counted;
use std::collections::{BTreeMap, BTreeSet};

/// The causes of these facts, one for each subject.
pub fn causes(facts: &Facts) -> Vec<IncidentCause> {
    let exchanged = exchanged_cables(&facts.cables.exchanged);
    let mut causes: Vec<IncidentCause> = facts.cables.exchanged.iter().map(exchange).collect();
    causes.extend(outages(facts));
    causes.extend(facts.cables.faulty.iter().map(faulty_cable));
    let unexpected = facts.cables.unexpected.iter().filter(|it| !exchanged.contains(&it.key()));
    causes.extend(unexpected.map(|cable| {
        IncidentCause::new(
            Subject::Cable(cable.key()),
            Kind::UnexpectedCable,
            IncidentSeverity::Warning,
            format!("the cable {cable} is unexpected: no direction of the torus leads along it"),
        )
        .because("no route uses it")
        .repaired_by(format!("check where both plugs of the cable {cable} belong"))
    }));
    let unlisted = facts.cables.unlisted.iter().filter(|it| !exchanged.contains(&it.key()));
    causes.extend(unlisted.map(unlisted_cable));
    causes.extend(devices(facts));
    causes.extend(others(facts));
    causes.extend(facts.losses.returned_cables.iter().flat_map(returned));
    let mut causes = one_for_each_subject(causes);
    add_routing(&mut causes, &facts.routing);
    if let Some(sentence) = &facts.losses.next_failure {
        let lost = causes.iter_mut().filter(|cause| cause.kind.is_rerouted() && !cause.is_over);
        lost.for_each(|cause| cause.risks.push(sentence.clone()));
    }
    causes
}

fn unlisted_cable(cable: &Cable) -> IncidentCause {
    IncidentCause::new(
        Subject::Cable(cable.key()),
        Kind::UnexpectedCable,
        IncidentSeverity::Warning,
        format!("the cable {cable} is unexpected: topo_config_file does not list it"),
    )
    .because("routes may use it all the same")
    .repaired_by(format!(
        "check where both plugs of the cable {cable} belong, or add it to the file"
    ))
}

fn exchanged_cables(exchanged: &[ExchangedCables]) -> BTreeSet<[End; 2]> {
    exchanged.iter().flat_map(|it| it.cables.iter().map(|cable| cable.key())).collect()
}

/// Keeps the most significant cause of each subject; the headlines of the others are its evidence.
fn one_for_each_subject(causes: Vec<IncidentCause>) -> Vec<IncidentCause> {
    let mut by_subject: BTreeMap<Subject, IncidentCause> = BTreeMap::new();
    for cause in causes {
        match by_subject.get_mut(&cause.subject) {
            None => {
                by_subject.insert(cause.subject.clone(), cause);
            }
            // A loss that is over is no evidence of a present fault.
            Some(_) if cause.is_over => {}
            Some(first) => {
                first.severity = first.severity.max(cause.severity);
                first.evidence.push(cause.headline);
                first.covers.extend(cause.covers);
            }
        }
    }
    // A cable that another cause explains has no incident of its own.
    let covered: BTreeSet<String> = by_subject
        .values()
        .flat_map(|cause| {
            let own = cause.subject.id();
            cause.covers.iter().filter(move |id| **id != own).cloned()
        })
        .collect();
    by_subject.into_values().filter(|cause| !covered.contains(&cause.subject.id())).collect()
}

fn outages(facts: &Facts) -> Vec<IncidentCause> {
    let flapping = facts.cables.faulty.iter().filter(|it| is_flapping(it));
    let flapping: BTreeSet<[End; 2]> = flapping.map(|it| it.cable.key()).collect();
    let exchanged: BTreeSet<[End; 2]> = facts
        .cables
        .exchanged
        .iter()
        .flat_map(|it| &it.cables)
        .flat_map(|cable| cable.key().map(|end| [end, end]))
        .collect();
    let cables: Vec<_> = facts
        .losses
        .cables
        .iter()
        .filter(|cable| {
            let ends = cable.key();
            !flapping.contains(&ends) && !ends.iter().any(|&end| exchanged.contains(&[end, end]))
        })
        .cloned()
        .collect();
    let lost = Outage {
        nodes: facts.losses.nodes.iter().map(|node| (node.guid, node)).collect(),
        cables: &cables,
        unanswered: facts.losses.unanswered.iter().map(super::fact::CableEnd::end).collect(),
        is_silence: false,
    };
    let mut causes = lost.causes(&BTreeSet::new());
    let gone: BTreeSet<Guid> = lost.nodes.keys().copied().collect();
    let silent = Outage {
        nodes: facts.losses.silent_nodes.iter().map(|node| (node.guid, node)).collect(),
        cables: &[],
        unanswered: BTreeSet::new(),
        is_silence: true,
    };
    let silent_causes = silent.causes(&gone);
    if !facts.losses.is_mass_silence {
        causes.extend(silent_causes);
        return causes;
    }
    let count = facts.losses.silent_nodes.len();
    let mut cause = IncidentCause::new(
        Subject::MassSilence,
        Kind::MassSilence,
        IncidentSeverity::Critical,
        format!("{}, and nothing shows that they are gone", silent_count(count)),
    )
    .because("SMPs are lost, or management agents hang; the tables in force stay")
    .repaired_by("check the links and switches next to this SM");
    cause.covers.extend(silent_causes.into_iter().flat_map(|silent| silent.covers));
    cause.takes.names = listed(facts.losses.silent_nodes.iter().map(|node| node.name.clone()));
    causes.push(cause);
    causes
}

fn silent_count(count: usize) -> String {
    counted(count, "device does not answer", "devices do not answer")
}

fn is_flapping(faulty: &FaultyCable) -> bool {
    matches!(faulty.fault, CableDefect::Flapping { .. })
}

fn exchange(exchanged: &ExchangedCables) -> IncidentCause {
    let [one, other] = &exchanged.cables;
    let [plug, other_plug] = &exchanged.plugs;
    let ends = one.key().into_iter().chain(other.key());
    let subject = Subject::Exchange(ends.min().unwrap_or(one.key()[0]));
    let mut cause = IncidentCause::new(
        subject,
        Kind::SwappedCables,
        IncidentSeverity::Warning,
        format!("two cables are swapped: exchange these two plugs: {plug} and {other_plug}"),
    )
    .because(format!("{one} and {other} are plugged in; {}", exchanged.reason))
    .repaired_by(format!("exchange these two plugs: {plug} and {other_plug}"));
    let cables = exchanged.cables.iter().map(|cable| Subject::Cable(cable.key()).id());
    cause.covers.extend(cables);
    cause.takes.links = 2;
    cause
}

fn faulty_cable(faulty: &FaultyCable) -> IncidentCause {
    let cable = &faulty.cable;
    let subject = Subject::Cable(cable.key());
    match &faulty.fault {
        CableDefect::Flapping { downs, is_quarantined } => {
            let cause = IncidentCause::new(
                subject,
                Kind::FlappingCable,
                IncidentSeverity::Warning,
                format!("the cable {cable} flaps"),
            )
            .repaired_by(format!("reseat the cable {cable}, then replace it"));
            let times = counted(*downs as usize, "time", "times");
            let mut cause = cause.because(format!("it went down {times} or more within a minute"));
            cause.covers.extend(hosts_at(cable));
            if *is_quarantined {
                return IncidentCause { takes: Losses { links: 1, ..Losses::default() }, ..cause }
                    .because("it is quarantined: no route uses it until it is calm");
            }
            cause
        }
        CableDefect::Degraded { has, could } => IncidentCause::new(
            subject,
            Kind::DegradedCable,
            IncidentSeverity::Warning,
            format!("the cable {cable} is degraded: it runs at {has} instead of {could}"),
        )
        .because(format!("both ends support and enable {could}"))
        .repaired_by(format!("reseat the cable {cable}, then replace it")),
        CableDefect::Erroring { text } => IncidentCause::new(
            subject,
            Kind::ErroringCable,
            IncidentSeverity::Warning,
            format!("the cable {cable} has errors"),
        )
        .because(text)
        .repaired_by(format!("clean or reseat the cable {cable}, then replace it")),
    }
}

/// The losses of a cable, and of a host at its end, that are over.
fn returned(cable: &Cable) -> Vec<IncidentCause> {
    let own = cause_over(
        cable,
        Subject::Cable(cable.key()),
        Kind::LostCable,
        format!("the cable {cable}"),
    );
    let hosts = cable.ends().iter().filter(|end| !end.is_switch).map(|end| {
        let name = format!("the host \"{}\" ({})", end.name, end.guid);
        cause_over(cable, Subject::Node(end.guid), Kind::LostHost, name)
    });
    [own].into_iter().chain(hosts).collect()
}

fn cause_over(cable: &Cable, subject: Subject, kind: Kind, name: String) -> IncidentCause {
    let headline = format!("{name} was lost and is back");
    let cause = IncidentCause::new(subject, kind, IncidentSeverity::Warning, headline)
        .because("the incident ends a minute after the loss unless there is another one")
        .repaired_by(format!("reseat the cable {cable} if it is lost again"));
    IncidentCause { is_over: true, ..cause }
}

/// Identifiers of the hosts at a cable.
fn hosts_at(cable: &Cable) -> impl Iterator<Item = String> {
    cable.ends().iter().filter(|end| !end.is_switch).map(|end| Subject::Node(end.guid).id())
}

fn devices(facts: &Facts) -> Vec<IncidentCause> {
    let refusing = facts.refusing.iter().map(|device| {
        IncidentCause::new(
            Subject::Node(device.guid),
            Kind::RefusingDevice,
            IncidentSeverity::Warning,
            format!("{} does not take its configuration", device.name),
        )
        .because(&device.text)
        .repaired_by(format!("update the firmware of {}, or restart it", device.name))
    });
    let duplicates = facts.duplicates.iter().map(|it| duplicate(it, &facts.losses.nodes));
    refusing.chain(duplicates).collect()
}

/// Two devices with one GUID. A lost node that was at the place of one of them is this device.
fn duplicate(it: &DuplicateGuid, lost: &[KnownNode]) -> IncidentCause {
    let [first, second] = &it.places;
    let owner = if it.is_port { "ports" } else { "nodes" };
    let mut cause = IncidentCause::new(
        Subject::Duplicate(it.guid),
        Kind::DuplicateGuid,
        IncidentSeverity::Critical,
        format!("two {owner} have the GUID {}, behind {first} and behind {second}", it.guid),
    )
    .because("both answered NodeInfo with this GUID; only the first one is in the subnet")
    .repaired_by(format!("give the device behind {second} a GUID of its own"));
    cause.covers.insert(Subject::Node(it.guid).id());
    for (end, place) in it.ends.iter().zip(&it.places) {
        let Some(before) =
            lost.iter().find(|node| node.cables.iter().any(|cable| is_here(end, cable)))
        else {
            continue;
        };
        let KnownNode { guid, name, .. } = before;
        cause.evidence.push(format!("\"{name}\" ({guid}) was behind {place} before"));
        cause.repair = format!("give the device behind {place} its GUID {guid} again");
        cause.covers.insert(Subject::Node(*guid).id());
    }
    cause
}

fn is_here(end: &Option<(Guid, PortNum)>, cable: &Cable) -> bool {
    end.is_some_and(|end| cable.key().contains(&end))
}

fn others(facts: &Facts) -> Vec<IncidentCause> {
    let unanswered = unanswered(facts);
    let managers = facts.managers.iter().map(|manager| {
        let subject = Subject::Manager(manager.guid);
        IncidentCause::new(
            subject,
            Kind::ForeignManager,
            IncidentSeverity::Critical,
            manager.text.clone(),
        )
        .because(format!("the other subnet manager is at port GUID {}", manager.guid))
        .repaired_by("stop one of the two, or set the same sm_key for both")
    });
    let full = facts.full.iter().map(|it| {
        IncidentCause::new(
            Subject::Full(it.space),
            Kind::FullTable,
            IncidentSeverity::Critical,
            it.text.clone(),
        )
        .because("the last plan needs more than there are")
        .repaired_by(format!("reduce the number of {} in use", it.space))
    });
    let floods = facts.floods.iter().map(|it| {
        let headline =
            format!("the client \"{}\" (LID {}) floods: {}", it.name, it.lid, it.offence);
        let subject = Subject::Client(it.lid, it.offence);
        IncidentCause::new(subject, Kind::FloodingClient, IncidentSeverity::Warning, headline)
            .because("its requests are limited; others are served")
            .repaired_by(format!("find the program on \"{}\" that sends them", it.name))
    });
    let own = facts.own.iter().map(|it| {
        IncidentCause::new(
            Subject::Own(it.resource),
            Kind::OwnResource,
            IncidentSeverity::Warning,
            it.text.clone(),
        )
        .repaired_by(&it.repair)
    });
    unanswered.into_iter().chain(managers).chain(full).chain(floods).chain(own).collect()
}

/// The devices that never answered. Ports of nodes that did, and of duplicates, belong to these.
fn unanswered(facts: &Facts) -> Option<IncidentCause> {
    let nodes = facts.losses.nodes.iter().chain(&facts.losses.silent_nodes);
    let known: BTreeSet<End> =
        nodes.flat_map(|node| &node.cables).flat_map(super::fact::Cable::key).collect();
    let ends: Vec<String> = facts
        .losses
        .unanswered
        .iter()
        .filter(|end| !known.contains(&end.end()))
        .map(ToString::to_string)
        .collect();
    let (first, others) = ends.split_first()?;
    let place = match others.len() {
        0 => first.clone(),
        more => format!("{first} and {}", counted(more, "other port", "other ports")),
    };
    let severity =
        if others.is_empty() { IncidentSeverity::Warning } else { IncidentSeverity::Critical };
    let headline = format!("nothing answers behind {place}, although the link is up");
    let cause = IncidentCause::new(Subject::Unanswered, Kind::SilentDevice, severity, headline);
    let cause = IncidentCause {
        evidence: listed(ends.iter().map(|end| format!("no answer behind {end}"))),
        ..cause
    };
    Some(
        cause.repaired_by(
            "restart the device there; if it works, it is protected by an unknown M_Key",
        ),
    )
}

/// The repair of routes whose engine names none.
fn routing_repair(kind: Kind, is_fallback: bool) -> &'static str {
    match kind {
        _ if is_fallback => "repair what keeps the first engine from routing the fabric",
        Kind::CreditLoop => {
            "set routing_engine to one that closes no credit loop, such as torus-2QoS for a torus, or \
             ftree or updn for a tree"
        }
        Kind::RepairedRouting => {
            "add the missing switches and cables: torus-sm status names those that restore most"
        }
        _ => "see the messages of torus-sm status",
    }
}

/// Adds the state of the routes: as risks of the cause that they follow from, else as a cause.
fn add_routing(causes: &mut Vec<IncidentCause>, routing: &RoutingFacts) {
    let findings = [
        (Kind::RejectedRouting, IncidentSeverity::Critical, &routing.rejected),
        (Kind::CreditLoop, IncidentSeverity::Critical, &routing.credit_loop),
        (Kind::UnroutedPairs, IncidentSeverity::Critical, &routing.unrouted),
        (Kind::FallbackRouting, IncidentSeverity::Warning, &routing.fallback),
        (Kind::RepairedRouting, IncidentSeverity::Warning, &routing.repaired),
    ];
    let mut found = findings.into_iter().filter_map(|(kind, severity, text)| {
        text.as_ref().map(|text| (kind, severity, text.clone()))
    });
    let physical = causes.iter_mut().filter(|cause| cause.kind.affects_routing() && !cause.is_over);
    let main = physical.max_by_key(|cause| {
        (
            cause.severity,
            cause.takes.switches,
            cause.takes.links,
            std::cmp::Reverse(cause.subject.clone()),
        )
    });
    if let Some(cause) = main {
        for (_, severity, text) in found {
            cause.severity = cause.severity.max(severity);
            cause.risks.push(text);
        }
        cause.risks.extend(routing.repairs.iter().take(MAX_LINES).cloned());
        cause.covers.insert(Subject::Routing.id());
        return;
    }
    let Some((kind, severity, text)) = found.next() else { return };
    let is_fallback = routing.fallback.is_some();
    let mut cause = IncidentCause::new(Subject::Routing, kind, severity, text);
    cause.risks = found.map(|(_, _, text)| text).collect();
    cause.repair = match routing.repairs.first() {
        Some(repair) => repair.clone(),
        None => routing_repair(kind, is_fallback).to_owned(),
    };
    causes.push(cause);
}
