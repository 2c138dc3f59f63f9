//! The QoS policy (`qos_policy_file`) and its resolution for the present fabric.
//!
//! The file is read at the start and on SIGHUP. Errors are logged with their lines, and the
//! previous policy stays in force; without one, paths get the SLs of their partitions, as in
//! OpenSM. The policy's `qos-setup` section is part of the plan. Its levels and match rules are
//! resolved once the plan exists, and again when nodes, P_Keys, partitions or the policy change.

use crate::config::files;
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::daemon::process::operator_log;
use crate::daemon::process::priority::spawn_low_priority;
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Pkey};
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::paged_vec::PagedVec;
use crate::plan::partitions::Partition;
use crate::plan::qos::policy::EffectivePolicy;
use std::sync::Arc;
use tracing::error;

/// The policy as read and as resolved.
#[derive(Debug, Default)]
pub struct QosPolicyState {
    current: Option<Arc<QosPolicy>>,
    is_read: bool,
    resolved: Option<ResolvedPolicy>,
    /// Findings that were logged.
    logged: Vec<Note>,
}

/// A policy resolved for a fabric, with the inputs of the resolution.
#[derive(Debug)]
struct ResolvedPolicy {
    fabric: Arc<Fabric>,
    keys: PagedVec<Vec<Pkey>>,
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
    /// Reads the file again at the next [`Self::current`].
    pub fn reload(&mut self) {
        self.is_read = false;
    }

    /// The policy as written; `None` without QoS or without a policy. Reads the file if needed.
    pub fn current(&mut self, options: &Options) -> Option<Arc<QosPolicy>> {
        if !options.qos {
            (self.current, self.resolved) = (None, None);
            self.is_read = false;
            return None;
        }
        self.read(options);
        self.current.clone()
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

    fn read(&mut self, options: &Options) {
        if std::mem::replace(&mut self.is_read, true) {
            return;
        }
        match files::qos_policy(options) {
            Ok((policy, notes)) => {
                notes.iter().for_each(operator_log::note);
                self.current = policy.map(Arc::new);
                self.logged.clear();
            }
            Err(text) => {
                error!("{text}");
                let stays = match self.current {
                    Some(_) => "the previous policy stays in force",
                    None => "paths get the SLs of their partitions",
                };
                error!("the QoS policy file is invalid; {stays}");
            }
        }
    }
}

impl ResolvedPolicy {
    /// Returns `last` if its inputs are the same.
    fn new(policy: Arc<QosPolicy>, inputs: PolicyInputs, last: Option<Self>) -> Self {
        let PolicyInputs { fabric, plan, partitions, own_port } = inputs;
        let keys = plan.partitions.keys.clone();
        let is_valid = |last: &Self| {
            *last.effective.policy() == policy
                && last.own_port == own_port
                && last.partitions == partitions
                && last.keys == keys
                && has_same_nodes(&last.fabric, &fabric)
        };
        if let Some(last) = last.filter(is_valid) {
            return Self { fabric, keys, partitions, ..last };
        }
        let port = fabric.port_by_guid(own_port);
        let (resolved, notes) = EffectivePolicy::new(policy, &fabric, &keys, &partitions, port);
        Self { fabric, keys, partitions, own_port, effective: Arc::new(resolved), notes }
    }
}

/// True if both fabrics have the same nodes and port GUIDs.
fn has_same_nodes(old: &Arc<Fabric>, new: &Arc<Fabric>) -> bool {
    let is_same_guid = |&id: &PortId| old.port(id).guid == new.port(id).guid;
    Arc::ptr_eq(old, new)
        || Difference::between(old, new).is_some_and(|difference| {
            difference.nodes.is_empty() && difference.ports.iter().all(is_same_guid)
        })
}
