//! `torus-sm adaptive` as text.

use super::table::TextTable;
use super::values::{list, text};
use crate::notes::{counted, on_or_off};
use serde_json::Value;

/// The reply of `/v1/adaptive` as text; of a single switch with all its groups.
pub(super) fn switches(reply: &Value) -> String {
    let switches = list(&reply["switches"]);
    let masked = list(&reply["static_lids"]);
    let rule = reply["rule"].as_str().map_or(String::new(), |rule| format!(", groups of {rule}"));
    let mut out = format!(
        "adaptive routing {}, local repair {}{rule}: {}, {} static\n",
        on_or_off(reply["adaptive_routing"] == true),
        on_or_off(reply["local_repair"] == true),
        counted(switches.len(), "capable switch", "capable switches"),
        counted(masked.len(), "LID", "LIDs"),
    );
    let mut table = TextTable::new(&["SWITCH", "STATE", "GROUPS", "DESCRIPTION"]);
    for switch in switches {
        table.add(vec![
            text(&switch["guid"]).to_owned(),
            text(&switch["state"]).to_owned(),
            list(&switch["groups"]).len().to_string(),
            text(&switch["description"]).to_owned(),
        ]);
    }
    out.push_str(&table.text("  "));
    for switch in switches {
        if let Some(failure) = switch["failure"].as_str() {
            out.push_str(&format!("\"{}\": {failure}\n", text(&switch["description"])));
        }
    }
    if let [switch] = switches {
        for group in list(&switch["groups"]) {
            let ports: Vec<String> = list(&group["ports"]).iter().map(Value::to_string).collect();
            out.push_str(&format!("  group {}: ports {}\n", group["number"], ports.join(", ")));
        }
    }
    out
}
