//! Roles and election of subnet managers (IBA vol. 1, 14.4).
//!
//! * [`role`]: the state machine, one row per transition;
//! * [`peer`]: another SM; [`election`]: decides which SM becomes master; [`polling`]: judges the
//!   replies of a polled SM;
//! * [`sm_info`]: replies to SMInfo requests, and requests to other SMs.
//!
//! These modules use no I/O and no clock: the SM loop performs the actions.

pub mod election;
pub mod peer;
pub mod polling;
pub mod role;
pub mod sm_info;
