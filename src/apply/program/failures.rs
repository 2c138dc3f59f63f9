//! The failures of one reconfiguration, and the Sets that are not sent because of them.
//!
//! A device that acknowledges none of its first Sets gets no others in this reconfiguration,
//! because each of them would occupy the window until its timeout.

use crate::apply::set_failures::{NewFailures, RefusedAnswer, SetFailures};
use crate::apply::set_id::SetId;
use crate::fabric::{Fabric, NodeId, PortId};
use crate::observe::m_keys::MKeys;
use crate::transport::transactions::SmpError;
use crate::wire::attr::AttrId;
use std::collections::HashSet;
use tokio::time::Instant;

/// Unanswered Sets, without an answered one between them, after which a device gets no others.
const MAX_UNANSWERED: u32 = 2;

/// The attributes that are compared for all switches in each reconfiguration.
const FORWARDING: [u16; 3] = [AttrId::SWITCH_INFO, AttrId::LINEAR_FT, AttrId::MULTICAST_FT];

/// A Set in flight.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    pub set: SetId,
    /// The step of an ordered transition.
    pub step: Option<u32>,
    pub data: [u8; 64],
}

/// The failures so far.
pub(super) struct PassFailures {
    start: Instant,
    /// End ports with an unknown M_Key. Only their PortInfo is set, as a test: it succeeds if the
    /// port has no key, else it starts the lease period.
    locked: HashSet<PortId>,
    /// Unanswered Sets since the last answered one, by node.
    unanswered: Vec<u32>,
    silent: Vec<NodeId>,
    /// Devices that did not answer the last sweep. Their Sets wait until they answer one.
    unresponsive: HashSet<NodeId>,
    refused: Vec<RefusedAnswer>,
    /// Nodes that were sent Sets, apart from forwarding tables and SwitchInfo.
    admitted: HashSet<NodeId>,
    /// Sets that were not sent because of earlier reconfigurations.
    pub delayed: Vec<SetId>,
    /// Sets that were not sent because the device acknowledges none in this one.
    pub unsent: Vec<SetId>,
}

impl PassFailures {
    pub(super) fn new(fabric: &Fabric, keys: &MKeys) -> Self {
        Self {
            start: Instant::now(),
            locked: fabric
                .end_ports()
                .filter(|&port| fabric.port(port).info().is_some_and(|info| keys.is_hidden(&info)))
                .collect(),
            unanswered: vec![0; fabric.nodes().len()],
            silent: Vec::new(),
            unresponsive: fabric.unresponsive().collect(),
            refused: Vec::new(),
            admitted: HashSet::new(),
            delayed: Vec::new(),
            unsent: Vec::new(),
        }
    }

    /// True if the Set may be sent; else it is recorded.
    pub(super) fn admits(
        &mut self,
        fabric: &Fabric,
        before: &SetFailures,
        set: SetId,
        data: &[u8; 64],
    ) -> bool {
        if self.is_silent(set.node) {
            self.unsent.push(set);
            return false;
        }
        if self.refused.iter().any(|refused| refused.set == set && refused.data == *data) {
            return false;
        }
        // The start, so that a Set is not delayed in one phase and sent in another.
        let is_delayed = self.unresponsive.contains(&set.node)
            || self.needs_key(fabric, set)
            || before.is_delayed(fabric, set, data, self.start);
        if is_delayed {
            self.delayed.push(set);
        } else if !FORWARDING.contains(&set.attr_id) {
            self.admitted.insert(set.node);
        }
        !is_delayed
    }

    /// True for a Set to a port with an unknown M_Key, except for the test.
    fn needs_key(&self, fabric: &Fabric, set: SetId) -> bool {
        if self.locked.is_empty() {
            return false;
        }
        let slot = set.slot(fabric);
        let owner = fabric.owner(slot);
        let is_test = set.attr_id == AttrId::PORT_INFO && owner == slot;
        !is_test && self.locked.contains(&owner)
    }

    /// The nodes that were sent Sets, apart from forwarding tables and SwitchInfo.
    pub(super) fn admitted(&self) -> &HashSet<NodeId> {
        &self.admitted
    }

    fn is_silent(&self, node: NodeId) -> bool {
        !self.silent.is_empty() && self.silent.contains(&node)
    }

    /// Records that a device acknowledged a Set.
    pub(super) fn acknowledged(&mut self, node: NodeId) {
        if let Some(unanswered) = self.unanswered.get_mut(node.index()) {
            *unanswered = 0;
        }
    }

    /// Records that a device holds what it did not acknowledge, so that it is not silent.
    pub(super) fn recovered(&mut self, node: NodeId) {
        self.acknowledged(node);
        self.silent.retain(|&other| other != node);
    }

    /// Records that a Set failed. True if the device acknowledges no Sets, so that those that wait
    /// for it must be cancelled.
    pub(super) fn failed(
        &mut self,
        fabric: &Fabric,
        before: &SetFailures,
        sent: &Sent,
        error: &SmpError,
    ) -> bool {
        let node = sent.set.node;
        if let SmpError::Status(status) = error {
            let status = *status;
            self.refused.push(RefusedAnswer { set: sent.set, data: sent.data, status });
        }
        let Some(unanswered) = self.unanswered.get_mut(node.index()) else { return false };
        match error {
            SmpError::Unanswered => *unanswered += 1,
            SmpError::Status(_) | SmpError::Malformed(_) => *unanswered = 0,
            SmpError::Send(_) => {}
        }
        let was_silent = before.silences(fabric.node(node).guid()) > 0
            || self.locked.contains(&fabric.owner(sent.set.slot(fabric)));
        let is_silent = *unanswered >= if was_silent { 1 } else { MAX_UNANSWERED };
        if !is_silent || self.is_silent(node) {
            return false;
        }
        self.silent.push(node);
        true
    }

    /// The failures, with the Sets that were not sent because of earlier reconfigurations.
    pub(super) fn to_record<'a>(&'a self, delayed: &'a [SetId]) -> NewFailures<'a> {
        NewFailures { refused: &self.refused, delayed, silent: &self.silent }
    }
}
