//! Performance manager: the counters of all ports, in 64 bits, as OpenSM's keeps them.
//!
//! * [`counters`]: readings of PortCounters and PortCountersExtended, and when a device's counters
//!   must be cleared before they stop at their maximum
//! * [`database`]: the totals of each port by node GUID; [`history`]: samples within a window, and
//!   rates
//! * [`error_log`]: OpenSM's log lines for increased error counters; [`dump`]: OpenSM's dump
//!   formats
//! * [`command`]: the commands of OpenSM's console; [`redirection`]: redirected agents
//! * [`status`]: the snapshot that readers get
//!
//! This module is pure: [`crate::daemon`] sends the queries and provides the time.

pub mod command;
pub mod counters;
pub mod database;
pub mod dump;
pub mod error_log;
pub mod history;
pub mod redirection;
pub mod status;
