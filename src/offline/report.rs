//! Text form of the report.

use super::json::*;
use crate::notes::{Note, Severity, counted};
use crate::verify::UnroutedPairs;
use std::fmt::Write as _;

/// Maximum number of placed switches, messages and failures of one cause listed one by one.
const MAX_LISTED: usize = 64;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = writeln!($out, $($part)*);
    }};
}

/// Formats a report; with the coordinates of each switch if `with_placement`.
pub fn text(report: &PlanReport, with_placement: bool) -> String {
    let mut out = fabric_line(&report.fabric);
    put_engine(&mut out, report);
    if let Some(torus) = &report.torus {
        put_torus(&mut out, torus);
        if with_placement {
            put_placement(&mut out, torus);
        }
    }
    if let Some(structure) = &report.structure {
        put_structure(&mut out, structure);
    }
    if let Some(repair) = &report.repair {
        put!(out, "repair:      {}", repair.summary);
    }
    put!(out, "LIDs:        {} in use, the highest is {}", report.lids.count, report.lids.highest);
    if let Some(worst) = &report.worst_link {
        put!(
            out,
            "load:        at most {} on one link, sent by {}",
            counted(worst.lids, "LID", "LIDs"),
            worst.port
        );
    }
    if let Some(mean) = report.mean_link {
        let links = counted(report.links, "direction", "directions");
        put!(out, "  {mean:.1} on average over {links} of links between switches");
    }
    put_lanes(&mut out, report);
    if !report.hops.is_empty() {
        put_hops(&mut out, &report.hops);
    }
    if let Some(checks) = &report.checks {
        put_checks(&mut out, checks);
    }
    put_notes(&mut out, &report.notes);
    if let Some(path) = &report.path {
        put_path(&mut out, path);
    }
    if let Some(matrix) = &report.path_sl {
        put_path_sls(&mut out, matrix);
    }
    if let Some(adaptive) = &report.adaptive {
        put_adaptive(&mut out, adaptive);
    }
    if let Some(traffic) = &report.traffic {
        put_traffic(&mut out, traffic);
    }
    if let Some(what_if) = &report.what_if {
        put_what_if(&mut out, what_if);
    }
    out
}

/// The line about the size of the fabric.
pub(super) fn fabric_line(facts: &FabricFacts) -> String {
    let &FabricFacts { switches, channel_adapters, routers, cables } = facts;
    format!(
        "fabric:      {}, {}, {}, {}\n",
        counted(switches, "switch", "switches"),
        counted(channel_adapters, "channel adapter", "channel adapters"),
        counted(routers, "router", "routers"),
        counted(cables, "cable", "cables")
    )
}

fn put_engine(out: &mut String, report: &PlanReport) {
    let asked = report.engines.join(", ");
    match report.engine {
        Some(engine) if report.fallback => {
            put!(out, "engine:      {engine}, the fallback (of {asked})");
        }
        Some(engine) => put!(out, "engine:      {engine} (of {asked})"),
        None if report.faults.is_empty() => {
            put!(out, "engine:      none: {asked} cannot route this fabric")
        }
        None => put!(out, "engine:      none: the plan failed verification (engines: {asked})"),
    }
    for error in &report.engine_errors {
        for note in error.notes.iter().filter(|note| note.severity >= Severity::Warning) {
            put!(out, "  {}: {note}", error.engine);
        }
    }
    for fault in &report.faults {
        put!(out, "  {fault}");
    }
}

fn put_structure(out: &mut String, structure: &StructureFacts) {
    if !structure.ranks.is_empty() {
        let ranks: Vec<String> = structure
            .ranks
            .iter()
            .enumerate()
            .map(|(rank, &switches)| {
                format!("{} of rank {rank}", counted(switches, "switch", "switches"))
            })
            .collect();
        put!(out, "ranks:       {}", ranks.join(", "));
    }
    if let Some(layers) = structure.layers {
        put!(out, "layers:      {layers}");
    }
    if !structure.roots.is_empty() {
        put!(out, "roots:       {}", structure.roots.len());
        for RootSwitch { guid, description } in structure.roots.iter().take(MAX_LISTED) {
            put!(out, "  {guid} \"{description}\"");
        }
        put_more(out, structure.roots.len());
    }
}

