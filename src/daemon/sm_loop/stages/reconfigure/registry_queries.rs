//! Queries of the SA server's registry. Without an SA server, the registry is empty.

use crate::daemon::messages::SaCommand;
use crate::observe::Observation;
use crate::plan::aliases::AliasBlock;
use crate::plan::multicast::{GroupMembers, MulticastDelta};
use tokio::sync::{mpsc, oneshot};

/// The generation of the registry and its multicast groups.
pub(super) async fn groups(
    sa_server: &mpsc::Sender<SaCommand>,
    observation: &Observation,
) -> (u64, Vec<GroupMembers>) {
    let fabric = observation.fabric.clone();
    query(sa_server, |reply| SaCommand::GetGroups { fabric, reply }).await.unwrap_or_default()
}

/// The generation of the registry and the groups that changed after generation `since`.
pub(super) async fn group_changes(
    sa_server: &mpsc::Sender<SaCommand>,
    observation: &Observation,
    since: u64,
) -> Option<(u64, MulticastDelta)> {
    let fabric = observation.fabric.clone();
    query(sa_server, |reply| SaCommand::GetGroupChanges { since, fabric, reply }).await
}

/// The alias GUIDs, as blocks of the ports' GUIDInfo tables.
pub(super) async fn aliases(
    sa_server: &mpsc::Sender<SaCommand>,
    observation: &Observation,
) -> Vec<AliasBlock> {
    let fabric = observation.fabric.clone();
    query(sa_server, |reply| SaCommand::GetAliases { fabric, reply }).await.unwrap_or_default()
}

async fn query<T>(
    sa_server: &mpsc::Sender<SaCommand>,
    command: impl FnOnce(oneshot::Sender<T>) -> SaCommand,
) -> Option<T> {
    let (reply, answer) = oneshot::channel();
    sa_server.send(command(reply)).await.ok()?;
    answer.await.ok()
}
