//! The partitions as configured, and what passes need of them.

use crate::config::options::Options;
use crate::config::partitions::PartitionsConfig;
use crate::notes::Note;
use crate::plan::partitions::{self, Partition};
use crate::sa::registry::GroupSpec;
use std::sync::Arc;

/// The partitions of the subnet. Keys that were generated stay while the daemon runs.
pub struct PartitionState {
    config: Arc<PartitionsConfig>,
    current: Arc<Vec<Partition>>,
    notes: Vec<Note>,
    /// The groups that the SA desk was told of.
    told: Option<Vec<GroupSpec>>,
}

impl PartitionState {
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
        let groups = permanent_groups(&self.current, options);
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

/// The multicast groups that are always to be there.
pub fn permanent_groups(partitions: &[Partition], options: &Options) -> Vec<GroupSpec> {
    let groups = partitions.iter().flat_map(|partition| &partition.groups);
    let mut groups: Vec<_> = groups.filter(|_| !options.disable_multicast).collect();
    groups.sort_by_key(|group| group.order);
    groups.into_iter().map(GroupSpec::from).collect()
}
