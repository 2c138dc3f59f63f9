//! Waits for the result of an action.

use super::http::HttpClient;
use super::values::{duration, list, text};
use crate::cli::{CommandFailure, ExitCode};
use crate::notes::counted;
use serde_json::Value;
use std::time::Duration;
use tokio::time::timeout;

/// Time for the result of an action.
const RESULT_TIMEOUT: Duration = Duration::from_secs(120);

/// The result of an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Awaited {
    /// A reconfiguration.
    Plan,
    /// A new configuration.
    Configuration,
    /// A recording of the flight recorder.
    Recording,
    /// The event about the action itself.
    Action,
}

/// Waits for the result of an action. `accepted`: the reply to its request. Returns the result as
/// text.
///
/// # Errors
/// The action failed, or there is no result in time.
pub(super) async fn result(
    client: &HttpClient,
    accepted: &Value,
    awaited: Awaited,
) -> Result<String, CommandFailure> {
    let mut outcome = None;
    let path = format!("/v1/events?after={}", accepted["after_event"].as_u64().unwrap_or(0));
    let request = &accepted["request"];
    let stream = client.stream(&path, |line| {
        let event: Value = serde_json::from_str(line).unwrap_or(Value::Null);
        // Another client may have requested the same action.
        let is_foreign = awaited == Awaited::Action && event["request"] != *request;
        outcome = if is_foreign { None } else { judge(&event, awaited) };
        Ok(outcome.is_none())
    });
    let ended = timeout(RESULT_TIMEOUT, stream).await;
    ended.unwrap_or_else(|_| {
        let text = format!("no result within {} s", RESULT_TIMEOUT.as_secs());
        Err(CommandFailure::new(ExitCode::Fatal, text))
    })?;
    outcome.unwrap_or_else(|| {
        Err(CommandFailure::new(ExitCode::Fatal, "the daemon has ended before there was a result"))
    })
}

/// The result that an event means; `None` if it means none.
fn judge(event: &Value, awaited: Awaited) -> Option<Result<String, CommandFailure>> {
    match (text(&event["event"]), awaited) {
        ("config_reloaded", Awaited::Configuration) => match list(&event["problems"]) {
            [] => Some(Ok("configuration read again".into())),
            problems => {
                let problems: Vec<&str> = problems.iter().map(text).collect();
                let problems = problems.join("\n");
                failed(
                    ExitCode::Config,
                    &format!("configuration read again except for:\n{problems}"),
                )
            }
        },
        ("config_rejected", Awaited::Configuration) => failed(
            ExitCode::Config,
            &format!("the configuration stays as it was: {}", problem_of(event)),
        ),
        ("action_done", Awaited::Action) => Some(Ok(text(&event["text"]).to_owned())),
        ("action_failed", Awaited::Action) => failed(ExitCode::Fatal, problem_of(event)),
        ("recording_written", Awaited::Recording) => {
            Some(Ok(format!("wrote {}", text(&event["path"]))))
        }
        ("recording_failed", Awaited::Recording) => failed(ExitCode::Fatal, problem_of(event)),
        ("link_needed", Awaited::Plan) => {
            failed(ExitCode::Fatal, "nodes would be cut off without this link: it stays in use")
        }
        ("plan_rejected", Awaited::Plan) => failed(ExitCode::Fatal, problem_of(event)),
        ("reconfigured", Awaited::Plan) => match text(&event["result"]) {
            "interrupted" => None,
            "up" => {
                let time = event["total_seconds"].as_f64().map_or_else(String::new, duration);
                let sets = event["sets"].as_u64().unwrap_or(0) as usize;
                let sets = counted(sets, "Set", "Sets");
                Some(Ok(format!("subnet up: {sets} in {time}")))
            }
            result => failed(ExitCode::Fatal, &format!("{result}: {}", problem_of(event))),
        },
        ("sweep_finished", Awaited::Plan) if event["result"] == "failed" => {
            failed(ExitCode::Fatal, &format!("the sweep failed: {}", problem_of(event)))
        }
        _ => None,
    }
}

fn failed(code: ExitCode, text: &str) -> Option<Result<String, CommandFailure>> {
    Some(Err(CommandFailure::new(code, text)))
}

fn problem_of(event: &Value) -> &str {
    text(&event["problem"])
}
