//! Prints replies: once or repeatedly, as text or JSON.

use super::http::{HttpClient, JSON};
use crate::cli::CommandFailure;
use crate::cli::manage::ClientArgs;
use crate::cli::output::{clear_screen, print};
use serde_json::Value;
use std::time::Duration;

/// Prints the resource at `path` as `text` makes it, or as JSON.
pub(super) async fn show(
    client: &HttpClient,
    args: &ClientArgs,
    path: &str,
    text: fn(&Value) -> String,
) -> Result<(), CommandFailure> {
    loop {
        let shown = if args.json {
            String::from_utf8_lossy(&client.get(path, JSON).await?).into_owned()
        } else {
            text(&client.get_json(path).await?)
        };
        if args.watch.is_some() && !args.json {
            clear_screen();
        }
        let goes_on = print(&shown)?;
        match args.watch {
            Some(seconds) if goes_on => {
                tokio::time::sleep(Duration::from_secs(seconds.into())).await
            }
            _ => return Ok(()),
        }
    }
}
