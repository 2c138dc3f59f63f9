//! Intended differences from OpenSM, each with its reason.

use super::random_case::Case;
use super::site::{Site, TableKey};
use std::collections::BTreeSet;

/// Name and reason of each difference. Remove those that no longer occur.
pub(crate) const BY_DESIGN: [(&str, &str); 23] = [
    (
        "wrong partitions.conf",
        "OpenSM puts every port in the default partition when it cannot read the file, so that who \
         was kept apart is not any more, and skips wrong values. torus-sm does not start, and on \
         SIGHUP keeps what it has.",
    ),
    (
        SHARED_NAME,
        "A partition without a P_Key keeps the one that was generated for it. OpenSM, when it reads \
         the file again, takes for it another partition of that name, which has a P_Key.",
    ),
    (
        "wrong qos-policy.conf",
        "A word that is no keyword, or a level that is not there, is an error with its place, and \
         there is no policy; OpenSM takes some of them for text or stumbles later.",
    ),
    (
        "index 0 of limited members",
        "The default key stands at index 0 (IBA vol. 1, 10.9.1.2), which clients take for talking to \
         the SA; OpenSM leaves it empty where the key is the limited one and allow_both_pkeys is on.",
    ),
    (
        "index 0 of full members",
        "With both keys of a partition for index 0 the full one stands there, by which all members \
         are reached; OpenSM takes the limited one.",
    ),
    (
        BOTH_KEYS,
        "A full member of a partition may join its groups; OpenSM finds none but the limited key \
         of a port when allow_both_pkeys is on.",
    ),
    (
        MEMBERSHIP,
        "Paths of a level with P_Keys have the key that the source holds; OpenSM answers with the \
         number from the file, which is the key of a limited member.",
    ),
    (
        "IPoIB without its partition",
        "OpenSM drops the whole policy when a rule for IPoIB names a partition that is not there; \
         torus-sm says so and keeps the other rules.",
    ),
    (
        UNKNOWN_GIDS,
        "A GID that no port has is ERR_REQ_INVALID_GID (IBA vol. 1, 15.4.4); OpenSM answers that \
         there are no records.",
    ),
    (
        OF_MANY,
        "Get for paths from or to anywhere is answered with one of them, of which any is right.",
    ),
    (
        PROXY,
        "It is the top bit of its byte (IBA vol. 1, 15.2.5.17); OpenSM on little-endian machines \
         uses the lowest, for trusted requesters.",
    ),
    (
        LEFT_OPEN,
        "The packet lifetime of a group is the subnet's, its scope that of the MGID, its hop limit \
         what the scope needs (o15-0.2.3 leaves them to the SA); OpenSM leaves them 0.",
    ),
    (
        OF_SEVERAL,
        "Paths of MultiPathRecord have the SL that those of PathRecord have, which the routing \
         decides; OpenSM answers with that of the level or the partition.",
    ),
    (
        OF_GROUPS,
        "A group that a client creates has the lifetime of its level, and its MTU and rate are \
         within it; OpenSM asks the policy for paths alone.",
    ),
    (
        WAY_BACK,
        "The way back is of the same traffic, and has its level; OpenSM looks for one by the ends of \
         the way back, and calls a path irreversible when that is of another partition, or \
         reversible when its SL is not dropped.",
    ),
    (
        TO_GROUPS,
        "A path to a group is for those of its partition (IBA vol. 1, 15.4.1.2), and has the MTU and \
         rate that are asked for; OpenSM looks at neither.",
    ),
    (
        FLOW_LABELS,
        "A path to a group has its flow label; OpenSM on little-endian machines turns the bytes \
         around.",
    ),
    (
        SCOPES,
        "The broadcast group of a partition is in all scopes that its definition says; OpenSM \
         makes it in the link-local one alone.",
    ),
    (
        MEMBERLESS,
        "Groups stay, with their MLIDs, while no member of their partition is in the fabric; OpenSM \
         takes them away.",
    ),
    (
        REPEATED,
        "A group is made in each scope for which it is described; OpenSM makes none if its MGID, as \
         it is written, is that of a group in another scope.",
    ),
    (
        PATH_BITS,
        "The path bits of a level choose among the LIDs of the destination; OpenSM reads them, and \
         does not heed them.",
    ),
    (
        IN_PARTS,
        "A partition that is described in several parts has the SL of the last part that says one; \
         in OpenSM a part that says none takes it back.",
    ),
    (
        "levels without a name",
        "A level may go without a name, for it has a number (RFC, section 4.3); OpenSM drops the \
         whole policy.",
    ),
];

