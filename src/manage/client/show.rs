//! Prints replies: once or repeatedly, as text or JSON.

use super::http::{Client, JSON};
use crate::cli::manage::ClientArgs;
use crate::cli::{ExitCode, Failure};
use serde_json::Value;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::time::Duration;

/// Moves the cursor of a terminal to its corner, and clears it.
pub(super) const CLEAR: &str = "\x1b[H\x1b[2J";

/// Prints text. False if the reader has closed the pipe, as `| head` does.
///
/// # Errors
/// Standard output fails.
pub(super) fn print(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::new(ExitCode::System, format!("standard output: {error}"))),
    }
}

/// Prints the resource at `path` as `text` makes it, or as JSON.
pub(super) async fn show(
    client: &Client,
    args: &ClientArgs,
    path: &str,
    text: fn(&Value) -> String,
) -> Result<(), Failure> {
    loop {
        let shown = match args.json {
            true => String::from_utf8_lossy(&client.get(path, JSON).await?).into_owned(),
            false => text(&client.get_json(path).await?),
        };
        let clear = args.watch.is_some() && !args.json && io::stdout().is_terminal();
        let goes_on = print(&format!("{}{shown}", if clear { CLEAR } else { "" }))?;
        match args.watch {
            Some(seconds) if goes_on => {
                tokio::time::sleep(Duration::from_secs(seconds.into())).await
            }
            _ => return Ok(()),
        }
    }
}
