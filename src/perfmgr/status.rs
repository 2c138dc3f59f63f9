//! The snapshot that the performance manager publishes.

use super::database::Database;
use super::redirection::RedirectedPort;
use crate::config::options::Options;
use chrono::{DateTime, Utc};
use std::time::Duration;

/// Settings that an operator can change while the daemon runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerfSettings {
    /// Sweeps at intervals.
    pub is_enabled: bool,
    /// Interval between the starts of sweeps in seconds.
    pub sweep_time_s: u16,
    pub removes_nodes: bool,
    pub queries_class_port_info: bool,
}

impl PerfSettings {
    pub fn new(options: &Options) -> Self {
        Self {
            is_enabled: options.perfmgr,
            sweep_time_s: options.perfmgr_sweep_time_s.max(1),
            removes_nodes: options.perfmgr_rm_nodes,
            queries_class_port_info: options.perfmgr_query_cpi,
        }
    }
}

/// A sweep that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerfSweep {
    /// Time of the end.
    pub ended: DateTime<Utc>,
    pub duration: Duration,
    /// Ports that were read.
    pub ports: usize,
    /// Requests sent.
    pub queries: usize,
    /// Requests without an answer, or with an error status.
    pub failed: usize,
    /// Ports whose counters were cleared before they stop.
    pub cleared: usize,
}

/// The state of the performance manager.
#[derive(Clone, PartialEq, Debug)]
pub struct PerfStatus {
    pub settings: PerfSettings,
    pub is_sweeping: bool,
    /// Limit of requests in flight.
    pub max_outstanding: u32,
    /// Sweeps that have ended.
    pub sweeps: u64,
    pub last_sweep: Option<PerfSweep>,
    pub database: Database,
    pub redirections: Vec<RedirectedPort>,
}

impl PerfStatus {
    pub fn new(options: &Options) -> Self {
        Self {
            settings: PerfSettings::new(options),
            is_sweeping: false,
            max_outstanding: options.perfmgr_max_outstanding_queries,
            sweeps: 0,
            last_sweep: None,
            database: Database::default(),
            redirections: Vec::new(),
        }
    }
}
