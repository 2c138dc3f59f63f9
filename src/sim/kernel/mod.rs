//! The MAD layer of the Linux kernel for the ports of a simulated fabric: what
//! `drivers/infiniband/core` gives to a program that opens `/dev/infiniband/umadN`, and what our
//! own programs in this process ([`super::SimPort`]) sit on as well.
//!
//! ```text
//! OpenUmad, SimPort            device        what programs see: bytes, or the port of a daemon
//!   ▼ post      ▲ deliver
//! sends   receives             agents        registrations, requests, timeouts, who gets what
//!   ▼          ▲
//! transfers   reassembly     rmpp          long messages in segments
//!   ▼          ▲
//! Net::launch  Net::offer                    packets of the fabric, which may be lost
//! ```
//!
//! * `registration`: what an agent asks for; `agents`: who has registered for what
//! * `sends`: MADs that leave, requests that wait; `receives`: MADs that come in
//! * `rmpp`: the multi-packet protocol as such; `transfers`, `reassembly`: its packets and timers
//!   in motion, out and in
//! * `classes`: what classes differ in; `addresses`: LIDs, P_Keys and GIDs at the other end
//! * `queue`: what waits to be read; `device`: `umad` and `issm`
//!
//! The rules, among them what is refused with which error, are those of Linux 6: agents are
//! known by the upper half of transaction IDs, one agent of a port has a method of a class,
//! answers nobody waits for are dropped, and a Get or Set nobody wants is answered with status
//! 0x000c. The end of an open device, or of an agent, ends its requests without a word.
//!
//! Not modelled: the lengths of the hardware's queues (sending never waits), and their
//! permissions.

mod addresses;
mod agents;
mod classes;
mod device;
mod queue;
mod reassembly;
mod receives;
mod registration;
mod rmpp;
mod sends;
mod transfers;

pub use device::{IssmHold, OpenUmad};
pub use registration::{RegisterCall, Registration};

pub(super) use agents::Owner;
pub(super) use classes::is_smi;
pub(super) use receives::refusal;
pub(super) use sends::RequestKey;
pub(super) use transfers::TransferKey;

use super::net::Packet;
use agents::Agents;
use sends::Request;
use std::collections::{BTreeMap, HashMap, VecDeque};
use transfers::Transfer;

/// The state of all ports' MAD layers.
#[derive(Default)]
pub(super) struct Kernel {
    pub(super) agents: Agents,
    requests: HashMap<RequestKey, Request>,
    transfers: HashMap<TransferKey, Transfer>,
    next_receive: u64,
    /// What RMPP has to send.
    backlog: VecDeque<Packet>,
    /// Holders of `issm`, by end port.
    sms: BTreeMap<u32, u32>,
}

#[cfg(test)]
mod tests;
