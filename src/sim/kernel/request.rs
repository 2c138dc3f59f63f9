//! Requests that wait for a response.

use crate::sim::event_queue::Timer;
use crate::sim::packet::Packet;
use crate::transport::umad::UserHeader;
use crate::wire::mad::Header;
use std::hash::{Hash, Hasher};

/// Identifies a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::sim) struct PendingKey {
    /// Number of the agent. The transaction ID does not imply it: a response that expects a
    /// response itself has the transaction ID of another agent.
    pub(in crate::sim) agent: u32,
    pub(in crate::sim) tid: u64,
    pub(in crate::sim) class: u8,
    /// Distinguishes requests with the same agent, transaction ID and class.
    pub(in crate::sim) nth: u8,
}

/// Hashes the transaction ID alone, which is unique for nearly all requests.
impl Hash for PendingKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.tid);
    }
}

impl PendingKey {
    /// Key of the first request with this agent, transaction ID and class.
    pub(in crate::sim) fn first(agent: u32, header: &Header) -> Self {
        Self { agent, tid: header.tid(), class: header.class(), nth: 0 }
    }
}

/// A request that waits for its response.
pub(in crate::sim) struct PendingRequest {
    /// Header that the program sent with the MAD.
    pub(in crate::sim) sent: UserHeader,
    pub(in crate::sim) packet: Packet,
    /// Retries left.
    pub(in crate::sim) retries: u32,
    pub(in crate::sim) timer: Option<Timer>,
}

/// Transaction ID of a request on the wire: the agent's number and the program's lower half.
pub(in crate::sim) fn agent_tid(agent: u32, header: &Header) -> u64 {
    u64::from(agent) << 32 | header.tid() & 0xFFFF_FFFF
}
