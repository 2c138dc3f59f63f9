//! Queries of the SA server's registry. Without an SA server, the registry is empty.

use crate::daemon::messages::SaCommand;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::observe::Observation;
use crate::plan::aliases::AliasBlock;
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use tokio::sync::oneshot;

/// The generation of the registry and its multicast groups.
pub(super) async fn groups(
    context: &ManagerContext,
    observation: &Observation,
) -> (u64, Vec<GroupMembers>) {
    let fabric = observation.fabric.clone();
    query(context, |reply| SaCommand::GetGroups { fabric, reply }).await.unwrap_or_default()
}

/// The generation of the registry and the groups that changed after generation `since`.
pub(super) async fn group_changes(
    context: &ManagerContext,
    observation: &Observation,
    since: u64,
) -> Option<(u64, MulticastDelta)> {
    let fabric = observation.fabric.clone();
    query(context, |reply| SaCommand::GetGroupChanges { since, fabric, reply }).await
}

/// The alias GUIDs, as blocks of the ports' GUIDInfo tables.
pub(super) async fn aliases(
    context: &ManagerContext,
    observation: &Observation,
) -> Vec<AliasBlock> {
    let fabric = observation.fabric.clone();
    query(context, |reply| SaCommand::GetAliases { fabric, reply }).await.unwrap_or_default()
}

async fn query<T>(
    context: &ManagerContext,
    command: impl FnOnce(oneshot::Sender<T>) -> SaCommand,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    context.sa_server.send(command(reply)).await.ok()?;
    answer.await.ok()
}
