//! A simulated fabric in this process: devices good enough to develop against and strict enough
//! to catch mistakes.
//!
//! A [`SimFabric`] is built from a wiring, as [`generate`] or a fabric file gives it. Programs
//! attach to its ports ([`SimPort`], which is a [`crate::transport::MadPort`]). Packets take the
//! directed route, or the path that the forwarding tables give, or are lost.
//!
//! * `device`: what devices hold; `link`: link states; `port_info`: what a Set may do;
//!   `tables`: tables by block; `sma`: the agent with its M_Key check
//! * `pma`: the performance management agent; `meters`: the counters it reads
//! * `forward`: the ways of packets; `journey`: what a packet moves on its way and what befalls
//!   it; `trap`: notices; `fault`: loss, delay, misbehaviour
//! * `net`: packets and timers in motion; [`kernel`]: agents, requests and RMPP, as Linux has
//!   them; `mailbox`, `message`: what waits for a sink; `port`, `control`: the handles
//! * [`console`]: all of it by lines of text
//!
//! Time is tokio's: on a paused clock and a current-thread runtime, a fabric with the same seed
//! does the same again. One lock guards a fabric; sinks are called from tasks of their own,
//! never within `post` and never under that lock.
//!
//! Not modelled: VLs (a mapping to VL15 drops nothing), P_Key enforcement by switches, the
//! M_Key's lease, multicast packets, samples of counters (PortSamplesControl).

pub mod console;
pub mod generate;
pub mod kernel;
pub mod serve;

mod control;
mod device;
mod fault;
mod forward;
mod journey;
mod link;
mod mailbox;
mod message;
mod meters;
mod net;
mod pma;
mod port;
mod port_info;
mod sma;
mod tables;
mod trap;

pub use control::SimFabric;
pub use fault::Misbehaviour;
pub use port::SimPort;

#[cfg(test)]
mod tests;
