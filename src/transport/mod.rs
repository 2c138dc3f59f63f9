//! Sending and receiving of MADs.
//!
//! A [`MadPort`] sends MADs and delivers received ones to its [`MadSink`]. The kernel's umad device
//! ([`umad`]) and the simulated fabric ([`crate::sim`]) are ports; wrappers can be stacked on both
//! to trace ([`traced`]), log ([`frames`]), record ([`recorded`]) or drop ([`lossy`]) MADs, or to open a lost port
//! again ([`reopening`]). A port can be limited to Gets ([`get_only`]), on which a subnet manager rehearses
//! ([`rehearsal`]). [`rmpp`] divides long messages for ports that do not. Like the kernel, a port retries requests: one posted with a timeout is
//! delivered exactly once, as its response or as [`Outcome::Unanswered`].
//!
//! [`demux`] is the sink of the daemon: it matches responses to their [`transactions`] and queues
//! requests (traps, SA requests, SMInfo) for their servers, each sender up to a limit
//! ([`smp_intake`]). [`client`] sends SMPs, to devices in turn (`device_queue`), in a fixed window or in
//! one that follows the round trips (`adaptive_window`), and
//! those of background work at a limited rate (`pacing`); [`gsi`] sends requests of other classes.
//!
//! This module decides no policy. Only its reader threads block.

mod adaptive_window;
mod batch_state;
pub mod client;
pub mod demux;
mod device_queue;
mod frame_text;
pub mod frames;
pub mod get_only;
pub mod gsi;
mod gsi_requests;
mod in_flight;
pub mod lossy;
mod pacing;
pub mod recorded;
pub mod rehearsal;
pub mod reopening;
pub mod rmpp;
mod slot_table;
mod smp_counters;
pub mod smp_intake;
mod smp_limits;
mod smp_request;
pub mod sysfs;
pub mod tagged;
pub mod traced;
pub mod transactions;
pub mod umad;
mod waiting_requests;

#[cfg(test)]
mod tests;

use crate::ids::{Gid, Guid, Lid, PortNum, Sl};
use rmpp::Segmentation;
use std::fmt;
use std::time::Duration;

/// The agents of a port, by management class and queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Agent {
    /// Directed-route subnet management, class 0x81, QP 0.
    SmiDirected,
    /// LID-routed subnet management, class 0x01, QP 0.
    SmiLid,
    /// Subnet administration, class 0x03, QP 1.
    Sa,
    /// Performance management, class 0x04, QP 1; requests of this program only.
    Perf,
    /// Congestion control, class 0x21, QP 1; requests of this program only.
    Congestion,
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SmiDirected => "directed-route SMI",
            Self::SmiLid => "LID-routed SMI",
            Self::Sa => "SA",
            Self::Perf => "performance management",
            Self::Congestion => "congestion control",
        })
    }
}

/// The other end of a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// The permissive LID for directed routes.
    pub lid: Lid,
    /// Queue pair: 0 for subnet management, usually 1 otherwise.
    pub qpn: u32,
    /// Q_Key for QP 1 and above; 0x80010000 for QP 1.
    pub qkey: u32,
    pub sl: Sl,
    /// Low bits of the local LID, below the LMC.
    pub path_bits: u8,
    /// Index into the P_Key table of the port.
    pub pkey_index: u16,
    pub grh: Option<Grh>,
}

/// Fields of a global route header (IBA vol. 1, 8.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grh {
    /// GID of the other end.
    pub gid: Gid,
    /// Index into the GID table of the port.
    pub gid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
    /// 20 bits.
    pub flow_label: u32,
}

/// Q_Key of QP 1, the general services interface (IBA vol. 1, 10.2.4).
pub const GSI_QKEY: u32 = 0x8001_0000;

impl Address {
    /// The address of QP 0 at `lid`.
    pub fn smi(lid: Lid) -> Self {
        Self { lid, qpn: 0, qkey: 0, sl: Sl(0), path_bits: 0, pkey_index: 0, grh: None }
    }

    /// The address of QP 1 at `lid`.
    pub fn gsi(lid: Lid, sl: Sl) -> Self {
        Self { lid, qpn: 1, qkey: GSI_QKEY, sl, path_bits: 0, pkey_index: 0, grh: None }
    }
}

/// A MAD to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    pub agent: Agent,
    pub to: Address,
    /// Timeout of each transmission; `None` for MADs without a response (responses, TrapRepress).
    pub timeout: Option<Duration>,
    /// Maximum number of retransmissions.
    pub retries: u32,
    /// A MAD of 256 bytes, or an SA response of any length (headers and all records) that the port
    /// or the layer [`rmpp`] divides into RMPP segments.
    pub mad: &'a [u8],
}

/// Kind of a delivered MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// A received MAD: a response or a request.
    Arrived,
    /// A sent request without a response after all retransmissions. [`Delivery::mad`] is the
    /// beginning of the request, at least its header.
    Unanswered,
}

/// A MAD that a port delivers.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    pub agent: Agent,
    /// The sender; for [`Outcome::Unanswered`] the destination.
    pub from: Address,
    pub outcome: Outcome,
    /// A single MAD, or a reassembled RMPP message.
    pub mad: &'a [u8],
}

/// Receiver of the MADs of a port. Its methods are called by the reader threads of the port,
/// possibly several at once, and must not block.
pub trait MadSink: Send + Sync {
    fn deliver(&self, delivery: Delivery<'_>);

    /// No further MAD is waiting: collected results can be passed on.
    fn idle(&self);

    /// The port is closed (device removed, or port dropped). No further calls follow.
    fn closed(&self, reason: &str);
}

/// A port that sends MADs.
pub trait MadPort: Send + Sync {
    fn identity(&self) -> &PortIdentity;

    /// How the port sends messages of more than one MAD.
    fn segmentation(&self) -> Segmentation {
        Segmentation::Device
    }

    /// Sends `out` without blocking. The response, or the timeout, is delivered to the sink. The
    /// lower 32 bits of the transaction ID belong to the sender; the port may replace the upper
    /// ones in both directions.
    ///
    /// # Errors
    /// [`SendError`] if the device rejects the MAD. Nothing is delivered for it then.
    ///
    /// # Rules
    /// `post` must not call the sink before it returns, because the sink may post from inside
    /// [`MadSink::deliver`].
    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError>;
}

/// Identification of a local port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortIdentity {
    /// Device name of the channel adapter, such as `mlx5_0`.
    pub device: String,
    pub port: PortNum,
    pub guid: Guid,
}

/// A MAD could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error("{device} port {port}: sending a MAD failed: {source}")]
    Io { device: String, port: PortNum, source: std::io::Error },
    #[error("{device} port {port} sends Gets only")]
    NotAGet { device: String, port: PortNum },
    #[error("{device} port {port} is closed")]
    Closed { device: String, port: PortNum },
}
