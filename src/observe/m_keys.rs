//! The M_Keys that ports hold. A request carries the key that its port holds, which is not the
//! configured one while a change of the key is under way, or after another subnet manager.
//!
//! A port shows its key in PortInfo unless it is protected from a requester with a wrong one. What
//! ports do not show is known from the file guid2mkey; which port is behind a cable, before the
//! port has answered, from the last snapshot and the file neighbors.

use crate::config::guid2mkey::Guid2MKey;
use crate::config::neighbors::{self, Neighbors};
use crate::config::options::Options;
use crate::fabric::{Fabric, Port, PortId, RouteEnd};
use crate::ids::{Guid, MKey, PortNum};
use crate::wire::attr::PortInfo;
use crate::wire::smp::DirectedRoute;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of further keys that are tried on a port that accepts none that it should hold.
const MAX_OTHER_KEYS: usize = 3;
/// Maximum number of stored keys of ports, those of absent ports included.
const MAX_KEYS: usize = 1 << 17;
/// Maximum number of stored ends of cables.
const MAX_ENDS: usize = 1 << 20;

/// The M_Keys of all ports. Clones share their tables.
#[derive(Clone, Debug, Default)]
pub struct MKeys {
    configured: MKey,
    /// `m_key_protection_level`.
    level: u8,
    /// `m_key_lookup`: keys of earlier runs are used.
    uses_files: bool,
    /// By port GUID, without ports that have no key.
    held: Arc<Guid2MKey>,
    neighbors: Arc<Neighbors>,
}

impl MKeys {
    /// The keys of an earlier run, with the cables between the ports.
    pub fn new(options: &Options, held: Guid2MKey, neighbors: Neighbors) -> Self {
        let held = held.into_iter().filter(|(_, key)| key.is_set()).collect();
        let mut keys =
            Self { held: Arc::new(held), neighbors: Arc::new(neighbors), ..Self::default() };
        keys.configure(options);
        keys
    }

    /// Uses new options. What ports hold stays as it is.
    pub fn configure(&mut self, options: &Options) {
        self.configured = options.m_key;
        self.level = options.m_key_protection_level;
        self.uses_files = options.m_key_lookup;
    }

    /// True if requests and Sets carry the same keys as with `other`.
    pub fn is_same(&self, other: &Self) -> bool {
        self.configured == other.configured
            && self.level == other.level
            && self.uses_files == other.uses_files
            && (Arc::ptr_eq(&self.held, &other.held) || self.held == other.held)
    }

    /// True unless no port is known to have a key, nor to get one.
    pub fn is_in_use(&self) -> bool {
        self.configured.is_set() || !self.held.is_empty()
    }

    /// The key that the end port with this GUID holds or, if unknown, the configured one.
    pub fn of(&self, port: Guid) -> MKey {
        self.known(port).unwrap_or(self.configured)
    }

    /// The keys that the end port with this GUID may hold, the likeliest first; at least one.
    pub fn candidates(&self, port: Guid) -> Vec<MKey> {
        let first = self.of(port);
        let others = self.others().into_iter().filter(|&key| key != first);
        std::iter::once(first).chain(others).collect()
    }

    /// The key that the end port with this GUID is known to hold.
    pub(super) fn known(&self, port: Guid) -> Option<MKey> {
        self.held.get(&port).copied().filter(|_| self.uses_files)
    }

    pub(super) fn configured(&self) -> MKey {
        self.configured
    }

    /// The key for requests about a port of a snapshot: a switch holds one for all its ports.
    pub fn of_port(&self, fabric: &Fabric, id: PortId) -> MKey {
        let owner = fabric.port(fabric.owner(id));
        let shown = owner.info().map(|info| info.m_key()).filter(|key| key.is_set());
        shown.unwrap_or_else(|| self.of(owner.guid))
    }

