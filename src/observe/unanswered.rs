//! Queries without an answer: the last attempt, and the conclusions of a sweep.

use super::discovery_queries::DiscoveryQueries;
use super::query::DiscoveryQuery;
use super::query_fault::fault_of;
use crate::fabric::DiscoveryFault;
use crate::transport::transactions::SmpError;
use std::collections::HashSet;

impl DiscoveryQueries {
    /// Repeats the queries that were cut short again and again although their devices answer
    /// others, as happens where many MADs are lost, and waits for all of them.
    pub(super) async fn run_last_pass(&mut self) {
        self.is_last_pass = true;
        self.retry(true).await;
        self.query_pkeys();
        self.run_to_the_end().await;
    }

    /// Records the queries without an answer as faults of the snapshot; of a silent device, one.
    pub(super) fn record_faults(&mut self) {
        let mut silent = HashSet::new();
        for query in self.evidence.unanswered() {
            let is_silent =
                self.evidence.is_silent(query) && !matches!(query, DiscoveryQuery::Node { .. });
            if !is_silent || silent.insert(query.node()) {
                let error = self.failures.get(&query.key()).cloned();
                let error = error.unwrap_or(SmpError::Unanswered);
                self.state.faults.extend(fault_of(&self.state, query, &error));
            }
        }
    }

    /// Records the fault of two devices with the same GUIDs that are cabled back to back: the cable
    /// of the local port seems to end at that port itself.
    pub(super) fn find_own_twin(&mut self) {
        let Some(local) = self.state.local else { return };
        let is_alone = self.state.nodes().iter().all(|node| !node.is_switch());
        let route = self.state.node(local.0).route;
        if is_alone
            && self.state.peer(local) == Some(local)
            && let Some(second) = route.then(local.1)
        {
            let guid = self.state.node(local.0).guid();
            self.state.faults.push(DiscoveryFault::DuplicateNodeGuid {
                guid,
                first: route,
                second,
            });
        }
    }

    /// Why a query could not be sent: the port is lost, and what lies behind it is not known.
    pub(super) fn send_failure(&self) -> Option<&str> {
        let unanswered = self.evidence.unanswered().into_iter();
        let mut failures = unanswered.filter_map(|query| self.failures.get(&query.key()));
        failures.find_map(|error| match error {
            SmpError::Send(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// The failure of the query to the local node.
    pub(super) fn local_failure(&self) -> Option<SmpError> {
        let query = self.evidence.unanswered().into_iter().find(|query| query.node().is_none())?;
        Some(self.failures.get(&query.key()).cloned().unwrap_or(SmpError::Unanswered))
    }
}
