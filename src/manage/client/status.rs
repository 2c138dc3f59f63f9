//! `torus-sm status` as text.

use super::replication;
use super::table::TextTable;
use super::values::{duration, list, text};
use crate::cli::color::{CRITICAL, GOOD, STRONG, WARNING, painted, severity};
use crate::notes::counted;
use crate::verify::UnroutedPairs;
use serde_json::Value;
use std::fmt::Write as _;

/// Sweeps and reconfigurations that are listed.
const MAX_LISTED: usize = 6;
/// Columns of the titles of lines.
const TITLE_WIDTH: usize = 11;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = writeln!($out, $($part)*);
    }};
}

fn seconds(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, duration)
}

/// The reply of `/v1/status` as text.
pub(super) fn status(status: &Value) -> String {
    let mut out = String::new();
    let problems = &status["incidents"];
    let critical = problems["critical"].as_u64().unwrap_or(0);
    let count = critical + problems["warning"].as_u64().unwrap_or(0);
    put_headline(&mut out, status, count);
    put_incidents(&mut out, &problems["first"], count);
    put!(out, "  running     {}, pid {}", seconds(&status["uptime_seconds"]), status["pid"]);
    put_managers(&mut out, status);
    put_queues(&mut out, status);
    put_fabric(&mut out, &status["fabric"]);
    put_routing(&mut out, status);
    put_congestion_control(&mut out, &status["congestion_control"]);
    put_vports(&mut out, &status["vports"]);
    put_messages(&mut out, "refused", &status["refused"]["messages"]);
    put_messages(&mut out, "plan", &status["verification"]["messages"]);
    put_messages(&mut out, "device", &status["device_faults"]);
    put_unresponsive(&mut out, &status["unresponsive"]);
    put_smps(&mut out, &status["smps"]);
    put_offenders(&mut out, status);
    put_sweeps(&mut out, status);
    out.push_str(&replication::peers(&status["replication"]));
    put_configuration(&mut out, &status["configuration"]);
    out
}

/// Version, port, role and state of the subnet; `count`: open incidents.
fn put_headline(out: &mut String, status: &Value, count: u64) {
    let sm = &status["sm"];
    let up = match (status["routing"]["generation"].as_u64(), sm["subnet_up"].as_bool()) {
        (Some(generation), Some(true)) => {
            format!("{} (generation {generation})", painted(GOOD, "subnet up"))
        }
        (Some(generation), _) => format!("subnet incomplete (generation {generation})"),
        (None, _) => "no subnet configured".to_owned(),
    };
    let is_critical = status["incidents"]["critical"].as_u64() > Some(0);
    let style = if is_critical { CRITICAL } else { WARNING };
    let degraded = match count {
        0 => String::new(),
        _ => format!(", {}", painted(style, &format!("DEGRADED ({count})"))),
    };
    let lid = sm["lid"].as_u64().map_or_else(String::new, |lid| format!(" (LID {lid})"));
    put!(
        out,
        "torus-sm {} on port {}{lid}: {}, {up}{degraded}",
        text(&status["version"]),
        text(&sm["port_guid"]),
        text(&sm["state"])
    );
}

/// The priority of this SM, and the other ones.
fn put_managers(out: &mut String, status: &Value) {
    let sm = &status["sm"];
    let priority = &sm["priority"];
    let as_master = &sm["master_priority"];
    let raised = if as_master.as_u64() > priority.as_u64() {
        format!(", {as_master} as master")
    } else {
        String::new()
    };
    put!(out, "  priority    {priority}{raised}");
    let master = &sm["waits_for"];
    if !master.is_null() {
        put!(
            out,
            "  waiting     ERROR: the SM at port GUID {} ({}) is master with another SM_Key; set sm_key \
             to the same value for all SMs, see sm_key_peers, or start with --ignore-other-sm",
            text(&master["port_guid"]),
            text(&master["node"])
        );
    }
    for other in list(&status["other_sms"]) {
        let guid = text(&other["port_guid"]);
        let state = text(&other["state"]);
        put!(out, "  other SM    {guid} {state}, priority {}", other["priority"]);
    }
}

