//! The port: how MADs leave and arrive.
//!
//! [`MadPort`] is what a port can do, [`MadSink`] who hears from it. The kernel's umad device
//! ([`umad`]) and the simulated fabric ([`crate::sim`]) are both ports; wrappers stack over any
//! of them. Like the kernel, a port does timeouts and retries itself: a request posted with a
//! timeout comes back exactly once, as its response or as [`Outcome::Unanswered`].
//!
//! [`intake`] is the sink of the daemon: it matches responses to their [`transactions`] and
//! hands what nobody asked for (traps, SA requests, SMInfo) to its owner.
//!
//! There is no policy here, and nothing blocks but the reader thread.

pub mod client;
pub mod demux;
pub mod lossy;
pub mod recorded;
pub mod sysfs;
pub mod tagged;
pub mod traced;
pub mod transactions;
pub mod umad;

#[cfg(test)]
mod tests;

use crate::ids::{Gid, Guid, Lid, PortNum, Sl};
use std::time::Duration;

/// The agents of a port: whose MADs go through which queue pair and class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Agent {
    /// Directed-route subnet management, class 0x81, QP 0.
    SmiDirected,
    /// LID-routed subnet management, class 0x01, QP 0.
    SmiLid,
    /// Subnet administration, class 0x03, QP 1.
    Sa,
}

/// The other end of a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// LID of the other end; permissive for directed routes.
    pub lid: Lid,
    /// Its queue pair: 0 for subnet management, usually 1 else.
    pub qpn: u32,
    /// Q_Key for sending to QP 1 and above: 0x80010000.
    pub qkey: u32,
    /// SL to send with, or that it came with.
    pub sl: Sl,
    /// Low bits of the own LID (LMC).
    pub path_bits: u8,
    /// Index of the P_Key in the port's table.
    pub pkey_index: u16,
    /// The global route header, if there is one.
    pub grh: Option<Grh>,
}

/// What matters of a global route header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Grh {
    /// GID of the other end.
    pub gid: Gid,
    /// Index of the own GID in the port's table.
    pub gid_index: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

/// Q_Key of all general services queue pairs.
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
    /// Through which agent.
    pub agent: Agent,
    /// To whom.
    pub to: Address,
    /// Time to wait for each answer; `None` for what needs none (responses, repressed traps).
    pub timeout: Option<Duration>,
    /// How often the request is repeated before it counts as unanswered.
    pub retries: u32,
    /// The MAD: 256 bytes, or more for a response that the port cuts into RMPP segments
    /// (SA class, header and records of the whole answer in one piece).
    pub mad: &'a [u8],
}

/// What became of a MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It arrived: a response or a request of somebody else.
    Arrived,
    /// No answer came within the timeout and the retries. `mad` is the request's beginning, at
    /// least its header.
    Unanswered,
}

/// A MAD that comes out of a port.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// Through which agent.
    pub agent: Agent,
    /// From whom; for [`Outcome::Unanswered`] to whom it was sent.
    pub from: Address,
    /// Arrived, or given up.
    pub outcome: Outcome,
    /// The MAD; of a reassembled RMPP message all of it.
    pub mad: &'a [u8],
}

/// Who hears what a port receives. Called from the port's readers, of which it may have several;
/// must not block.
pub trait MadSink: Send + Sync {
    /// Takes one MAD.
    fn deliver(&self, delivery: Delivery<'_>);

    /// Nothing more is waiting right now: a good moment to pass on what was collected.
    fn idle(&self);

    /// The port is gone for good (device removed, node taken out); nothing follows.
    fn closed(&self, reason: &str);
}

/// A port of the fabric through which MADs are sent.
pub trait MadPort: Send + Sync {
    /// Which port this is.
    fn identity(&self) -> &PortIdentity;

    /// Sends `out`. Returns at once; what comes of it reaches the sink the port was opened
    /// with. The lower 32 bits of the transaction ID are the sender's, the upper ones may be
    /// replaced on the way out and in.
    ///
    /// # Errors
    /// [`SendError`] if the device refuses the MAD: then nothing will be delivered for it.
    ///
    /// # Rules
    /// The sink may post from inside [`MadSink::deliver`]; `post` therefore never calls the sink
    /// before it returns.
    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError>;
}

/// Names of a local port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortIdentity {
    /// The channel adapter's device name, such as `mlx5_0`.
    pub device: String,
    /// Number of the port on it.
    pub port: PortNum,
    /// GUID of the port.
    pub guid: Guid,
}

/// A MAD could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The device refused it.
    #[error("{device} port {port}: sending failed: {source}")]
    Io {
        /// Device name.
        device: String,
        /// Port number.
        port: PortNum,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The port is gone.
    #[error("{device} port {port} is gone")]
    Closed {
        /// Device name.
        device: String,
        /// Port number.
        port: PortNum,
    },
}
