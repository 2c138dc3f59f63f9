//! Sends the Sets of one round, many at a time.

use super::answers::Answers;
use super::control::ApplyControl;
use super::failures::Sent;
use super::phases::Phase;
use super::report::ApplyReport;
use super::sender::SetSender;
use crate::apply::delta::{Delta, SetRequest, fdr10};
use crate::apply::transition;
use crate::apply::transition::progress::TransitionProgress;
use crate::fabric::Fabric;
use crate::transport::client::SmpClient;
use tokio::time::Instant;

pub(super) struct Round<'r, 'c> {
    pub client: &'r SmpClient,
    pub control: &'r mut ApplyControl<'c>,
    pub answers: Answers<'r>,
}

impl Round<'_, '_> {
    /// Sends the Sets of a phase in any order. Returns their number.
    pub(super) async fn phase(&mut self, phase: Phase, delta: Delta<'_>) -> usize {
        let fabric = delta.fabric;
        match phase {
            Phase::Tables => {
                let changes = delta
                    .switch_infos()
                    .chain(delta.lfts())
                    .chain(delta.mfts())
                    .chain(delta.sl_to_vls())
                    .chain(delta.vl_arbitrations())
                    .chain(delta.pkey_tables_and_doubtful())
                    .chain(delta.guid_tables());
                let sent = self.send(fabric, changes).await;
                sent + self.send(fabric, delta.sl_to_vl_exceptions()).await
            }
            Phase::Keys => self.send(fabric, delta.pkey_tables()).await,
            Phase::Ports => {
                let changes = delta.port_infos().chain(fdr10::changes(delta));
                self.send(fabric, changes).await
            }
            Phase::SwitchKeys => self.send(fabric, delta.rekeyed_switches()).await,
            Phase::Activation => {
                self.send(fabric, delta.activations(|slot| delta.is_ready(slot))).await
            }
            Phase::Moves => 0,
        }
    }

    /// Sends the Sets of a phase of an ordered transition. Returns their number.
    pub(super) async fn ordered_phase(
        &mut self,
        phase: Phase,
        delta: Delta<'_>,
        steps: &mut TransitionProgress,
    ) -> usize {
        match phase {
            Phase::Tables => {
                let others = delta
                    .vl_arbitrations()
                    .chain(delta.pkey_tables_and_doubtful())
                    .chain(delta.guid_tables());
                self.send_steps(delta, steps, others).await
            }
            Phase::Moves => {
                steps.ports_active(|slot| {
                    let peer = delta.fabric.port(slot).peer;
                    peer.is_some_and(|peer| transition::is_active(delta.fabric, slot, peer))
                });
                self.send_steps(delta, steps, std::iter::empty()).await
            }
            Phase::Keys | Phase::Ports | Phase::SwitchKeys | Phase::Activation => {
                self.phase(phase, delta).await
            }
        }
    }

    /// Sends Sets in any order. Returns their number.
    pub(super) async fn send(
        &mut self,
        fabric: &Fabric,
        changes: impl Iterator<Item = SetRequest>,
    ) -> usize {
        let answers = &mut self.answers;
        let mut changes = changes.fuse();
        let mut sender = SetSender::new(self.client, self.control);
        let mut count = 0;
        loop {
            while sender.has_room()
                && let Some((set, request)) = changes.next()
            {
                if answers.failures.admits(fabric, answers.before, set, &request.data) {
                    sender.submit(Sent { set, step: None, data: request.data }, request);
                    count += 1;
                }
            }
            let Some((sent, answer)) = sender.next().await else { break };
            if answers.answered(fabric, &sent, answer) {
                let waiting = sender.cancel(sent.set.node);
                answers.failures.unsent.extend(waiting.iter().map(|other| other.set));
            }
        }
        answers.report.cut(sender.into_cut(), changes);
        count
    }

    /// Sends the steps, each when its predecessors are done, and the `others`, which are
    /// secondary, too. Returns the number of Sets.
    pub(super) async fn send_steps(
        &mut self,
        delta: Delta<'_>,
        steps: &mut TransitionProgress,
        others: impl Iterator<Item = SetRequest>,
    ) -> usize {
        let answers = &mut self.answers;
        let mut others = others.fuse();
        let mut sender = SetSender::new(self.client, self.control);
        let mut count = 0;
        loop {
            while sender.has_room() {
                let with_secondary = sender.has_room_for_secondary();
                let taken = match steps.take(with_secondary, delta) {
                    Some((step, change)) => Some((Some(step), change)),
                    None if with_secondary => others.next().map(|change| (None, change)),
                    None => None,
                };
                let Some((step, (set, request))) = taken else { break };
                if answers.failures.admits(delta.fabric, answers.before, set, &request.data) {
                    sender.submit(Sent { set, step, data: request.data }, request);
                    count += 1;
                } else if let Some(step) = step {
                    steps.done(step, false);
                }
            }
            let Some((sent, answer)) = sender.next().await else {
                if resume(&mut sender, steps, answers.report).await {
                    continue;
                }
                break;
            };
            let is_done = answer.is_ok();
            let is_silent = answers.answered(delta.fabric, &sent, answer);
            if let Some(step) = sent.step {
                steps.done(step, is_done);
            }
            if is_silent {
                for waiting in sender.cancel(sent.set.node) {
                    answers.failures.unsent.push(waiting.set);
                    if let Some(step) = waiting.step {
                        steps.done(step, false);
                    }
                }
            }
        }
        answers.report.cut(sender.into_cut(), others);
        // A failed intermediate version is irrelevant if the planned version was acknowledged.
        answers.report.unacknowledged.failed.retain(|(set, _)| !steps.is_complete(set));
        count
    }
}

/// Nothing is in flight: waits until packets have drained, if steps wait for that, or breaks a cycle
/// of steps. False if no step is left to send.
async fn resume(
    sender: &mut SetSender<'_, '_>,
    steps: &mut TransitionProgress,
    report: &mut ApplyReport,
) -> bool {
    if sender.is_stopped() {
        return false;
    }
    let Some(end) = steps.drain_end() else { return steps.break_cycle() };
    let start = Instant::now();
    sender.wait_until(end).await;
    if let Some(report) = &mut report.transition {
        report.drained_for = start.elapsed();
    }
    if !sender.is_stopped() {
        steps.drained();
    }
    true
}
