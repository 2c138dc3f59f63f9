//! The running fabric: packets in transit, timed events, and dispatch to agents.
//!
//! A packet without delay reaches its destination within the call that sends it, and so do the
//! packets that it causes. MADs for programs go to their agents ([`super::kernel`]), all others to
//! the management agents of the devices.
//!
//! * `state`: [`Net`], everything that one lock guards
//! * `delivery`: from the sending port to the receiving agent; `traps`: link changes and traps
//! * `send`, `receive`: MADs that agents send and receive, request timeouts
//! * `rmpp_send`, `rmpp_receive`: the same for RMPP messages

mod delivery;
mod receive;
mod rmpp_receive;
mod rmpp_send;
mod send;
mod state;
mod traps;

pub(super) use state::Net;
