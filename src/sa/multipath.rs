//! MultiPathRecord (IBA vol. 1, 15.2.5.23 and o15-0.2.7): paths from any of several ports to any
//! of several others, for a client that wants to outlive the loss of one.
//!
//! Every path is one that a PathRecord query would have told, with the same MTU, rate, partition
//! and SL: the SL is the routing engine's. What is wanted besides is independence: of all paths
//! found, the next in the answer is the one with the fewest cables and switches in common with
//! those before it, by the tables that are programmed; among equals the shortest, among those the
//! first by the order of the GIDs and LIDs asked with. So the first two are as independent of
//! each other as this order finds them, whatever IndependenceSelector says.

use super::path::{self, PathEnds};
use super::query::{Query, ReplyBuilder};
use super::status::ErrorStatus;
use crate::config::qos_policy::QosLevel;
use crate::fabric::PortId;
use crate::ids::{Gid, Lid};
use crate::wire::mad::Method;
use crate::wire::record::{MultiPathRecord, PathRecord};
use crate::wire::sa::{RMPP_OFFSET, RmppHeader, SaAttr, SaStatus};

/// The most paths of an answer: what NumbPath can ask for.
const MAX_PATHS: usize = 127;

/// The most pairs of LIDs that are tried for one request: its GIDs may name millions, and others
/// wait for their answers.
const MAX_LID_PAIRS: usize = 1024;

/// The preference of a path that has nothing in common with those before it.
const INDEPENDENT: u8 = 0;
/// Of one that shares with them an end, its cable or its switch.
const COMMON_END: u8 = 1;
/// Of others.
const COMMON_WAY: u8 = 2;

/// Answers GetMulti.
pub(super) fn paths(query: &Query<'_>, answer: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
    let wanted: MultiPathRecord = query.record();
    if !RmppHeader::read(&query.mad[RMPP_OFFSET..]).active() {
        return Err(ErrorStatus(SaStatus::REQ_INVALID));
    }
    if !query.has(MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT) {
        return Err(ErrorStatus(SaStatus::INSUFFICIENT_COMPONENTS));
    }
    let (each, mask) = wanted.each_path(query.mask);
    let query = &Query { mask, method: Method::GET_TABLE, ..*query };
    path::validate(query, &each)?;
    let (sgids, dgids) = wanted.gids(query.data).ok_or(ErrorStatus(SaStatus::REQ_INVALID))?;
    let (sources, targets) = (ports(query, &sgids)?, ports(query, &dgids)?);
    if sources.is_empty() || targets.is_empty() {
        return Err(ErrorStatus(SaStatus::REQ_INVALID));
    }
    answer.set_attribute(SaAttr::PATH_RECORD);
    let numb_path = usize::from(each.numb_path());
    let most = if query.has(PathRecord::NUMB_PATH) { numb_path } else { MAX_PATHS };
    for record in by_independence(found(query, &each, &sources, &targets), most) {
        if answer.push(&record).is_break() {
            break;
        }
    }
    Ok(())
}

/// A port, and the GID by which it was asked for.
type NamedPort = (Gid, PortId);

/// The ports of GIDs, each of them once.
fn ports(query: &Query<'_>, gids: &[Gid]) -> Result<Vec<NamedPort>, ErrorStatus> {
    let mut ports: Vec<NamedPort> = Vec::new();
    for gid in gids {
        let port = query.port_by_gid(gid).ok_or(ErrorStatus(SaStatus::INVALID_GID))?;
        if !ports.contains(&(*gid, port)) {
            ports.push((*gid, port));
        }
    }
    Ok(ports)
}

/// A path that is as wanted.
struct CandidatePath {
    record: PathRecord,
    /// Cables and switches on the way, ascending.
    way: Vec<u32>,
    /// Those that every path of one of its ends has, ascending.
    ends: Vec<u32>,
    /// Of its way, how many those before it have too; and how many of these are no ends.
    common: [usize; 2],
}

/// Two ports, what their paths have in common, and their LIDs: the first, and how many.
struct PortPair<'a> {
    ends: [NamedPort; 2],
    level: Option<&'a QosLevel>,
    from: (u16, u16),
    to: (u16, u16),
}

