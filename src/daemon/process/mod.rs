//! Services of the process, used by all parts of the daemon.
//!
//! * [`threads`]: runtimes of the SM loop and the servers; [`priority`]: their nice values;
//! * [`signals`]: handling of SIGHUP, SIGUSR1, SIGUSR2, SIGINT and SIGTERM;
//! * [`recordings`]: the flight recorder's files;
//! * [`logging`]: the log file; [`operator_log`] and [`port_log`]: lines that operators' scripts match;
//!   [`trap_log`]: those of traps;
//! * [`core_dumps`]: core dumps without keys; [`memory`]: returns unused memory to the kernel;
//! * [`background`]: running in the background (`-B`); [`service_manager`]: notifications to systemd.

pub mod background;
pub mod core_dumps;
pub mod logging;
pub mod memory;
pub mod operator_log;
pub mod port_log;
pub mod priority;
pub mod recordings;
pub mod service_manager;
pub mod signals;
pub mod threads;
pub mod trap_log;
