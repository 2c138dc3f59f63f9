//! The subnet manager among subnet managers: IBA vol. 1, 14.4.
//!
//! * [`role`]: the state machine, one row per transition;
//! * [`election`]: who is the better SM;
//! * [`sm_info`]: replies to SMInfo.
//!
//! No I/O and no clock: the daemon's loop performs the actions.

pub mod election;
pub mod role;
pub mod sm_info;
