//! Carries out the commands.

use super::http::{Client, with_query};
use super::show::{print, show};
use super::wait::{self, Awaited};
use super::{instance, lists, path, perfmgr, status, top};
use crate::cli::manage::{ActionArgs, ManageCommand};
use crate::cli::{ExitCode, Failure};
use serde_json::json;

/// Carries out a command.
///
/// # Errors
/// There is no daemon, or it refuses.
pub fn run(command: &ManageCommand) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(ExitCode::System, error))?;
    runtime.block_on(carry_out(command))?;
    Ok(ExitCode::Ok)
}

async fn carry_out(command: &ManageCommand) -> Result<(), Failure> {
    let client = Client::new(instance::find(command.select())?);
    match command {
        ManageCommand::Status(args) => show(&client, args, "/v1/status", status::status).await,
        ManageCommand::Top { interval, count, .. } => top::run(&client, *interval, *count).await,
        ManageCommand::Nodes(args) => show(&client, args, "/v1/nodes", lists::nodes).await,
        ManageCommand::Links(args) => show(&client, args, "/v1/links", lists::links).await,
        ManageCommand::Ports { node, client: args } => {
            let path = with_query("/v1/ports", &[("node", node.as_deref())]);
            show(&client, args, &path, lists::ports).await
        }
        ManageCommand::Path { from, to, client: args } => {
            let query = [("from", Some(from.as_str())), ("to", Some(to.as_str()))];
            show(&client, args, &with_query("/v1/routes", &query), path::path).await
        }
        ManageCommand::Events { after, no_follow, .. } => {
            let after = after.map(|after| after.to_string());
            let follow = no_follow.then_some("false");
            let query = [("after", after.as_deref()), ("follow", follow)];
            let path = with_query("/v1/events", &query);
            client.stream(&path, |line| print(&format!("{line}\n"))).await
        }
        ManageCommand::Perfmgr { words, .. } => perfmgr::run(&client, words).await,
        ManageCommand::Metrics(_) => {
            let text = client.get("/metrics", "text/plain").await?;
            print(&String::from_utf8_lossy(&text)).map(drop)
        }
        ManageCommand::Groups(args) => show(&client, args, "/v1/groups", lists::groups).await,
        ManageCommand::Partitions(args) => {
            show(&client, args, "/v1/partitions", lists::partitions).await
        }
        ManageCommand::Torus(args) => show(&client, args, "/v1/torus", lists::torus).await,
        ManageCommand::Sa(args) => show(&client, args, "/v1/sa", lists::sa).await,
        ManageCommand::Quarantine { port: None, client: args, .. } => {
            show(&client, args, "/v1/quarantine", lists::quarantine).await
        }
        ManageCommand::Quarantine { port: Some((guid, num)), no_wait, .. } => {
            let args = ActionArgs { no_wait: *no_wait, ..ActionArgs::default() };
            let body = json!({ "guid": guid.to_string(), "port": num.0 });
            act_with(&client, &args, "quarantine", body, Some(Awaited::Plan)).await
        }
        ManageCommand::Record(args) => act(&client, args, "record", Some(Awaited::Recording)).await,
        ManageCommand::Resweep(args) => act(&client, args, "resweep", Some(Awaited::Plan)).await,
        ManageCommand::Reroute(args) => act(&client, args, "reroute", Some(Awaited::Plan)).await,
        ManageCommand::Reload(args) => {
            act(&client, args, "reload", Some(Awaited::Configuration)).await
        }
        ManageCommand::Dump(args) => act(&client, args, "dump", None).await,
        ManageCommand::Stop(args) => act(&client, args, "exit", None).await,
        ManageCommand::Loglevel { flags, action } => {
            act_with(&client, action, "loglevel", json!({ "flags": flags }), None).await
        }
        ManageCommand::Priority { priority, action } => {
            act_with(&client, action, "priority", json!({ "priority": priority }), None).await
        }
        ManageCommand::Handover { to, action } => {
            act_with(&client, action, "handover", json!({ "to": to }), None).await
        }
        ManageCommand::Release { port: (guid, num), action } => {
            let body = json!({ "guid": guid.to_string(), "port": num.0 });
            act_with(&client, action, "release", body, Some(Awaited::Plan)).await
        }
    }
}

async fn act(
    client: &Client,
    args: &ActionArgs,
    name: &str,
    awaited: Option<Awaited>,
) -> Result<(), Failure> {
    act_with(client, args, name, json!({}), awaited).await
}

async fn act_with(
    client: &Client,
    args: &ActionArgs,
    name: &str,
    body: serde_json::Value,
    awaited: Option<Awaited>,
) -> Result<(), Failure> {
    let accepted = client.post(&format!("/v1/actions/{name}"), body.to_string()).await?;
    let text = match awaited.filter(|_| !args.no_wait) {
        Some(awaited) => {
            let after = accepted["after_event"].as_u64().unwrap_or_default();
            wait::result(client, after, awaited).await?
        }
        None => format!("{name}: requested"),
    };
    let _ = print(&format!("{text}\n"))?;
    Ok(())
}
