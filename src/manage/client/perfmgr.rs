//! `torus-sm perfmgr`: the commands of OpenSM's console of the same name.

use super::act::act;
use super::http::{HttpClient, with_query};
use super::values::{list, text};
use super::wait::Awaited;
use crate::cli::CommandFailure;
use crate::cli::manage::ActionArgs;
use crate::cli::output::print;
use crate::fabric::node_name::split_port;
use crate::manage::perf_text::{PerfStateText, REDIRECTIONS_TITLE, RedirectionText};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Carries out a command; without words, shows the state.
///
/// # Errors
/// There is no daemon, or it refuses.
pub(super) async fn run(
    client: &HttpClient,
    args: &ActionArgs,
    words: &[String],
) -> Result<(), CommandFailure> {
    let argument = (words.len() > 1).then(|| words[1..].join(" "));
    match words.first().map(String::as_str) {
        None => show(client, state).await,
        Some("print_counters" | "pc") => {
            let (name, number) = match argument.as_deref().map(split_port) {
                Some((name, number)) => (Some(name), number.map(|number| number.to_string())),
                None => (None, None),
            };
            // OpenSM's console has NODE:PORT.
            let (node, port) = match name.and_then(|text| text.rsplit_once(':')) {
                Some((node, port)) if number.is_none() => (Some(node), Some(port)),
                _ => (name, number.as_deref()),
            };
            counters(client, &[("node", node), ("port", port)]).await
        }
        Some("print_errors" | "pe") => {
            counters(client, &[("node", argument.as_deref()), ("errors_only", Some("true"))]).await
        }
        Some("dump_redir") => show(client, redirections).await,
        Some(_) => {
            let body = json!({ "command": words.join(" ") });
            act(client, args, "perfmgr", body, Awaited::Action).await
        }
    }
}

async fn show(client: &HttpClient, view: fn(&Value) -> String) -> Result<(), CommandFailure> {
    let reply = client.get_json("/v1/perfmgr").await?;
    print(&view(&reply)).map(drop)
}

async fn counters(
    client: &HttpClient,
    parameters: &[(&str, Option<&str>)],
) -> Result<(), CommandFailure> {
    let path = with_query("/v1/counters", &[&[("format", Some("opensm"))], parameters].concat());
    let reply = client.get(&path, "text/plain").await?;
    print(&String::from_utf8_lossy(&reply)).map(drop)
}

/// The state as OpenSM's console shows it, and the last sweep.
fn state(reply: &Value) -> String {
    let last = &reply["last_sweep"];
    let state = PerfStateText {
        is_enabled: reply["enabled"] == true,
        is_sweeping: reply["sweeping"] == true,
        sweep_time: reply["sweep_time_seconds"].to_string(),
        outstanding: format!("outstanding queries max      : {}", reply["max_outstanding_queries"]),
        removes_nodes: reply["removes_nodes"] == true,
        queries_class_port_info: reply["queries_class_port_info"] == true,
    };
    let mut out = state.to_string();
    if !last.is_null() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "last sweep                   : {} ports, {} queries, {} failed, in {:.3} s",
            last["ports"],
            last["queries"],
            last["failed"],
            last["duration_seconds"].as_f64().unwrap_or(0.0)
        );
    }
    out
}

fn redirections(reply: &Value) -> String {
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let mut out = REDIRECTIONS_TITLE.to_owned();
    for row in list(&reply["redirections"]) {
        let redirection = RedirectionText {
            node: text(&row["node"]),
            port: number(&row["port"]),
            from_lid: number(&row["from_lid"]),
            to_lid: number(&row["to_lid"]),
            pkey: text(&row["pkey"]),
            queue_pair: number(&row["to_queue_pair"]),
            pkey_index: number(&row["pkey_index"]),
        };
        out += &redirection.to_string();
    }
    out
}
