//! One round: the requests to all devices that need some, one at a time to each device.

use super::failures::CongestionFailureLog;
use crate::congestion::devices::{CongestionDevices, DeviceProgress, FailureReason};
use crate::congestion::settings::CongestionSettings;
use crate::congestion::status::CongestionRound;
use crate::ids::Guid;
use crate::publish::Subnet;
use crate::transport::gsi::{GsiBatch, GsiError, GsiResult};
use crate::transport::{Address, Agent};
use crate::wire::mad::{Mad, Method, Status};
use chrono::Utc;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::debug;

/// The figures of a round.
pub(super) struct RoundFigures {
    pub round: CongestionRound,
    pub unanswered: u64,
    pub refused: u64,
}

/// A round.
pub(super) struct CongestionPass<'a> {
    subnet: &'a Arc<Subnet>,
    devices: &'a mut CongestionDevices,
    failures: &'a mut CongestionFailureLog,
    /// Port GUIDs of the devices that have not got a request.
    waiting: VecDeque<Guid>,
    /// Port GUIDs of the devices that have, by tag; true while a request is in flight.
    asked: Vec<(Guid, bool)>,
    start: Instant,
    figures: RoundFigures,
}

impl<'a> CongestionPass<'a> {
    pub(super) fn new(
        subnet: &'a Arc<Subnet>,
        devices: &'a mut CongestionDevices,
        failures: &'a mut CongestionFailureLog,
        due: Vec<Guid>,
    ) -> Self {
        let ended = Utc::now();
        let duration = std::time::Duration::ZERO;
        let round = CongestionRound { ended, duration, devices: 0, gets: 0, sets: 0, failed: 0 };
        Self {
            subnet,
            devices,
            failures,
            waiting: due.into(),
            asked: Vec::new(),
            start: Instant::now(),
            figures: RoundFigures { round, unanswered: 0, refused: 0 },
        }
    }

    /// Sends all requests. A published subnet without these settings ends the round early.
    pub(super) async fn run(
        mut self,
        mut batch: GsiBatch,
        mut subnets: watch::Receiver<Option<Arc<Subnet>>>,
    ) -> RoundFigures {
        loop {
            self.fill(&mut batch);
            tokio::select! {
                biased;
                changed = subnets.changed() => {
                    let is_valid = changed.is_ok() && self.is_valid(subnets.borrow_and_update().as_deref());
                    if !is_valid {
                        break;
                    }
                }
                result = batch.next() => match result {
                    Some((tag, result)) => self.answered(&mut batch, tag, &result),
                    None if batch.outstanding() == 0 && self.waiting.is_empty() => break,
                    None => {}
                }
            }
        }
        for &(guid, _) in self.asked.iter().filter(|(_, is_in_flight)| *is_in_flight) {
            self.devices.abandoned(guid);
        }
        self.figures.round.devices = self.asked.len();
        self.figures.round.duration = self.start.elapsed();
        self.figures.round.ended = Utc::now();
        self.figures
    }

    /// True if a newer subnet has the settings of this round.
    fn is_valid(&self, newer: Option<&Subnet>) -> bool {
        let settings = newer.and_then(|subnet| CongestionSettings::new(&subnet.options));
        settings.as_ref() == self.devices.settings()
    }

    /// Sends first requests as far as the window allows.
    fn fill(&mut self, batch: &mut GsiBatch) {
        let limit = self.devices.settings().map_or(1, |settings| settings.max_outstanding);
        while batch.outstanding() < limit {
            let Some(guid) = self.waiting.pop_front() else { return };
            let Some(mad) = self.devices.request(guid) else { continue };
            let tag = self.asked.len() as u64;
            if self.send(batch, tag, guid, mad) {
                self.asked.push((guid, true));
            }
        }
    }

    /// False if the device has no address any more.
    fn send(&mut self, batch: &mut GsiBatch, tag: u64, guid: Guid, mad: Mad) -> bool {
        let port = self.subnet.fabric.port_by_guid(guid);
        let Some(lid) = port.and_then(|port| self.subnet.plan.lids.base(port)) else {
            return false;
        };
        let round = &mut self.figures.round;
        let count = if mad.method() == Method::SET { &mut round.sets } else { &mut round.gets };
        *count += 1;
        batch.submit(tag, Agent::Congestion, Address::gsi(lid, self.subnet.sl_to(lid)), mad);
        true
    }

    fn answered(&mut self, batch: &mut GsiBatch, tag: u64, result: &GsiResult) {
        let asked = usize::try_from(tag).ok().and_then(|tag| self.asked.get_mut(tag));
        let Some((guid, is_in_flight)) = asked else { return };
        *is_in_flight = false;
        let guid = *guid;
        match result {
            Ok(mad) if mad.header().status() != Status::OK => self.figures.refused += 1,
            Ok(_) => {}
            Err(GsiError::Unanswered(_)) => self.figures.unanswered += 1,
            Err(GsiError::Send(problem)) => {
                debug!("congestion control MAD to port GUID {guid} not sent: {problem}");
                self.figures.unanswered += 1;
            }
        }
        let request = self.devices.request(guid);
        match self.devices.answered(guid, result.as_ref().ok(), Instant::now()) {
            Some(DeviceProgress::More) => self.send_next(batch, tag, guid),
            Some(DeviceProgress::Failed(reason, is_new)) => {
                self.figures.round.failed += 1;
                self.failed(guid, request, reason, is_new);
            }
            Some(DeviceProgress::Done(true)) => self.failures.recovered(guid),
            Some(DeviceProgress::Done(false)) | None => {}
        }
    }

    /// Sends the next request to a device.
    fn send_next(&mut self, batch: &mut GsiBatch, tag: u64, guid: Guid) {
        let Some(mad) = self.devices.request(guid) else { return };
        let is_sent = self.send(batch, tag, guid, mad);
        if let Some(asked) = usize::try_from(tag).ok().and_then(|tag| self.asked.get_mut(tag)) {
            asked.1 = is_sent;
        }
    }

    fn failed(&mut self, guid: Guid, request: Option<Mad>, reason: FailureReason, is_new: bool) {
        if is_new && let Some(request) = request {
            let attribute = request.header().attr_id();
            self.failures.failed(guid, reason, (request.method(), attribute));
        }
    }
}
