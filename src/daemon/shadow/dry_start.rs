//! `torus-sm --dry-start`: the Sets that the first sweep of the daemon would send on the live fabric.

use super::first_start::{FirstPlan, FirstStart};
use super::set_view::{SetEffect, SetView, by_attribute, line};
use crate::cli::ExitCode;
use crate::fabric::Fabric;
use crate::notes::counted;
use crate::observe::{Observation, SweepError};
use crate::transport::client::SmpClient;
use crate::transport::rehearsal::Rehearsal;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Another subnet manager.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ManagerView {
    pub guid: String,
    pub name: String,
    pub state: String,
    pub priority: u8,
}

/// The report of a dry start.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DryStart {
    /// GUID of the local port.
    pub port_guid: String,
    pub switches: usize,
    /// Channel adapters and routers.
    pub hosts: usize,
    /// Faults that the sweep found.
    pub faults: Vec<String>,
    pub managers: Vec<ManagerView>,
    /// The engine that routes the fabric; `None` if the plan is rejected.
    pub engine: Option<String>,
    /// Why there is no plan.
    pub rejected: Option<String>,
    /// Messages of the plan for the operator.
    pub notes: Vec<String>,
    /// Number of Sets that would change what devices hold.
    pub changes: usize,
    /// All Sets, in the order in which they would be answered.
    pub sets: Vec<SetView>,
    /// Sets that devices would not answer.
    pub unanswered: Vec<String>,
}

impl DryStart {
    /// Sweeps the fabric and rehearses the first sweep on it.
    ///
    /// # Errors
    /// The local port fails, or an engine name is unknown.
    pub async fn run(
        client: &SmpClient,
        rehearsal: &Rehearsal,
        mut start: FirstStart,
    ) -> Result<Self, DryStartError> {
        let observation = start.sweep(client).await?;
        let planned = start.plan(&observation, Vec::new()).map_err(DryStartError::Engine)?;
        let mut report = Self::of(&observation, &planned);
        let Ok(verified) = &planned.outcome else { return Ok(report) };
        let first = start.program(client, rehearsal, &observation, verified).await;
        let fabric = &observation.fabric;
        let sets = first.sets.iter().filter_map(|set| SetView::new(fabric, set));
        report.sets = sets.collect();
        report.changes = report.sets.iter().filter(|set| !set.is_harmless()).count();
        let failed = first.report.unacknowledged.failed.iter().map(|(set, _)| set);
        let unanswered = failed.chain(&first.report.unacknowledged.unsent);
        report.unanswered = unanswered.map(|set| set.describe(fabric)).collect();
        Ok(report)
    }

    fn of(observation: &Observation, planned: &FirstPlan) -> Self {
        let fabric = &observation.fabric;
        let (engine, rejected) = match &planned.outcome {
            Ok(verified) => (Some(verified.plan().routing.engine.to_owned()), None),
            Err(rejected) => (None, Some(rejected.headline.clone())),
        };
        let notes = match &planned.outcome {
            Ok(verified) => [&verified.plan().notes[..], &verified.summary().notes].concat(),
            Err(rejected) => rejected.notes.clone(),
        };
        Self {
            port_guid: fabric.port(fabric.local()).guid.to_string(),
            switches: fabric.switches().len(),
            hosts: fabric.nodes().len() - fabric.switches().len(),
            faults: fabric.faults().iter().map(ToString::to_string).collect(),
            managers: managers(observation, fabric),
            engine,
            rejected,
            notes: notes.iter().map(ToString::to_string).collect(),
            changes: 0,
            sets: Vec::new(),
            unanswered: Vec::new(),
        }
    }

    /// The exit code: whether Sets would change what devices hold.
    pub fn exit_code(&self) -> ExitCode {
        if self.rejected.is_some() {
            ExitCode::Fatal
        } else if self.changes > 0 || !self.unanswered.is_empty() {
            ExitCode::Changes
        } else {
            ExitCode::Ok
        }
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = format!(
            "dry start at port GUID {}: {}, {}\n",
            self.port_guid,
            counted(self.switches, "switch", "switches"),
            counted(self.hosts, "host", "hosts"),
        );
        // Writing to a `String` cannot fail.
        self.faults.iter().for_each(|fault| text += &format!("fault: {fault}\n"));
        for manager in &self.managers {
            let ManagerView { guid, name, state, priority } = manager;
            let _ = writeln!(text, "other SM: {guid} \"{name}\", {state}, priority {priority}");
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        match (&self.engine, &self.rejected) {
            (Some(engine), _) => text += &format!("plan: routed by {engine}, verified\n"),
            (None, Some(reason)) => {
                let _ = writeln!(text, "no plan: {reason}; no table would be written");
                return text;
            }
            (None, None) => {}
        }
        self.put_sets(&mut text);
        text
    }

    fn put_sets(&self, text: &mut String) {
        if self.sets.is_empty() && self.unanswered.is_empty() {
            *text += "the first sweep would send no Set\n";
            return;
        }
        let _ = writeln!(
            text,
            "the first sweep would send {} ({}), of which {} what devices hold",
            counted(self.sets.len(), "Set", "Sets"),
            by_attribute(self.sets.iter()),
            counted(self.changes, "changes", "change"),
        );
        let quiet = self.sets.iter().filter(|set| is_quiet(set)).count();
        if quiet > 0 {
            let ports = counted(quiet, "port", "ports");
            let _ = writeln!(text, "  the clients of {ports} would be asked to register again");
        }
        let mut sets: Vec<&SetView> = self.sets.iter().filter(|set| !is_quiet(set)).collect();
        sets.sort_by_key(|set| &set.guid);
        for device in sets.chunk_by(|one, other| one.guid == other.guid) {
            let count = counted(device.len(), "Set", "Sets");
            let _ = writeln!(text, "{} \"{}\": {count}", device[0].guid, device[0].name);
            device.iter().for_each(|set| *text += &format!("  {}\n", line(set)));
        }
        for set in &self.unanswered {
            let _ = writeln!(text, "not answered: {set}");
        }
    }
}

fn is_quiet(set: &SetView) -> bool {
    set.effect == SetEffect::RegisterAgain
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum DryStartError {
    #[error(transparent)]
    Sweep(#[from] SweepError),
    #[error("{0}")]
    Engine(String),
}

/// The other subnet managers that the sweep found.
pub(super) fn managers(observation: &Observation, fabric: &Fabric) -> Vec<ManagerView> {
    observation
        .managers
        .iter()
        .map(|&(port, info)| ManagerView {
            guid: info.guid().to_string(),
            name: fabric.node_of(port).name().to_string(),
            state: info.state().to_string(),
            priority: info.priority(),
        })
        .collect()
}
