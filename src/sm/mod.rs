//! Roles and election of subnet managers (IBA vol. 1, 14.4).
//!
//! * [`role`]: the state machine, one row per transition;
//! * [`election`]: decides which SM becomes master;
//! * [`sm_info`]: replies to SMInfo.
//!
//! These modules use no I/O and no clock: the manager performs the actions.

pub mod election;
pub mod role;
pub mod sm_info;
