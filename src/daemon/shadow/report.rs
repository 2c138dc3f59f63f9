//! The report of a shadow: what would change if this program took over, and what it has seen. It is stored
//! after each pass, and shown by `torus-sm shadow --report`.

use super::difference_groups::{DifferenceGroup, groups};
use super::dry_start::ManagerView;
use super::path_sls::SampledPathSls;
use super::set_view::{SetView, by_attribute};
use crate::cli::ExitCode;
use crate::notes::counted;
use crate::replication::comparison::{Description, differences};
use serde::{Deserialize, Serialize};

/// Maximum number of changes of the fabric that are kept; older ones are counted.
const MAX_CHANGES: usize = 1000;

/// Maximum number of changes of the configuration that are kept.
const MAX_CONFIGURATIONS: usize = 16;

/// Maximum number of lines of differences in text and page; the JSON has all differences.
const MAX_LISTED: usize = 200;

/// A change of the fabric, and what this program would have done.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SeenChange {
    /// Local time of the pass that saw it.
    pub time: String,
    /// What changed.
    pub what: Vec<String>,
    /// Time of planning and verification, milliseconds.
    pub planning_ms: u64,
    /// Number of linear forwarding table blocks that the new plan changes.
    pub lft_blocks: usize,
    /// The engine of the new plan; `None` if it is rejected.
    pub engine: Option<String>,
    /// Why the plan is rejected.
    pub rejected: Option<String>,
    /// Messages of the plan, such as the repairs of a torus.
    pub notes: Vec<String>,
}

/// The report.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ShadowReport {
    /// GUID of the local port.
    pub port_guid: String,
    /// Local time of the start of the shadow.
    pub since: String,
    /// Local time of the end of the last pass.
    pub updated: String,
    /// Number of complete passes over the fabric.
    pub passes: u64,
    /// Number of passes that failed, and why the last of them did.
    pub failed_passes: u64,
    pub last_failure: Option<String>,
    /// Gets that were sent. No other MAD is.
    pub gets: u64,
    pub switches: usize,
    /// Channel adapters and routers.
    pub hosts: usize,
    pub managers: Vec<ManagerView>,
    /// The engine that routes the fabric; `None` if the plan is rejected.
    pub engine: Option<String>,
    pub rejected: Option<String>,
    /// What this program would write, as of the last pass.
    pub differences: Vec<SetView>,
    /// Number of ports that would name another master SM.
    pub renamed_manager: usize,
    /// Blocks that devices do not answer.
    pub unanswered: Vec<String>,
    /// Multicast groups that the forwarding tables show.
    pub groups: usize,
    pub path_sls: SampledPathSls,
    /// A credit loop in the tables that the devices hold.
    pub credit_loop: Option<String>,
    /// Other faults of these tables.
    pub faults_in_force: Vec<String>,
    /// Changes of the fabric, the latest last.
    pub changes: Vec<SeenChange>,
    /// The folder of dump files that were compared instead of devices.
    #[serde(default)]
    pub dump_files: Option<String>,
    /// Tables that the dump files do not have, with the reasons.
    #[serde(default)]
    pub not_compared: Vec<String>,
    /// The configuration of the last run; values of files and secrets are hashes.
    #[serde(default)]
    pub configuration: Description,
    /// The last times at which the report was continued with another configuration.
    #[serde(default)]
    pub configuration_changes: Vec<String>,
    /// Number of older changes that were dropped.
    pub dropped_changes: u64,
}

impl ShadowReport {
    /// Adds a change, and drops the oldest if there are too many.
    pub(super) fn add_change(&mut self, change: SeenChange) {
        self.changes.push(change);
        if self.changes.len() > MAX_CHANGES {
            self.changes.remove(0);
            self.dropped_changes += 1;
        }
    }

