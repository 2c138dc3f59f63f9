//! Counters of subnet management requests.

use super::smp_request::{SmpError, SmpResult};
use crate::wire::mad::Method;

/// Number of requests for one attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttributeCount {
    pub attr_id: u16,
    pub gets: u64,
    pub sets: u64,
}

/// Counters since the start of the daemon.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SmpCounters {
    /// SubnGet requests sent, without retransmissions.
    pub gets: u64,
    /// SubnSet requests sent, without retransmissions.
    pub sets: u64,
    /// Requests sent again because there was no response.
    pub retransmissions: u64,
    /// MADs sent that have no response.
    pub posted: u64,
    /// Responses with status 0.
    pub answered: u64,
    /// Requests without a response.
    pub unanswered: u64,
    /// Responses with an error status.
    pub refused: u64,
    /// Responses that do not match their request.
    pub malformed: u64,
    /// Requests that the port could not send.
    pub send_errors: u64,
    /// Responses without a pending request: late ones, or those to another program.
    pub unmatched: u64,
    /// Requests by attribute, in the order of first use.
    pub attributes: Vec<AttributeCount>,
}

impl SmpCounters {
    pub(super) fn sent(&mut self, method: Method, attr_id: u16) {
        let at = self.attributes.iter().position(|count| count.attr_id == attr_id);
        let at = at.unwrap_or_else(|| {
            self.attributes.push(AttributeCount { attr_id, gets: 0, sets: 0 });
            self.attributes.len() - 1
        });
        if method == Method::SET {
            self.sets += 1;
            self.attributes[at].sets += 1;
        } else {
            self.gets += 1;
            self.attributes[at].gets += 1;
        }
    }

    pub(super) fn ended(&mut self, result: &SmpResult) {
        let counter = match result {
            Ok(_) => &mut self.answered,
            Err(SmpError::Unanswered) => &mut self.unanswered,
            Err(SmpError::Status(_)) => &mut self.refused,
            Err(SmpError::Send(_)) => &mut self.send_errors,
            Err(SmpError::Malformed(_)) => &mut self.malformed,
        };
        *counter += 1;
    }
}