/// The paths between the ports. First those whose LIDs differ at both ends, of every pair of
/// ports one, then of every pair another.
fn found(
    query: &Query<'_>,
    each: &PathRecord,
    sources: &[NamedPort],
    targets: &[NamedPort],
) -> Vec<CandidatePath> {
    let pairs = sources.iter().flat_map(|source| targets.iter().map(move |to| [*source, *to]));
    let pairs = pairs.filter(|pair| pair.iter().all(|(_, port)| query.is_visible(*port)));
    let with_lids = pairs.filter_map(|ends| {
        let [from, to] = ends.map(|(_, port)| path::lids(&query.view, port, None));
        let level = path::level(query, each, ends[0].1, ends[1].1);
        Some(PortPair { ends, level, from: from?, to: to? })
    });
    let pairs: Vec<PortPair<'_>> = with_lids.take(MAX_LID_PAIRS).collect();
    let most_lids = pairs.iter().map(|pair| pair.from.1.min(pair.to.1)).max().unwrap_or(0);
    let apart = (0..most_lids).flat_map(|n| {
        let have = pairs.iter().filter(move |pair| n < pair.from.1.min(pair.to.1));
        have.map(move |pair| (pair, [Lid(pair.from.0 + n), Lid(pair.to.0 + n)]))
    });
    let rest = pairs.iter().flat_map(|pair| {
        let (from, to) = (pair.from, pair.to);
        let lids = (0..from.1).flat_map(move |a| (0..to.1).map(move |b| (a, b)));
        let lids = lids.filter(|(a, b)| a != b);
        lids.map(move |(a, b)| (pair, [Lid(from.0 + a), Lid(to.0 + b)]))
    });
    let allowed = |(pair, [_, dlid]): &(&PortPair<'_>, [Lid; 2])| {
        let bits = path::path_bits(pair.level, pair.to.1);
        bits.is_none_or(|bits| bits.contains((dlid.0 - pair.to.0).into()))
    };
    let tried = apart.chain(rest).filter(allowed).take(MAX_LID_PAIRS);
    tried.filter_map(|(pair, lids)| one(query, each, pair, lids)).collect()
}

/// One path, if it is as wanted.
fn one(
    query: &Query<'_>,
    each: &PathRecord,
    pair: &PortPair<'_>,
    [slid, dlid]: [Lid; 2],
) -> Option<CandidatePath> {
    let [(sgid, from), (dgid, to)] = pair.ends;
    let mask = query.mask | PathRecord::SGID | PathRecord::DGID;
    let mut wanted = *each;
    wanted.set_sgid(sgid);
    wanted.set_dgid(dgid);
    let ends = PathEnds { from, to, slid, dlid };
    let record = path::record(&Query { mask, ..*query }, &wanted, pair.level, &ends)?;
    let way = way(query, &ends);
    let mut own = [things(query, from), things(query, to)].concat();
    own.sort_unstable();
    Some(CandidatePath { record, way, ends: own, common: [0; 2] })
}

/// The cables and switches of a path, ascending.
fn way(query: &Query<'_>, ends: &PathEnds) -> Vec<u32> {
    let mut way = Vec::new();
    if ends.from != ends.to {
        path::walk(&query.view, ends, |node| way.extend(things_at(query, node.exit)));
    }
    way.sort_unstable();
    way.dedup();
    way
}

/// What every path that starts or ends at a port needs: its cable, and the switch behind it.
fn things(query: &Query<'_>, port: PortId) -> Vec<u32> {
    let peer = query.view.fabric().port(port).peer;
    [Some(port), peer].into_iter().flatten().flat_map(|port| things_at(query, port)).collect()
}

/// The cable at a port, by the lower of its two ports, and the switch of the port, if it has
/// them. Numbers of switches are beyond those of ports.
fn things_at(query: &Query<'_>, port: PortId) -> impl Iterator<Item = u32> + use<> {
    let fabric = query.view.fabric();
    let cable = fabric.port(port).peer.map(|peer| peer.0.min(port.0));
    let switch = fabric.node_of(port).switch;
    let switch = switch.map(|switch| (fabric.ports().len() + switch.index()) as u32);
    cable.into_iter().chain(switch)
}

/// The `most` first paths in order of independence, with their preferences.
fn by_independence(mut paths: Vec<CandidatePath>, most: usize) -> impl Iterator<Item = PathRecord> {
    let mut used: Vec<u32> = Vec::new();
    let next = move || {
        let best = (0..paths.len())
            .min_by_key(|&n| (paths[n].common[0], paths[n].common[1], paths[n].way.len(), n))?;
        let mut path = paths.remove(best);
        path.record.set_preference(match path.common {
            [0, _] => INDEPENDENT,
            [_, 0] => COMMON_END,
            _ => COMMON_WAY,
        });
        for thing in path.way {
            let Err(place) = used.binary_search(&thing) else { continue };
            used.insert(place, thing);
            for other in paths.iter_mut().filter(|p| p.way.binary_search(&thing).is_ok()) {
                other.common[0] += 1;
                other.common[1] += usize::from(other.ends.binary_search(&thing).is_err());
            }
        }
        Some(path.record)
    };
    std::iter::from_fn(next).take(most)
}
