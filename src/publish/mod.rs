//! The published snapshot: what SA answers are computed from, and the dump files; and what is told
//! while there is nothing new to be published.

pub mod dumps;
pub mod path;
pub mod refused;
pub mod report;

use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::plan::Plan;
use crate::plan::qos::policy::EffectivePolicy;
use crate::verify::Summary;
use std::sync::Arc;

/// A generation of the subnet as it was brought up: immutable, shared by all who answer.
#[derive(Clone, Debug)]
pub struct Subnet {
    /// Counts the publications of this daemon, from 1.
    pub generation: u64,
    /// What is.
    pub fabric: Arc<Fabric>,
    /// What should be, and after the programming is.
    pub plan: Arc<Plan>,
    /// The configuration the plan was made with.
    pub options: Arc<Options>,
    /// The QoS policy, made for this fabric, if there is one.
    pub qos_policy: Option<Arc<EffectivePolicy>>,
    /// What the checks found in the plan.
    pub summary: Arc<Summary>,
    /// Sets that no device acknowledged; with none the subnet is up as planned.
    pub failed_sets: usize,
}
