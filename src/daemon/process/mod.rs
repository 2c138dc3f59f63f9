//! Services of the process: threads and their priority, signals, the log, the background.

pub mod background;
pub mod logging;
pub mod operator_log;
pub mod priority;
pub mod signals;
pub mod threads;
