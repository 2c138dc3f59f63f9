//! What partitions.conf of a case comes to.

use super::draw::Case;
use std::collections::BTreeSet;
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::plan::partitions;

/// Partitions, by number, whose SL the last of several parts takes back in OpenSM by saying none.
pub fn with_sl_taken_back(case: &Case) -> BTreeSet<u16> {
    let text = case.partitions.as_deref().unwrap_or_default();
    let (Some(config), _) = PartitionsConfig::parse(Path::new("partitions.conf"), text) else {
        return BTreeSet::new();
    };
    let (options, _) = Options::parse(&case.options, Path::new("opensm.conf"));
    let levels = |config: &PartitionsConfig| {
        let (partitions, _) = partitions::partitions(config, &options, &[]);
        partitions.into_iter().map(|part| (part.pkey.base(), part.sl)).collect::<BTreeSet<_>>()
    };
    // To OpenSM every part says an SL.
    let mut theirs = config.clone();
    theirs.definitions.iter_mut().for_each(|part| part.says_sl = true);
    levels(&config).difference(&levels(&theirs)).map(|(pkey, _)| *pkey).collect()
}