    /// The key for requests to the end of a route. The last device on it may be unknown.
    pub fn at_end(&self, fabric: &Fabric, route: &DirectedRoute) -> MKey {
        match fabric.end_of_route(route) {
            Some(RouteEnd::Port(port)) => self.of_port(fabric, port),
            Some(RouteEnd::Behind(near)) => {
                self.neighbor_of(fabric.port(near)).map_or(self.configured, |guid| self.of(guid))
            }
            None => self.configured,
        }
    }

    /// The port that was at the end of a route before; `None` if the snapshot has it.
    pub fn last_at(&self, fabric: &Fabric, route: &DirectedRoute) -> Option<Guid> {
        match fabric.end_of_route(route)? {
            RouteEnd::Port(_) => None,
            RouteEnd::Behind(near) => self.neighbor_of(fabric.port(near)),
        }
    }

    fn neighbor_of(&self, near: &Port) -> Option<Guid> {
        self.neighbor(near.guid, near.num)
    }

    /// The port that was found at the far end of a cable before.
    pub fn neighbor(&self, near: Guid, num: PortNum) -> Option<Guid> {
        let far = self.neighbors.get(&(near, num)).filter(|_| self.uses_files);
        far.map(|(guid, _)| *guid)
    }

    /// Keys that a port may hold that refuses the key that it should hold: the configured one, and
    /// the most frequent ones of other ports.
    pub(super) fn others(&self) -> Vec<MKey> {
        let mut counts: BTreeMap<MKey, usize> = BTreeMap::new();
        for &key in self.held.values().filter(|_| self.uses_files) {
            *counts.entry(key).or_default() += 1;
        }
        counts.remove(&self.configured);
        let mut keys: Vec<(usize, MKey)> = counts.into_iter().map(|(key, n)| (n, key)).collect();
        keys.sort_by_key(|&(count, key)| (std::cmp::Reverse(count), key));
        let configured = Some(self.configured).filter(|key| key.is_set());
        let keys = configured.into_iter().chain(keys.into_iter().map(|(_, key)| key));
        keys.take(MAX_OTHER_KEYS).collect()
    }

    /// True if a PortInfo hides a key, as far as can be told: a port without a key looks the same
    /// if it has a protection level.
    pub fn is_hidden(&self, info: &PortInfo) -> bool {
        let level = info.m_key_protect_bits();
        !info.m_key().is_set() && level > 0 && (self.configured.is_set() || level != self.level)
    }

    /// Takes over the keys that the ports of a snapshot show.
    pub fn learn(&mut self, fabric: &Fabric) {
        let mut removed = Vec::new();
        let mut added = Vec::new();
        for id in fabric.end_ports() {
            let port = fabric.port(id);
            let Some(info) = port.info() else { continue };
            let key = info.m_key();
            let held = self.held.get(&port.guid);
            if key.is_set() && held != Some(&key) {
                added.push((port.guid, key));
            } else if !key.is_set() && held.is_some() && !self.is_hidden(&info) {
                removed.push(port.guid);
            }
        }
        if added.is_empty() && removed.is_empty() {
            return;
        }
        let held = Arc::make_mut(&mut self.held);
        for guid in removed {
            held.remove(&guid);
        }
        held.extend(added);
        if held.len() > MAX_KEYS {
            held.retain(|&guid, _| fabric.port_by_guid(guid).is_some());
        }
    }

    /// Takes over the cables of a snapshot.
    pub fn learn_cables(&mut self, fabric: &Fabric) {
        let is_stored =
            |(a, b)| self.neighbors.get(&a) == Some(&b) && self.neighbors.get(&b) == Some(&a);
        if cables(fabric).all(is_stored) {
            return;
        }
        let stored = Arc::make_mut(&mut self.neighbors);
        cables(fabric).for_each(|(a, b)| neighbors::connect(stored, a, b));
        if stored.len() > MAX_ENDS {
            stored.clear();
            cables(fabric).for_each(|(a, b)| neighbors::connect(stored, a, b));
        }
    }

