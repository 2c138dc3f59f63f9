//! Comparison of two answers, apart from intended differences.

use super::differences::{
    BOTH_KEYS, FLOW_LABELS, HIGH_BIT, IN_PARTS, OF_MANY, OF_SEVERAL, PATH_BITS, QOS_CLASS,
    TO_GROUPS, UNKNOWN_GIDS, WAY_BACK,
};
use super::questions::Question;
use super::random_case::Case;
use super::site::STRIDE;
use super::site::{Answer, Site};
use super::{groups, partition_facts};
use std::collections::BTreeSet;
use torus_sm::ids::{Lid, Pkey, Sl};
use torus_sm::wire::mad::Method;
use torus_sm::wire::record::{MultiPathRecord, PathRecord, Record, Selector};
use torus_sm::wire::sa::SaStatus;

/// The facts about a case that the comparison of its answers needs.
pub(crate) struct Comparator<'a> {
    case: &'a Case,
    sites: [&'a Site; 2],
    /// The P_Keys of the querying port.
    keys: Vec<Pkey>,
    /// Partitions whose SL a later part resets in OpenSM.
    in_parts: BTreeSet<u16>,
    apart: groups::KnownDifferences,
}

type Name = Option<&'static str>;

impl<'a> Comparator<'a> {
    pub(crate) fn new(case: &'a Case, sites: [&'a Site; 2], keys: Vec<Pkey>) -> Self {
        let in_parts = partition_facts::with_sl_taken_back(case);
        let apart = groups::KnownDifferences::new(case);
        Self { case, sites, keys, in_parts, apart }
    }

    /// The name of the difference between two answers to a query; `None` if no intended one
    /// explains it.
    pub(crate) fn between(&mut self, question: &Question, ours: &Answer, theirs: &Answer) -> Name {
        if ours == theirs {
            return None;
        }
        let is_path_query = matches!(question, Question::Path { .. } | Question::Multi { .. });
        let has_records = ours.status == theirs.status && !ours.records.is_empty();
        if is_path_query && has_records && records(ours) == records(theirs) {
            return Some(QOS_CLASS);
        }
        match *question {
            Question::Join { mask, wanted } => {
                groups::joined(self.case, &mut self.apart, (mask, &wanted), ours, theirs)
            }
            Question::Path { mask, wanted, .. } if is_to_group(mask, &wanted) => {
                self.to_group(mask, &wanted, ours, theirs)
            }
            _ => self
                .paths(question, ours, theirs)
                .or_else(|| self.without_way_back(question, ours, theirs))
                .or_else(|| self.without_sl(question, ours, theirs)),
        }
    }

    /// The name of the difference between all members of all groups.
    pub(crate) fn members(&self, ours: &Answer, theirs: &Answer) -> Name {
        let is_fewer = || self.case.both_keys && groups::fewer(ours, theirs);
        groups::members(&self.apart, ours, theirs).or_else(|| is_fewer().then_some(BOTH_KEYS))
    }

    fn paths(&self, question: &Question, ours: &Answer, theirs: &Answer) -> Name {
        if ours.status == SaStatus::INVALID_GID && is_nothing(theirs) {
            return Some(UNKNOWN_GIDS);
        }
        let by_routing = self.case.options.contains("routing_engine torus-2QoS");
        match *question {
            Question::Path { method: Method::GET, mask, .. }
                if is_open(mask) && (ours.records.len(), theirs.records.len()) == (1, 1) =>
            {
                return Some(OF_MANY);
            }
            // A query with an SL returns the paths that have it.
            Question::Multi { mask, .. } if by_routing && mask & MultiPathRecord::SL != 0 => {
                return ((ours.status, theirs.status) == (0, 0)).then_some(OF_SEVERAL);
            }
            _ => {}
        }
        let is_by_routing = by_routing && matches!(question, Question::Multi { .. });
        let alike = |ours: &[PathRecord], theirs: &[PathRecord]| {
            let levels = [Some(WAY_BACK), Some(IN_PARTS)];
            let levels = levels.into_iter().chain([is_by_routing.then_some(OF_SEVERAL)]);
            let is_same = |level: usize| {
                let mut pairs = ours.iter().zip(theirs);
                ours.len() == theirs.len()
                    && pairs.all(|(our, their)| self.same(*our, *their, level))
            };
            levels.enumerate().find_map(|(level, name)| name.filter(|_| is_same(level)))
        };
        let [our, their] = [ours, theirs].map(records);
        let is_same_status = ours.status == theirs.status || is_nothing(ours) || is_nothing(theirs);
        let known = |paths: Vec<PathRecord>| -> Vec<PathRecord> {
            paths.into_iter().filter(|path| !self.is_in_parts(path)).collect()
        };
        let dropped = || {
            // If no path has the SL of such a partition, one answer has fewer paths.
            let our_known = known(our.clone());
            let their_known = known(their.clone());
            let has = our_known.len() < our.len() || their_known.len() < their.len();
            let is_rest = our_known == their_known || alike(&our_known, &their_known).is_some();
            (has && is_same_status && is_rest).then_some(IN_PARTS)
        };
        let chosen = || {
            let has = self.case.lmc > 0 && self.case.policy.as_ref()?.contains("path-bits");
            let [our, their] = [&our, &their].map(|paths| of_first_lids(paths));
            let is_same = our == their || alike(&our, &their).is_some();
            let is_expected = is_same && ours.status == theirs.status || is_nothing(ours);
            (has && is_expected).then_some(PATH_BITS)
        };
        let alike = alike(&our, &their).filter(|_| ours.status == theirs.status);
        alike.or_else(dropped).or_else(chosen)
    }

    /// True if the SL of a path is that of a partition whose SL is reset. Paths for raw packets
    /// may have such an SL without the P_Key.
    fn is_in_parts(&self, path: &PathRecord) -> bool {
        let base = path.pkey().base();
        self.in_parts.contains(&base) || base == 0 && !self.in_parts.is_empty()
    }

    /// True if two records differ only by the intended differences up to `level`: 0: the reverse
    /// path, 1: SLs of partitions in parts, 2: SLs of the routing.
    fn same(&self, mut our: PathRecord, mut their: PathRecord, level: usize) -> bool {
        our.set_reversible(true);
        their.set_reversible(true);
        if level >= 2 || level >= 1 && self.is_in_parts(&their) {
            our.set_sl(Sl(0));
            their.set_sl(Sl(0));
        }
        our == their
    }

    /// Repeats a query for paths, reversible or not, to see whether the reverse path explains why
    /// only one SM finds it.
    fn without_way_back(&self, question: &Question, ours: &Answer, theirs: &Answer) -> Name {
        let is_lost = ours.records.len() != theirs.records.len();
        let either = match *question {
            Question::Path { method, mask, wanted }
                if mask & PathRecord::REVERSIBLE != 0 && is_lost =>
            {
                Question::Path { method, mask: mask & !PathRecord::REVERSIBLE, wanted }
            }
            // One SM finds fewer: with torus-2QoS the SL of the reverse path may differ.
            Question::Multi { mask, wanted, gids } if mask & MultiPathRecord::REVERSIBLE != 0 => {
                Question::Multi { mask: mask & !MultiPathRecord::REVERSIBLE, wanted, gids }
            }
            _ => return None,
        };
        let [ours, theirs] = self.sites.map(|site| site.ask(&[either], 1).remove(0));
        let paths = [&ours, &theirs].map(records).concat();
        let is_irreversible = paths.iter().any(|path| !path.reversible());
        let is_alike = ours == theirs || self.paths(&either, &ours, &theirs).is_some();
        let is_multi = matches!(either, Question::Multi { .. });
        (is_alike && (is_irreversible || is_multi)).then_some(WAY_BACK)
    }

    /// Repeats a query for paths with an SL without it, to see whether OpenSM refuses an SL that it returns.
    fn without_sl(&self, question: &Question, ours: &Answer, theirs: &Answer) -> Name {
        let Question::Path { mask, wanted, .. } = *question else { return None };
        let has_level =
            self.case.options.contains("routing_engine torus-2QoS") && self.case.policy.is_some();
        if !has_level || mask & PathRecord::SL == 0 || !is_nothing(theirs) || is_nothing(ours) {
            return None;
        }
        // All paths: a Get returns one of them.
        let others = mask & !(PathRecord::SL | PathRecord::NUMB_PATH);
        let any = Question::Path { method: Method::GET_TABLE, mask: others, wanted };
        let [ours, theirs] = self.sites.map(|site| site.ask(&[any], 1).remove(0));
        let is_alike = ours == theirs || self.between_paths(&any, &ours, &theirs);
        let is_returned = records(&theirs).iter().any(|path| path.sl() == wanted.sl());
        (is_alike && is_returned).then_some(HIGH_BIT)
    }

    /// True if two answers differ as intended.
    fn between_paths(&self, question: &Question, ours: &Answer, theirs: &Answer) -> bool {
        let is_class = ours.status == theirs.status && records(ours) == records(theirs);
        is_class
            || self.paths(question, ours, theirs).is_some()
            || self.without_way_back(question, ours, theirs).is_some()
    }

    /// The name of the difference between paths to a group.
    fn to_group(&self, mask: u64, wanted: &PathRecord, ours: &Answer, theirs: &Answer) -> Name {
        let their = match records(theirs)[..] {
            [their] if theirs.status == 0 => their,
            _ => return None,
        };
        if let [mut our] = records(ours)[..] {
            if our.flow_label() != 0 && with_label_reversed(our) == their {
                return Some(FLOW_LABELS);
            }
            our.set_dlid(their.dlid());
            return self.apart.of_files().filter(|_| our == their);
        }
        let has = |bits: u64| mask & bits == bits;
        let mtu = PathRecord::MTU_SELECTOR | PathRecord::MTU;
        let rate = PathRecord::RATE_SELECTOR | PathRecord::RATE;
        let rank = |code: u8| RATES.iter().position(|&rate| rate == code);
        let is_in = self.keys.iter().any(|key| key.base() == their.pkey().base());
        let is_right = is_in
            && (!has(mtu) || fits(wanted.mtu_selector(), wanted.mtu(), their.mtu()))
            && (!has(rate)
                || fits(wanted.rate_selector(), rank(wanted.rate()), rank(their.rate())));
        (is_nothing(ours) && !is_right).then_some(TO_GROUPS)
    }
}

