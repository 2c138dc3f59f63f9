//! Library that attaches an unmodified program to a node of a fabric simulated by torus-sm.
//!
//! Preloaded with LD_PRELOAD, the library interposes functions of the C library: the program sees
//! `/dev/infiniband`, `/sys/class/infiniband` and `/sys/class/infiniband_mad` of a simulated node.
//! All other calls are passed through unchanged. `torus-sm sim exec` sets up the environment
//! variables that select the simulator and the node (`protocol`).
//!
//! * `paths`: paths of the simulated node; `redirected_path`: the files behind them
//! * `connection`: connection to the simulator; `socket`: system calls on sockets
//! * `device_table`: descriptors of simulated devices; `device`: open, read, write and ioctl on
//!   them
//! * `calls`: interposed functions; `real`: the functions of the C library
//!
//! The node's sysfs is a directory that the simulator maintains; the library asks the simulator to
//! update a path before it is used. A device is a real descriptor, of a socket, so that poll,
//! epoll, select, dup, fork and close work on it; open, read, write and ioctl are implemented here.
//!
//! Invariants: a call that does not concern the simulated node reaches the C library with its
//! arguments and errno unchanged, without allocation and without a lock. The library never panics.
//! It calls interposed functions through `real` only.

#![cfg_attr(test, allow(dead_code, reason = "used by the exported functions only"))]

mod calls;
mod connection;
mod device;
mod device_table;
mod errno;
mod paths;
#[path = "../../src/sim/serve/protocol.rs"]
#[allow(dead_code, reason = "each side uses a part of it")]
mod protocol;
mod real;
mod redirected_path;
mod socket;
