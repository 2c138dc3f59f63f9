//! The connections with other instances, as part of `torus-sm status`.

use super::table::TextTable;
use super::values::{duration, list, text};
use serde_json::Value;

/// The peers as a table, followed by what is wrong with each; empty without peers.
pub(super) fn peers(replication: &Value) -> String {
    let mut table =
        TextTable::new(&["PEER", "DIRECTION", "CONNECTION", "OTHER SM", "SHARED STATE"]);
    for peer in list(replication) {
        table.add(vec![
            text(&peer["address"]).to_owned(),
            text(&peer["direction"]).to_owned(),
            connection(peer),
            other_sm(peer),
            shared_state(peer),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    let problems: String = list(replication).iter().map(problems).collect();
    format!("\n{}{problems}", table.text("  "))
}

/// Whether there is a connection, and since when.
fn connection(peer: &Value) -> String {
    let state = if peer["connected"] == true { "up" } else { "DOWN" };
    let age = peer["connection_age_seconds"].as_f64();
    age.map_or(state.to_owned(), |age| format!("{state} for {}", duration(age)))
}

/// Port and state; those of an unconnected peer are unknown.
fn other_sm(peer: &Value) -> String {
    match (peer["port_guid"].as_str(), peer["state"].as_str()) {
        (Some(guid), state) => format!("{guid} {}", state.unwrap_or("")).trim().to_owned(),
        (None, _) => "unknown".to_owned(),
    }
}

/// The last changes that one side has got from the other.
fn shared_state(peer: &Value) -> String {
    let last = &peer["last_transfer"];
    let last = last["generation"].as_u64().map(|generation| {
        let age = last["age_seconds"].as_f64().unwrap_or(0.0);
        format!("generation {generation} {} {} ago", text(&last["direction"]), duration(age))
    });
    let is_partial = peer["followed"] == true && peer["complete"] != true;
    match last {
        Some(last) if is_partial => format!("incomplete, {last}"),
        Some(last) => last,
        None if is_partial => "incomplete".to_owned(),
        None => "none".to_owned(),
    }
}

/// Why nothing is exchanged, and in which keys the configurations differ: a line each.
fn problems(peer: &Value) -> String {
    let address = text(&peer["address"]);
    let problem = peer["problem"].as_str().map(|problem| format!("  peer {address}: {problem}\n"));
    let keys: Vec<&str> = list(&peer["differences"]).iter().map(text).collect();
    let differences = (!keys.is_empty())
        .then(|| format!("  peer {address} is configured differently: {}\n", keys.join(", ")));
    [problem, differences].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GOLDEN: &str = "
  PEER            DIRECTION  CONNECTION          OTHER SM                    SHARED STATE
  10.0.0.2:7471   outgoing   up for 3 min 5 s    0x0002c90300a1b2c3 STANDBY  generation 17 sent 4.20 s ago
  10.0.0.3:7471   outgoing   DOWN for 2 h 5 min  unknown                     generation 9 received 2 h 6 min ago
  10.0.0.4:41234  incoming   up for 250.0 ms     0x0002c90300a1b2c5 MASTER   incomplete
  peer 10.0.0.2:7471 is configured differently: lmc (here 1, there 0), m_key
  peer 10.0.0.3:7471: Connection refused (os error 111)
";

    #[test]
    fn peers_are_shown_with_their_connections_and_differences() {
        let replication = json!([
            {
                "address": "10.0.0.2:7471", "direction": "outgoing", "connected": true,
                "connection_age_seconds": 185.0, "problem": null,
                "port_guid": "0x0002c90300a1b2c3", "state": "STANDBY",
                "differences": ["lmc (here 1, there 0)", "m_key"],
                "followed": false, "complete": false, "follower": true,
                "last_transfer": { "direction": "sent", "generation": 17, "age_seconds": 4.2 },
            },
            {
                "address": "10.0.0.3:7471", "direction": "outgoing", "connected": false,
                "connection_age_seconds": 7500.0, "problem": "Connection refused (os error 111)",
                "port_guid": null, "state": null, "differences": [],
                "followed": false, "complete": false, "follower": false,
                "last_transfer": { "direction": "received", "generation": 9, "age_seconds": 7560.0 },
            },
            {
                "address": "10.0.0.4:41234", "direction": "incoming", "connected": true,
                "connection_age_seconds": 0.25, "problem": null,
                "port_guid": "0x0002c90300a1b2c5", "state": "MASTER", "differences": [],
                "followed": true, "complete": false, "follower": false, "last_transfer": null,
            },
        ]);
        let shown = peers(&replication);
        assert_eq!(anstream::adapter::strip_str(&shown).to_string(), GOLDEN);
        assert_eq!(peers(&json!([])), "");
        assert_eq!(peers(&Value::Null), "");
    }
}
