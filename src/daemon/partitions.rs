//! The partitions as configured, and what passes need of them.

use crate::config::options::Options;
use crate::config::partitions::PartitionsConfig;
use crate::notes::Note;
use crate::plan::partitions::{self, Partition, PermanentGroup};
use crate::sa::registry::GroupSpec;
use std::sync::Arc;

/// The partitions of the subnet. Keys that were generated stay while the daemon runs.
pub struct Partitions {
    config: Arc<PartitionsConfig>,
    current: Arc<Vec<Partition>>,
    notes: Vec<Note>,
    /// The groups that the SA desk was told of.
    told: Option<Vec<GroupSpec>>,
}

impl Partitions {
    /// The partitions of a configuration.
    pub fn new(config: Arc<PartitionsConfig>) -> Self {
        Self { config, current: Arc::default(), notes: Vec::new(), told: None }
    }

    /// Another configuration counts from the next [`Self::resolve`] on.
    pub fn reconfigure(&mut self, config: Arc<PartitionsConfig>) {
        self.config = config;
    }

    /// Brings the partitions up to date with configuration and options; the multicast groups
    /// that are always to be there, if they are others than before.
    pub fn resolve(&mut self, options: &Options) -> Option<Vec<GroupSpec>> {
        let (next, notes) = partitions::partitions(&self.config, options, &self.current);
        self.notes = notes;
        self.current = Arc::new(next);
        let groups = self.current.iter().flat_map(|partition| &partition.groups);
        let groups: Vec<GroupSpec> = match options.disable_multicast {
            true => Vec::new(),
            false => groups.map(group_spec).collect(),
        };
        if self.told.as_ref() == Some(&groups) {
            return None;
        }
        self.told = Some(groups.clone());
        Some(groups)
    }

    /// The partitions as of the last [`Self::resolve`].
    pub fn current(&self) -> Arc<Vec<Partition>> {
        self.current.clone()
    }

    /// What is odd about them.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

fn group_spec(group: &PermanentGroup) -> GroupSpec {
    GroupSpec {
        mgid: group.mgid,
        qkey: group.q_key,
        mtu: group.mtu,
        rate: group.rate,
        packet_life: group.packet_life,
        pkey: group.pkey,
        sl: group.sl,
        traffic_class: group.tclass,
        flow_label: group.flow_label,
        hop_limit: group.hop_limit,
        scope: group.scope,
    }
}
