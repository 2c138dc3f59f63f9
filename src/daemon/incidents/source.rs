//! Sources of facts: each adds what it knows to the facts of one look at the fabric.

use crate::fabric::Fabric;
use crate::incidents::fact::Facts;
use crate::incidents::losses::Register;
use crate::manage::loop_status::LoopStatus;
use crate::perfmgr::status::PerfStatus;
use chrono::{DateTime, Utc};
use std::sync::Arc;
use tokio::time::Instant;

/// The states at the time of a look.
pub struct FactView<'a> {
    pub status: &'a LoopStatus,
    pub perf: &'a Arc<PerfStatus>,
    /// `None` while this SM is not master: the master watches the fabric.
    pub watched: Option<Watched<'a>>,
    pub instant: Instant,
    pub time: DateTime<Utc>,
}

/// The fabric of a master, and what it has lost.
#[derive(Clone, Copy)]
pub struct Watched<'a> {
    pub fabric: &'a Arc<Fabric>,
    pub losses: &'a Register,
}

pub trait FactSource: Send {
    /// Adds its facts to those of the sources before it.
    fn add_facts(&mut self, view: &FactView<'_>, facts: &mut Facts);

    /// Forgets the results that it keeps, after a look has panicked.
    fn reset(&mut self) {}
}
