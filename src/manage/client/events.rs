//! `torus-sm events` as text: one line for each event.

use super::lists::port_name;
use super::values::{duration, list, text};
use crate::cli::color::severity;
use crate::notes::counted;
use serde_json::Value;

/// Fields that the line has already, or that only programs need.
const LEFT_OUT: [&str; 4] = ["event", "time", "number", "request"];

/// The line of an event, which is a JSON object on one line; as it is if it is none.
pub(super) fn line(json: &str) -> String {
    let Ok(event) = serde_json::from_str::<Value>(json) else { return json.to_owned() };
    let time: String = text(&event["time"]).replace('T', " ").chars().take(19).collect();
    let name = text(&event["event"]).replace('_', " ");
    format!("{time}  {name:<20} {}", details(&event)).trim_end().to_owned()
}

fn seconds(value: &Value) -> String {
    value.as_f64().map_or_else(String::new, duration)
}

fn ends(event: &Value) -> String {
    list(&event["ends"]).iter().map(port_name).collect::<Vec<_>>().join(" – ")
}

/// What happened, in words where this program knows the event.
fn details(event: &Value) -> String {
    match text(&event["event"]) {
        "role_changed" => text(&event["state"]).to_owned(),
        "link_found" | "link_lost" | "link_released" => ends(event),
        "link_quarantined" | "link_needed" => {
            format!("{}: {}", ends(event), text(&event["reason"]))
        }
        "node_found" | "node_lost" | "node_unresponsive" | "node_responsive" => format!(
            "{} \"{}\" ({})",
            text(&event["kind"]),
            text(&event["description"]),
            text(&event["guid"])
        ),
        "trap" => format!("{} from LID {}", event["number"], event["issuer"]),
        "sweep_started" => format!("{} sweep", text(&event["sweep"])),
        "sweep_finished" => format!(
            "{} sweep {} in {}",
            text(&event["sweep"]),
            text(&event["result"]),
            seconds(&event["duration_seconds"])
        ),
        "reconfigured" => {
            let sets = event["sets"].as_u64().unwrap_or(0) as usize;
            let sets = counted(sets, "Set", "Sets");
            let result = text(&event["result"]);
            format!("{result}, {sets} in {}", seconds(&event["total_seconds"]))
        }
        "plan_rejected" | "config_rejected" => text(&event["problem"]).to_owned(),
        "repair_began" | "repair_changed" => text(&event["summary"]).to_owned(),
        "incident_opened" | "incident_changed" => format!(
            "{}: {}; {}",
            severity(text(&event["severity"])),
            text(&event["headline"]),
            text(&event["repair"])
        ),
        "incident_closed" if event["part_of"].is_string() => {
            format!("{}: it is part of {}", text(&event["headline"]), text(&event["part_of"]))
        }
        "incident_closed" => {
            let open = seconds(&event["open_seconds"]);
            format!("{}, after {open}", text(&event["headline"]))
        }
        "action_done" => format!("{}: {}", text(&event["action"]), text(&event["text"])),
        "action_failed" => format!("{}: {}", text(&event["action"]), text(&event["problem"])),
        _ => fields(event),
    }
}

/// The fields of an event without words of its own.
fn fields(event: &Value) -> String {
    let Some(object) = event.as_object() else { return String::new() };
    let shown = object.iter().filter(|(name, value)| {
        !LEFT_OUT.contains(&name.as_str()) && !value.is_object() && !value.is_array()
    });
    let parts = shown.map(|(name, value)| {
        let shown = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
        format!("{} {shown}", name.replace('_', " "))
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_lines_for_people() {
        let shown = line(
            r#"{"number":7,"time":"2026-01-31T12:00:00.123Z","event":"link_lost","ends":[
               {"guid":"0x1","port":3,"description":"a"},{"guid":"0x2","port":4,"description":"b"}]}"#,
        );
        assert_eq!(shown, "2026-01-31 12:00:00  link lost            \"a\"[3] – \"b\"[4]");
        let shown = line(r#"{"time":"2026-01-31T12:00:00Z","event":"new_kind","count":2,"x":"y"}"#);
        assert_eq!(shown, "2026-01-31 12:00:00  new kind             count 2, x y");
        assert_eq!(line("no JSON"), "no JSON");
    }
}
