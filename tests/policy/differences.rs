//! What differs from OpenSM by design, each with its reason.

use super::draw::Case;
use super::questions::Question;
use super::site::{Answer, Site, TableKey};
use std::collections::BTreeSet;
use torus_sm::ids::{Pkey, Sl};
use torus_sm::wire::mad::Method;
use torus_sm::wire::record::{McMemberRecord, MultiPathRecord, PathRecord, Record};
use torus_sm::wire::sa::SaStatus;

/// Name and reason of each difference. One that does not occur any more is to be struck out.
pub const BY_DESIGN: [(&str, &str); 14] = [
    (
        "wrong partitions.conf",
        "OpenSM puts every port in the default partition when it cannot read the file, so that who \
         was kept apart is not any more, and skips wrong values. torus-sm does not start, and on \
         SIGHUP keeps what it has.",
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
        "groups with allow_both_pkeys",
        "A full member of a partition may join its groups; OpenSM finds none but the limited key \
         of a port when allow_both_pkeys is on.",
    ),
    (
        "membership in a level's partition",
        "Paths of a level with P_Keys have the key that the source holds; OpenSM answers with the \
         number from the file, which is the key of a limited member.",
    ),
    (
        "IPoIB without its partition",
        "OpenSM drops the whole policy when a rule for IPoIB names a partition that is not there; \
         torus-sm says so and keeps the other rules.",
    ),
    (
        "unknown GIDs are named",
        "A GID that no port has is ERR_REQ_INVALID_GID (IBA vol. 1, 15.4.4); OpenSM answers that \
         there are no records.",
    ),
    (
        "which path of many",
        "Get for paths from or to anywhere is answered with one of them, of which any is right.",
    ),
    (
        "ProxyJoin",
        "It is the top bit of its byte (IBA vol. 1, 15.2.5.17); OpenSM on little-endian machines \
         uses the lowest, for trusted requesters.",
    ),
    (
        "what a creator leaves open",
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
        "OpenSM looks for a level of the way back by its own ends, and calls a path irreversible \
         when that level is of another partition.",
    ),
];

/// The name of what makes two tables differ.
pub fn tables(case: &Case, key: &TableKey, ours: &[u8], theirs: &[u8]) -> Option<&'static str> {
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

/// The name of what makes two answers to a question differ; `None` if nothing that is by design
/// does.
pub fn between(
    case: &Case,
    question: &Question,
    ours: &Answer,
    theirs: &Answer,
) -> Option<&'static str> {
    match *question {
        Question::Path { method, mask, .. } => paths(method, mask, ours, theirs),
        Question::Multi { mask, .. } => several(case, mask, ours, theirs),
        Question::Join { mask, .. } => {
            groups(case, ours, theirs).or_else(|| created(case, mask, ours, theirs))
        }
    }
}

/// Asks for a path that OpenSM does not find once more, reversible or not, to see whether its way
/// back is why.
pub fn of_ways_back(
    case: &Case,
    question: &Question,
    sites: &[&Site; 2],
    ours: &Answer,
    theirs: &Answer,
) -> Option<&'static str> {
    let is_lost = ours.records.len() > theirs.records.len();
    let either = match *question {
        Question::Path { method, mask, wanted }
            if mask & PathRecord::REVERSIBLE != 0 && is_lost =>
        {
            Question::Path { method, mask: mask & !PathRecord::REVERSIBLE, wanted }
        }
        // One of them finds fewer: with torus-2QoS the SL of the way back may be another one.
        Question::Multi { mask, wanted, gids } if mask & MultiPathRecord::REVERSIBLE != 0 => {
            Question::Multi { mask: mask & !MultiPathRecord::REVERSIBLE, wanted, gids }
        }
        _ => return None,
    };
    if ours == theirs {
        return None;
    }
    let [ours, theirs] = sites.map(|site| site.ask(&[either], 1).remove(0));
    let name = between(case, &either, &ours, &theirs);
    match either {
        Question::Multi { .. } => (ours == theirs || name.is_some()).then_some(WAY_BACK),
        _ => name.filter(|&name| name == WAY_BACK),
    }
}

/// Named more than once.
const OF_SEVERAL: &str = "the SL of several paths is the routing's";
pub const OF_GROUPS: &str = "groups have a level";

/// The name of what makes two answers to a MultiPathRecord differ.
fn several(case: &Case, mask: u64, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let by_routing = case.options.contains("routing_engine torus-2QoS");
    // Who asks for an SL gets the paths that have it.
    if by_routing && mask & MultiPathRecord::SL != 0 && (ours.status, theirs.status) == (0, 0) {
        return Some(OF_SEVERAL);
    }
    let plain = |answer: &Answer| {
        let record = |bytes: &Vec<u8>| {
            let mut path = PathRecord::parse(bytes);
            path.set_reversible(true);
            path.set_sl(if by_routing { Sl(0) } else { path.sl() });
            path.bytes().to_vec()
        };
        let mut records: Vec<Vec<u8>> = answer.records.iter().map(record).collect();
        records.sort_unstable();
        Answer { status: answer.status, records }
    };
    let (ours, theirs) = (plain(ours), plain(theirs));
    if ours == theirs {
        return Some(if by_routing { OF_SEVERAL } else { WAY_BACK });
    }
    paths(Method::GET_TABLE, PathRecord::SGID | PathRecord::DGID, &ours, &theirs)
}

