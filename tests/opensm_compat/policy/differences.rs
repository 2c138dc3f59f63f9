//! Intended differences from OpenSM, each with its reason.

use super::random_case::Case;
use super::site::{Site, TableKey};
use std::collections::BTreeSet;

/// Name and reason of each difference. Remove those that no longer occur.
pub(crate) const BY_DESIGN: [(&str, &str); 24] = [
    (
        "wrong partitions.conf",
        "If OpenSM cannot read the file, it puts every port into the default partition, which \
         removes the isolation between partitions; it skips wrong values. torus-sm does not start \
         with such a file, and keeps the old configuration when a SIGHUP reads one.",
    ),
    (
        SHARED_NAME,
        "A partition without a P_Key keeps the P_Key that was generated for it. When OpenSM reads \
         the file again, it uses another partition of the same name that has a P_Key instead.",
    ),
    (
        "wrong qos-policy.conf",
        "An unknown keyword or a missing QoS level is an error with its line, and the policy is \
         rejected; OpenSM reads some unknown keywords as text, or fails later.",
    ),
    (
        "index 0 of limited members",
        "Index 0 holds the default P_Key (IBA vol. 1, 10.9.1.2), which clients use to query the \
         SA; OpenSM leaves index 0 empty if that key is the limited one and allow_both_pkeys is on.",
    ),
    (
        "index 0 of full members",
        "If both P_Keys of a partition are meant for index 0, the full one gets it, since all \
         members can be reached with it; OpenSM puts the limited one there.",
    ),
    (
        BOTH_KEYS,
        "A full member of a partition may join its groups; with allow_both_pkeys, OpenSM finds only \
         the limited P_Key of a port.",
    ),
    (
        "IPoIB without its partition",
        "If a rule for IPoIB names a missing partition, OpenSM rejects the whole policy; torus-sm \
         reports the rule and applies the others.",
    ),
    (
        UNKNOWN_GIDS,
        "A query with a GID that no port has gets ERR_REQ_INVALID_GID (IBA vol. 1, 15.4.4); OpenSM \
         returns no records.",
    ),
    (
        OF_MANY,
        "A Get for paths without a source or a destination returns one of many valid paths, and \
         the two programs choose different ones.",
    ),
    (
        PROXY,
        "ProxyJoin is the most significant bit of its byte (IBA vol. 1, 15.2.5.17); OpenSM on \
         little-endian machines uses the least significant one, for trusted requesters.",
    ),
    (
        LEFT_OPEN,
        "A new group has the packet lifetime of the subnet, the scope of its MGID, and the hop limit \
         that the scope needs (o15-0.2.3 leaves them to the SA); OpenSM sets them to 0.",
    ),
    (QOS_CLASS, "A path has the QoS class that the query names; OpenSM answers 0."),
    (
        OF_SEVERAL,
        "The paths of a MultiPathRecord have the SL of the same paths in a PathRecord, which the \
         routing engine decides; OpenSM returns the SL of the QoS level or the partition.",
    ),
    (
        OF_GROUPS,
        "A group that a client creates has the lifetime of its QoS level, and its MTU and rate are \
         within the limits of that level; OpenSM applies the policy to paths only.",
    ),
    (
        WAY_BACK,
        "The reverse path carries the same traffic and has the same QoS level. OpenSM looks up a \
         level for the ends of the reverse path, so it reports a path as irreversible if that level \
         is for another partition, or as reversible because the SL of that level is not dropped.",
    ),
    (
        TO_GROUPS,
        "A path to a group is returned to ports of the group's partition only (IBA vol. 1, \
         15.4.1.2), and has the MTU and rate of the query; OpenSM checks neither.",
    ),
    (
        FLOW_LABELS,
        "A path to a group has the group's flow label; OpenSM on little-endian machines reverses \
         its bytes.",
    ),
    (
        SCOPES,
        "The broadcast group of a partition exists in all scopes of its definition; OpenSM creates \
         the link-local one only.",
    ),
    (
        MEMBERLESS,
        "Groups keep their MLIDs while no member of their partition is in the fabric; OpenSM deletes \
         them.",
    ),
    (
        REPEATED,
        "A group is created in each scope for which it is defined; OpenSM does not create it if the \
         MGID in the file is that of a group in another scope.",
    ),
    (
        PATH_BITS,
        "The path bits of a QoS level select among the LIDs of the destination, also for queries that \
         name one; OpenSM reads and ignores them.",
    ),
    (
        HIGH_BIT,
        "With torus-2QoS the highest bit of an SL in a query selects the QoS level, as torus-2QoS(8) says; OpenSM \
         compares all bits with the SL of the level, and finds no path with the SL that it returns itself.",
    ),
    (
        IN_PARTS,
        "A partition with several definitions has the SL of the last one that sets an SL; in OpenSM \
         a definition without an SL resets it.",
    ),
    (
        "levels without a name",
        "A QoS level needs no name, because it has a number (RFC, section 4.3); OpenSM rejects the \
         whole policy.",
    ),
];

pub(crate) const SHARED_NAME: &str = "two partitions of one name";
pub(crate) const BOTH_KEYS: &str = "groups with allow_both_pkeys";
pub(crate) const UNKNOWN_GIDS: &str = "status for unknown GIDs";
pub(crate) const OF_MANY: &str = "choice among many paths";
pub(crate) const PROXY: &str = "ProxyJoin";
pub(crate) const LEFT_OPEN: &str = "parameters that the creator omits";
pub(crate) const QOS_CLASS: &str = "QoS class of a path";
pub(crate) const OF_SEVERAL: &str = "SLs of a MultiPathRecord";
pub(crate) const OF_GROUPS: &str = "QoS levels of groups";
pub(crate) const WAY_BACK: &str = "QoS level of the reverse path";
pub(crate) const TO_GROUPS: &str = "paths to groups";
pub(crate) const FLOW_LABELS: &str = "flow labels of paths to groups";
pub(crate) const SCOPES: &str = "scopes of broadcast groups";
pub(crate) const MEMBERLESS: &str = "groups without members in the fabric";
pub(crate) const REPEATED: &str = "one MGID in several scopes";
pub(crate) const PATH_BITS: &str = "path bits of a level";
pub(crate) const HIGH_BIT: &str = "SL of a QoS level with torus-2QoS";
pub(crate) const IN_PARTS: &str = "SL of a partition with several definitions";

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
        (None, Some(text)) => Err(format!("only OpenSM rejects the policy: {text}")),
    }
}
