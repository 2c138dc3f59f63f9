//! Publishes a changed snapshot with the plan in force.

use super::state::{ConfigState, PlanState};
use crate::config::options::Options;
use crate::daemon::sm_loop::context::ManagerContext;
use crate::daemon::sm_loop::qos_policy::PolicyInputs;
use crate::fabric::Fabric;
use crate::observe::Observation;
use crate::publish::Subnet;
use std::sync::Arc;

/// Publishes a snapshot that differs from that of the plan in force in descriptions, capabilities and
/// counters only. Does nothing if the nodes and ports are not those of the plan.
pub(super) async fn publish_observation(
    config: &mut ConfigState,
    plan: &mut PlanState,
    context: &ManagerContext,
    options: &Arc<Options>,
    observation: &Observation,
) {
    let published = context.published.subnet.borrow().clone();
    let Some(last) = published.filter(|last| has_same_ports(&last.fabric, &observation.fabric))
    else {
        return;
    };
    let inputs = PolicyInputs {
        fabric: observation.fabric.clone(),
        plan: last.plan.clone(),
        partitions: config.partitions.current(),
        own_port: context.published.sm_status.borrow().guid,
    };
    let qos_policy = config.qos_policy.effective(options, inputs).await;
    if let Some(multicast) = plan.multicast.as_mut()
        && Arc::ptr_eq(&multicast.fabric, &last.fabric)
    {
        multicast.fabric = observation.fabric.clone();
    }
    plan.generation += 1;
    let subnet = Subnet {
        generation: plan.generation,
        fabric: observation.fabric.clone(),
        qos_policy,
        ..Subnet::clone(&last)
    };
    context.published.subnet.send_replace(Some(Arc::new(subnet)));
}

/// True if both snapshots have the same nodes and ports under the same indices.
fn has_same_ports(old: &Fabric, new: &Fabric) -> bool {
    old.ports().len() == new.ports().len()
        && old.local() == new.local()
        && old.nodes().iter().map(|node| node.guid()).eq(new.nodes().iter().map(|node| node.guid()))
}