fn put_lanes(out: &mut String, report: &PlanReport) {
    if report.sls.is_empty() {
        return;
    }
    put!(out, "SLs:         {} of the paths between hosts", list(&report.sls));
    if !report.vls.is_empty() {
        put!(out, "VLs:         {} between switches", list(&report.vls));
    }
}

/// Numbers separated by commas.
pub(super) fn list(numbers: &[u8]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u8::to_string).collect();
    numbers.join(", ")
}

fn put_torus(out: &mut String, torus: &TorusFacts) {
    let [x, y, z] = std::array::from_fn(|axis| {
        let kind = match (torus.radices[axis], torus.looped[axis]) {
            (1, _) => "",
            (_, true) => " (ring)",
            (_, false) => " (open)",
        };
        format!("{}{kind}", torus.radices[axis])
    });
    let places = torus.placed.len() + torus.missing_switches.len();
    put!(out, "torus:       {x} x {y} x {z}, {} of {places} switches placed", torus.placed.len());
    let broken = torus.broken_rings.len();
    put!(out, "rings:       {}, {broken} of them interrupted", torus.rings);
    for ring in &torus.broken_rings {
        let gaps: Vec<String> = ring.gaps.iter().map(coordinates).collect();
        put!(
            out,
            "  {} ring from {}: interrupted after {}",
            ring.axis,
            coordinates(&ring.first),
            gaps.join(" and ")
        );
    }
    for at in &torus.missing_switches {
        put!(out, "  no switch at {}", coordinates(at));
    }
    for cable in &torus.missing_cables {
        put!(out, "  no cable from {} to {}", coordinates(&cable.from), coordinates(&cable.to));
    }
}

fn put_placement(out: &mut String, torus: &TorusFacts) {
    put!(out, "placement:");
    for Placed { coordinates: at, guid, description } in torus.placed.iter().take(MAX_LISTED) {
        put!(out, "  {:<8} {guid} \"{description}\"", coordinates(at));
    }
    put_more(out, torus.placed.len());
}

fn coordinates([x, y, z]: &[u32; 3]) -> String {
    format!("{x},{y},{z}")
}

fn put_more(out: &mut String, total: usize) {
    if total > MAX_LISTED {
        put!(out, "  … and {} more (all are in --json)", total - MAX_LISTED);
    }
}

fn put_hops(out: &mut String, hops: &[HopCount]) {
    const WIDTH: u64 = 50;
    let most = hops.iter().map(|count| count.paths).max().unwrap_or(1).max(1);
    put!(out, "hops:        number of paths between hosts by length in switches");
    for &HopCount { switches, paths } in hops {
        let bar = "#".repeat((paths * WIDTH).div_ceil(most) as usize);
        put!(out, "  {switches:>3} {paths:>10} {bar}");
    }
}

fn put_checks(out: &mut String, checks: &ChecksFacts) {
    let hosts = checks.unrouted_hosts;
    let with_switches = checks.unrouted_with_switches;
    let unrouted = UnroutedPairs { hosts, with_switches, first: None };
    let reached = match unrouted.counted() {
        Some(pairs) => format!("routed, but {pairs} without a route"),
        None => "reachable from all hosts".to_owned(),
    };
    put!(
        out,
        "verified:    {} {reached}, longest path {}",
        counted(checks.reached_lids, "LID", "LIDs"),
        counted(checks.longest_path as usize, "switch", "switches")
    );
    match &checks.credit_loop {
        None => put!(out, "credit loops: none in {} channel dependencies", checks.dependencies),
        Some(cycle) => put!(out, "credit loops: FOUND: {cycle}"),
    }
    if !checks.left_out.is_empty() {
        put!(out, "unreachable: {}", counted(checks.left_out.len(), "end port", "end ports"));
        for port in checks.left_out.iter().take(MAX_LISTED) {
            put!(out, "  {port}");
        }
        put_more(out, checks.left_out.len());
    }
}