/// The name of what makes two answers to a join that creates a group, or of one to such a group,
/// differ: what the level limits, and its lifetime.
fn created(case: &Case, mask: u64, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    case.policy.as_ref()?;
    let limited = McMemberRecord::MTU | McMemberRecord::RATE | McMemberRecord::PKEY;
    let is_refused = (ours.status, theirs.status) == (SaStatus::REQ_INVALID, 0);
    if is_refused && mask & limited != 0 {
        return Some(OF_GROUPS);
    }
    let but_limits = |answer: &Answer| -> Vec<McMemberRecord> {
        let records = answer.records.iter().map(|bytes| {
            let mut group = McMemberRecord::parse(bytes);
            group.set_mtu(0);
            group.set_rate(0);
            group.set_packet_life(0);
            group
        });
        records.collect()
    };
    let (our, their) = (but_limits(ours), but_limits(theirs));
    let is_same = |(our, their): (&McMemberRecord, &McMemberRecord)| {
        same_but_proxy(*our, completed(*their, our))
    };
    let is_alike = our.len() == their.len() && our.iter().zip(&their).all(is_same);
    (ours.status == theirs.status && is_alike).then_some(OF_GROUPS)
}

/// Named twice.
const WAY_BACK: &str = "the way back has the level of the path";

fn paths(method: Method, mask: u64, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    let nothing = theirs.records.is_empty() && [0, SaStatus::NO_RECORDS].contains(&theirs.status);
    if ours.status == SaStatus::INVALID_GID && nothing {
        return Some("unknown GIDs are named");
    }
    if ours.records.len() != theirs.records.len() || ours.status != theirs.status {
        return None;
    }
    let has_end = |ends: u64| mask & ends != 0;
    let is_open = !has_end(PathRecord::SGID | PathRecord::SLID)
        || !has_end(PathRecord::DGID | PathRecord::DLID);
    if method == Method::GET && is_open {
        return Some("which path of many");
    }
    let but_reversible = |answer: &Answer| -> Vec<PathRecord> {
        let mut paths: Vec<PathRecord> =
            answer.records.iter().map(|bytes| PathRecord::parse(bytes)).collect();
        paths.iter_mut().for_each(|path| path.set_reversible(true));
        paths
    };
    if but_reversible(ours) == but_reversible(theirs) {
        return Some(WAY_BACK);
    }
    let with_full_key = |bytes: &Vec<u8>| {
        let mut path = PathRecord::parse(bytes);
        path.set_pkey(Pkey(path.pkey().0 | 0x8000));
        // The way back of a path of a limited member's key may be lost to OpenSM, too.
        path.set_reversible(true);
        path
    };
    let both = || ours.records.iter().zip(&theirs.records);
    both()
        .all(|(our, their)| {
            let limited = !PathRecord::parse(their).pkey().is_full();
            our == their || limited && with_full_key(our) == with_full_key(their)
        })
        .then_some("membership in a level's partition")
}

/// The same for groups and members.
pub fn groups(case: &Case, ours: &Answer, theirs: &Answer) -> Option<&'static str> {
    if case.both_keys {
        return Some("groups with allow_both_pkeys");
    }
    if ours.status != theirs.status || ours.records.len() != theirs.records.len() {
        return None;
    }
    let both = || ours.records.iter().zip(&theirs.records);
    let members =
        |(a, b): (&Vec<u8>, &Vec<u8>)| (McMemberRecord::parse(a), McMemberRecord::parse(b));
    if both().map(members).all(|(our, their)| same_but_proxy(our, their)) {
        return Some("ProxyJoin");
    }
    both()
        .map(members)
        .all(|(our, their)| same_but_proxy(our, completed(their, &our)))
        .then_some("what a creator leaves open")
}

fn same_but_proxy(mut our: McMemberRecord, mut their: McMemberRecord) -> bool {
    // The byte of both bits.
    our.0[49] = 0;
    their.0[49] = 0;
    our == their
}

/// A record of OpenSM's with what it leaves 0, as `our` one has it.
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

/// What makes the policies of two sites differ, by their logs: `Ok(None)` if nothing does.
pub fn policies(ours: &Site, theirs: &Site) -> Result<Option<&'static str>, String> {
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
        (None, Some(text)) => Err(format!("only OpenSM refuses the policy: {text}")),
    }
}
