//! Sweeps: the devices that they ask, and their results in words.

use crate::daemon::sm_loop::stages::mastership;
use crate::fabric::{End, Fabric, PortId};
use crate::ids::Guid;
use crate::manage::loop_status::SweepResult;
use crate::notes::counted;
use crate::observe::discovery_state::DiscoveryState;
use crate::observe::focused::Focus;
use crate::observe::light::{LightFindings, LightFocus};
use crate::observe::m_keys::MKeys;
use crate::observe::{Observation, SweepError, SweepSettings, focused, light};
use crate::transport::client::SmpClient;
use crate::wire::attr::SmInfo;
use std::collections::HashSet;

/// Maximum number of switches of a focused sweep that a recording names.
const MAX_RECORDED_SUSPECTS: usize = 16;

/// The input of a focused sweep.
pub(in crate::daemon::sm_loop) struct FocusedSweep<'a> {
    pub client: &'a SmpClient,
    pub keys: &'a MKeys,
    pub settings: &'a SweepSettings,
    pub last: &'a Observation,
    pub suspects: &'a [Guid],
    /// Ends of quarantined links, which are crossed only if nodes would be lost otherwise.
    pub avoided: &'a [End],
    pub restarted: &'a HashSet<Guid>,
}

impl FocusedSweep<'_> {
    /// Sweeps the suspects.
    pub(in crate::daemon::sm_loop) async fn run(&self) -> Result<Observation, SweepError> {
        let Self { client, keys, settings, last, suspects, avoided, restarted } = *self;
        let focus = Focus { suspects, avoided, restarted };
        let state = DiscoveryState::of(&last.fabric, &last.pkeys);
        let observation = focused::sweep(client, keys, settings, last, state, focus).await?;
        let mut known = last.fabric.nodes().iter();
        let is_node_lost = known.any(|node| observation.fabric.node_by_guid(node.guid()).is_none());
        if avoided.is_empty() || !is_node_lost {
            return Ok(observation);
        }
        let state = DiscoveryState::of(&last.fabric, &last.pkeys);
        let focus = Focus { avoided: &[], ..focus };
        focused::sweep(client, keys, settings, last, state, focus).await
    }
}

/// Asks the switches whether anything changed, and the other SMs.
pub(in crate::daemon::sm_loop) async fn light(
    client: &SmpClient,
    keys: &MKeys,
    fabric: &Fabric,
    focus: LightFocus<'_>,
) -> (LightFindings, Vec<(PortId, SmInfo)>) {
    tokio::join!(light::sweep(client, keys, fabric, focus), mastership::query(client, keys, fabric))
}

/// The result of a sweep for the management interface.
pub(in crate::daemon::sm_loop) fn result(swept: &Result<Observation, SweepError>) -> SweepResult {
    match swept {
        Ok(_) => SweepResult::Done,
        Err(problem) => SweepResult::Failed(problem.to_string()),
    }
}

/// The beginning of a focused sweep, for the time line of a recording.
pub(in crate::daemon::sm_loop) fn focus_text(suspects: &[Guid]) -> String {
    let named = suspects.iter().take(MAX_RECORDED_SUSPECTS);
    let names: Vec<String> = named.map(ToString::to_string).collect();
    let count = counted(suspects.len(), "switch", "switches");
    format!("focused on {count}: {}", names.join(" "))
}

/// The result of a sweep, for the time line of a recording.
pub(in crate::daemon::sm_loop) fn found(observation: &Observation) -> String {
    let Observation { fabric, is_unresolved, .. } = observation;
    let faults = fabric.faults();
    let mut text = format!(
        "{}, {}",
        counted(fabric.nodes().len(), "node", "nodes"),
        counted(faults.len(), "fault", "faults")
    );
    if let Some(first) = faults.first() {
        text += &format!(", the first: {first}");
    }
    if *is_unresolved {
        text += "; some devices are silent, a heavy sweep follows";
    }
    text
}
