//! Differences between the recorded result of a plan and the repeated one.

use super::rerun::Repeated;
use crate::ids::Guid;
use crate::notes::counted;
use crate::record::digest::DeviceDigest;
use crate::record::json::{PlanJson, ResultJson};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum number of differences that are listed one by one.
const MAX_LISTED: usize = 32;

/// A plan and what is different when it is repeated.
#[derive(Debug)]
pub struct ReplayComparison {
    /// Number of the plan since the start of the daemon, from 1.
    number: u64,
    result: String,
    /// The recorded plan has no result to compare.
    is_unfinished: bool,
    /// Differences of the devices that were found.
    discovery: Vec<String>,
    /// Differences of the plans.
    planning: Vec<String>,
    unplaced: usize,
    lacks_previous: bool,
    lacks_vports: bool,
}

impl ReplayComparison {
    pub(super) fn new(plan: &PlanJson, again: &Repeated) -> Self {
        let (discovery, tables) = devices(plan, again);
        let is_unfinished = plan.result == ResultJson::Unfinished;
        let mut planning = verdicts(plan, again);
        if planning.is_empty() {
            planning = tables;
        }
        let result = match &again.plan {
            Ok(engine) => format!("routed by {engine}"),
            Err(reason) => format!("no plan: {reason}"),
        };
        let Repeated { unplaced, lacks_previous, lacks_vports, .. } = *again;
        let number = plan.number;
        Self {
            number,
            result,
            is_unfinished,
            discovery,
            planning,
            unplaced,
            lacks_previous,
            lacks_vports,
        }
    }

    /// True if the repeated result is the recorded one, as far as the recording has all that the
    /// result depends on.
    pub fn is_equal(&self) -> bool {
        let is_explained = self.lacks_previous || self.lacks_vports;
        self.discovery.is_empty() && (self.planning.is_empty() || is_explained)
    }

    /// True if the repeated plan is the recorded one.
    pub(super) fn has_same_plan(&self) -> bool {
        self.planning.is_empty() && !self.is_unfinished
    }

    /// The differences, one a line.
    pub fn differences(&self) -> impl Iterator<Item = &str> {
        self.discovery.iter().chain(&self.planning).map(String::as_str)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "plan {}:      {}", self.number, self.result);
        put(&mut text, "devices", &self.discovery, "as recorded");
        let same = if self.is_unfinished {
            "the recording was written before there was a result"
        } else {
            "as recorded"
        };
        put(&mut text, "plan", &self.planning, same);
        if self.lacks_previous && !self.planning.is_empty() {
            text += "    the plan before it, whose routes the engine may keep, is not in the recording\n";
        }
        if self.lacks_vports && !self.planning.is_empty() {
            text +=
                "    virtual ports, whose LIDs and P_Keys the plan has, are not in the recording\n";
        }
        if self.unplaced > 0 {
            let answers = counted(self.unplaced, "answer", "answers");
            let _ = writeln!(text, "  {answers} came through cables that the recording lacks");
        }
        text
    }
}

fn put(text: &mut String, what: &str, differences: &[String], same: &str) {
    if differences.is_empty() {
        let _ = writeln!(text, "  {what}: {same}");
        return;
    }
    let count = counted(differences.len(), "difference", "differences");
    let _ = writeln!(text, "  {what}: {count}");
    for difference in differences.iter().take(MAX_LISTED) {
        let _ = writeln!(text, "    {difference}");
    }
    if differences.len() > MAX_LISTED {
        let _ = writeln!(text, "    … and {} more", differences.len() - MAX_LISTED);
    }
}

/// The difference of the verdicts, if any.
fn verdicts(plan: &PlanJson, again: &Repeated) -> Vec<String> {
    let difference = match (&plan.result, &again.plan) {
        (ResultJson::Unfinished, _) | (ResultJson::Rejected(_), Err(_)) => None,
        (ResultJson::Accepted(engine), Ok(other)) if engine == other => None,
        (ResultJson::Accepted(engine), Ok(other)) => {
            Some(format!("{other} routes the fabric, recorded is {engine}"))
        }
        (ResultJson::Accepted(engine), Err(reason)) => {
            Some(format!("there is no plan ({reason}), recorded is one by {engine}"))
        }
        (ResultJson::Rejected(reason), Ok(other)) => {
            Some(format!("{other} routes the fabric, recorded is no plan ({reason})"))
        }
    };
    difference.into_iter().collect()
}

/// Differences of the observed devices, and of their planned states.
fn devices(plan: &PlanJson, again: &Repeated) -> (Vec<String>, Vec<String>) {
    let found = match &again.found {
        Ok(found) => found,
        Err(problem) => return (vec![format!("the sweep fails: {problem}")], Vec::new()),
    };
    let mut found: BTreeMap<Guid, (DeviceDigest, &str)> =
        found.iter().map(|(guid, digest, name)| (*guid, (*digest, &**name))).collect();
    let mut observed = Vec::new();
    let mut planned = Vec::new();
    for recorded in &plan.digests {
        let guid = recorded.guid.0;
        let name = &recorded.description;
        let Some((digest, _)) = found.remove(&guid) else {
            observed.push(format!("{guid} \"{name}\" is not found"));
            continue;
        };
        if digest.observed != recorded.digest.observed {
            observed.push(format!("{guid} \"{name}\" has other attributes, port states or cables"));
        }
        if let (Some(one), Some(two)) = (recorded.digest.planned, digest.planned) {
            let parts = one.differences(&two);
            if !parts.is_empty() {
                planned.push(format!("{guid} \"{name}\": {}", parts.join(", ")));
            }
        }
    }
    let surplus =
        found.iter().map(|(guid, (_, name))| format!("{guid} \"{name}\" is found besides"));
    observed.extend(surplus);
    (observed, planned)
}
