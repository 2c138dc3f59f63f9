//! The M_Keys of a sweep's queries. A port that accepts no key that it should hold is tried with a
//! few others: it may be recabled, or have got another key while its answer was lost.

use super::discovery_state::DiscoveryState;
use super::m_keys::MKeys;
use super::query::{DiscoveryQuery, QueryKey};
use crate::ids::{Guid, MKey, PortNum};
use crate::wire::attr::PortInfo;
use std::collections::{HashMap, HashSet};

/// The keys of one sweep.
pub(super) struct DiscoveryKeys {
    keys: MKeys,
    /// GUID of the local port.
    local: Guid,
    /// Keys that ports accepted in this sweep and did not show yet, by port GUID.
    accepted: HashMap<Guid, MKey>,
    /// The key of ports of which nothing is known.
    usual: MKey,
    /// Further keys to try.
    others: Vec<MKey>,
    /// Far ends of cables that were tried with other keys.
    tried: HashSet<QueryKey>,
    /// Number of other keys tried on a port that hides its key, by port GUID.
    hidden: HashMap<Guid, usize>,
}

impl DiscoveryKeys {
    pub(super) fn new(keys: &MKeys, local: Guid) -> Self {
        let (accepted, tried, hidden) = Default::default();
        let usual = keys.configured();
        let others = keys.others();
        Self { keys: keys.clone(), local, accepted, usual, others, tried, hidden }
    }

    /// The key for a query.
    pub(super) fn of_query(&self, state: &DiscoveryState, query: DiscoveryQuery) -> MKey {
        match query {
            DiscoveryQuery::Node { m_key, .. } => m_key,
            DiscoveryQuery::Identity { node }
            | DiscoveryQuery::Description { node }
            | DiscoveryQuery::Switch { node } => {
                self.of(state, (node, state.node(node).info.local_port()))
            }
            DiscoveryQuery::Port { node, port }
            | DiscoveryQuery::Pkeys { node, port, .. }
            | DiscoveryQuery::Manager { node, port } => self.of(state, (node, port)),
        }
    }

    /// The key that the local node, or the device behind a port, is asked with first.
    pub(super) fn expected(&self, state: &DiscoveryState, from: Option<(usize, PortNum)>) -> MKey {
        from.map_or_else(|| self.of_guid(self.local), |from| self.behind(state, from))
    }

    /// The key for queries about a port of a known node.
    pub(super) fn of(&self, state: &DiscoveryState, at: (usize, PortNum)) -> MKey {
        let (node, port) = at;
        let owner = if state.node(node).is_switch() { PortNum::ZERO } else { port };
        let Some(slot) = state.port((node, owner)) else { return self.usual };
        let shown = slot.info().map(|info| info.m_key()).filter(|key| key.is_set());
        let accepted = self.accepted.get(&slot.guid).copied();
        accepted.or(shown).unwrap_or_else(|| self.of_guid(slot.guid))
    }

    /// The key for a query to the end port with this GUID.
    pub(super) fn of_guid(&self, guid: Guid) -> MKey {
        self.keys.known(guid).unwrap_or(self.usual)
    }

    /// The key for a query across the cable at a port of a known node.
    fn behind(&self, state: &DiscoveryState, from: (usize, PortNum)) -> MKey {
        if let Some(peer) = state.peer(from) {
            return self.of(state, peer);
        }
        let near = state.port(from).map_or(Guid(0), |port| port.guid);
        let far = self.keys.neighbor(near, from.1);
        far.map_or(self.usual, |guid| self.of_guid(guid))
    }

    /// The keys to try instead of `refused` on the port at the end of a route. Empty the second
    /// time.
    pub(super) fn instead_of(&mut self, refused: MKey, query: QueryKey) -> Vec<MKey> {
        if self.others.is_empty() || !self.tried.insert(query) {
            return Vec::new();
        }
        self.others.iter().copied().filter(|&key| key != refused).collect()
    }

    /// A port answered NodeInfo with a key that is not the one that it should hold.
    pub(super) fn accepted(&mut self, port: Guid, key: MKey) {
        self.accepted.insert(port, key);
        self.usual = key;
    }

    /// An end port answered PortInfo. Returns true if it hides its key and is to be asked again,
    /// with another key.
    pub(super) fn shown(&mut self, guid: Guid, info: &PortInfo, asked_with: MKey) -> bool {
        let key = info.m_key();
        if key.is_set() {
            if self.accepted.contains_key(&guid) {
                self.accepted.insert(guid, key);
            }
            if key != self.usual && !self.others.contains(&key) {
                self.others.push(key);
            }
            return false;
        }
        if !self.keys.is_hidden(info) {
            self.accepted.remove(&guid);
            return false;
        }
        let tried = self.hidden.entry(guid).or_default();
        while let Some(&other) = self.others.get(*tried) {
            *tried += 1;
            if other != asked_with {
                self.accepted.insert(guid, other);
                return true;
            }
        }
        self.accepted.remove(&guid);
        false
    }
}
