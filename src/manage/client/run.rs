//! Carries out the commands.

use super::act::act;
use super::http::{HttpClient, with_query};
use super::show::show;
use super::wait::Awaited;
use super::{
    adaptive, check, events, incidents, instance, lists, path, perfmgr, port, status, stop, top,
};
use crate::cli::manage::{ActionArgs, ClientArgs, ManageCommand};
use crate::cli::output::print;
use crate::cli::{CommandFailure, ExitCode};
use crate::fabric::node_name::split_port;
use serde_json::{Value, json};

/// Carries out a command.
///
/// # Errors
/// There is no daemon, or it refuses.
pub fn run(command: &ManageCommand) -> Result<ExitCode, CommandFailure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandFailure::new(ExitCode::System, error))?;
    if let ManageCommand::Status { check: true, .. } = command {
        return runtime.block_on(check::check(command.select()));
    }
    runtime.block_on(carry_out(command))?;
    Ok(ExitCode::Ok)
}

/// A part of the state that a command shows.
struct CommandView<'a> {
    args: &'a ClientArgs,
    path: String,
    /// The text of the reply.
    text: fn(&Value) -> String,
}

impl<'a> CommandView<'a> {
    fn new(args: &'a ClientArgs, path: &str, text: fn(&Value) -> String) -> Self {
        Self { args, path: path.to_owned(), text }
    }

    /// The part that a command shows; `None` if it does something else.
    fn of(command: &'a ManageCommand) -> Option<Self> {
        let view = match command {
            ManageCommand::Status { client, .. } => Self::new(client, "/v1/status", status::status),
            ManageCommand::Incidents { id, client } => {
                let path = with_query("/v1/incidents", &[("id", id.as_deref())]);
                let text = if id.is_some() { incidents::details } else { incidents::fitting_list };
                Self::new(client, &path, text)
            }
            ManageCommand::Nodes(args) => Self::new(args, "/v1/nodes", lists::nodes),
            ManageCommand::Links { down, degraded, node, client } => {
                let down = down.then_some("true");
                let degraded = degraded.then_some("true");
                let query = [("node", node.as_deref()), ("down", down), ("degraded", degraded)];
                Self::new(client, &with_query("/v1/links", &query), lists::links)
            }
            ManageCommand::Ports { node, errors, client } => {
                let number = node.as_deref().and_then(|name| split_port(name).1);
                let number = number.map(|number| number.to_string());
                let errors = errors.then_some("true");
                let query = [
                    ("node", node.as_deref()),
                    ("port", number.as_deref()),
                    ("errors_only", errors),
                ];
                Self::new(client, &with_query("/v1/ports", &query), lists::ports)
            }
            ManageCommand::Path { from, to, client } => {
                let query = [("from", Some(from.as_str())), ("to", Some(to.as_str()))];
                Self::new(client, &with_query("/v1/routes", &query), path::path)
            }
            ManageCommand::Adaptive { switch, client } => {
                let path = with_query("/v1/adaptive", &[("node", switch.as_deref())]);
                Self::new(client, &path, adaptive::switches)
            }
            ManageCommand::Groups(args) => Self::new(args, "/v1/groups", lists::groups),
            ManageCommand::Partitions(args) => Self::new(args, "/v1/partitions", lists::partitions),
            ManageCommand::Torus(args) => Self::new(args, "/v1/torus", lists::torus),
            ManageCommand::Sa(args) => Self::new(args, "/v1/sa", lists::sa),
            ManageCommand::Quarantine { port: None, client, .. } => {
                Self::new(client, "/v1/quarantine", lists::quarantine)
            }
            _ => return None,
        };
        Some(view)
    }
}

/// An action with its body.
struct ActionRequest<'a> {
    args: &'a ActionArgs,
    name: &'static str,
    body: Value,
    awaited: Awaited,
}

impl<'a> ActionRequest<'a> {
    /// The action of a command whose body is known without the daemon; `None` if it is none.
    fn of(command: &'a ManageCommand) -> Option<Self> {
        let (args, name, body, awaited) = match command {
            ManageCommand::Accept { id, action } => {
                (action, "accept", json!({ "id": id }), Awaited::Action)
            }
            ManageCommand::Record(args) => (args, "record", no_body(), Awaited::Recording),
            ManageCommand::Resweep(args) => (args, "resweep", no_body(), Awaited::Plan),
            ManageCommand::Reroute(args) => (args, "reroute", no_body(), Awaited::Plan),
            ManageCommand::Reload(args) => (args, "reload", no_body(), Awaited::Configuration),
            ManageCommand::Dump(args) => (args, "dump", no_body(), Awaited::Action),
            ManageCommand::Loglevel { flags, action } => {
                (action, "loglevel", json!({ "flags": flags }), Awaited::Action)
            }
            ManageCommand::Priority { priority, action } => {
                (action, "priority", json!({ "priority": priority }), Awaited::Action)
            }
            ManageCommand::Handover { to, action } => {
                (action, "handover", json!({ "to": to }), Awaited::Action)
            }
            _ => return None,
        };
        Some(Self { args, name, body, awaited })
    }
}

fn no_body() -> Value {
    json!({})
}

async fn carry_out(command: &ManageCommand) -> Result<(), CommandFailure> {
    let client = HttpClient::new(instance::find(command.select())?);
    if let Some(CommandView { args, path, text }) = CommandView::of(command) {
        return show(&client, args, &path, text).await;
    }
    if let Some(ActionRequest { args, name, body, awaited }) = ActionRequest::of(command) {
        return act(&client, args, name, body, awaited).await;
    }
    match command {
        ManageCommand::Top { interval, count, .. } => top::run(&client, *interval, *count).await,
        ManageCommand::Events { after, no_follow, json, .. } => {
            follow_events(&client, *after, *no_follow, *json).await
        }
        ManageCommand::Perfmgr { words, action } => perfmgr::run(&client, action, words).await,
        ManageCommand::Metrics(_) => {
            let text = client.get("/metrics", "text/plain").await?;
            print(&String::from_utf8_lossy(&text)).map(drop)
        }
        ManageCommand::Stop(args) => stop::run(&client, args).await,
        ManageCommand::Quarantine { port: Some(name), no_wait, .. } => {
            let args = ActionArgs { no_wait: *no_wait, ..ActionArgs::default() };
            let body = port::link_body(&client, name).await?;
            act(&client, &args, "quarantine", body, Awaited::Plan).await
        }
        ManageCommand::WhatIf { port: name, action } => {
            let body = port::link_body(&client, name).await?;
            act(&client, action, "what-if", body, Awaited::Action).await
        }
        ManageCommand::Release { port: name, action } => {
            let body = port::link_body(&client, name).await?;
            act(&client, action, "release", body, Awaited::Plan).await
        }
        other => {
            Err(CommandFailure::new(ExitCode::System, format!("{other:?} is not carried out")))
        }
    }
}

/// Prints events as they come: as lines for people, or as they are sent.
async fn follow_events(
    client: &HttpClient,
    after: Option<u64>,
    no_follow: bool,
    is_json: bool,
) -> Result<(), CommandFailure> {
    let after = after.map(|after| after.to_string());
    let follow = no_follow.then_some("false");
    let path = with_query("/v1/events", &[("after", after.as_deref()), ("follow", follow)]);
    client
        .stream(&path, |line| {
            let shown = if is_json { line.to_owned() } else { events::line(line) };
            print(&format!("{shown}\n"))
        })
        .await
}