    /// The contents of guid2mkey: as in OpenSM, with ports of the snapshot that show that they have
    /// no key.
    pub fn stored_keys(&self, fabric: Option<&Fabric>) -> Guid2MKey {
        let mut keys = Guid2MKey::clone(&self.held);
        let ports = fabric.into_iter().flat_map(|fabric| {
            fabric.end_ports().map(|id| (fabric.port(id).guid, fabric.port(id).info()))
        });
        for (guid, info) in ports {
            let is_open = info.is_some_and(|info| !self.is_hidden(&info));
            if is_open && guid.0 != 0 {
                keys.entry(guid).or_insert(MKey::NONE);
            }
        }
        keys
    }

    /// The contents of neighbors.
    pub fn stored_neighbors(&self) -> &Neighbors {
        &self.neighbors
    }
}

/// The cables of a snapshot, once each, between ports with a GUID.
fn cables(fabric: &Fabric) -> impl Iterator<Item = (neighbors::End, neighbors::End)> + '_ {
    let pairs = fabric.port_ids().filter_map(move |id| Some((id, fabric.port(id).peer?)));
    let ends = pairs
        .filter(|(near, far)| near < far)
        .map(move |(near, far)| (end(fabric, near), end(fabric, far)));
    ends.filter(|(near, far)| near.0.0 != 0 && far.0.0 != 0)
}

