//! Carries out the commands.

use super::act::{act, act_with};
use super::http::{Client, with_query};
use super::show::show;
use super::wait::Awaited;
use super::{
    adaptive, check, events, incidents, instance, lists, path, perfmgr, port, status, stop, top,
};
use crate::cli::manage::{ActionArgs, ManageCommand};
use crate::cli::output::print;
use crate::cli::{ExitCode, Failure};
use crate::fabric::node_name::split_port;
use serde_json::json;

/// Carries out a command.
///
/// # Errors
/// There is no daemon, or it refuses.
pub fn run(command: &ManageCommand) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(ExitCode::System, error))?;
    if let ManageCommand::Status { check: true, .. } = command {
        return runtime.block_on(check::check(command.select()));
    }
    runtime.block_on(carry_out(command))?;
    Ok(ExitCode::Ok)
}

async fn carry_out(command: &ManageCommand) -> Result<(), Failure> {
    let client = Client::new(instance::find(command.select())?);
    match command {
        ManageCommand::Status { client: args, .. } => {
            show(&client, args, "/v1/status", status::status).await
        }
        ManageCommand::Incidents { id, client: args } => {
            let path = with_query("/v1/incidents", &[("id", id.as_deref())]);
            let text = if id.is_some() { incidents::details } else { incidents::fitting_list };
            show(&client, args, &path, text).await
        }
        ManageCommand::Accept { id, action } => {
            act_with(&client, action, "accept", json!({ "id": id }), Awaited::Action).await
        }
        ManageCommand::Top { interval, count, .. } => top::run(&client, *interval, *count).await,
        ManageCommand::Nodes(args) => show(&client, args, "/v1/nodes", lists::nodes).await,
        ManageCommand::Links { down, degraded, node, client: args } => {
            let down = down.then_some("true");
            let degraded = degraded.then_some("true");
            let query = [("node", node.as_deref()), ("down", down), ("degraded", degraded)];
            show(&client, args, &with_query("/v1/links", &query), lists::links).await
        }
        ManageCommand::Ports { node, errors, client: args } => {
            let number = node.as_deref().and_then(|name| split_port(name).1);
            let number = number.map(|number| number.to_string());
            let errors = errors.then_some("true");
            let query =
                [("node", node.as_deref()), ("port", number.as_deref()), ("errors_only", errors)];
            show(&client, args, &with_query("/v1/ports", &query), lists::ports).await
        }
        ManageCommand::Path { from, to, client: args } => {
            let query = [("from", Some(from.as_str())), ("to", Some(to.as_str()))];
            show(&client, args, &with_query("/v1/routes", &query), path::path).await
        }
        ManageCommand::Events { after, no_follow, json, .. } => {
            let after = after.map(|after| after.to_string());
            let follow = no_follow.then_some("false");
            let query = [("after", after.as_deref()), ("follow", follow)];
            let path = with_query("/v1/events", &query);
            let is_json = *json;
            client
                .stream(&path, |line| {
                    let shown = if is_json { line.to_owned() } else { events::line(line) };
                    print(&format!("{shown}\n"))
                })
                .await
        }
        ManageCommand::Perfmgr { words, action } => perfmgr::run(&client, action, words).await,
        ManageCommand::Metrics(_) => {
            let text = client.get("/metrics", "text/plain").await?;
            print(&String::from_utf8_lossy(&text)).map(drop)
        }
        ManageCommand::Groups(args) => show(&client, args, "/v1/groups", lists::groups).await,
        ManageCommand::Adaptive { switch, client: args } => {
            let path = with_query("/v1/adaptive", &[("node", switch.as_deref())]);
            show(&client, args, &path, adaptive::switches).await
        }
        ManageCommand::Partitions(args) => {
            show(&client, args, "/v1/partitions", lists::partitions).await
        }
        ManageCommand::Torus(args) => show(&client, args, "/v1/torus", lists::torus).await,
        ManageCommand::Sa(args) => show(&client, args, "/v1/sa", lists::sa).await,
        ManageCommand::Quarantine { port: None, client: args, .. } => {
            show(&client, args, "/v1/quarantine", lists::quarantine).await
        }
        ManageCommand::Quarantine { port: Some(name), no_wait, .. } => {
            let args = ActionArgs { no_wait: *no_wait, ..ActionArgs::default() };
            let body = port::link_body(&client, name).await?;
            act_with(&client, &args, "quarantine", body, Awaited::Plan).await
        }
        ManageCommand::Record(args) => act(&client, args, "record", Awaited::Recording).await,
        ManageCommand::Resweep(args) => act(&client, args, "resweep", Awaited::Plan).await,
        ManageCommand::Reroute(args) => act(&client, args, "reroute", Awaited::Plan).await,
        ManageCommand::Reload(args) => act(&client, args, "reload", Awaited::Configuration).await,
        ManageCommand::Dump(args) => act(&client, args, "dump", Awaited::Action).await,
        ManageCommand::Stop(args) => stop::run(&client, args).await,
        ManageCommand::Loglevel { flags, action } => {
            let body = json!({ "flags": flags });
            act_with(&client, action, "loglevel", body, Awaited::Action).await
        }
        ManageCommand::Priority { priority, action } => {
            let body = json!({ "priority": priority });
            act_with(&client, action, "priority", body, Awaited::Action).await
        }
        ManageCommand::Handover { to, action } => {
            act_with(&client, action, "handover", json!({ "to": to }), Awaited::Action).await
        }
        ManageCommand::WhatIf { port: name, action } => {
            let body = port::link_body(&client, name).await?;
            act_with(&client, action, "what-if", body, Awaited::Action).await
        }
        ManageCommand::Release { port: name, action } => {
            let body = port::link_body(&client, name).await?;
            act_with(&client, action, "release", body, Awaited::Plan).await
        }
    }
}
