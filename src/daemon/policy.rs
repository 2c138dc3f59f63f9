//! The QoS policy, and what it means for the fabric of a pass.
//!
//! The file is read at the start and on a HUP. One that is wrong is reported with its lines, and
//! the policy that was in force before stays; at the start there is none then, and paths have
//! the service levels of their partitions, as in OpenSM.

use super::tell;
use crate::config::files;
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::fabric::Fabric;
use crate::ids::Guid;
use crate::notes::Note;
use crate::plan::Plan;
use crate::plan::partitions::Partition;
use crate::plan::qos_policy::EffectivePolicy;
use std::sync::Arc;
use tracing::error;

/// The policy of the subnet.
#[derive(Debug, Default)]
pub struct Policy {
    current: Option<Arc<QosPolicy>>,
    is_read: bool,
    /// What was told about its meaning for the fabric.
    told: Vec<Note>,
}

/// What a policy is made for.
pub struct Ground {
    /// The picture.
    pub fabric: Arc<Fabric>,
    /// The plan, for the P_Keys of the ports.
    pub plan: Arc<Plan>,
    /// The partitions.
    pub partitions: Arc<Vec<Partition>>,
    /// The subnet manager's port.
    pub own: Guid,
}

impl Policy {
    /// The file is read again at the next pass.
    pub fn reconfigure(&mut self) {
        self.is_read = false;
    }

    /// The policy, made for this ground; `None` without QoS or without a policy.
    pub async fn effective(
        &mut self,
        options: &Options,
        ground: Ground,
    ) -> Option<Arc<EffectivePolicy>> {
        if !options.qos {
            self.current = None;
            self.is_read = false;
            return None;
        }
        self.read(options);
        let policy = self.current.clone()?;
        let work = move || {
            let Ground { fabric, plan, partitions, own } = ground;
            let own = fabric.port_by_guid(own);
            EffectivePolicy::new(policy, &fabric, &plan.partitions.keys, &partitions, own)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok((made, notes)) => {
                notes.iter().filter(|note| !self.told.contains(note)).for_each(tell::note);
                self.told = notes;
                Some(Arc::new(made))
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
                notes.iter().for_each(tell::note);
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
