//! Properties of a case's partitions.conf.

use super::random_case::Case;
use std::collections::BTreeSet;
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::{Definition, PartitionsConfig, is_ip};
use torus_sm::ids::Gid;
use torus_sm::plan::partitions::{self, PortSelector};
use torus_sm::wire::attr::NodeKind;

fn read(case: &Case) -> Option<PartitionsConfig> {
    let text = case.partitions.as_deref().unwrap_or_default();
    PartitionsConfig::parse(Path::new("partitions.conf"), text).0
}

/// True if a partition without a P_Key has the name of one that has one.
pub(crate) fn share_a_name(case: &Case) -> bool {
    let definitions = read(case).unwrap_or_default().definitions;
    let is_keyless =
        |name: &str| definitions.iter().any(|part| part.pkey.is_none() && part.name == name);
    let mut with_key = definitions.iter().filter(|part| part.pkey.is_some());
    with_key.any(|part| !part.name.is_empty() && is_keyless(&part.name))
}

/// True if there are broadcast groups beyond the link-local scope.
pub(crate) fn have_wide_broadcasts(case: &Case) -> bool {
    let definitions = read(case).unwrap_or_default().definitions;
    definitions.iter().any(|part| part.ipoib && part.flags.scopes & !(1 << 2) != 0)
}

/// True if there are groups of partitions that have no member in the fabric, or none at all.
pub(crate) fn have_memberless_groups(case: &Case) -> bool {
    let Some(config) = read(case) else { return false };
    let (options, _) = Options::parse(&case.options, Path::new("opensm.conf"));
    let has_router = case.topology.nodes.iter().any(|node| node.kind == NodeKind::Router);
    let is_there = |ports| match ports {
        PortSelector::Port(guid) => case.words.ports.contains(&guid),
        PortSelector::Routers => has_router,
        PortSelector::Virtual => false,
        PortSelector::All
        | PortSelector::ChannelAdapters
        | PortSelector::Switches
        | PortSelector::SmPort => true,
    };
    let (partitions, _) = partitions::partitions(&config, &options, &[]);
    let is_empty = |part: &Definition| {
        let same = partitions.iter().filter(|known| match part.pkey {
            Some(pkey) => known.pkey.base() == pkey.base(),
            None => known.name == part.name,
        });
        let mut members = same.flat_map(|known| &known.members);
        !members.any(|member| is_there(member.ports))
    };
    let mut with_groups =
        config.definitions.iter().filter(|part| part.ipoib || !part.groups.is_empty());
    with_groups.any(is_empty)
}

/// Groups whose MGID, as written, equals that of an earlier group, although it differs in its own
/// scope.
pub(crate) fn repeated_groups(case: &Case) -> Vec<Gid> {
    let definitions = read(case).unwrap_or_default().definitions;
    let mut made = BTreeSet::new();
    let mut repeated = Vec::new();
    let groups = definitions.iter().flat_map(|part| &part.groups);
    for group in groups.filter(|group| !is_ip(&group.mgid)) {
        let scopes = if group.flags.scopes == 0 { 1 << 2 } else { group.flags.scopes };
        let scoped = |scope: u8| {
            let mut mgid = group.mgid;
            mgid.0[1] = mgid.0[1] & 0xF0 | scope;
            mgid
        };
        let names = (0..16).filter(|scope| scopes >> scope & 1 == 1).map(scoped);
        let is_there = made.contains(&group.mgid);
        for mgid in names {
            if made.insert(mgid) && is_there {
                repeated.push(mgid);
            }
        }
    }
    repeated
}

/// Indexes of partitions whose SL the last of several parts resets in OpenSM by not stating one.
pub(crate) fn with_sl_taken_back(case: &Case) -> BTreeSet<u16> {
    let Some(config) = read(case) else { return BTreeSet::new() };
    let (options, _) = Options::parse(&case.options, Path::new("opensm.conf"));
    let levels = |config: &PartitionsConfig| {
        let (partitions, _) = partitions::partitions(config, &options, &[]);
        partitions.into_iter().map(|part| (part.pkey.base(), part.sl)).collect::<BTreeSet<_>>()
    };
    // To OpenSM every part states an SL.
    let mut theirs = config.clone();
    theirs.definitions.iter_mut().for_each(|part| part.has_sl = true);
    levels(&config).difference(&levels(&theirs)).map(|(pkey, _)| *pkey).collect()
}
