//! What this program would do as the subnet manager of a fabric that another one manages. Nothing is
//! written: the port sends Gets only ([`get_only`](crate::transport::get_only)), is opened for no requests, does
//! not set IsSM, and answers nothing.
//!
//! * [`process`]: opens the port and runs the commands;
//! * [`dry_start`]: `torus-sm --dry-start`, the Sets that the first sweep would send;
//! * [`first_start`]: that sweep, by the stages of the SM loop;
//! * [`port`]: the clients of the port;
//! * [`watch`]: `torus-sm shadow`, which passes over the fabric again and again; [`report`]: its report,
//!   [`html`]: as a page;
//! * `difference_groups`: equal differences of many ports as one;
//! * [`dump_files`]: the same comparison without a port, from the files that OpenSM dumps;
//! * `in_force`: the tables that the devices hold; [`path_sls`]: service levels of sample paths;
//! * [`set_view`]: Sets in words.

mod difference_groups;
pub mod dry_start;
pub mod dump_files;
mod dumped_tables;
pub mod first_start;
pub mod html;
mod in_force;
pub mod path_sls;
pub mod port;
pub mod process;
pub mod report;
pub mod set_view;
pub mod watch;
