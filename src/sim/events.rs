//! Timed events of a fabric.

use super::kernel::{PendingKey, TransferKey};
use super::packet::{Arrival, Packet};
use super::trap::TrapStorm;
use std::time::Duration;

pub(super) enum FabricEvent {
    /// A delayed packet is forwarded to its destination.
    Deliver(Box<Packet>),
    /// A packet that links delayed reaches its destination.
    Arrive(Box<Arrival>),
    /// A subnet management agent with a service time has served an SMP.
    Serve(Box<Arrival>),
    /// A slow node sends its response.
    Respond(Box<Packet>),
    /// No response to a request within its timeout.
    RequestTimeout(PendingKey),
    /// No acknowledgement of an RMPP transfer within its timeout.
    TransferTimeout(TransferKey),
    /// The time to receive an RMPP message, or to remember a complete one, is over.
    ReassemblyTimeout { agent: u32, serial: u64 },
    /// A trap was not repressed within the trap interval.
    RepeatTrap { node: u32, tid: u64 },
    /// The next change of a flapping link, of `left` more.
    Flap { slot: u32, period: Duration, left: u32 },
    /// The training of the link at a port is complete.
    Trained { slot: u32 },
    /// The next trap of a storm.
    Storm(TrapStorm),
}
