//! MultiPathRecord (IBA vol. 1, 15.2.5.23 and o15-0.2.7): paths from any of several ports to any of
//! several others, for clients that fail over between paths.
//!
//! Every path is one that a PathRecord query returns, with the same MTU, rate, P_Key and SL. Paths
//! are ordered greedily by independence: the next path is the one that shares the fewest links and
//! switches with its predecessors in the planned tables, then the shortest, then the first in the
//! order of the GIDs and LIDs of the request. IndependenceSelector does not change the order.

use super::path::{self, PathEnds};
use super::query::{Query, ReplyBuilder};
use super::status::ErrorStatus;
use crate::config::qos_policy::QosLevel;
use crate::fabric::PortId;
use crate::fabric::virtual_ports::EndPort;
use crate::ids::{Gid, Lid};
use crate::wire::mad::Method;
use crate::wire::record::{MultiPathRecord, PathRecord};
use crate::wire::sa::{RMPP_OFFSET, RmppHeader, SaAttr, SaStatus};

/// Maximum number of paths of a reply: NumbPath has 7 bits.
const MAX_PATHS: usize = 127;

/// Maximum number of LID pairs that one request may examine. Its GIDs can name millions of pairs,
/// and other requests must not wait for them.
const MAX_LID_PAIRS: usize = 1024;

/// Preference of a path that shares no link or switch with preceding paths.
const PREFERENCE_INDEPENDENT: u8 = 0;
/// Preference of a path that shares only links and switches next to its ends.
const PREFERENCE_SHARED_END: u8 = 1;
/// Preference of all other paths.
const PREFERENCE_SHARED_CORE: u8 = 2;

/// Handles SubnAdmGetMulti.
pub(super) fn paths(query: &Query<'_>, reply: &mut ReplyBuilder) -> Result<(), ErrorStatus> {
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
    let (sgids, dgids) = wanted.gids(query.data()).ok_or(ErrorStatus(SaStatus::REQ_INVALID))?;
    let sources = ports(query, &sgids)?;
    let targets = ports(query, &dgids)?;
    if sources.is_empty() || targets.is_empty() {
        return Err(ErrorStatus(SaStatus::REQ_INVALID));
    }
    reply.set_attribute(SaAttr::PATH_RECORD);
    let numb_path = usize::from(each.numb_path());
    let max_paths = if query.has(PathRecord::NUMB_PATH) { numb_path } else { MAX_PATHS };
    let candidates = candidates(query, &each, &sources, &targets);
    for record in by_independence(candidates, max_paths) {
        if reply.push(&record).is_break() {
            break;
        }
    }
    Ok(())
}

/// A port with the GID that selected it.
type NamedPort = (Gid, EndPort);

/// The ports of the GIDs of a request, without repetitions.
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

/// A path that satisfies the request. Links and switches are numbered by [`link_and_switch`].
struct CandidatePath {
    record: PathRecord,
    /// Links and switches of the path, ascending.
    elements: Vec<u32>,
    /// Links and switches that all paths of its source or destination port share, ascending.
    end_elements: Vec<u32>,
    /// Number of elements shared with preceding paths, and how many of these are no end elements.
    shared: [usize; 2],
}

/// Source and destination port of paths.
struct PortPair<'a> {
    ends: [NamedPort; 2],
    level: Option<&'a QosLevel>,
    /// First LID of the source, and number of LIDs.
    from: (u16, u16),
    /// First LID of the destination, and number of LIDs.
    to: (u16, u16),
}

/// The paths between the ports. Paths whose LIDs differ at both ends come first: one of every pair
/// of ports, then a second one of every pair, and so on.
fn candidates(
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
    let max_lids = pairs.iter().map(|pair| pair.from.1.min(pair.to.1)).max().unwrap_or(0);
    let disjoint = (0..max_lids).flat_map(|n| {
        let have = pairs.iter().filter(move |pair| n < pair.from.1.min(pair.to.1));
        have.map(move |pair| (pair, [Lid(pair.from.0 + n), Lid(pair.to.0 + n)]))
    });
    let rest = pairs.iter().flat_map(|pair| {
        let from = pair.from;
        let to = pair.to;
        let lids = (0..from.1).flat_map(move |a| (0..to.1).map(move |b| (a, b)));
        let lids = lids.filter(|(a, b)| a != b);
        lids.map(move |(a, b)| (pair, [Lid(from.0 + a), Lid(to.0 + b)]))
    });
    let lid_pairs = disjoint
        .chain(rest)
        .filter(|(pair, [_, dlid])| {
            let bits = path::path_bits(pair.level, pair.to.1);
            bits.is_none_or(|bits| bits.contains((dlid.0 - pair.to.0).into()))
        })
        .take(MAX_LID_PAIRS);
    lid_pairs.filter_map(|(pair, lids)| candidate(query, each, pair, lids)).collect()
}

/// The path between two LIDs; `None` if it does not satisfy the request.
fn candidate(
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
    let elements = elements_of_path(query, &ends);
    let mut end_elements =
        [elements_at_end(query, from.physical), elements_at_end(query, to.physical)].concat();
    end_elements.sort_unstable();
    Some(CandidatePath { record, elements, end_elements, shared: [0; 2] })
}

/// Links and switches of a path, ascending.
fn elements_of_path(query: &Query<'_>, ends: &PathEnds) -> Vec<u32> {
    let mut elements = Vec::new();
    if ends.from.physical != ends.to.physical {
        path::walk(&query.view, ends, |node| elements.extend(link_and_switch(query, node.exit)));
    }
    elements.sort_unstable();
    elements.dedup();
    elements
}

/// Elements of every path that starts or ends at a port: its link, and the switch it is attached
/// to.
fn elements_at_end(query: &Query<'_>, port: PortId) -> Vec<u32> {
    let peer = query.view.fabric().port(port).peer;
    let ports = [Some(port), peer].into_iter().flatten();
    ports.flat_map(|port| link_and_switch(query, port)).collect()
}

/// Numbers of the link at a port and of the switch of the port, if they exist. A link has the
/// lower of its two port indices; switches follow after the last port.
fn link_and_switch(query: &Query<'_>, port: PortId) -> impl Iterator<Item = u32> + use<> {
    let fabric = query.view.fabric();
    let link = fabric.port(port).peer.map(|peer| peer.0.min(port.0));
    let switch = fabric.node_of(port).switch;
    let switch = switch.map(|switch| (fabric.ports().len() + switch.index()) as u32);
    link.into_iter().chain(switch)
}

/// The first `max_paths` paths in order of independence, with their preferences.
fn by_independence(
    mut paths: Vec<CandidatePath>,
    max_paths: usize,
) -> impl Iterator<Item = PathRecord> {
    let mut used: Vec<u32> = Vec::new();
    let ordered = std::iter::from_fn(move || {
        let best =
            (0..paths.len()).min_by_key(|&n| (paths[n].shared, paths[n].elements.len(), n))?;
        let mut path = paths.remove(best);
        path.record.set_preference(match path.shared {
            [0, _] => PREFERENCE_INDEPENDENT,
            [_, 0] => PREFERENCE_SHARED_END,
            _ => PREFERENCE_SHARED_CORE,
        });
        for element in path.elements {
            let Err(place) = used.binary_search(&element) else { continue };
            used.insert(place, element);
            for other in paths.iter_mut().filter(|p| p.elements.binary_search(&element).is_ok()) {
                let is_end = other.end_elements.binary_search(&element).is_ok();
                other.shared[0] += 1;
                other.shared[1] += usize::from(!is_end);
            }
        }
        Some(path.record)
    });
    ordered.take(max_paths)
}
