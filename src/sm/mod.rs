//! The subnet manager among subnet managers: IBA vol. 1, 14.4.
//!
//! * [`role`]: the state machine, one row per transition;
//! * [`election`]: who is the better SM;
//! * [`desk`]: answers to SMInfo.
//!
//! No I/O and no clock: the daemon's loop performs the actions.

pub mod desk;
pub mod election;
pub mod role;
