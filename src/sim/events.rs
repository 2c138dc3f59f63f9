//! Timed events of a fabric.

use super::kernel::{RequestKey, TransferKey};
use super::packet::Packet;
use std::time::Duration;

pub(super) enum Event {
    /// A delayed packet reaches its destination.
    Deliver(Box<Packet>),
    /// No response to a request within its timeout.
    RequestTimeout(RequestKey),
    /// No acknowledgement of an RMPP transfer within its timeout.
    TransferTimeout(TransferKey),
    /// The time to receive an RMPP message, or to remember a complete one, is over.
    ReassemblyTimeout { agent: u32, serial: u64 },
    /// A trap was not repressed within the trap interval.
    RepeatTrap { node: u32, tid: u64 },
    /// The next change of a flapping link, of `left` more.
    Flap { slot: u32, period: Duration, left: u32 },
}
