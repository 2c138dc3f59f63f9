//! Publication: the immutable [`Subnet`] that SA replies are computed from, the dump files written
//! after each sweep, and the report for the operator.
//!
//! * [`dumps`]: OpenSM's dump files; [`atomic_file`]: replaces a file as a whole; [`dump_file`]: does
//!   so for programs that watch it
//! * [`path`]: one path with its SL and VLs; [`report`]: the summary that follows SUBNET UP
//! * [`rejected`]: a sweep that ended without an acceptable plan; [`connectivity`]: the paths that
//!   still work with the tables of the last accepted plan
//! * [`device_faults`]: devices and links that do not work as planned; [`restarts`]: nodes that
//!   are new or have restarted
//! * [`repair`]: the routes of a repaired torus, in numbers; [`traffic`]: the load of patterns of traffic

pub mod atomic_file;
pub mod connectivity;
pub mod device_faults;
pub mod dump_file;
pub mod dumps;
pub mod path;
pub mod rejected;
pub mod repair;
pub mod report;
pub mod restarts;
pub mod traffic;

use crate::config::enhanced_qos::EnhancedQos;
use crate::config::options::Options;
use crate::fabric::Fabric;
use crate::ids::{Lid, Sl};
use crate::plan::Plan;
use crate::plan::qos::policy::EffectivePolicy;
use crate::verify::Summary;
use device_faults::DeviceFaults;
use repair::RepairView;
use restarts::Restarts;
use std::sync::{Arc, OnceLock};

/// One generation of the subnet: immutable, and shared by all threads that answer SA requests.
#[derive(Clone, Debug)]
pub struct Subnet {
    /// Number of this publication, from 1 at the start of the daemon.
    pub generation: u64,
    /// The fabric as discovered by the sweep.
    pub fabric: Arc<Fabric>,
    /// The plan, which has been programmed unless [`Self::failed_sets`] is above 0.
    pub plan: Arc<Plan>,
    /// The configuration the plan was made with.
    pub options: Arc<Options>,
    /// The QoS policy, with the names of its port groups resolved in this fabric.
    pub qos_policy: Option<Arc<EffectivePolicy>>,
    pub summary: Arc<Summary>,
    /// Number of SubnSet requests that no device acknowledged, without those that do not matter to
    /// the subnet as a whole.
    pub failed_sets: usize,
    pub devices: Arc<DeviceFaults>,
    pub restarts: Arc<Restarts>,
    /// Rate limits of adapter ports by `enhanced_qos_policy_file`.
    pub rate_limits: Option<Arc<EnhancedQos>>,
    /// Computed when it is first read.
    pub repair_view: Arc<OnceLock<Option<RepairView>>>,
}

impl Subnet {
    /// The routes around damage that torus-2QoS refuses; `None` if there are none.
    pub fn repair(&self) -> Option<&RepairView> {
        self.repair_view.get_or_init(|| RepairView::of(&self.plan)).as_ref()
    }

    /// The SL of the path from the SM's port to a LID, by which routing engines avoid credit loops;
    /// 0 if no port has the LID.
    pub fn sl_to(&self, lid: Lid) -> Sl {
        let Some(to) = self.plan.lids.port(lid) else { return Sl(0) };
        self.plan.routing.policy.path_sl(self.fabric.local(), to, Sl(0))
    }
}