pub(crate) const SHARED_NAME: &str = "a name that two partitions share";
pub(crate) const BOTH_KEYS: &str = "groups with allow_both_pkeys";
pub(crate) const MEMBERSHIP: &str = "membership in a level's partition";
pub(crate) const UNKNOWN_GIDS: &str = "unknown GIDs are named";
pub(crate) const OF_MANY: &str = "which path of many";
pub(crate) const PROXY: &str = "ProxyJoin";
pub(crate) const LEFT_OPEN: &str = "what a creator leaves open";
pub(crate) const OF_SEVERAL: &str = "the SL of several paths is the routing's";
pub(crate) const OF_GROUPS: &str = "groups have a level";
pub(crate) const WAY_BACK: &str = "the way back has the level of the path";
pub(crate) const TO_GROUPS: &str = "paths to groups are for members of the partition";
pub(crate) const FLOW_LABELS: &str = "flow labels of paths to groups";
pub(crate) const SCOPES: &str = "scopes of broadcast groups";
pub(crate) const MEMBERLESS: &str = "groups of partitions without members";
pub(crate) const REPEATED: &str = "groups of one MGID in several scopes";
pub(crate) const PATH_BITS: &str = "path bits of a level";
pub(crate) const IN_PARTS: &str = "the SL of a partition in parts";

/// The name of the difference between two tables.
pub(crate) fn tables(
    case: &Case,
    key: &TableKey,
    ours: &[u8],
    theirs: &[u8],
) -> Option<&'static str> {
    let keys = |table: &[u8]| -> BTreeSet<[u8; 2]> {
        table.as_chunks().0.iter().copied().filter(|key| *key != [0; 2]).collect()
    };
    let is_at_0 = ours.starts_with(&[0x7F, 0xFF]) && !theirs.starts_with(&[0x7F, 0xFF]);
    let is_full = ours.first().is_some_and(|byte| byte & 0x80 != 0);
    if !case.both_keys || key.2 != "P_Key table" || keys(ours) != keys(theirs) {
        return None;
    }
    match () {
        () if is_at_0 => Some("index 0 of limited members"),
        () if is_full => Some("index 0 of full members"),
        () => None,
    }
}

/// The name of the difference between the policies of two sites, from their logs: `Ok(None)` if
/// they are equal.
pub(crate) fn policies(ours: &Site, theirs: &Site) -> Result<Option<&'static str>, String> {
    let log = ours.log();
    let our_fault =
        log.lines().find(|line| line.contains("qos_policy_file:") && line.contains("error:"));
    let log = theirs.log();
    let their_fault = log.lines().find(|line| {
        ["ERR AC05", "ERR AC10", "ERR AC11", "ERR AC12", "ERR AC13"]
            .iter()
            .any(|n| line.contains(n))
    });
    match (our_fault, their_fault) {
        (Some(_), Some(_)) => Ok(None),
        (None, None) => Ok(None),
        (Some(_), None) => Ok(Some("wrong qos-policy.conf")),
        (None, Some(text)) if text.contains("IPoIB partition") => {
            Ok(Some("IPoIB without its partition"))
        }
        (None, Some(text)) if text.contains("qos-level validation failed - no 'name'") => {
            Ok(Some("levels without a name"))
        }
        (None, Some(text)) => Err(format!("only OpenSM refuses the policy: {text}")),
    }
}
