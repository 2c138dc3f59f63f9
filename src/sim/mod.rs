//! A simulated fabric in this process, for development and tests: devices that enforce the rules of
//! the InfiniBand Architecture Specification.
//!
//! A [`SimFabric`] is created from a topology, which [`generate`] or a fabric file provides.
//! Programs attach to its ports, in this process ([`SimPort`], a [`crate::transport::MadPort`]) or
//! in others ([`serve`]). Packets follow their directed route or the forwarding tables.
//!
//! * `devices`: nodes, ports and switches; `link`: link state machine; `port_info`: Set(PortInfo);
//!   `tables`: table attributes; `sma`: subnet management agent; `sma_load`: its speed and
//!   queue; `m_key`: its M_Key check
//! * `pma`: performance management agent; `counters`: performance counters; `congestion`:
//!   congestion control agent; `vendor`: vendor-specific profiles; `vendor_attributes`,
//!   `virtual_ports`, `adaptive`: their agents; `vports`, `adaptive_tables`: what they hold
//! * `forwarding`: routes of packets; `traffic`: data packets between hosts; `fault_injector`: faults and counters on a packet's links;
//!   `trap`: notices
//! * `faults`: faults in force; `transit_faults`: of MADs on their way; `node_faults`: of
//!   management agents; `cable_fault`: of cables; `random`: pseudo-random numbers
//! * `data_walk`: the way of a data packet, with the P_Key checks of switches and receivers
//! * `kernel`: model of the Linux kernel's MAD layer; `addressing`: addresses at either end
//! * `net`: packets in transit, timers and dispatch to agents; `packet`, `events`,
//!   `event_queue`: their types; `timers`, `event_signal`: when events are handled
//! * `sim_fabric`: [`SimFabric`], the handle of a fabric; `fault_controls`: its faults
//! * `port`, `delivery_queue`: ports of programs in this process; [`umad`]: the same as device
//!   files
//! * [`console`]: text commands that show and change a fabric
//! * [`serve`]: the fabric on a Unix socket
//!
//! Time is tokio's: on a paused clock and a current-thread runtime, the same seed gives the same
//! run. One lock guards a fabric. Sinks are called from separate tasks, never within `post` and
//! never with the lock held.
//!
//! Not modelled: congestion, virtual lanes (a mapping to VL 15 drops nothing), P_Key enforcement by switches
//! for MADs, multicast packets, and sampled counters (PortSamplesControl).

pub mod console;
pub mod generate;
pub mod kernel;
pub mod serve;
pub mod umad;

mod adaptive;
mod adaptive_tables;
mod addressing;
mod cable_fault;
mod congestion;
mod counters;
mod data_walk;
mod delivery_queue;
mod devices;
mod event_queue;
mod event_signal;
mod events;
mod extended_ports;
mod fault_controls;
mod fault_injector;
mod faults;
mod forwarding;
mod link;
mod m_key;
mod negotiation;
mod net;
mod node_faults;
mod packet;
mod pma;
mod port;
mod port_info;
pub(crate) mod random;
mod redirection;
mod sim_fabric;
mod sma;
mod sma_load;
mod tables;
mod timers;
mod traffic;
mod transit_faults;
mod trap;
mod vendor;
mod vendor_attributes;
mod virtual_ports;
mod vports;

pub use adaptive_tables::{AdaptiveLimits, AdaptiveView, PacketClass, Transport};
pub use addressing::FIRST_VPORT_GID;
pub use congestion::{CongestionFault, PortCongestionSettings};
pub use data_walk::{DataDrop, DataPacket, DataReceiver};
pub use devices::PortEvents;
pub use node_faults::{AttributeFault, Misbehaviour, SetFault};
pub use port::SimPort;
pub use sim_fabric::SimFabric;
pub use sma_load::SmaSpeed;
pub use timers::TimedEvents;
pub use traffic::{CableEnd, Forwarding, PacketFate, Traffic, TrafficPattern, TrafficReport};
pub use transit_faults::MadKind;
pub use vendor::{VendorProfile, VendorSet};
pub use vports::{SimVport, VportSpec};

#[cfg(test)]
mod tests;
