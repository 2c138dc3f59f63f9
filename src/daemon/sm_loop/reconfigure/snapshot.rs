//! Publishes a changed snapshot with the plan in force.

use super::Reconfigurer;
use crate::config::options::Options;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::qos_policy::PolicyInputs;
use crate::fabric::Fabric;
use crate::observe::Observation;
use crate::publish::Subnet;
use std::sync::Arc;

impl Reconfigurer {
    /// Publishes a snapshot that differs from that of the plan in force in descriptions,
    /// capabilities and counters only. Does nothing if the nodes and ports are not those of the
    /// plan.
    pub async fn publish_observation(
        &mut self,
        context: &ManagerContext,
        options: &Arc<Options>,
        observation: &Observation,
    ) {
        let published = context.subnet.borrow().clone();
        let Some(last) = published.filter(|last| has_same_ports(&last.fabric, &observation.fabric))
        else {
            return;
        };
        let inputs = PolicyInputs {
            fabric: observation.fabric.clone(),
            plan: last.plan.clone(),
            partitions: self.config.partitions.current(),
            own_port: context.sm_status.borrow().guid,
        };
        let qos_policy = self.config.qos_policy.effective(options, inputs).await;
        if let Some(multicast) = self.plan.multicast.as_mut()
            && Arc::ptr_eq(&multicast.fabric, &last.fabric)
        {
            multicast.fabric = observation.fabric.clone();
        }
        self.plan.generation += 1;
        let (generation, fabric) = (self.plan.generation, observation.fabric.clone());
        let subnet = Subnet { generation, fabric, qos_policy, ..Subnet::clone(&last) };
        context.subnet.send_replace(Some(Arc::new(subnet)));
    }
}

/// True if both snapshots have the same nodes and ports under the same indices.
fn has_same_ports(old: &Fabric, new: &Fabric) -> bool {
    let ids = |fabric: &Fabric| (fabric.nodes().len(), fabric.ports().len(), fabric.local());
    let nodes = || old.nodes().iter().zip(new.nodes());
    ids(old) == ids(new) && nodes().all(|(old, new)| old.guid() == new.guid())
}
