//! A subnet management request in flight: when it stalls, and which response fits it.

use super::Agent;
use super::smp_request::{SmpError, SmpReply, SmpRequest, SmpResult};
use crate::wire::mad::{Class, Header, Method};
use crate::wire::smp::{DATA_OFFSET, DATA_SIZE};
use std::time::Duration;
use tokio::time::Instant;

/// Identifies a request in its batch; chosen by the submitter.
pub type Tag = u64;

/// Index of an open batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BatchId(pub usize);

/// Index of a device that has requests queued or in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeviceId(pub u32);

/// Time without an answer after which a request counts as stalled if a request sent later is
/// answered. Round trips take 10 us to 1 ms in a fabric, and a few milliseconds to a loaded
/// management processor.
pub const STALL_TIME: Duration = Duration::from_millis(15);

/// Time without an answer after which a request counts as stalled although no later one is
/// answered.
pub const SOLE_STALL_TIME: Duration = Duration::from_millis(40);

/// Interval between checks of a request between [`STALL_TIME`] and [`SOLE_STALL_TIME`].
const STALL_CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// A request in flight. `batch` is `None` once its batch is closed.
pub(super) struct InFlight {
    pub batch: Option<BatchId>,
    pub tag: Tag,
    pub request: SmpRequest,
    pub device: DeviceId,
    /// Time of the first transmission.
    pub sent: Instant,
    pub deadline: Instant,
    pub timeout: Duration,
    pub retransmissions_left: u32,
    pub is_stalled: bool,
}

impl InFlight {
    pub(super) fn class(&self) -> u8 {
        match self.request.agent() {
            Agent::SmiLid => Class::SUBN_LID,
            _ => Class::SUBN_DIRECTED,
        }
    }

    /// True if the request stalls now. `latest_answered`: when the latest of the answered requests
    /// was sent.
    pub(super) fn stalls(&self, now: Instant, latest_answered: Option<Instant>) -> bool {
        let age = now.duration_since(self.sent);
        let is_overtaken = latest_answered.is_some_and(|sent| sent >= self.sent);
        !self.is_stalled && (age >= SOLE_STALL_TIME || (age >= STALL_TIME && is_overtaken))
    }

    /// The time of the next check of this request: for a stall, later for its deadline.
    pub(super) fn next_check(&self, now: Instant) -> Instant {
        let early = self.sent + STALL_TIME;
        let late = self.sent + SOLE_STALL_TIME;
        match () {
            () if self.is_stalled || self.batch.is_none() => self.deadline,
            () if now < early => early,
            () if now < late => late.min(now + STALL_CHECK_INTERVAL),
            // The maximum number of stalled requests is reached.
            () => now + STALL_CHECK_INTERVAL,
        }
    }
}

/// Checks that a response matches its request and has status 0.
pub(super) fn check_response(sent: &InFlight, mad: &[u8]) -> SmpResult {
    let request = &sent.request;
    let Some(data) = mad.get(DATA_OFFSET..DATA_OFFSET + DATA_SIZE) else {
        return Err(SmpError::Malformed("it is too short"));
    };
    let mut reply = SmpReply { data: [0; DATA_SIZE], status: 0 };
    reply.data.copy_from_slice(data);
    let header = Header::read(mad);
    if header.class() != sent.class() {
        return Err(SmpError::Malformed("another class"));
    }
    if header.method() != Method::GET_RESP.0 {
        return Err(SmpError::Malformed("another method"));
    }
    if header.attr_id() != request.attr_id {
        return Err(SmpError::Malformed("another attribute"));
    }
    if header.attr_mod() != request.attr_mod {
        return Err(SmpError::Malformed("another modifier"));
    }
    let direction_bit = if sent.class() == Class::SUBN_DIRECTED { 0x8000 } else { 0 };
    match header.status() & !direction_bit {
        0 => Ok(reply),
        status => Err(SmpError::Status(status)),
    }
}