/// What the SM does now, and what waits.
fn put_queues(out: &mut String, status: &Value) {
    let queues = &status["queues"];
    let sa = match queues["sa_requests"].as_u64() {
        Some(count) => counted(count as usize, "SA request", "SA requests"),
        None => "? SA requests".to_owned(),
    };
    let sm = count_of(&queues["sm_events"], "SM event", "SM events");
    put!(out, "  now         {}; {sm}, {sa} queued", text(&status["activity"]));
}

/// The open incidents; the one to repair first is first.
fn put_incidents(out: &mut String, first: &Value, count: u64) {
    let shown = list(first).iter().take(MAX_LISTED);
    for incident in shown.clone() {
        let title = text(&incident["severity"]).to_uppercase();
        put!(
            out,
            "  {}{} {}, since {}",
            severity(&title),
            " ".repeat(TITLE_WIDTH.saturating_sub(title.len())),
            text(&incident["headline"]),
            time(&incident["opened"])
        );
    }
    let more = count.saturating_sub(shown.len() as u64);
    if more > 0 {
        put!(out, "              and {more} more: torus-sm incidents lists them");
    }
    if let Some(incident) = list(first).first() {
        let title = painted(STRONG, "REPAIR");
        put!(out, "  {title}      first: {}", text(&incident["repair"]));
    }
}

/// A number of the reply with its noun.
pub(super) fn count_of(number: &Value, one: &str, many: &str) -> String {
    counted(number.as_u64().unwrap_or(0) as usize, one, many)
}

/// Counts of nodes and links.
fn put_fabric(out: &mut String, fabric: &Value) {
    if fabric.is_null() {
        return;
    }
    let mut parts = vec![
        count(fabric, "switches", "switch", "switches"),
        count(fabric, "channel_adapters", "channel adapter", "channel adapters"),
        count(fabric, "links", "link", "links"),
    ];
    if fabric["routers"] != 0 {
        parts.insert(2, count(fabric, "routers", "router", "routers"));
    }
    if fabric["missing_nodes"] != 0 || fabric["missing_links"] != 0 {
        let nodes = count(fabric, "missing_nodes", "node", "nodes");
        parts
            .push(format!("missing: {nodes}, {}", count(fabric, "missing_links", "link", "links")));
    }
    put!(out, "  fabric      {}", parts.join(", "));
}

fn count(fabric: &Value, name: &str, one: &str, many: &str) -> String {
    count_of(&fabric[name], one, many)
}

fn put_routing(out: &mut String, status: &Value) {
    let routing = &status["routing"];
    let routes = routing["in_use"].as_str().unwrap_or("none in use");
    let in_use = match routing["with_groups"].as_str() {
        Some(name) => format!("{name} with the routes of {routes}"),
        None => routes.to_owned(),
    };
    put!(out, "  routing     {in_use} (requested: {})", text(&routing["requested"]));
    for failed in list(&routing["failed"]) {
        put!(out, "              {} failed: {}", text(&failed["engine"]), text(&failed["reason"]));
    }
    if let Some(summary) = routing["repair"]["summary"].as_str() {
        put!(out, "  repair      {summary}");
    }
    let verified = &status["verification"];
    if verified.is_null() {
        return;
    }
    let cycle = verified["credit_loop"].as_str();
    let cycle = cycle.map_or("no credit loop".to_owned(), |cycle| {
        format!("{} {cycle}", painted(CRITICAL, "CREDIT LOOP"))
    });
    let hosts = verified["unrouted_hosts"].as_u64().unwrap_or(0) as usize;
    let with_switches = verified["unrouted_with_switches"].as_u64().unwrap_or(0) as usize;
    let unrouted = UnroutedPairs { hosts, with_switches, first: None }.counted();
    let reached = match unrouted {
        Some(pairs) => format!("routed, but {pairs} without a route"),
        None => "reachable".to_owned(),
    };
    let bound = if verified["has_upper_bounds"] == true { "at most " } else { "" };
    put!(
        out,
        "  verified    {} {reached}, longest path {bound}{}, {cycle} in {bound}{}",
        count_of(&verified["lids"], "LID", "LIDs"),
        count_of(&verified["longest_path"], "switch", "switches"),
        count_of(&verified["dependencies"], "dependency", "dependencies")
    );
    if verified["failed_sets"] != 0 {
        let sets = count_of(&verified["failed_sets"], "Set", "Sets");
        put!(out, "  incomplete  {sets} not acknowledged");
    }
}

