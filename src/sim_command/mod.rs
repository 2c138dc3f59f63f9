//! `torus-sm sim` and its subcommands.
//!
//! * [`run`]: `torus-sm sim`, the daemon on a simulated fabric in one process. `requested_fabric`
//!   builds the fabric, `defaults` has the default options, `console_progress` reports progress,
//!   `scratch` is the private directory, `host` serves the fabric to programs in other processes,
//!   `script` runs console commands
//! * [`exec`]: `torus-sm sim exec` and `torus-sm sim shell`, which run such programs
//! * [`ctl`]: `torus-sm sim ctl`, which sends commands to the fabric's console
//! * `client`: connection to a running simulator; `starting`: the wait for one that starts
//!
//! The fabric itself is [`crate::sim`]; the arguments are in [`crate::cli::sim`].

pub mod ctl;
pub mod exec;
pub mod run;

mod client;
mod console_progress;
mod defaults;
mod host;
mod requested_fabric;
mod scratch;
mod script;
mod starting;
