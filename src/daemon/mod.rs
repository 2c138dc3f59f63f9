//! The daemon: the one loop and what surrounds it.
//!
//! * [`logging`]: the log in OpenSM's shape.

pub mod logging;
