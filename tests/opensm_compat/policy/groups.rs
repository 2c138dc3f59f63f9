//! Comparison of groups and members, apart from intended differences.

use super::differences::{BOTH_KEYS, LEFT_OPEN, MEMBERLESS, OF_GROUPS, PROXY, REPEATED, SCOPES};
use super::partition_facts;
use super::random_case::Case;
use super::site::Answer;
use std::collections::{BTreeMap, BTreeSet};
use torus_sm::ids::{Gid, Mlid};
use torus_sm::wire::record::{McMemberRecord, Record};
use torus_sm::wire::sa::SaStatus;

type Name = Option<&'static str>;

/// Groups that are known to differ.
pub(crate) struct KnownDifferences {
    /// Groups that differ, each with the name of the difference: only one SM has them, or their
    /// records differ.
    groups: BTreeMap<Gid, &'static str>,
    /// The reason why only we have some groups of the files: [`SCOPES`] or [`MEMBERLESS`].
    of_files: Name,
}

impl KnownDifferences {
    pub(crate) fn new(case: &Case) -> Self {
        let scopes = partition_facts::have_wide_broadcasts(case).then_some(SCOPES);
        let memberless = || partition_facts::have_memberless_groups(case).then_some(MEMBERLESS);
        let repeated = partition_facts::repeated_groups(case).into_iter();
        let groups = repeated.map(|mgid| (mgid, REPEATED)).collect();
        Self { groups, of_files: scopes.or_else(memberless) }
    }

    /// The name of the difference by which only we have some groups of the files.
    pub(crate) fn of_files(&self) -> Name {
        self.of_files
    }

    /// The name of the difference by which MLIDs may differ: MLIDs are consecutive, so that a group
    /// of only one SM moves those of later groups.
    fn moved(&self) -> Name {
        self.groups.values().next().copied().or(self.of_files)
    }

    fn is_known(&self, group: &McMemberRecord) -> bool {
        let mgid = group.mgid().0;
        let is_broadcast = mgid.ends_with(&[0xFF; 4]) && mgid[2..4] == [0x40, 0x1B];
        let is_wide = is_broadcast && mgid[1] & 0xF != 2;
        self.groups.contains_key(&group.mgid()) || self.of_files == Some(SCOPES) && is_wide
    }
}

/// The name of the difference between two answers to a join. Groups that differ from then on are
/// noted in `apart`: later queries about them differ for the same reason.
pub(crate) fn joined(
    case: &Case,
    apart: &mut KnownDifferences,
    (mask, wanted): (u64, &McMemberRecord),
    ours: &Answer,
    theirs: &Answer,
) -> Name {
    if let Some(name) = apart.groups.get(&wanted.mgid()) {
        return Some(name);
    }
    if let Some(name) = members(apart, ours, theirs) {
        return Some(name);
    }
    let name = created(case, mask, ours, theirs).or_else(|| {
        let is_refused = (ours.status, theirs.status) == (0, SaStatus::REQ_INVALID);
        (case.both_keys && is_refused).then_some(BOTH_KEYS)
    })?;
    apart.groups.insert(wanted.mgid(), name);
    Some(name)
}

/// The name of the difference between two answers to a join that creates a group: limits of the
/// level, and lifetime.
fn created(case: &Case, mask: u64, ours: &Answer, theirs: &Answer) -> Name {
    case.policy.as_ref()?;
    let limited = McMemberRecord::MTU | McMemberRecord::RATE | McMemberRecord::PKEY;
    let is_refused = (ours.status, theirs.status) == (SaStatus::REQ_INVALID, 0);
    if is_refused && mask & limited != 0 {
        return Some(OF_GROUPS);
    }
    let our = parsed(ours);
    let their = parsed(theirs);
    let is_same = |(our, their): (&McMemberRecord, &McMemberRecord)| {
        let mut their = completed(*their, our);
        their.set_mtu(our.mtu().min(their.mtu()));
        their.set_rate(our.rate());
        their.set_packet_life(our.packet_life());
        their.set_mlid(our.mlid());
        same_but_proxy(*our, their)
    };
    let is_alike = our.len() == their.len() && our.iter().zip(&their).all(is_same);
    (ours.status == theirs.status && is_alike).then_some(OF_GROUPS)
}

/// The name of the difference between members, groups in `apart` left out. A group that only one SM
/// has moves the MLIDs of those after it.
pub(crate) fn members(apart: &KnownDifferences, ours: &Answer, theirs: &Answer) -> Name {
    let known = |answer: &Answer| -> Vec<McMemberRecord> {
        let mut members = parsed(answer);
        members.retain(|member| !apart.is_known(member));
        members
    };
    let mut our = known(ours);
    let mut their = known(theirs);
    if ours.status != theirs.status || our.len() != their.len() {
        return None;
    }
    let mut has_moved = false;
    for (our, their) in our.iter_mut().zip(&mut their).filter(|_| apart.moved().is_some()) {
        has_moved |= our.mlid() != their.mlid();
        our.set_mlid(Mlid(0));
        their.set_mlid(Mlid(0));
    }
    let both = || our.iter().zip(&their);
    let name = match () {
        () if our == their => apart.moved(),
        () if both().all(|(our, their)| same_but_proxy(*our, *their)) => Some(PROXY),
        () => both()
            .all(|(our, their)| same_but_proxy(*our, completed(*their, our)))
            .then_some(LEFT_OPEN),
    };
    name.and(if has_moved { apart.moved() } else { name })
}

/// The groups that both of two answers list.
pub(crate) fn of_both(answers: [&Answer; 2]) -> Vec<Gid> {
    let [ours, theirs] = answers.map(mgids);
    ours.intersection(&theirs).copied().collect()
}

/// True if we list all groups of the other answer, and more.
pub(crate) fn fewer(ours: &Answer, theirs: &Answer) -> bool {
    let [ours, theirs] = [ours, theirs].map(mgids);
    theirs.is_subset(&ours) && ours != theirs
}

fn mgids(answer: &Answer) -> BTreeSet<Gid> {
    parsed(answer).iter().map(McMemberRecord::mgid).collect()
}

fn parsed(answer: &Answer) -> Vec<McMemberRecord> {
    answer.records.iter().map(|bytes| McMemberRecord::parse(bytes)).collect()
}

fn same_but_proxy(mut our: McMemberRecord, mut their: McMemberRecord) -> bool {
    // The byte that holds both bits.
    our.0[49] = 0;
    their.0[49] = 0;
    our == their
}

/// A record of OpenSM's whose zero components are filled in from `our`.
fn completed(mut their: McMemberRecord, our: &McMemberRecord) -> McMemberRecord {
    let scope = our.mgid().0[1] & 0xF;
    if their.packet_life() == 0 {
        their.set_packet_life(our.packet_life());
    }
    if their.scope() == 0 && our.scope() == scope {
        their.set_scope(scope);
    }
    if their.hop_limit() == 0 && our.scope() != 2 {
        their.set_hop_limit(our.hop_limit());
    }
    their
}
