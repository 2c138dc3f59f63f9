//! Names of the running daemon's nodes and incidents, for completions of the command line.

use super::http::HttpClient;
use super::instance;
use super::values::{list, text};
use crate::cli::manage::SelectArgs;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
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
        if !name.is_empty() && name.chars().all(is_plain) {
            (name.to_owned(), format!("{} {guid}", text(&node["kind"])))
        } else {
            (guid.to_owned(), format!("{} {name}", text(&node["kind"])))
        }
    });
    nodes.collect()
}

fn is_plain(it: char) -> bool {
    it.is_ascii_alphanumeric() || "-_.,:/".contains(it)
}

/// The identifiers of the open incidents with their headlines.
pub fn incidents() -> Vec<(String, String)> {
    let reply = reply("/v1/incidents");
    let open = list(&reply["open"]).iter();
    open.map(|it| (text(&it["id"]).to_owned(), text(&it["headline"]).to_owned())).collect()
}

/// The daemon that the words before the one to complete select. These are arguments of this process when a
/// shell asks for completions.
fn selection(words: impl Iterator<Item = OsString>) -> SelectArgs {
    let mut select = SelectArgs::default();
    let words: Vec<String> = words.filter_map(|word| word.into_string().ok()).collect();
    for (at, word) in words.iter().enumerate() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), words.get(at + 1).cloned()),
        };
        match name {
            "--socket" => select.socket = value.map(PathBuf::from),
            "--guid" | "-g" => select.guid = value,
            _ => {}
        }
    }
    select
}

/// A reply of the daemon that the command line selects, or of the only one that runs; null without one.
fn reply(path: &str) -> Value {
    let select = selection(std::env::args_os());
    let Ok(selected) = instance::find(&select) else { return Value::Null };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Value::Null };
    let client = HttpClient::new(selected);
    let reply = runtime.block_on(async { timeout(LIMIT, client.get_json(path)).await });
    reply.ok().and_then(Result::ok).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_command_line_select_the_daemon() {
        assert_eq!(of("torus-sm -- torus-sm path --socket /run/a h1"), socket("/run/a"));
        assert_eq!(of("torus-sm path --socket=/run/b"), socket("/run/b"));
        assert_eq!(of("torus-sm path -g 0x12 h").guid.as_deref(), Some("0x12"));
        assert_eq!(of("torus-sm path h1 --socket"), SelectArgs::default());
    }

    fn socket(path: &str) -> SelectArgs {
        SelectArgs { socket: Some(path.into()), guid: None }
    }

    fn of(line: &str) -> SelectArgs {
        selection(line.split(' ').map(OsString::from))
    }
}