fn end(fabric: &Fabric, id: PortId) -> (Guid, PortNum) {
    (fabric.port(id).guid, fabric.port(id).num)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::fabric::topology::{Topology, TopologyNode};
    use crate::wire::attr::NodeKind;

    const HOSTS: [Guid; 2] = [Guid(0x11), Guid(0x21)];
    const SWITCH: Guid = Guid(0x30);
    const OLD: MKey = MKey(0xA);
    const NEW: MKey = MKey(0xB);
    const OTHER: MKey = MKey(0xC);

    /// Two hosts at ports 1 and 2 of a switch, seen from the first.
    fn fabric() -> Fabric {
        let nodes = vec![
            node(NodeKind::Ca, 0x10, 1),
            node(NodeKind::Ca, 0x20, 1),
            node(NodeKind::Switch, 0x30, 4),
        ];
        let topology =
            Topology { nodes, cables: vec![cable(0, 1), cable(1, 2)], ..Default::default() };
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("a local port")
    }

    fn node(kind: NodeKind, guid: u64, num_ports: u8) -> TopologyNode {
        TopologyNode::new(kind, Guid(guid), num_ports)
    }

    fn cable(host: usize, num: u8) -> [(usize, PortNum); 2] {
        [(host, PortNum(1)), (2, PortNum(num))]
    }

    /// Makes a port show a key and a protection level.
    fn show(fabric: &mut Fabric, guid: Guid, key: MKey, level: u8) {
        let port = fabric.port_by_guid(guid).expect("a port");
        let mut info = fabric.port(port).info().expect("it answers");
        info.set_m_key(key);
        info.set_m_key_protect_bits(level);
        fabric.acknowledge(&[(port, info)], &[]);
    }

    fn options(m_key: MKey, m_key_lookup: bool) -> Options {
        Options { m_key, m_key_protection_level: 1, m_key_lookup, ..Options::default() }
    }

    fn keys(m_key: MKey, m_key_lookup: bool) -> MKeys {
        let held = Guid2MKey::from([(HOSTS[0], OLD), (HOSTS[1], OLD), (SWITCH, MKey::NONE)]);
        MKeys::new(&options(m_key, m_key_lookup), held, Neighbors::new())
    }

    #[test]
    fn what_a_port_shows_is_learnt() {
        // Key and level shown, and the key that is known afterwards.
        for (shown, level, known) in [
            (NEW, 0, NEW),
            (NEW, 2, NEW),
            (MKey::NONE, 0, OTHER), // No key: any will do.
            (MKey::NONE, 1, OLD),   // Hidden.
        ] {
            let mut fabric = fabric();
            let mut keys = keys(OTHER, true);
            show(&mut fabric, HOSTS[1], shown, level);
            keys.learn(&fabric);
            assert_eq!(keys.of(HOSTS[1]), known, "{shown:?}, level {level}");
            let port = fabric.port_by_guid(HOSTS[1]).expect("a port");
            assert_eq!(keys.of_port(&fabric, port), known, "{shown:?}, level {level}");
        }
    }

    #[test]
    fn all_ports_of_a_switch_have_the_key_of_port_0() {
        let mut fabric = fabric();
        let keys = keys(OTHER, true);
        show(&mut fabric, SWITCH, NEW, 0);
        let node = fabric.node_by_guid(SWITCH).expect("the switch");
        for num in 0..=4 {
            let port = fabric.port_of(node, PortNum(num)).expect("a port");
            assert_eq!(keys.of_port(&fabric, port), NEW, "port {num}");
        }
    }

    #[test]
    fn without_lookup_only_what_ports_show_counts() {
        let mut fabric = fabric();
        show(&mut fabric, HOSTS[1], NEW, 0);
        for (lookup, hidden) in [(true, OLD), (false, OTHER)] {
            let keys = keys(OTHER, lookup);
            assert_eq!(keys.of(HOSTS[0]), hidden);
            let port = fabric.port_by_guid(HOSTS[1]).expect("a port");
            assert_eq!(keys.of_port(&fabric, port), NEW);
        }
    }

    #[test]
    fn the_end_of_a_route_may_be_known_from_an_earlier_run() {
        let fabric = fabric();
        let mut keys = keys(OTHER, true);
        let lost = (Guid(0x41), PortNum(1));
        keys.held = Arc::new(Guid2MKey::from([(HOSTS[1], OLD), (lost.0, NEW)]));
        keys.learn_cables(&fabric);
        neighbors::connect(Arc::make_mut(&mut keys.neighbors), (SWITCH, PortNum(3)), lost);
        // Route, key, and the port of an earlier run.
        for (exits, key, last) in [
            (&[][..], OTHER, None),
            (&[1, 2], OLD, None),
            (&[1, 3], NEW, Some(lost.0)),
            (&[1, 4], OTHER, None),
            (&[1, 9], OTHER, None),
        ] {
            assert_eq!(keys.at_end(&fabric, &route(exits)), key, "{exits:?}");
            assert_eq!(keys.last_at(&fabric, &route(exits)), last, "{exits:?}");
        }
        assert_eq!(keys.neighbor(HOSTS[0], PortNum(1)), Some(SWITCH));
        assert_eq!(keys.stored_neighbors().len(), 6);
    }

    fn route(exits: &[u8]) -> DirectedRoute {
        let exits: Vec<PortNum> = exits.iter().map(|&exit| PortNum(exit)).collect();
        DirectedRoute::new(&exits).expect("a route")
    }

    #[test]
    fn other_keys_are_few_and_ordered() {
        let held = (1..=9).map(|guid| (Guid(guid), if guid < 7 { OLD } else { MKey(guid) }));
        let keys = MKeys::new(&options(NEW, true), held.collect(), Neighbors::new());
        assert_eq!(keys.others(), [NEW, OLD, MKey(7)]);
        assert_eq!(keys.candidates(Guid(8)), [MKey(8), NEW, OLD, MKey(7)]);
        assert_eq!(keys.candidates(Guid(99)), [NEW, OLD, MKey(7)]);
        assert_eq!(MKeys::default().candidates(Guid(1)), [MKey::NONE]);
        assert!(!MKeys::default().is_in_use());
    }

    #[test]
    fn the_file_has_the_keys_of_absent_ports_and_the_ports_without_a_key() {
        let fabric = fabric();
        let held = Guid2MKey::from([(Guid(0x99), OLD)]);
        let mut keys = MKeys::new(&options(NEW, true), held, Neighbors::new());
        keys.learn(&fabric);
        let none = MKey::NONE;
        let expected = [(HOSTS[0], none), (HOSTS[1], none), (SWITCH, none), (Guid(0x99), OLD)];
        assert_eq!(keys.stored_keys(Some(&fabric)), Guid2MKey::from(expected));
        assert_eq!(keys.stored_keys(None), Guid2MKey::from([(Guid(0x99), OLD)]));
        assert!(!format!("{keys:?}").contains("10"), "{keys:?}");
    }
}
