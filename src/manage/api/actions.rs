//! The bodies of actions.

use super::error::ApiError;
use crate::ids::{Guid, PortNum};
use crate::manage::action::{
    HandoverBody, IncidentBody, LinkBody, LogLevelBody, OperatorAction, PerfmgrBody, PriorityBody,
};
use crate::perfmgr::command::PerfCommand;
use serde::de::DeserializeOwned;

/// Highest priority of an SM (IBA vol. 1, 14.2.5.13).
const MAX_PRIORITY: u8 = 15;
/// Highest number of a port (IBA vol. 1, 14.2.5.3).
const MAX_PORT: u8 = 254;

fn json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        let text = match error.classify() {
            serde_json::error::Category::Data => data_problem(&error.to_string()),
            _ => "it is not a complete JSON object".to_owned(),
        };
        ApiError::new(400, format!("the body: {text}"))
    })
}

/// A message of serde about a value, in the words of JSON.
fn data_problem(message: &str) -> String {
    let text = message.split(" at line ").next().unwrap_or("");
    let (problem, expected) = match text.split_once(", expected ") {
        Some((problem, expected)) => (problem, expected),
        None => return text.to_owned(),
    };
    let expected = match expected {
        "u8" => "a number from 0 to 255",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    format!("{problem}, expected {expected}")
}

/// An action without parameters: the body is empty or `{}`.
fn plain(body: &[u8], action: OperatorAction) -> Result<OperatorAction, ApiError> {
    match body.trim_ascii() {
        b"" | b"{}" => Ok(action),
        _ => Err(ApiError::new(400, format!("the action {} takes no body", action.name()))),
    }
}

pub(super) fn resweep(body: &[u8]) -> Result<OperatorAction, ApiError> {
    plain(body, OperatorAction::Resweep)
}

pub(super) fn reroute(body: &[u8]) -> Result<OperatorAction, ApiError> {
    plain(body, OperatorAction::Reroute)
}

pub(super) fn reload(body: &[u8]) -> Result<OperatorAction, ApiError> {
    plain(body, OperatorAction::Reload)
}

pub(super) fn dump(body: &[u8]) -> Result<OperatorAction, ApiError> {
    plain(body, OperatorAction::Dump)
}

pub(super) fn record(body: &[u8]) -> Result<OperatorAction, ApiError> {
    plain(body, OperatorAction::Record)
}

pub(super) fn exit(body: &[u8]) -> Result<OperatorAction, ApiError> {
    plain(body, OperatorAction::Exit)
}

pub(super) fn loglevel(body: &[u8]) -> Result<OperatorAction, ApiError> {
    json(body).map(|LogLevelBody { flags }| OperatorAction::LogLevel(flags))
}

pub(super) fn priority(body: &[u8]) -> Result<OperatorAction, ApiError> {
    let PriorityBody { priority } = json(body)?;
    if priority > MAX_PRIORITY {
        let text = format!("the body: priority {priority} is not 0 to {MAX_PRIORITY}");
        return Err(ApiError::new(400, text));
    }
    Ok(OperatorAction::Priority(priority))
}

pub(super) fn handover(body: &[u8]) -> Result<OperatorAction, ApiError> {
    if body.trim_ascii().is_empty() {
        return Ok(OperatorAction::Handover(None));
    }
    let HandoverBody { to } = json(body)?;
    to.as_deref().map(guid).transpose().map(OperatorAction::Handover)
}

pub(super) fn quarantine(body: &[u8]) -> Result<OperatorAction, ApiError> {
    link(body).map(|(guid, port)| OperatorAction::Quarantine(guid, port))
}

pub(super) fn release(body: &[u8]) -> Result<OperatorAction, ApiError> {
    link(body).map(|(guid, port)| OperatorAction::Release(guid, port))
}

pub(super) fn what_if(body: &[u8]) -> Result<OperatorAction, ApiError> {
    link(body).map(|(guid, port)| OperatorAction::WhatIf(guid, port))
}

/// The port that names a link.
fn link(body: &[u8]) -> Result<(Guid, PortNum), ApiError> {
    let LinkBody { guid: text, port } = json(body)?;
    if !(1..=MAX_PORT).contains(&port) {
        let text = format!("the body: port {port} is not 1 to {MAX_PORT}");
        return Err(ApiError::new(400, text));
    }
    Ok((guid(&text)?, PortNum(port)))
}

pub(super) fn accept(body: &[u8]) -> Result<OperatorAction, ApiError> {
    let IncidentBody { id } = json(body)?;
    Ok(OperatorAction::Accept(id))
}

pub(super) fn perfmgr(body: &[u8]) -> Result<OperatorAction, ApiError> {
    let PerfmgrBody { command } = json(body)?;
    let command = PerfCommand::parse(&command);
    command.map(OperatorAction::Perfmgr).map_err(|problem| ApiError::new(400, problem))
}

/// A GUID in hexadecimal digits, with or without `0x`.
pub(super) fn guid(text: &str) -> Result<Guid, ApiError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u64::from_str_radix(digits, 16).ok().filter(|_| is_valid);
    number.map(Guid).ok_or_else(|| ApiError::new(400, format!("'{text}' is not a GUID")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_checked() {
        assert_eq!(resweep(b" \n"), Ok(OperatorAction::Resweep));
        assert_eq!(reload(b"{}"), Ok(OperatorAction::Reload));
        assert_eq!(loglevel(br#"{"flags": 131}"#), Ok(OperatorAction::LogLevel(0x83)));
        assert_eq!(priority(br#"{"priority": 15}"#), Ok(OperatorAction::Priority(15)));
        assert_eq!(handover(b""), Ok(OperatorAction::Handover(None)));
        assert_eq!(handover(br#"{"to": "0xab"}"#), Ok(OperatorAction::Handover(Some(Guid(0xAB)))));
        assert_eq!(
            release(br#"{"guid": "0xab", "port": 3}"#),
            Ok(OperatorAction::Release(Guid(0xAB), PortNum(3)))
        );
        assert_eq!(
            quarantine(br#"{"guid": "ab", "port": 254}"#),
            Ok(OperatorAction::Quarantine(Guid(0xAB), PortNum(254)))
        );
        assert_eq!(problem(exit(b"{\"now\":1}")), "the action exit takes no body");
        assert_eq!(
            problem(priority(br#"{"priority": 16}"#)),
            "the body: priority 16 is not 0 to 15"
        );
        assert_eq!(
            problem(release(br#"{"guid": "0xab", "port": 0}"#)),
            "the body: port 0 is not 1 to 254"
        );
        assert_eq!(
            problem(loglevel(br#"{"flags": 256}"#)),
            "the body: invalid value: integer `256`, expected a number from 0 to 255"
        );
        assert_eq!(problem(loglevel(b"[1")), "the body: it is not a complete JSON object");
        assert_eq!(
            problem(priority(b"7")),
            "the body: invalid type: integer `7`, expected an object"
        );
        assert!(problem(loglevel(br#"{"flags": 1, "level": 2}"#)).contains("level"));
        assert_eq!(problem(handover(br#"{"to": "+1"}"#)), "'+1' is not a GUID");
    }

    fn problem(result: Result<OperatorAction, ApiError>) -> String {
        result.expect_err("invalid").text
    }
}