/// Writes messages by severity, errors first.
fn put_notes(out: &mut String, notes: &[Note]) {
    let kinds =
        [(Severity::Error, "errors"), (Severity::Warning, "warnings"), (Severity::Info, "notes")];
    for (severity, heading) in kinds {
        let of_kind = notes.iter().filter(|note| note.severity == severity);
        let total = of_kind.clone().count();
        if total == 0 {
            continue;
        }
        put!(out, "{heading}:");
        of_kind.take(MAX_LISTED).for_each(|note| put!(out, "  {note}"));
        put_more(out, total);
    }
}

fn put_path(out: &mut String, path: &PathFacts) {
    put!(out, "path:        from {}", path.from);
    put!(out, "  to {}, LID {}, SL {}", path.to, path.lid, path.sl);
    for (index, hop) in path.hops.iter().enumerate() {
        let place = hop.coordinates.as_ref();
        let place = place.map_or_else(String::new, |at| format!(" at {}", coordinates(at)));
        let lane = hop.vl.map_or_else(String::new, |vl| format!(", VL {vl}"));
        let others: String = hop.alternatives.iter().map(|port| format!(" or {port}")).collect();
        put!(
            out,
            "  {:>2}. {} \"{}\"{place}: in port {}, out port {}{others}{lane}",
            index + 1,
            hop.guid,
            hop.description,
            hop.input,
            hop.output
        );
    }
    put!(out, "  {}", path.end);
}

fn put_path_sls(out: &mut String, matrix: &PathSlMatrix) {
    put!(
        out,
        "path SLs:    from the host of each row to all hosts in the same order, one hexadecimal digit each"
    );
    for (host, row) in matrix.hosts.iter().zip(&matrix.sl) {
        let digits: String =
            row.iter().map(|&sl| char::from_digit(sl.into(), 16).unwrap_or('?')).collect();
        put!(out, "  {} {:>5} {digits} \"{}\"", host.port_guid, host.lid, host.description);
    }
}

fn put_adaptive(out: &mut String, adaptive: &AdaptiveFacts) {
    let masked = counted(adaptive.static_lids, "LID stays", "LIDs stay");
    put!(
        out,
        "groups:      {} of {} for adaptive routing, {masked} static",
        adaptive.groups,
        adaptive.rule
    );
}

fn put_traffic(out: &mut String, traffic: &TrafficFacts) {
    let patterns = match traffic.samples {
        1 => String::new(),
        samples => format!(", median of {samples}"),
    };
    let adaptive = traffic.busiest_adaptive.as_ref();
    let adaptive =
        adaptive.map_or_else(String::new, |busiest| format!(", {:.1} with groups", busiest.median));
    put!(
        out,
        "traffic:     {}: {:.1} flows on the busiest link{adaptive}, {:.1} if parallel cables shared all flows{patterns}",
        traffic.pattern,
        traffic.busiest_static.median,
        traffic.busiest_shared.median
    );
}

fn put_what_if(out: &mut String, what_if: &WhatIf) {
    let kind = if what_if.at_a_time == 1 { "single" } else { "single and double" };
    put!(
        out,
        "what if:     {} {kind} failures of {} and {}: {} routed, {} routed by another engine, {} \
         not routed",
        what_if.failures.len(),
        counted(what_if.switches, "switch", "switches"),
        counted(what_if.cables, "cable", "cables"),
        what_if.routed,
        what_if.fallback,
        what_if.unrouted
    );
    put_kinds(out, what_if);
    let cutting = what_if.failures.iter().filter(|failure| failure.cut_off > 0).count();
    if cutting > 0 {
        put!(out, "  {} end ports off", counted(cutting, "failure cuts", "failures cut"));
    }
    for cause in &what_if.causes {
        let code = cause
            .code
            .as_deref()
            .map_or_else(|| "without ERR number".into(), |code| format!("ERR {code}"));
        let failures = counted(cause.failures, "failure", "failures");
        put!(out, "  {failures}, {code}:");
        let of_cause = what_if.failures.iter().filter(|failure| {
            failure.reason.as_ref().is_some_and(|reason| reason.code == cause.code)
        });
        for failure in of_cause.clone().take(MAX_LISTED) {
            let why = failure.reason.as_ref().map_or("", |reason| &reason.text);
            put!(out, "    {}: {why}", components(failure));
        }
        put_more(out, of_cause.count());
    }
    put_survivors(out, what_if);
    if !what_if.worst.is_empty() {
        put!(out, "  worst of those that are routed:");
    }
    for failure in &what_if.worst {
        let mut effects = Vec::new();
        if failure.unrouted_pairs > 0 {
            let pairs = counted(failure.unrouted_pairs, "pair of hosts", "pairs of hosts");
            effects.push(format!("{pairs} without a route"));
        }
        effects.extend(
            failure.longest_path.map(|path| {
                format!("longest path {}", counted(path as usize, "switch", "switches"))
            }),
        );
        put!(out, "    {}: {}", components(failure), effects.join(", "));
    }
    if let Some(cure) = &what_if.cure {
        put_cure(out, cure);
    }
}

