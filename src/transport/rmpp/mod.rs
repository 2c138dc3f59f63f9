//! The Reliable Multi-Packet Protocol (IBA vol. 1, 13.6) for messages of subnet administration, by
//! which tables are sent and long requests arrive.
//!
//! The kernel implements the protocol too, but it does not tell when a message was acknowledged: the
//! server could not distinguish a client that asks for one table after the other from one that
//! acknowledges nothing, and had to refuse requests of both. Here acknowledgements are seen, so that
//! replies count until they are acknowledged and no longer; the same table, sent to many clients, is
//! in memory once; and the kernel holds the segments of one window instead of whole messages.
//!
//! [`open`] puts the protocol between a port and its sink if the port leaves it to the caller
//! ([`Segmentation::Caller`]): Linux does since 3.17, for agents that are registered with
//! `IB_USER_MAD_USER_RMPP`. Such an agent gets every packet of its class and version with a method
//! that it registered for, acknowledgements included: those of a GetTableResp have the method
//! GetTable. Its single MADs are sent and received as before. Older kernels divide messages
//! themselves ([`Segmentation::Device`]); the observer is told then when a message was handed over,
//! and by [`Outcome::Unanswered`](super::Outcome) when it was not acknowledged. ibsim's library
//! implements no protocol: it sends the first segment of a message, and its clients expect no more.
//!
//! * `core`: all transfers of a port, without I/O and clock; `sender` and `receiver`: one transfer;
//!   `packet`: headers; `deadlines`: the table of deadlines; `shared_records`: the tables in transit
//! * `port`: the port and the sink, with the timer
//!
//! The rules are those of the specification where Linux, at the other end of nearly all transfers,
//! agrees: one segment before the first acknowledgement, then the window that the receiver grants;
//! after a timeout all segments that are not acknowledged. A response to a request in segments
//! begins with one segment, too, whatever window the requester has granted.

mod core;
mod deadlines;
mod packet;
mod port;
mod receiver;
mod sender;
mod shared_records;

#[cfg(test)]
mod tests;

pub use self::core::TransferSize;
pub use port::{ObserverSlot, open};

use crate::ids::Lid;
use std::time::Instant;

/// How messages of more than one MAD leave a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segmentation {
    /// The device divides and reassembles messages, and does not report acknowledgements.
    Device,
    /// The device sends and receives segments as they are.
    Caller,
    /// The device sends the first segment only, which nobody acknowledges.
    FirstOnly,
}

/// How the sending of a message ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferEnd {
    /// All of it was acknowledged.
    Acknowledged,
    /// Its receiver did not acknowledge it in time.
    Unacknowledged,
    /// Its receiver aborted it or asked for another message, or the port is lost.
    Aborted,
}

/// Observer of the messages that are being sent. It is called by the senders and by the reader
/// threads of a port, possibly several at once, and must not block.
pub trait TransferObserver: Send + Sync {
    /// A message is being sent to the port at `to`.
    fn began(&self, to: Lid, size: TransferSize, now: Instant);

    /// The port has acknowledged further segments.
    fn progressed(&self, to: Lid, now: Instant);

    /// A message is no longer being sent.
    fn ended(&self, to: Lid, size: TransferSize, end: TransferEnd, now: Instant);

    /// The device has taken over a message of `bytes` bytes, and will not tell when it was
    /// acknowledged.
    fn handed_over(&self, to: Lid, bytes: usize, now: Instant);
}
