//! Counters of subnet management requests.

use super::smp_request::{SmpError, SmpRequest, SmpResult};
use crate::histogram::ResponseTimes;
use crate::wire::mad::Method;
use crate::wire::smp::SmpRoute;
use rustc_hash::FxHashMap;
use std::time::Duration;

/// Devices whose repeated requests are counted one by one.
const MAX_REPEATED_ROUTES: usize = 1024;

/// Weight of the former average of round trips and a new one together.
const AVERAGED: u32 = 32;

/// Number of kinds of results.
const RESULTS: usize = 5;

/// The result of a request, without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmpResultKind {
    /// A response with status 0.
    Answered,
    Unanswered,
    /// A response with an error status.
    Refused,
    /// A response that does not match the request.
    Malformed,
    /// The port could not send the request.
    SendError,
}

impl SmpResultKind {
    pub const ALL: [Self; RESULTS] =
        [Self::Answered, Self::Unanswered, Self::Refused, Self::Malformed, Self::SendError];

    pub fn name(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Unanswered => "unanswered",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
            Self::SendError => "send_error",
        }
    }

    fn of(result: &SmpResult) -> Self {
        match result {
            Ok(_) => Self::Answered,
            Err(SmpError::Unanswered) => Self::Unanswered,
            Err(SmpError::Status(_)) => Self::Refused,
            Err(SmpError::Send(_)) => Self::SendError,
            Err(SmpError::Malformed(_)) => Self::Malformed,
        }
    }
}

/// Requests of one method for an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MethodCount {
    /// Requests sent, without retransmissions.
    pub sent: u64,
    /// Results in the order of [`SmpResultKind::ALL`].
    results: [u64; RESULTS],
}

impl MethodCount {
    pub fn results(&self) -> impl Iterator<Item = (SmpResultKind, u64)> + '_ {
        SmpResultKind::ALL.into_iter().zip(self.results)
    }
}

/// Requests for one attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttributeCount {
    pub attr_id: u16,
    pub gets: MethodCount,
    pub sets: MethodCount,
}

impl AttributeCount {
    fn method(&mut self, method: Method) -> &mut MethodCount {
        if method == Method::SET { &mut self.sets } else { &mut self.gets }
    }
}

/// Counters since the start of the daemon.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct SmpCounters {
    /// Requests sent again because there was no response.
    pub retransmissions: u64,
    /// Requests sent again by the route to their device, for the first 1024 routes.
    pub repeated: FxHashMap<SmpRoute, u64>,
    /// MADs sent that have no response.
    pub posted: u64,

    /// Responses without a pending request: late ones, or those to another program.
    pub unmatched: u64,
    /// Unsolicited MADs dropped because their queue was full, or their sender had sent too many.
    pub dropped: u64,
    /// Requests by attribute, in the order of first use.
    pub attributes: Vec<AttributeCount>,
    /// Requests that may be in flight now: the configured number, or the one that the round trips
    /// suggest.
    pub window: usize,
    /// Time from the first transmission of a request to its response, a moving average.
    pub round_trip: Option<Duration>,
    /// Times from the first transmission of a SubnGet to its response.
    pub get_times: ResponseTimes,
    /// Times from the first transmission of a SubnSet to its response.
    pub set_times: ResponseTimes,
}

impl SmpCounters {
    /// SubnGet requests sent, without retransmissions.
    pub fn gets(&self) -> u64 {
        self.attributes.iter().map(|attribute| attribute.gets.sent).sum()
    }

    /// SubnSet requests sent, without retransmissions.
    pub fn sets(&self) -> u64 {
        self.attributes.iter().map(|attribute| attribute.sets.sent).sum()
    }

    /// Requests that ended with a result of this kind.
    pub fn results(&self, kind: SmpResultKind) -> u64 {
        let methods = self.attributes.iter().flat_map(|it| [&it.gets, &it.sets]);
        methods.map(|method| method.results[kind as usize]).sum()
    }
    pub(super) fn sent(&mut self, method: Method, attr_id: u16) {
        self.attribute(attr_id).method(method).sent += 1;
    }

    /// Counts a request that is sent again.
    pub(super) fn repeated(&mut self, route: SmpRoute) {
        self.retransmissions += 1;
        if self.repeated.len() < MAX_REPEATED_ROUTES || self.repeated.contains_key(&route) {
            *self.repeated.entry(route).or_default() += 1;
        }
    }

    /// Counts a response that came `after` the first transmission of its request.
    pub(super) fn responded(&mut self, method: Method, after: Duration) {
        let mean = self.round_trip.unwrap_or(after);
        self.round_trip = Some((mean * (AVERAGED - 1) + after) / AVERAGED);
        match method {
            Method::SET => self.set_times.observe(after),
            _ => self.get_times.observe(after),
        }
    }

    pub(super) fn ended(&mut self, request: &SmpRequest, result: &SmpResult) {
        let kind = SmpResultKind::of(result);
        self.attribute(request.attr_id).method(request.method).results[kind as usize] += 1;
    }

    fn attribute(&mut self, attr_id: u16) -> &mut AttributeCount {
        let at = self.attributes.iter().position(|count| count.attr_id == attr_id);
        let at = at.unwrap_or_else(|| {
            let (gets, sets) = Default::default();
            self.attributes.push(AttributeCount { attr_id, gets, sets });
            self.attributes.len() - 1
        });
        &mut self.attributes[at]
    }
}
