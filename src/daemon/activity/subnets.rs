//! Activities that two published subnets tell: partitions, P_Keys and multicast trees.

use super::ActivityReport;
use crate::config::options::ActivitySubjects;
use crate::fabric::PortId;
use crate::ids::{Guid, Mlid, Pkey};
use crate::manage::activity::{PartitionEnd, SubnetActivity};
use crate::publish::Subnet;
use rustc_hash::FxHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tokio::sync::watch;

/// Reports the differences of published subnets until the daemon ends.
pub async fn follow(
    report: Arc<ActivityReport>,
    mut subnets: watch::Receiver<Option<Arc<Subnet>>>,
) {
    let mut last: Option<Arc<Subnet>> = None;
    while subnets.changed().await.is_ok() {
        let next = subnets.borrow_and_update().clone();
        changes(&report, last.as_deref(), next.as_deref());
        last = next;
    }
    changes(&report, last.as_deref(), None);
}

/// Reports what distinguishes a subnet from the last one. `None`: this SM is not master.
fn changes(report: &ActivityReport, last: Option<&Subnet>, next: Option<&Subnet>) {
    if report.wants(ActivitySubjects::PARTITIONS) {
        partitions(report, last, next);
        if let Some(next) = next {
            added_keys(report, last, next);
        }
    }
    let of_trees = ActivitySubjects::MULTICAST.and(ActivitySubjects::ROUTING);
    if report.wants(of_trees)
        && let Some(next) = next
        && last.is_none_or(|last| !Arc::ptr_eq(&last.plan, &next.plan))
    {
        let known = last.map_or_else(BTreeMap::new, trees);
        for (mlid, tree) in trees(next) {
            if known.get(&mlid) != Some(&tree) {
                report.send(SubnetActivity::TreeCalculated(mlid));
            }
        }
    }
}

fn partitions(report: &ActivityReport, last: Option<&Subnet>, next: Option<&Subnet>) {
    let before = partition_names(last);
    let after = partition_names(next);
    let reason = if next.is_none() { PartitionEnd::Shutdown } else { PartitionEnd::Empty };
    for &base in before.keys().filter(|base| !after.contains_key(base)) {
        report.send(SubnetActivity::PartitionDeleted { pkey: Pkey(base), reason });
    }
    for (base, name) in after.into_iter().filter(|(base, _)| !before.contains_key(base)) {
        report.send(SubnetActivity::PartitionCreated { pkey: Pkey(base), name });
    }
}

fn partition_names(subnet: Option<&Subnet>) -> BTreeMap<u16, String> {
    let names = subnet.map(|subnet| subnet.plan.partitions.names.iter().cloned());
    names.into_iter().flatten().collect()
}

/// Reports the P_Keys that end ports did not have.
fn added_keys(report: &ActivityReport, last: Option<&Subnet>, next: &Subnet) {
    for port in next.fabric.end_ports() {
        let port_guid = next.fabric.port(port).guid;
        let known = last.and_then(|last| Some((last, last.fabric.port_by_guid(port_guid)?)));
        let blocks = next.plan.partitions.blocks_of(port);
        if known.is_some_and(|(last, old)| last.plan.partitions.blocks_of(old) == blocks) {
            continue;
        }
        let held: BTreeSet<Pkey> =
            known.map_or_else(BTreeSet::new, |(last, old)| keys_of(last, old).collect());
        for (block, keys) in blocks {
            let used = (0..).zip(keys.0).filter(|(_, pkey)| pkey.0 != 0 && !held.contains(pkey));
            for (index, pkey) in used {
                report.send(SubnetActivity::PartitionGuidAdded {
                    port_guid,
                    pkey,
                    block: *block,
                    index,
                });
            }
        }
    }
}

fn keys_of(subnet: &Subnet, port: PortId) -> impl Iterator<Item = Pkey> + '_ {
    let blocks = subnet.plan.partitions.blocks_of(port).iter();
    blocks.flat_map(|(_, keys)| keys.0).filter(|pkey| pkey.0 != 0)
}

/// A number for the tree of each multicast LID: the same for equal trees.
fn trees(subnet: &Subnet) -> BTreeMap<Mlid, u64> {
    let mut trees: BTreeMap<Mlid, u64> = BTreeMap::new();
    let switches = subnet.fabric.switch_ids().zip(&subnet.plan.multicast.by_switch);
    for (switch, entries) in switches {
        let guid: Guid = subnet.fabric.switch(switch).guid();
        for (mlid, ports) in entries {
            let mut hasher = FxHasher::default();
            (guid, ports).hash(&mut hasher);
            let tree = trees.entry(*mlid).or_default();
            *tree = tree.wrapping_add(hasher.finish());
        }
    }
    trees
}
