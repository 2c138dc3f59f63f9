//! Partitions resolved from partitions.conf and the options.

use crate::config::options::Options;
use crate::config::partitions::PartitionsConfig;
use crate::ids::Mlid;
use crate::notes::Note;
use crate::plan::partitions::{self, Partition};
use crate::sa::registry::GroupSpec;
use std::sync::Arc;

/// The partitions of the subnet. Generated P_Keys are kept while the daemon runs.
pub struct PartitionState {
    config: Arc<PartitionsConfig>,
    current: Arc<Vec<Partition>>,
    notes: Vec<Note>,
    /// The groups that [`Self::resolve`] returned last, and the last MLID then.
    groups: Option<(Vec<GroupSpec>, Mlid)>,
}

impl PartitionState {
    pub fn new(config: Arc<PartitionsConfig>) -> Self {
        Self { config, current: Arc::default(), notes: Vec::new(), groups: None }
    }

    /// Uses another configuration from the next [`Self::resolve`] on.
    pub fn reload(&mut self, config: Arc<PartitionsConfig>) {
        self.config = config;
    }

    /// Resolves the partitions again. Returns their permanent multicast groups if these or `last`,
    /// the last MLID that the switches support, have changed.
    pub fn resolve(&mut self, options: &Options, last: Mlid) -> Option<Vec<GroupSpec>> {
        let (next, notes) = partitions::partitions(&self.config, options, &self.current);
        self.notes = notes;
        self.current = Arc::new(next);
        let groups = permanent_groups(&self.current, options);
        if self.groups.as_ref().is_some_and(|(known, mlid)| *known == groups && *mlid == last) {
            return None;
        }
        self.groups = Some((groups.clone(), last));
        Some(groups)
    }

    /// The partitions as of the last [`Self::resolve`].
    pub fn current(&self) -> Arc<Vec<Partition>> {
        self.current.clone()
    }

    /// Findings of the last [`Self::resolve`].
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }
}

/// The permanent multicast groups, which exist without members, in the order of partitions.conf.
pub fn permanent_groups(partitions: &[Partition], options: &Options) -> Vec<GroupSpec> {
    let groups = partitions.iter().flat_map(|partition| &partition.groups);
    let mut groups: Vec<_> = groups.filter(|_| !options.disable_multicast).collect();
    groups.sort_by_key(|group| group.order);
    groups.into_iter().map(GroupSpec::from).collect()
}
