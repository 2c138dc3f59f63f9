//! Model of the MAD layer of the Linux kernel (`drivers/infiniband/core`: `mad.c`, `mad_rmpp.c`,
//! `user_mad.c`): the state of agents, requests and RMPP transfers at all ports.
//!
//! ```text
//! SimPort, OpenUmad                      a program's port, in this process or as a device file
//!   ▼ post          ▲ deliver
//! net::send         net::receive         requests, timeouts; `agents` has the registrations
//!   ▼              ▲
//! net::rmpp_send    net::rmpp_receive    RMPP messages in segments; `rmpp` has the protocol
//!   ▼              ▲
//! Net::transmit     Net::dispatch        packets of the fabric, which may be lost
//! ```
//!
//! * `registration`: requests to register an agent; `agents`: registered agents, and which of them
//!   receives a MAD
//! * `request`: requests that wait for a response; `transfer`: RMPP messages being sent;
//!   `reassembly`: RMPP messages being received; `rmpp`: the protocol without I/O and timers
//! * `receive_queue`: MADs that wait for read(2)
//! * `classes`: properties of management classes
//!
//! Rules and error codes are those of Linux 6: the upper half of the transaction ID of a request is
//! the agent's number; one agent of a port receives a method of a class; unexpected responses are
//! dropped; a Get or Set without an agent is answered with status 0x000c. Closing a device or
//! unregistering an agent cancels its requests, without a completion.
//!
//! Not modelled: the lengths of hardware queues (sending never blocks), and device permissions.

mod agents;
pub(super) mod classes;
mod reassembly;
mod receive_queue;
mod registration;
mod request;
pub(super) mod rmpp;
mod transfer;

pub use reassembly::reassemble;
pub use registration::{AgentRegistration, RegisterCall};

pub(super) use agents::Owner;
pub(super) use reassembly::Reassembly;
pub(super) use receive_queue::{HEADER_SIZE, OLD_HEADER_SIZE, ReceiveQueue};
pub(super) use request::{PendingKey, PendingRequest, agent_tid};
pub(super) use transfer::{Transfer, TransferKey};

use super::packet::Packet;
use agents::Agents;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// State of the MAD layers of all ports.
#[derive(Default)]
pub(super) struct Kernel {
    pub(super) agents: Agents,
    pub(super) requests: HashMap<PendingKey, PendingRequest>,
    pub(super) transfers: HashMap<TransferKey, Transfer>,
    /// Serial number of the last [`Reassembly`].
    pub(super) last_reassembly: u64,
    /// RMPP packets to send once the current packet has been handled, so that long messages do not
    /// recurse.
    pub(super) backlog: VecDeque<Packet>,
    /// Number of holders of each port's `issm` device, by slot.
    pub(super) issm_holders: BTreeMap<u32, u32>,
}
