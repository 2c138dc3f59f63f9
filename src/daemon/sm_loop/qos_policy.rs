//! The QoS policy (`qos_policy_file`) and its resolution for the present fabric.
//!
//! Without a policy, paths get the SLs of their partitions, as in OpenSM. The policy's `qos-setup` section is part of the plan. Its levels and match rules are
//! resolved once the plan exists, and again when nodes, P_Keys, partitions or the policy change.

use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::daemon::process::operator_log;
use crate::daemon::process::priority::spawn_low_priority;
use crate::fabric::Fabric;
use crate::fabric::difference::Difference;
use crate::ids::{Guid, Pkey};
use crate::notes::Note;
use crate::paged_vec::PagedVec;
use crate::plan::Plan;
use crate::plan::partitions::Partition;
use crate::plan::qos::policy::EffectivePolicy;
use std::sync::Arc;
use tracing::error;

/// The policy as read and as resolved.
#[derive(Debug, Default)]
pub struct QosPolicyState {
    current: Option<Arc<QosPolicy>>,
    resolved: Option<ResolvedPolicy>,
    /// Findings that were logged.
    logged: Vec<Note>,
}

/// A policy resolved for a fabric, with the inputs of the resolution.
#[derive(Debug)]
struct ResolvedPolicy {
    fabric: Arc<Fabric>,
    keys: PagedVec<Arc<[Pkey]>>,
    partitions: Arc<Vec<Partition>>,
    own_port: Guid,
    effective: Arc<EffectivePolicy>,
    notes: Vec<Note>,
}

/// Inputs of the resolution.
pub struct PolicyInputs {
    pub fabric: Arc<Fabric>,
    /// Supplies the P_Keys of the ports.
    pub plan: Arc<Plan>,
    pub partitions: Arc<Vec<Partition>>,
    /// Port GUID of this SM.
    pub own_port: Guid,
}

impl QosPolicyState {
    /// Starts with this policy; `None` without one.
    pub fn new(policy: Option<Arc<QosPolicy>>) -> Self {
        Self { current: policy, resolved: None, logged: Vec::new() }
    }

    /// Uses another policy from the next [`Self::current`] on.
    pub fn reload(&mut self, policy: Option<Arc<QosPolicy>>) {
        self.current = policy;
        self.logged.clear();
    }

    /// The policy as written; `None` without QoS or without a policy.
    pub fn current(&self, options: &Options) -> Option<Arc<QosPolicy>> {
        self.current.clone().filter(|_| options.qos)
    }

    /// The policy resolved for these inputs; `None` without QoS or without a policy.
    pub async fn effective(
        &mut self,
        options: &Options,
        inputs: PolicyInputs,
    ) -> Option<Arc<EffectivePolicy>> {
        let Some(policy) = self.current(options) else {
            self.resolved = None;
            return None;
        };
        let last = self.resolved.take();
        match spawn_low_priority(move || ResolvedPolicy::new(policy, inputs, last)).await {
            Ok(resolved) => {
                resolved
                    .notes
                    .iter()
                    .filter(|note| !self.logged.contains(note))
                    .for_each(operator_log::note);
                self.logged.clone_from(&resolved.notes);
                let effective = resolved.effective.clone();
                self.resolved = Some(resolved);
                Some(effective)
            }
            Err(panic) => {
                error!(
                    "the QoS policy cannot be resolved: {panic}; paths get the SLs of their \
                     partitions"
                );
                None
            }
        }
    }
}

impl ResolvedPolicy {
    /// Returns `last` if its inputs are the same.
    fn new(policy: Arc<QosPolicy>, inputs: PolicyInputs, last: Option<Self>) -> Self {
        let PolicyInputs { fabric, plan, partitions, own_port } = inputs;
        let keys = plan.partitions.keys.clone();
        if let Some(last) = last
            && *last.effective.policy() == policy
            && last.own_port == own_port
            && last.partitions == partitions
            && last.keys == keys
            && has_same_nodes(&last.fabric, &fabric)
        {
            return Self { fabric, keys, partitions, ..last };
        }
        let port = fabric.port_by_guid(own_port);
        let (resolved, notes) = EffectivePolicy::new(policy, &fabric, &keys, &partitions, port);
        Self { fabric, keys, partitions, own_port, effective: Arc::new(resolved), notes }
    }
}

/// True if both fabrics have the same nodes and port GUIDs.
fn has_same_nodes(old: &Arc<Fabric>, new: &Arc<Fabric>) -> bool {
    if Arc::ptr_eq(old, new) {
        return true;
    }
    Difference::between(old, new).is_some_and(|difference| {
        let mut ports = difference.ports.iter();
        difference.nodes.is_empty() && ports.all(|&id| old.port(id).guid == new.port(id).guid)
    })
}
