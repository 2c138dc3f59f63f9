//! Requests actions and prints their results.

use super::http::HttpClient;
use super::wait::{self, Awaited};
use crate::cli::CommandFailure;
use crate::cli::manage::ActionArgs;
use crate::cli::output::print;

/// Requests an action, and prints its result.
///
/// # Errors
/// There is no daemon, it refuses, or the action fails.
pub(super) async fn act(
    client: &HttpClient,
    args: &ActionArgs,
    name: &str,
    body: serde_json::Value,
    awaited: Awaited,
) -> Result<(), CommandFailure> {
    let accepted = client.post(&format!("/v1/actions/{name}"), body.to_string()).await?;
    let text = if args.no_wait {
        format!("{name}: requested")
    } else {
        wait::result(client, &accepted, awaited).await?
    };
    let _ = print(&format!("{text}\n"))?;
    Ok(())
}
