//! Warnings about SLs that do not suit multicast groups under the routing engine.

use super::partitions::Partition;
use super::routing::RoutingPolicy;
use crate::ids::{Mlid, Sl};
use crate::notes::{Note, counted};

/// A warning about groups of partitions.conf. `problem` is the reason why an SL does not suit groups.
pub fn partition_note(
    partitions: &[Partition],
    problem: impl Fn(Sl) -> Option<&'static str>,
) -> Option<Note> {
    let mut concerned = partitions.iter().filter_map(|partition| {
        let group = partition.groups.iter().find(|group| problem(group.sl).is_some())?;
        Some((partition, group))
    });
    let (first, group) = concerned.next()?;
    let others = match concerned.count() {
        0 => String::new(),
        more => format!(", and those of {}", counted(more, "other partition", "other partitions")),
    };
    Some(Note::warning(format!(
        "multicast groups of partition \"{}\" ({}) have SL {}{others}: {}",
        first.name,
        first.pkey,
        group.sl,
        problem(group.sl)?
    )))
}

/// A warning about groups that exist; `sls` are the SLs of the groups by MLID, one bit per SL.
pub(super) fn group_note(sls: &[(Mlid, u16)], policy: &dyn RoutingPolicy) -> Option<Note> {
    let mut concerned = sls.iter().filter_map(|&(mlid, bits)| {
        let mut present = (0..16).filter(|sl| bits >> sl & 1 == 1).map(Sl);
        let sl = present.find(|&sl| policy.multicast_sl_problem(sl).is_some())?;
        Some((mlid, sl))
    });
    let (mlid, sl) = concerned.next()?;
    let others = match concerned.count() {
        0 => String::new(),
        more => format!(", and {} an unsuitable one", counted(more, "other has", "others have")),
    };
    let problem = policy.multicast_sl_problem(sl)?;
    Some(Note::warning(format!("multicast group {mlid} has SL {sl}{others}: {problem}")))
}