/// A path to a group as OpenSM writes it on little-endian machines: the three bytes of the flow
/// label are reversed, and the last overwrites the hop limit.
fn with_label_reversed(mut path: PathRecord) -> PathRecord {
    let [_, high, middle, low] = path.flow_label().to_be_bytes();
    path.set_flow_label(u32::from(low) << 8 | u32::from(middle));
    path.set_hop_limit(path.hop_limit() | high);
    path
}

/// Paths between the first LIDs of their ends, each once.
fn of_first_lids(paths: &[PathRecord]) -> Vec<PathRecord> {
    let first = |lid: Lid| Lid(lid.0 - lid.0 % STRIDE);
    let mut paths = paths.to_vec();
    for path in &mut paths {
        path.set_slid(first(path.slid()));
        path.set_dlid(first(path.dlid()));
        path.set_preference(0);
    }
    paths.dedup();
    paths
}

/// Rate codes, ascending by rate.
const RATES: [u8; 19] = [2, 5, 3, 11, 6, 15, 19, 4, 7, 20, 12, 8, 9, 16, 13, 10, 14, 17, 18];

fn fits<T: Ord>(selector: Selector, asked: T, actual: T) -> bool {
    match selector {
        Selector::GreaterThan => actual > asked,
        Selector::LessThan => actual < asked,
        Selector::Exactly => actual == asked,
        Selector::Best => true,
    }
}

fn is_to_group(mask: u64, wanted: &PathRecord) -> bool {
    mask & PathRecord::DGID != 0 && wanted.dgid().is_multicast()
}

/// True if one end of the paths may be any port.
fn is_open(mask: u64) -> bool {
    let has_end = |ends: u64| mask & ends != 0;
    !has_end(PathRecord::SGID | PathRecord::SLID) || !has_end(PathRecord::DGID | PathRecord::DLID)
}

fn is_nothing(answer: &Answer) -> bool {
    answer.records.is_empty() && [0, SaStatus::NO_RECORDS].contains(&answer.status)
}

/// The paths of an answer, in the order of their ends, without their QoS classes ([`QOS_CLASS`]).
fn records(answer: &Answer) -> Vec<PathRecord> {
    let paths = answer.records.iter().map(|bytes| {
        let mut path = PathRecord::parse(bytes);
        path.set_qos_class(0);
        path
    });
    paths.collect()
}
