//! Evidence of a sweep about devices and routes that do not answer.
//!
//! * A lost cable makes the switch behind it **doubtful**: it may be lost as a whole. So its other
//!   neighbours are queried, and routes avoid it meanwhile.
//! * A query that stalls twice makes its device **silent** and doubtful. Its other queries are put
//!   off until it answers.
//! * A query that stalled, failed or was put off is **unanswered** until any transmission of it is
//!   answered.
//!   It is repeated once, and again if it was cut short meanwhile: where many MADs are lost by
//!   chance, a device that answers some queries is not silent, and the others must not be given up.
//! * A query for SMInfo goes to a program, which may hang while its port answers all other queries.
//!   It was sent twice when it stalled, and is not repeated later unless it was cut short.

use super::query::{DiscoveryQuery, QueryKey};
use crate::ids::PortNum;
use crate::transport::transactions::SmpError;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The evidence of one sweep. All methods are cheap while every device answers.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    probed: HashSet<(usize, PortNum)>,
    doubtful: HashSet<usize>,
    silent: HashSet<usize>,
    unanswered: BTreeMap<QueryKey, DiscoveryQuery>,
    /// The last failures of queries.
    failures: HashMap<QueryKey, SmpError>,
    repeated: HashSet<QueryKey>,
    /// Queries that were cancelled before their timeout.
    cut_short: HashSet<QueryKey>,
}

impl Evidence {
    /// The evidence at the beginning of a sweep that knows of doubtful nodes.
    pub(super) fn of_doubtful(nodes: &BTreeSet<usize>) -> Self {
        Self { doubtful: nodes.iter().copied().collect(), ..Self::default() }
    }

    /// Records an answer.
    pub(super) fn answered(&mut self, query: DiscoveryQuery) {
        if !self.unanswered.is_empty() {
            self.unanswered.remove(&query.key());
        }
        if let Some(node) = query.node()
            && !self.doubtful.is_empty()
            && !matches!(query, DiscoveryQuery::Node { .. })
        {
            self.silent.remove(&node);
            self.doubtful.remove(&node);
        }
    }

    /// Records a stalled query. Returns true the first time.
    pub(super) fn stalled_first(&mut self, query: DiscoveryQuery) -> bool {
        let is_first = self.unanswered.insert(query.key(), query).is_none();
        if is_first && matches!(query, DiscoveryQuery::Manager { .. }) {
            self.repeated.insert(query.key());
        }
        is_first
    }

    /// Records that a query stalled a second time. Returns true if its device is newly silent.
    pub(super) fn stalled_again(&mut self, query: DiscoveryQuery) -> bool {
        let Some(node) = query.node() else { return false };
        // The far end of a cable does not answer NodeInfo; the near end may be sound.
        if matches!(query, DiscoveryQuery::Node { .. }) {
            return false;
        }
        self.silent.insert(node);
        self.doubtful.insert(node)
    }

    /// Records a query that failed.
    pub(super) fn failed(&mut self, query: DiscoveryQuery, error: SmpError) {
        self.unanswered.insert(query.key(), query);
        self.failures.insert(query.key(), error);
    }

    /// Records a query that was cancelled before its timeout.
    pub(super) fn put_off(&mut self, query: DiscoveryQuery) {
        self.unanswered.insert(query.key(), query);
        self.cut_short.insert(query.key());
    }

    /// Forgets a query that needs no answer any more.
    pub(super) fn drop(&mut self, query: DiscoveryQuery) {
        self.unanswered.remove(&query.key());
    }

    /// Records that a cable to `node` was lost.
    pub(super) fn lost_cable(&mut self, node: usize) {
        self.doubtful.insert(node);
    }

    /// The nodes that routes should not pass.
    pub(super) fn doubtful(&self) -> &HashSet<usize> {
        &self.doubtful
    }

    /// True if the device of a query, apart from the far end of a cable, is silent.
    pub(super) fn is_silent(&self, query: DiscoveryQuery) -> bool {
        query.node().is_some_and(|node| self.silent.contains(&node))
    }

    /// The queries that stalled, failed or were put off and have no answer.
    pub(super) fn unanswered(&self) -> Vec<DiscoveryQuery> {
        self.unanswered.values().copied().collect()
    }

    /// True if [`Self::unanswered`] has any.
    pub(super) fn has_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// The reason why a query has no answer. One that has not failed may still be in flight.
    pub(super) fn failure(&self, query: DiscoveryQuery) -> SmpError {
        self.failures.get(&query.key()).cloned().unwrap_or(SmpError::Unanswered)
    }

    /// Why a query could not be sent: the port is lost, and what lies behind it is not known.
    pub(super) fn send_failure(&self) -> Option<String> {
        self.unanswered.keys().find_map(|key| match self.failures.get(key) {
            Some(SmpError::Send(reason)) => Some(reason.clone()),
            _ => None,
        })
    }

    /// The failure of the query to the local node.
    pub(super) fn local_failure(&self) -> Option<SmpError> {
        let query = self.unanswered.values().find(|query| query.node().is_none())?;
        Some(self.failure(*query))
    }

    /// True for the first request to repeat a query, and for each one after it was cut short,
    /// unless its device is silent.
    pub(super) fn may_repeat(&mut self, query: DiscoveryQuery) -> bool {
        let key = query.key();
        let is_silent = self.is_silent(query);
        let was_cut_short = self.cut_short.remove(&key);
        self.repeated.insert(key) || (was_cut_short && !is_silent)
    }

    /// True for the first request to probe a port.
    pub(super) fn may_probe(&mut self, node: usize, port: PortNum) -> bool {
        self.probed.insert((node, port))
    }
}
