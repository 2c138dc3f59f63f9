//! Makes a program believe that it runs on a node of a fabric simulated by torus-sm.
//!
//! Preloaded (LD_PRELOAD) into an unmodified program, this library stands before the C library:
//! `/dev/infiniband`, `/sys/class/infiniband` and `/sys/class/infiniband_mad` are those of a
//! simulated node, everything else goes through untouched. `torus-sm sim exec` sets it up; two
//! variables say which simulator and which node (`protocol`).
//!
//! * `paths`: which paths are meant; `redirect`: where they lead to
//! * `session`: the connection to the simulator
//! * `files`: which descriptors are simulated devices; `device`: open, read, write, ioctl on them
//! * `calls`: the functions of the C library that are replaced; `real`: those behind them
//!
//! The sysfs of the node is a real folder that the simulator keeps; a path there is looked up in
//! it after the simulator has been asked to bring it up to date. A device is a real descriptor, a
//! socket, so that everything but open, read, write and ioctl works on it by itself: poll, epoll
//! and select, dup, fork, close.
//!
//! Rules of the house: a call for anything else than the simulated node reaches the C library
//! with its arguments and errno as they were, without allocation and without a lock. Nothing
//! here panics. System calls are made through `real` where a function is replaced here.

#![cfg_attr(test, allow(dead_code, reason = "what only the exported functions use"))]

mod calls;
mod device;
mod errno;
mod files;
mod paths;
#[path = "../../src/sim/serve/protocol.rs"]
#[allow(dead_code, reason = "each side uses its half")]
mod protocol;
mod real;
mod redirect;
mod session;
