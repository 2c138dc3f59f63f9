//! Lists of nodes, ports and links as text.

use super::table::TextTable;
use super::values::{list, text};
use crate::cli::color::{CRITICAL, WARNING, painted};
use crate::notes::counted;
use serde_json::Value;

fn joined(value: &Value) -> String {
    list(value).iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// `4x EDR`; empty without a link.
fn link(value: &Value) -> String {
    format!("{} {}", text(&value["width"]), text(&value["speed"])).trim().to_owned()
}

/// `"description"[port]`.
pub(super) fn port_name(value: &Value) -> String {
    if value.is_null() {
        String::new()
    } else {
        format!("\"{}\"[{}]", text(&value["description"]), value["port"])
    }
}

/// The names of capabilities, or the state of the request for them; empty without one.
fn vendor_capabilities(value: &Value) -> String {
    let names: Vec<&str> = list(&value["names"]).iter().map(text).collect();
    match () {
        () if value.is_null() => String::new(),
        () if value["state"] != "answered" => text(&value["state"]).to_owned(),
        () if names.is_empty() => "none".to_owned(),
        () => names.join(","),
    }
}

pub(super) fn nodes(reply: &Value) -> String {
    let shows_capabilities =
        list(&reply["nodes"]).iter().any(|node| !node["vendor_capabilities"].is_null());
    let mut heading = vec!["GUID", "KIND", "LIDS", "PORTS", "LINKED", "DESCRIPTION"];
    if shows_capabilities {
        heading.insert(5, "VENDOR");
    }
    let mut table = TextTable::new(&heading);
    for node in list(&reply["nodes"]) {
        let mut row = vec![
            text(&node["guid"]).to_owned(),
            text(&node["kind"]).to_owned(),
            joined(&node["lids"]),
            node["ports"].to_string(),
            node["linked_ports"].to_string(),
            text(&node["description"]).to_owned(),
        ];
        if shows_capabilities {
            row.insert(5, vendor_capabilities(&node["vendor_capabilities"]));
        }
        table.add(row);
    }
    table.text("")
}

pub(super) fn ports(reply: &Value) -> String {
    let heading = ["PORT", "NODE", "LID", "STATE", "PHYSICAL", "LINK", "MTU", "VLS", "PEER"];
    let mut table = TextTable::new(&heading);
    for port in list(&reply["ports"]) {
        table.add(vec![
            port_name(port),
            text(&port["node"]).to_owned(),
            port["lid"].as_u64().map_or_else(String::new, |lid| lid.to_string()),
            text(&port["state"]).to_owned(),
            text(&port["physical_state"]).to_owned(),
            link(&port["link"]),
            port["mtu"].to_string(),
            port["data_vls"].to_string(),
            port_name(&port["peer"]),
        ]);
        for vport in list(&port["virtual_ports"]["vports"]) {
            let name = format!("  vport {}: {}", vport["index"], text(&vport["description"]));
            let failure = text(&vport["failure"]).to_owned();
            let guid = text(&vport["guid"]).to_owned();
            let state = text(&vport["state"]).to_owned();
            let lid = vport["lid"].as_u64().map_or_else(String::new, |lid| lid.to_string());
            table.add(vec![name, guid, lid, state, failure]);
        }
    }
    table.text("")
}

pub(super) fn links(reply: &Value) -> String {
    let mut table = TextTable::new(&["END", "END", "STATE", "LINK", "LIDS", ""]);
    for row in list(&reply["links"]) {
        table.add(vec![
            port_name(&row["ends"][0]),
            port_name(&row["ends"][1]),
            text(&row["state"]).to_owned(),
            link(&row["link"]),
            joined(&row["lids"]).replace(',', " / "),
            row["could"].as_str().map_or_else(String::new, |could| {
                format!("{}: {could} enabled", painted(WARNING, "degraded"))
            }),
        ]);
    }
    for row in list(&reply["quarantined"]) {
        let cause = format!("cause: {}", text(&row["cause"]));
        table.add(out_of_use(row, painted(WARNING, "QUARANTINED"), cause));
    }
    for row in list(&reply["missing"]) {
        let since: String = text(&row["since"]).replace('T', " ").chars().take(19).collect();
        table.add(out_of_use(row, painted(CRITICAL, "MISSING"), format!("since {since} UTC")));
    }
    table.text("")
}

/// The row of a link that is not used.
fn out_of_use(row: &Value, state: String, detail: String) -> Vec<String> {
    let ends = [port_name(&row["ends"][0]), port_name(&row["ends"][1])];
    let none = String::new;
    [ends, [state, none()], [none(), detail]].concat()
}

pub(super) fn quarantine(reply: &Value) -> String {
    let mut table = TextTable::new(&["END", "END", "CAUSE", "CALM"]);
    for link in list(&reply["links"]) {
        table.add(vec![
            port_name(&link["ends"][0]),
            port_name(&link["ends"][1]),
            text(&link["cause"]).to_owned(),
            link["calm_seconds"].as_u64().map_or_else(String::new, |calm| format!("{calm} s")),
        ]);
    }
    if table.is_empty() { "no link is quarantined\n".to_owned() } else { table.text("") }
}

pub(super) fn groups(reply: &Value) -> String {
    let mut table = TextTable::new(&["MLID", "PKEY", "MEMBERS", "", "MGID"]);
    for group in list(&reply["groups"]) {
        let kind = if group["permanent"] == true { "permanent" } else { "" };
        table.add(vec![
            text(&group["mlid"]).to_owned(),
            text(&group["pkey"]).to_owned(),
            list(&group["members"]).len().to_string(),
            kind.to_owned(),
            text(&group["mgid"]).to_owned(),
        ]);
    }
    table.text("")
}

pub(super) fn partitions(reply: &Value) -> String {
    let mut table = TextTable::new(&["PKEY", "NAME", "SL", "FULL MEMBERS", "LIMITED MEMBERS"]);
    for partition in list(&reply["partitions"]) {
        table.add(vec![
            text(&partition["pkey"]).to_owned(),
            list(&partition["names"]).iter().map(text).collect::<Vec<_>>().join(", "),
            partition["sl"].to_string(),
            list(&partition["full"]).len().to_string(),
            list(&partition["limited"]).len().to_string(),
        ]);
    }
    table.text("")
}

pub(super) fn torus(reply: &Value) -> String {
    let radices: Vec<String> = list(&reply["radices"]).iter().map(ToString::to_string).collect();
    let switches = list(&reply["switches"]);
    let missing = list(&reply["missing_switches"]);
    let broken = list(&reply["missing_cables"]);
    let rings = list(&reply["broken_rings"]);
    let mut out = format!(
        "torus {}: {} and {} missing, {}, {} of {} rings broken\n",
        radices.join(" x "),
        counted(switches.len(), "switch", "switches"),
        missing.len(),
        counted(broken.len(), "missing cable", "missing cables"),
        rings.len(),
        reply["rings"]
    );
    for at in missing {
        out.push_str(&format!("  missing switch at {}\n", joined(at)));
    }
    for cable in broken {
        let from = joined(&cable["from"]);
        let to = joined(&cable["to"]);
        out.push_str(&format!("  missing {} cable {from} to {to}\n", text(&cable["axis"])));
    }
    for ring in rings {
        let gaps: Vec<String> = list(&ring["gaps"]).iter().map(joined).collect();
        out.push_str(&format!(
            "  broken {} ring from {}, after {}\n",
            text(&ring["axis"]),
            joined(&ring["first"]),
            gaps.join(" and ")
        ));
    }
    out
}

pub(super) fn sa(reply: &Value) -> String {
    let number =
        |name: &str, one, many| counted(reply[name].as_u64().unwrap_or(0) as usize, one, many);
    let mut out = format!(
        "{} with {}, {} queued, {} ignored; {}, {}, {}\n",
        number("replies", "reply", "replies"),
        number("records", "record", "records"),
        number("queued", "request", "requests"),
        reply["ignored"],
        number("multicast_groups", "multicast group", "multicast groups"),
        number("services", "service", "services"),
        number("subscriptions", "subscription", "subscriptions")
    );
    let mut replies = TextTable::new(&["ATTRIBUTE", "METHOD", "STATUS", "REPLIES"]);
    for row in list(&reply["by_attribute"]) {
        let [attribute, method, status] =
            ["attribute", "method", "status"].map(|name| text(&row[name]).to_owned());
        replies.add(vec![attribute, method, status, row["replies"].to_string()]);
    }
    let mut drops = TextTable::new(&["WITHOUT REPLY", "REQUESTS"]);
    for row in list(&reply["dropped"]) {
        drops.add(vec![text(&row["reason"]).to_owned(), row["requests"].to_string()]);
    }
    let mut refused = TextTable::new(&["REFUSED LID", "BUSY", "REJECTED", "DESCRIPTION"]);
    for row in list(&reply["refused_requesters"]) {
        let [lid, busy, rejected] = ["lid", "busy", "rejected"].map(|name| row[name].to_string());
        refused.add(vec![lid, busy, rejected, text(&row["description"]).to_owned()]);
    }
    for table in [replies, drops, refused].iter().filter(|table| !table.is_empty()) {
        out.push_str(&table.text("  "));
    }
    out
}
