//! Names of the running daemon's nodes and incidents, for completions of the command line.

use super::http::Client;
use super::instance;
use super::values::{list, text};
use crate::cli::manage::SelectArgs;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// Longest time until the words are there: somebody waits at a prompt.
const LIMIT: Duration = Duration::from_secs(1);

/// The nodes with what they are. Those whose description has characters with a meaning for shells are
/// named by their GUIDs.
pub fn nodes() -> Vec<(String, String)> {
    let reply = reply("/v1/nodes");
    let nodes = list(&reply["nodes"]).iter().map(|node| {
        let guid = text(&node["guid"]);
        let name = text(&node["description"]);
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_.,:/".contains(it);
        if !name.is_empty() && name.chars().all(is_plain) {
            (name.to_owned(), format!("{} {guid}", text(&node["kind"])))
        } else {
            (guid.to_owned(), format!("{} {name}", text(&node["kind"])))
        }
    });
    nodes.collect()
}

/// The identifiers of the open incidents with their headlines.
pub fn incidents() -> Vec<(String, String)> {
    let reply = reply("/v1/incidents");
    let open = list(&reply["open"]).iter();
    open.map(|it| (text(&it["id"]).to_owned(), text(&it["headline"]).to_owned())).collect()
}

/// A reply of the only daemon that runs; null without one.
fn reply(path: &str) -> Value {
    let Ok(selected) = instance::find(&SelectArgs::default()) else { return Value::Null };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Value::Null };
    let client = Client::new(selected);
    let reply = runtime.block_on(async { timeout(LIMIT, client.get_json(path)).await });
    reply.ok().and_then(Result::ok).unwrap_or(Value::Null)
}
