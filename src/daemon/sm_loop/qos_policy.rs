//! The QoS policy, and what it means for the fabric of a pass.
//!
//! The file is read at the start and on a HUP. One that is wrong is reported with its lines, and
//! the policy that was in force before stays; at the start there is none then, and paths have
//! the service levels of their partitions, as in OpenSM. Its `qos-setup` goes into the plan; its
//! levels and rules are made for the fabric when the plan is there, and again when nodes, P_Keys,
//! partitions or the policy are others than before.

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

/// The policy of the subnet.
#[derive(Debug, Default)]
pub struct QosPolicyState {
    current: Option<Arc<QosPolicy>>,
    is_read: bool,
    /// What was made of it last.
    made: Option<ResolvedPolicy>,
    /// What was told about its meaning for the fabric.
    told: Vec<Note>,
}

/// A policy that was made for a fabric, and what it was made from.
#[derive(Debug)]
struct ResolvedPolicy {
    fabric: Arc<Fabric>,
    keys: PagedVec<Vec<Pkey>>,
    partitions: Arc<Vec<Partition>>,
    own: Guid,
    effective: Arc<EffectivePolicy>,
    notes: Vec<Note>,
}

/// What a policy is made for.
pub struct PolicyInputs {
    /// The picture.
    pub fabric: Arc<Fabric>,
    /// The plan, for the P_Keys of the ports.
    pub plan: Arc<Plan>,
    /// The partitions.
    pub partitions: Arc<Vec<Partition>>,
    /// The subnet manager's port.
    pub own: Guid,
}

impl QosPolicyState {
    /// The file is read again at the next pass.
    pub fn reconfigure(&mut self) {
        self.is_read = false;
    }

    /// The policy as written; `None` without QoS or without a policy. Reads the file if it is
    /// due.
    pub fn current(&mut self, options: &Options) -> Option<Arc<QosPolicy>> {
        if !options.qos {
            (self.current, self.made) = (None, None);
            self.is_read = false;
            return None;
        }
        self.read(options);
        self.current.clone()
    }

    /// The policy, made for this ground; `None` without QoS or without a policy.
    pub async fn effective(
        &mut self,
        options: &Options,
        ground: PolicyInputs,
    ) -> Option<Arc<EffectivePolicy>> {
        let Some(policy) = self.current(options) else {
            self.made = None;
            return None;
        };
        let last = self.made.take();
        match spawn_low_priority(move || ResolvedPolicy::new(policy, ground, last)).await {
            Ok(made) => {
                made.notes
                    .iter()
                    .filter(|note| !self.told.contains(note))
                    .for_each(operator_log::note);
                self.told.clone_from(&made.notes);
                let effective = made.effective.clone();
                self.made = Some(made);
                Some(effective)
            }
            Err(panic) => {
                error!("the QoS policy cannot be made for this fabric: {panic}");
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
                self.told.clear();
            }
            Err(text) => {
                error!("{text}");
                let stays = match self.current {
                    Some(_) => "the policy read before stays in force",
                    None => "there is no QoS policy: paths have the SLs of their partitions",
                };
                error!("the QoS policy is wrong; {stays}");
            }
        }
    }
}

impl ResolvedPolicy {
    /// Takes over what was made last if it is the same.
    fn new(policy: Arc<QosPolicy>, ground: PolicyInputs, last: Option<Self>) -> Self {
        let PolicyInputs { fabric, plan, partitions, own } = ground;
        let keys = plan.partitions.keys.clone();
        let holds = |last: &Self| {
            *last.effective.policy() == policy
                && last.own == own
                && last.partitions == partitions
                && last.keys == keys
                && has_same_nodes(&last.fabric, &fabric)
        };
        if let Some(last) = last.filter(holds) {
            return Self { fabric, keys, partitions, ..last };
        }
        let port = fabric.port_by_guid(own);
        let (made, notes) = EffectivePolicy::new(policy, &fabric, &keys, &partitions, port);
        Self { fabric, keys, partitions, own, effective: Arc::new(made), notes }
    }
}

/// True if all nodes and ports are called as before.
fn has_same_nodes(old: &Arc<Fabric>, new: &Arc<Fabric>) -> bool {
    let is_same_guid = |&id: &PortId| old.port(id).guid == new.port(id).guid;
    Arc::ptr_eq(old, new)
        || Difference::between(old, new).is_some_and(|difference| {
            difference.nodes.is_empty() && difference.ports.iter().all(is_same_guid)
        })
}
