//! Warnings about SLs that do not suit multicast groups under the routing engine.

use super::partitions::{Partition, PermanentGroup};
use crate::ids::{Mlid, Sl};
use crate::notes::{Note, counted};

/// A warning about groups of partitions.conf. `problem` is the reason why an SL does not suit groups.
pub fn partition_note(
    partitions: &[Partition],
    problem: impl Fn(Sl) -> Option<&'static str>,
) -> Option<Note> {
    let wrong = |partition: &Partition| -> Option<PermanentGroup> {
        partition.groups.iter().find(|group| problem(group.sl).is_some()).copied()
    };
    let mut concerned = partitions.iter().filter_map(|part| Some((part, wrong(part)?)));
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
pub(super) fn group_note(
    sls: &[(Mlid, u16)],
    problem: impl Fn(Sl) -> Option<&'static str>,
) -> Option<Note> {
    let wrong = |bits: u16| {
        let present = (0..16).filter(|sl| bits >> sl & 1 == 1).map(Sl);
        present.into_iter().find(|&sl| problem(sl).is_some())
    };
    let mut concerned = sls.iter().filter_map(|&(mlid, bits)| Some((mlid, wrong(bits)?)));
    let (mlid, sl) = concerned.next()?;
    let others = match concerned.count() {
        0 => String::new(),
        more => format!(", and {} an unsuitable one", counted(more, "other has", "others have")),
    };
    Some(Note::warning(format!("multicast group {mlid} has SL {sl}{others}: {}", problem(sl)?)))
}
