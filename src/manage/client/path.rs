//! `torus-sm path` as text.

use super::lists::port_name;
use super::table::TextTable;
use super::values::{list, text};
use crate::notes::counted;
use serde_json::Value;

/// The output port, and those that the switch may choose instead: `3 or 4, 5`.
fn outputs(hop: &Value) -> String {
    let others: Vec<String> = list(&hop["alternatives"]).iter().map(Value::to_string).collect();
    let others =
        if others.is_empty() { String::new() } else { format!(" or {}", others.join(", ")) };
    format!("{}{others}", hop["output"])
}

/// The reply of `/v1/routes` as text.
pub(super) fn path(reply: &Value) -> String {
    let end =
        |end: &Value| format!("{} {} (LID {})", port_name(end), text(&end["guid"]), end["lid"]);
    let mut out = format!(
        "{} to {}: SL {}, {}{}\n",
        end(&reply["from"]),
        end(&reply["to"]),
        reply["sl"],
        counted(list(&reply["hops"]).len(), "switch", "switches"),
        if reply["detour"] == true { ", a detour around missing parts" } else { "" }
    );
    let mut table = TextTable::new(&["SWITCH", "IN", "OUT", "VL", "DESCRIPTION"]);
    for hop in list(&reply["hops"]) {
        table.add(vec![
            text(&hop["guid"]).to_owned(),
            hop["input"].to_string(),
            outputs(hop),
            hop["vl"].as_u64().map_or("-".to_owned(), |vl| vl.to_string()),
            text(&hop["description"]).to_owned(),
        ]);
    }
    out.push_str(&table.text("  "));
    if let Some(problem) = reply["problem"].as_str() {
        out.push_str(&format!("NOT DELIVERED: {problem}\n"));
    }
    out
}
