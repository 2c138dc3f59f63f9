//! `torus-sm sim` and its subcommands.
//!
//! * [`run`]: `torus-sm sim`, the daemon on a simulated fabric in one process;
//!   [`console_progress`] reports its progress on standard output; [`host`] serves the fabric to
//!   programs in other processes
//! * [`exec`]: `torus-sm sim exec` and `torus-sm sim shell`, which run such programs
//! * [`ctl`]: `torus-sm sim ctl`, which sends commands to the fabric's console
//!
//! The fabric itself is [`crate::sim`]; the arguments are in [`crate::cli::sim`].

pub mod console_progress;
pub mod ctl;
pub mod exec;
pub mod host;
pub mod run;
