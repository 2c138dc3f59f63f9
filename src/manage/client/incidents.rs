//! `torus-sm incidents` as text.

use super::table::TextTable;
use super::values::{list as values, text};
use crate::cli::color::{STRONG, painted, severity};
use crate::notes::counted;
use rustix::termios::tcgetwinsize;
use serde_json::Value;

/// The part of a time that fits into a table: `2026-01-31 12:00:00`.
fn time(value: &Value) -> String {
    text(value).replace('T', " ").chars().take(19).collect()
}

/// Number of the column with the headlines.
const HEADLINES: usize = 2;

/// The open incidents, the one to repair first first. Headlines are cut so that lines have at most `width` columns.
pub(super) fn list(reply: &Value, width: Option<usize>) -> String {
    let open = values(&reply["open"]);
    let Some(first) = open.first() else { return "no incident is open\n".to_owned() };
    let mut table = TextTable::new(&["SEVERITY", "SINCE (UTC)", "INCIDENT", "ID"]);
    for incident in open {
        table.add(vec![
            severity(text(&incident["severity"])),
            time(&incident["opened"]),
            text(&incident["headline"]).to_owned(),
            text(&incident["id"]).to_owned(),
        ]);
    }
    if let Some(width) = width {
        table.cut(HEADLINES, width);
    }
    let mut out = table.text("");
    let left_out = reply["left_out"].as_u64().unwrap_or(0) as usize;
    if left_out > 0 {
        let more = counted(left_out, "more incident is", "more incidents are");
        out.push_str(&format!("{more} open\n"));
    }
    let title = painted(STRONG, "repair first");
    out.push_str(&format!("{title}: {}\n", text(&first["repair"])));
    out
}

/// The open incidents as [`list`] has them, in the width of the terminal if there is one.
pub(super) fn fitting_list(reply: &Value) -> String {
    let size = tcgetwinsize(std::io::stdout()).ok();
    list(reply, size.map(|size| usize::from(size.ws_col)).filter(|&width| width > 0))
}

/// All about one incident.
pub(super) fn details(reply: &Value) -> String {
    let found = values(&reply["open"]).iter().chain(values(&reply["closed"]));
    found.map(one).collect::<Vec<_>>().join("\n")
}

fn one(incident: &Value) -> String {
    let mut out = format!(
        "{} {}: {}\n",
        severity(text(&incident["severity"])),
        text(&incident["kind"]),
        text(&incident["headline"])
    );
    let mut put = |title: &str, line: &str| {
        out.push_str(format!("  {title:<10} {line}").trim_end());
        out.push('\n');
    };
    put("id", text(&incident["id"]));
    put("since", &format!("{} UTC", time(&incident["opened"])));
    if incident["closed"].is_string() {
        put("until", &format!("{} UTC", time(&incident["closed"])));
    }
    if let Some(openings @ 2..) = incident["openings"].as_u64() {
        put("", &format!("this has happened {openings} times"));
    }
    for line in values(&incident["evidence"]) {
        put("seen", text(line));
    }
    let takes = &incident["takes"];
    let parts = [
        count(takes, "switches", "switch", "switches"),
        count(takes, "hosts", "host", "hosts"),
        count(takes, "lids", "LID", "LIDs"),
        count(takes, "links", "cable", "cables"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        put("takes", &parts.join(", "));
    }
    let names: Vec<&str> = values(&takes["names"]).iter().map(text).collect();
    if names.len() > 1 {
        put("", &names.join(", "));
    }
    let rerouted = &incident["rerouted"];
    if !rerouted.is_null() {
        let sets = counted(rerouted["sets"].as_u64().unwrap_or(0) as usize, "Set", "Sets");
        put("rerouted", &format!("in {} ms, with {sets}", rerouted["milliseconds"]));
    }
    for line in values(&incident["risks"]) {
        put("risk", text(line));
    }
    put("repair", text(&incident["repair"]));
    out
}

fn count(takes: &Value, key: &str, one: &str, many: &str) -> Option<String> {
    let count = takes[key].as_u64().unwrap_or(0) as usize;
    (count > 0).then(|| counted(count, one, many))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstream::adapter::strip_str;
    use serde_json::json;

    #[test]
    fn incidents_are_listed_with_the_first_repair() {
        assert_eq!(list(&json!({ "open": [] }), None), "no incident is open\n");
        let incident = json!({
            "id": "node-0x1", "kind": "lost_host", "severity": "warning", "openings": 2,
            "opened": "2026-01-31T12:00:00.000Z", "closed": null, "headline": "the host \"h\" is lost",
            "evidence": ["\"s\"[1] has no link to it any more"], "repair": "check the power",
            "takes": { "switches": 0, "hosts": 1, "lids": 1, "links": 1, "names": ["h"] },
            "rerouted": { "milliseconds": 12, "sets": 1 }, "risks": [],
        });
        let reply = json!({ "open": [incident], "closed": [], "left_out": 1 });
        let shown = strip_str(&list(&reply, None)).to_string();
        assert!(shown.contains("warning   2026-01-31 12:00:00  the host \"h\" is lost"), "{shown}");
        assert!(
            shown.ends_with("1 more incident is open\nrepair first: check the power\n"),
            "{shown}"
        );
        let narrow = strip_str(&list(&reply, Some(50))).to_string();
        assert!(
            narrow.contains("  the host \"h\" is lost  node-0x1\n"),
            "20 columns at least: {narrow}"
        );
        let shown = strip_str(&details(&reply)).to_string();
        assert!(shown.contains("takes      1 host, 1 LID, 1 cable\n"), "{shown}");
        assert!(shown.contains("rerouted   in 12 ms, with 1 Set\n"), "{shown}");
        assert!(shown.contains("this has happened 2 times"), "{shown}");
    }
}
