//! What partitions.conf of a case comes to.

use super::draw::Case;
use std::collections::BTreeSet;
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::plan::partitions;

fn read(case: &Case) -> Option<PartitionsConfig> {
    let text = case.partitions.as_deref().unwrap_or_default();
    PartitionsConfig::parse(Path::new("partitions.conf"), text).0
}

/// True if a partition without a P_Key has the name of one that has one.
pub fn share_a_name(case: &Case) -> bool {
    let definitions = read(case).unwrap_or_default().definitions;
    let is_keyless =
        |name: &str| definitions.iter().any(|part| part.pkey.is_none() && part.name == name);
    let mut with_key = definitions.iter().filter(|part| part.pkey.is_some());
    with_key.any(|part| !part.name.is_empty() && is_keyless(&part.name))
}

/// True if there are broadcast groups beyond the link-local scope.
pub fn have_wide_broadcasts(case: &Case) -> bool {
    let definitions = read(case).unwrap_or_default().definitions;
    definitions.iter().any(|part| part.ipoib && part.flags.scopes & !(1 << 2) != 0)
}

/// Partitions, by number, whose SL the last of several parts takes back in OpenSM by saying none.
pub fn with_sl_taken_back(case: &Case) -> BTreeSet<u16> {
    let Some(config) = read(case) else { return BTreeSet::new() };
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