/// One line, if this SM configures congestion control.
fn put_congestion_control(out: &mut String, congestion: &Value) {
    if congestion.is_null() {
        return;
    }
    let busy = if congestion["busy"] == true { ", being configured" } else { "" };
    put!(
        out,
        "  congestion  control set on {} of {} ports, {} without support, {} failed{busy}",
        congestion["configured"],
        congestion["devices"],
        congestion["unsupported"],
        congestion["failed"]
    );
}

/// One line, if this SM manages vports and a port has any.
fn put_vports(out: &mut String, vports: &Value) {
    if vports["ports"].as_u64().is_none_or(|ports| ports == 0) {
        return;
    }
    let ports = count_of(&vports["ports"], "port", "ports");
    let mut line = format!("{} ACTIVE on {ports}", vports["active"]);
    for (key, what) in [("init", "in INIT"), ("failed", "failed")] {
        if vports[key] != 0 {
            let _ = write!(line, ", {} {what}", vports[key]);
        }
    }
    if vports["failed_ports"] != 0 {
        let ports = count_of(&vports["failed_ports"], "port", "ports");
        let _ = write!(line, "; the vports of {ports} cannot be managed");
    }
    put!(out, "  vports      {line}");
}

fn put_messages(out: &mut String, title: &str, messages: &Value) {
    for message in list(messages).iter().filter(|message| message["severity"] != "info") {
        let severity = severity(&text(&message["severity"]).to_uppercase());
        put!(out, "  {title:<TITLE_WIDTH$} {severity}: {}", text(&message["text"]));
    }
}

/// Devices that do not answer, and stay in the subnet.
fn put_unresponsive(out: &mut String, unresponsive: &Value) {
    let devices = list(&unresponsive["devices"]);
    if unresponsive["alarm"] == true {
        put!(
            out,
            "  {:<11} ERROR: {}, and nothing shows that links are down: SMPs are lost, or \
             management agents hang; the tables in force stay",
            "silent",
            counted(devices.len(), "device does not answer", "devices do not answer")
        );
    }
    for device in devices.iter().take(MAX_LISTED) {
        put!(
            out,
            "  {:<11} WARNING: {} does not answer since {}; its LIDs and routes stay",
            "silent",
            text(&device["name"]),
            text(&device["since"])
        );
    }
    if devices.len() > MAX_LISTED {
        put!(out, "  {:<11} and {} more", "silent", devices.len() - MAX_LISTED);
    }
}

/// The window of SMPs, and the devices to which requests were sent again.
fn put_smps(out: &mut String, smps: &Value) {
    let Some(round_trip) = smps["round_trip_seconds"].as_f64() else { return };
    let micros = (round_trip * 1e6).round();
    let repeated = &smps["repeated"];
    put!(
        out,
        "  SMPs        at most {} in flight, round trip {micros} us, {repeated} sent again",
        smps["window"]
    );
    for device in list(&smps["repeated_to"]).iter().take(MAX_LISTED) {
        put!(out, "              {} to {}", device["count"], text(&device["node"]));
    }
}

/// Changes of the SM's port by others, and the sources of the most offences.
fn put_offenders(out: &mut String, status: &Value) {
    if let Some(last) = status["sm"]["last_foreign_port_change"].as_str() {
        let count = &status["sm"]["foreign_port_changes"];
        put!(out, "  SM port     changed {count} times by others, last: {last}");
    }
    for offender in list(&status["offenders"]).iter().take(MAX_LISTED) {
        let name = text(&offender["description"]);
        let offence = text(&offender["offence"]);
        put!(
            out,
            "  offender    LID {} ({name}): {} x {offence}",
            offender["lid"],
            offender["count"]
        );
    }
}

fn causes(value: &Value) -> String {
    list(&value["causes"]).iter().map(text).collect::<Vec<_>>().join(",")
}

/// The part of a time that fits into a table: `2026-01-31 12:00:00`.
fn time(value: &Value) -> String {
    text(value).replace('T', " ").chars().take(19).collect()
}