/// The seed that cures failures, in the syntax of torus-2QoS.conf.
fn put_cure(out: &mut String, cure: &Cure) {
    let which = if cure.seeds == 1 { "a second seed" } else { "another seed" };
    let routed = match cure.routed {
        routed if routed == cure.failures => "routes all of them".to_owned(),
        routed => format!("routes {routed} of them"),
    };
    put!(
        out,
        "cure:        of {} by another engine or not at all, a plan with {which} {routed}",
        counted(cure.failures, "failure that is routed", "failures that are routed")
    );
    put!(out, "  append to torus-2QoS.conf:");
    cure.config.lines().for_each(|line| put!(out, "    {line}"));
}

/// A line for each kind of failure.
fn put_kinds(out: &mut String, what_if: &WhatIf) {
    for kind in &what_if.kinds {
        let name = match kind.kind {
            FailureKind::Switch => "a switch",
            FailureKind::Cable => "a cable",
            FailureKind::TwoSwitches => "two switches",
            FailureKind::SwitchAndCable => "a switch and a cable",
            FailureKind::TwoCables => "two cables",
        };
        let extent = if kind.tried == kind.possible {
            format!("all {}", kind.possible)
        } else {
            format!("{} of {} (seed {})", kind.tried, kind.possible, what_if.seed)
        };
        let mut parts = vec![
            format!("{} completely", kind.complete),
            format!("{} partly", kind.partial),
            format!("{} not at all", kind.unrouted),
        ];
        if kind.fallback > 0 {
            parts.insert(2, format!("{} by another engine", kind.fallback));
        }
        if kind.repaired > 0 {
            parts.push(format!("{} routed around by torus_repair", kind.repaired));
        }
        put!(out, "  {name:<20}  {extent}: {}", parts.join(", "));
    }
}

/// Lists the failures that the engine routes around, unless they are too many.
fn put_survivors(out: &mut String, what_if: &WhatIf) {
    if what_if.routed == 0 {
        return;
    }
    if what_if.routed > MAX_LISTED {
        put!(out, "  all other failures ({}) are routed", what_if.routed);
        return;
    }
    put!(out, "  {}:", counted(what_if.routed, "failure is routed", "failures are routed"));
    let routed = what_if.failures.iter().filter(|f| f.result == FailureResult::Routed);
    routed.for_each(|failure| put!(out, "    {}", components(failure)));
}

fn components(failure: &FailureFacts) -> String {
    let names: Vec<String> = failure.components.iter().map(component).collect();
    let cut = match failure.cut_off {
        0 => String::new(),
        ports => format!(" (cuts {} off)", counted(ports, "end port", "end ports")),
    };
    format!("{}{cut}", names.join(" and "))
}

fn component(component: &FailedComponent) -> String {
    match component {
        FailedComponent::Switch { guid, description } => format!("switch {guid} \"{description}\""),
        FailedComponent::Cable { ends: [a, b] } => {
            format!("cable {} - {}", end_text(a), end_text(b))
        }
    }
}

fn end_text(end: &FailedCableEnd) -> String {
    format!("{} \"{}\"[{}]", end.guid, end.description, end.port)
}