    /// Replaces the differences by these Sets; those that change no settings are left out.
    ///
    /// `ignored`: settings of ports that are not compared.
    pub(super) fn set_differences(
        &mut self,
        sets: impl Iterator<Item = SetView>,
        ignored: &[String],
    ) {
        self.differences.clear();
        self.renamed_manager = 0;
        for mut set in sets.filter(|set| !set.is_harmless()) {
            let names_manager = set.differences.iter().any(|text| text.starts_with("MasterSM"));
            self.renamed_manager += usize::from(names_manager);
            // These follow from the place of the SM, not from the configuration.
            set.differences
                .retain(|text| !text.starts_with("MasterSM") && !is_ignored(ignored, text));
            if !set.differences.is_empty() {
                self.differences.push(set);
            }
        }
        self.differences.sort_by(|one, other| {
            (&one.guid, &one.attribute, one.modifier).cmp(&(
                &other.guid,
                &other.attribute,
                other.modifier,
            ))
        });
    }

    /// Why a switch to this program is not known to be safe; empty if it is.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.passes == 0 {
            let why = self.last_failure.as_deref().unwrap_or("none has ended");
            reasons.push(format!("no pass over the fabric is complete: {why}"));
            return reasons;
        }
        if let Some(reason) = &self.rejected {
            reasons.push(format!("the fabric would not be routed: {reason}"));
        }
        if !self.differences.is_empty() {
            let blocks = counted(self.differences.len(), "block or port", "blocks or ports");
            let kinds = by_attribute(self.differences.iter());
            reasons.push(format!("{blocks} would be written ({kinds})"));
        }
        if !self.path_sls.differing.is_empty() {
            let count = self.path_sls.differing.len();
            let paths = counted(count, "sample path has", "sample paths have");
            reasons.push(format!("{paths} another service level than the master answers"));
        }
        if !self.unanswered.is_empty() {
            let count = counted(self.unanswered.len(), "block", "blocks");
            reasons.push(format!("devices do not answer for {count}"));
        }
        let refused = self.changes.iter().filter(|change| change.rejected.is_some());
        if let Some(last) = refused.clone().next_back() {
            let count = counted(refused.count(), "change", "changes");
            reasons.push(format!(
                "after {count} of the fabric no plan would have been accepted, at last at {}: {}",
                last.time,
                last.rejected.as_deref().unwrap_or("")
            ));
        }
        reasons
    }

    /// One line: whether a switch is safe.
    pub fn verdict(&self) -> &'static str {
        if self.reasons().is_empty() { "safe to switch" } else { "NOT safe to switch" }
    }

    /// The exit code of `--report`.
    pub fn exit_code(&self) -> ExitCode {
        if self.reasons().is_empty() { ExitCode::Ok } else { ExitCode::Changes }
    }

    /// What is wrong with the tables in force, whoever manages the fabric.
    pub(super) fn warnings(&self) -> Vec<String> {
        let credit_loop = self.credit_loop.iter().map(|text| format!("tables in force: {text}"));
        let faults = self.faults_in_force.iter().map(|text| format!("tables in force: {text}"));
        credit_loop.chain(faults).collect()
    }

    /// The differences in words, equal ones as one.
    pub(super) fn difference_lines(&self) -> Vec<String> {
        let groups = groups(&self.differences);
        let shown = groups.iter().take(MAX_LISTED);
        let mut lines: Vec<String> = shown.map(DifferenceGroup::line).collect();
        let left_out = groups.iter().skip(MAX_LISTED).map(|group| group.sets.len()).sum::<usize>();
        if left_out > 0 {
            lines.push(format!("and {left_out} more"));
        }
        lines
    }

    /// Records the configuration of this run. If the report was made with another one, it says so from
    /// now on: changes seen before were planned with the older configuration.
    pub(super) fn configure(&mut self, configuration: Description, time: &str) -> Option<String> {
        let before = std::mem::replace(&mut self.configuration, configuration);
        if before.is_empty() {
            return None;
        }
        let differing = differences(&self.configuration, &before);
        if differing.is_empty() {
            return None;
        }
        let text = format!(
            "from {time} on the configuration is another one than before (here: now, there: before): \
             {}",
            differing.join(", ")
        );
        self.configuration_changes.push(text.clone());
        if self.configuration_changes.len() > MAX_CONFIGURATIONS {
            self.configuration_changes.remove(0);
        }
        Some(text)
    }

    /// Facts in words, one a line.
    pub(super) fn facts(&self) -> Vec<String> {
        if let Some(folder) = &self.dump_files {
            return self.facts_of_dump_files(folder);
        }
        let mut facts = vec![
            format!("shadow at port GUID {} since {}", self.port_guid, self.since),
            format!(
                "{}, the last ended {}; {} failed; {}, no other MAD",
                counted(self.passes as usize, "pass", "passes"),
                self.updated,
                self.failed_passes,
                counted(self.gets as usize, "Get sent", "Gets sent"),
            ),
            format!(
                "{}, {}, {} in the forwarding tables",
                counted(self.switches, "switch", "switches"),
                counted(self.hosts, "host", "hosts"),
                counted(self.groups, "multicast group", "multicast groups"),
            ),
        ];
        for ManagerView { guid, name, state, priority } in &self.managers {
            facts.push(format!("SM {guid} \"{name}\": {state}, priority {priority}"));
        }
        if let Some(engine) = &self.engine {
            facts.push(format!("this program routes the fabric by {engine}"));
        }
        let SampledPathSls { asked, answered, .. } = self.path_sls;
        facts.push(format!(
            "the SA of the master answered {answered} of {}",
            counted(asked, "query for a sample path", "queries for sample paths")
        ));
        if self.renamed_manager > 0 {
            let ports = counted(self.renamed_manager, "port names", "ports name");
            facts.push(format!(
                "{ports} the present master, which a switch at another port changes"
            ));
        }
        facts.extend(self.configuration_changes.iter().cloned());
        if let Some(failure) = &self.last_failure {
            facts.push(format!("the last pass that failed: {failure}"));
        }
        facts
    }

    fn facts_of_dump_files(&self, folder: &str) -> Vec<String> {
        let switches = counted(self.switches, "switch", "switches");
        let hosts = counted(self.hosts, "host", "hosts");
        let engine = self.engine.iter();
        let engine = engine.map(|engine| format!("this program routes the fabric by {engine}"));
        let compared = format!(
            "the dump files of {folder}: {switches}, {hosts}, {} in the forwarding tables",
            counted(self.groups, "multicast group", "multicast groups")
        );
        let missing = self.not_compared.iter().map(|tables| format!("not compared: {tables}"));
        std::iter::once(compared).chain(engine).chain(missing).collect()
    }

    /// A change of the fabric in one line.
    pub(super) fn change_line(change: &SeenChange) -> String {
        let SeenChange { time, what, planning_ms, lft_blocks, engine, rejected, .. } = change;
        let done = match (engine, rejected) {
            (Some(engine), _) => format!(
                "planned by {engine} in {planning_ms} ms, {}",
                counted(*lft_blocks, "forwarding block changes", "forwarding blocks change")
            ),
            (None, reason) => {
                format!("rejected: {}", reason.as_deref().unwrap_or("the reason is not known"))
            }
        };
        format!("{time}: {}: {done}", what.join(", "))
    }

    /// The report as text.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.verdict());
        let mut put = |indent: &str, line: &str| text += &format!("{indent}{line}\n");
        self.reasons().iter().for_each(|reason| put("  ", reason));
        self.warnings().iter().for_each(|warning| put("warning: ", warning));
        self.facts().iter().for_each(|fact| put("", fact));
        for line in self.difference_lines() {
            put("difference: ", &line);
        }
        self.path_sls.differing.iter().for_each(|path| put("difference: ", path));
        self.unanswered.iter().for_each(|block| put("not answered: ", block));
        for change in &self.changes {
            put("change: ", &Self::change_line(change));
            change.notes.iter().for_each(|note| put("    ", note));
        }
        if self.dropped_changes > 0 {
            put("", &format!("{} earlier changes were dropped", self.dropped_changes));
        }
        text
    }
}

fn is_ignored(ignored: &[String], text: &str) -> bool {
    let name = text.split(':').next().unwrap_or("");
    ignored.iter().any(|setting| setting == name)
}
