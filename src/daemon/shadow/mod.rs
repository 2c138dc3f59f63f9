//! What this program would do as the subnet manager of a fabric that another one manages. Nothing is
//! written: the port sends Gets only ([`get_only`](crate::transport::get_only)), is opened for no requests, does
//! not set IsSM, and answers nothing.
//!
//! * [`process`]: opens the port and runs the commands;
//! * [`dry_start`]: `torus-sm --dry-start`, the Sets that the first sweep would send;
//! * [`first_start`]: that sweep, by the stages of the SM loop;
//! * [`port`]: the clients of the port;
//! * [`set_view`]: Sets in words.

pub mod dry_start;
pub mod first_start;
pub mod port;
pub mod process;
pub mod set_view;
