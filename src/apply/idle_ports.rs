//! Brings up ports that carry no data, and writes no table of a switch (see [`crate::plan::idle_ports`]).

use super::acknowledged::Acknowledged;
use super::answers::{Answers, Changes, update_observation};
use super::control::ApplyControl;
use super::delta::Delta;
use super::pass::PassFailures;
use super::phases::Phase;
use super::programmer::PhaseRun;
use super::report::ApplyReport;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::transport::client::SmpClient;
use crate::verify::idle_ports::IdlePorts;
use tokio::time::Instant;

/// The phases that write no forwarding, SL to VL or VL arbitration table. P_Keys come before the port
/// settings that may enforce them.
const PHASES: [Phase; 4] = [Phase::Keys, Phase::Ports, Phase::SwitchKeys, Phase::Activation];

/// Sends the Sets of P_Key tables and PortInfo of `plan`. Afterwards `observation` contains the state that
/// the ports acknowledged. Nothing is recorded of the tables of the devices.
pub async fn apply_idle_ports(
    client: &SmpClient,
    observation: &mut Observation,
    plan: &IdlePorts,
    acknowledged: &mut Acknowledged,
    keys: &MKeys,
) -> ApplyReport {
    let start = Instant::now();
    let mut report = ApplyReport::default();
    let mut failures = PassFailures::new(&observation.fabric, keys);
    let mut control = ApplyControl::to_the_end();
    for phase in PHASES {
        let phase_start = Instant::now();
        let mut sets = 0;
        for _ in 0..phase.max_rounds() {
            let failed = report.failed.len();
            let delta = Delta::new(observation, plan.plan(), acknowledged, keys);
            let answers = Answers {
                start,
                report: &mut report,
                before: acknowledged.failures(),
                failures: &mut failures,
                changes: Changes::default(),
                ignore_sl_to_vl_errors: false,
            };
            let mut run = PhaseRun { client, answers, control: &mut control };
            let sent = run.phase(phase, delta).await;
            let changes = run.answers.changes;
            update_observation(observation, changes);
            sets += sent;
            if sent == 0 || report.failed.len() > failed {
                break;
            }
        }
        report.sent[phase as usize] = (sets, phase_start.elapsed());
    }
    report.conclude(&observation.fabric, plan.plan(), &mut failures);
    let new = failures.to_record(&report.delayed);
    acknowledged.failures_mut().add(&observation.fabric, plan.plan(), &new, Instant::now());
    report
}