fn put_sweeps(out: &mut String, status: &Value) {
    let mut sweeps = TextTable::new(&["SWEEP (UTC)", "KIND", "CAUSE", "RESULT", "DURATION", ""]);
    for sweep in list(&status["sweeps"]).iter().rev().take(MAX_LISTED).rev() {
        sweeps.add(vec![
            time(&sweep["ended"]),
            text(&sweep["kind"]).to_owned(),
            causes(sweep),
            text(&sweep["result"]).to_owned(),
            seconds(&sweep["duration_seconds"]),
            text(&sweep["problem"]).to_owned(),
        ]);
    }
    let heading = ["CONFIGURED", "CAUSE", "RESULT", "PLANNED IN", "ALL IN", "SETS", ""];
    let mut plans = TextTable::new(&heading);
    for plan in list(&status["reconfigurations"]).iter().rev().take(MAX_LISTED).rev() {
        plans.add(vec![
            time(&plan["ended"]),
            causes(plan),
            text(&plan["result"]).to_owned(),
            seconds(&plan["planning_seconds"]),
            seconds(&plan["total_seconds"]),
            plan["sets"].to_string(),
            text(&plan["problem"]).to_owned(),
        ]);
    }
    for table in [sweeps, plans].iter().filter(|table| !table.is_empty()) {
        put!(out, "\n{}", table.text("  ").trim_end());
    }
}

fn put_configuration(out: &mut String, configuration: &Value) {
    put!(out, "\n  configuration read {} UTC", time(&configuration["read"]));
    for problem in configuration["start_error"].as_str().iter().flat_map(|text| text.lines()) {
        put!(out, "  {}: {problem}", painted(WARNING, "not used"));
    }
    if let Some(problem) = configuration["error"].as_str() {
        put!(out, "  the last reload was rejected: {problem}");
        put!(out, "  in force are:");
    }
    for file in list(&configuration["files"]).iter().filter(|file| !file["sha256"].is_null()) {
        let hash: String = text(&file["sha256"]).chars().take(12).collect();
        let path = text(&file["path"]);
        let modified = time(&file["modified"]);
        let later = if file["rejected"] == true { "; later contents are rejected" } else { "" };
        put!(out, "  {path}  {modified}, sha256 {hash}{later}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_without_fields_is_shown_all_the_same() {
        assert!(status(&Value::Null).contains("no subnet configured"));
    }

    #[test]
    fn counts_agree_with_their_nouns() {
        let one = status(&reply(1));
        let two = status(&reply(2));
        for text in [
            "1 SM event, 1 SA request queued",
            "1 LID reachable, longest path 1 switch, no credit loop in 1 dependency",
            "1 Set not acknowledged",
            "1 device does not answer",
        ] {
            assert!(one.contains(text), "{text}: {one}");
        }
        for text in [
            "2 SM events, 2 SA requests queued",
            "2 LIDs reachable, longest path at most 2 switches, no credit loop in at most 2 dependencies",
            "2 Sets not acknowledged",
            "2 devices do not answer",
        ] {
            assert!(two.contains(text), "{text}: {two}");
        }
    }

    #[test]
    fn vports_are_counted_if_there_are_any() {
        let line = |vports: Value| {
            let text = status(&serde_json::json!({ "vports": vports }));
            text.lines().find_map(|line| line.strip_prefix("  vports      ").map(str::to_owned))
        };
        assert_eq!(line(Value::Null), None);
        assert_eq!(line(serde_json::json!({ "ports": 0 })), None);
        let well = serde_json::json!({
            "ports": 1, "active": 16, "init": 0, "failed": 0, "failed_ports": 0,
        });
        assert_eq!(line(well).as_deref(), Some("16 ACTIVE on 1 port"));
        let ill = serde_json::json!({
            "ports": 3, "active": 4, "init": 2, "failed": 1, "failed_ports": 1,
        });
        let text =
            "4 ACTIVE on 3 ports, 2 in INIT, 1 failed; the vports of 1 port cannot be managed";
        assert_eq!(line(ill).as_deref(), Some(text));
    }

    fn reply(count: usize) -> Value {
        serde_json::json!({
            "fabric": { "switches": count, "channel_adapters": count, "links": count },
            "queues": { "sm_events": count, "sa_requests": count },
            "verification": {
                "lids": count, "longest_path": count, "dependencies": count, "failed_sets": count,
                "has_upper_bounds": count > 1,
            },
            "unresponsive": { "alarm": true, "devices": vec![Value::Null; count] },
        })
    }
}
