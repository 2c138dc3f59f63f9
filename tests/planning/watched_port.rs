//! A port that checks all devices after every Set.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use testkit::SimCluster;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Lid, PortNum};
use torus_sm::sim::SimFabric;
use torus_sm::transport::{MadPort, Outgoing, PortIdentity, SendError};
use torus_sm::wire::attr::tables::LFT_NO_PATH;
use torus_sm::wire::attr::{AttrId, NodeKind, PortState};
use torus_sm::wire::mad::{Header, Method};

/// The checks of a fabric.
pub(crate) struct ConnectivityWatch {
    fabric: SimFabric,
    topology: Topology,
    /// Hosts with their LIDs.
    hosts: Vec<(Guid, Lid)>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Pairs that must stay connected.
    pairs: Vec<(Guid, Lid)>,
    /// Number of Sets of forwarding tables.
    sets: usize,
    faults: Vec<String>,
}

/// Checks that follow a Set.
pub(crate) trait SetWatch: Send + Sync {
    /// Checks all devices after a Set of this attribute.
    fn look(&self, attr_id: u16);
}

/// A port whose Sets are followed by the checks of `watch`.
pub(crate) struct WatchedPort<W> {
    inner: Arc<dyn MadPort>,
    watch: Arc<Mutex<Option<Arc<W>>>>,
}

impl<W: SetWatch> WatchedPort<W> {
    /// A port that checks as soon as there is a watch.
    pub(crate) fn new(inner: Arc<dyn MadPort>, watch: Arc<Mutex<Option<Arc<W>>>>) -> Self {
        Self { inner, watch }
    }
}

impl<W: SetWatch> MadPort for WatchedPort<W> {
    fn identity(&self) -> &PortIdentity {
        self.inner.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let posted = self.inner.post(out);
        let header = Header::read(out.mad);
        let watch = self.watch.lock().expect("no panic").clone();
        if let Some(watch) = watch.filter(|_| Method(header.method()) == Method::SET) {
            watch.look(header.attr_id());
        }
        posted
    }
}

impl ConnectivityWatch {
    /// Checks for a fabric that is up.
    pub(crate) fn new(cluster: &SimCluster) -> Arc<Self> {
        let topology = cluster.topology.clone();
        let hosts = topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
        let lid = |guid| cluster.fabric.port_info(guid, PortNum(1)).expect("a port").lid();
        let hosts = hosts.map(|node| (node.guid, lid(node.guid))).collect();
        Arc::new(Self { fabric: cluster.fabric.clone(), topology, hosts, seen: Mutex::default() })
    }

    /// From now on all connected pairs must stay connected.
    pub(crate) fn begin(&self) {
        let pairs = self.hosts.iter().flat_map(|&(from, _)| {
            self.hosts.iter().filter(move |(to, _)| *to != from).map(move |&(_, lid)| (from, lid))
        });
        let joined = pairs.filter(|&(from, lid)| self.reaches(from, lid)).collect();
        *self.seen.lock().expect("no panic") = Seen { pairs: joined, ..Seen::default() };
    }

    /// Number of connected pairs, Sets of forwarding tables since [`Self::begin`], and faults.
    pub(crate) fn end(&self) -> (usize, usize, Vec<String>) {
        let seen = std::mem::take(&mut *self.seen.lock().expect("no panic"));
        (seen.pairs.len(), seen.sets, seen.faults)
    }

    fn reaches(&self, from: Guid, lid: Lid) -> bool {
        self.fabric.reaches(from, PortNum(1), lid, true)
    }

    /// The LIDs whose packets circle.
    fn circles(&self) -> Vec<String> {
        let is_switch = |node: usize| self.topology.nodes[node].kind == NodeKind::Switch;
        let guid = |node: usize| self.topology.nodes[node].guid;
        let is_up = |&(node, num): &(usize, PortNum)| {
            let info = self.fabric.port_info(guid(node), num).expect("a port");
            info.port_state() == PortState::Active
        };
        let mut behind = BTreeMap::new();
        for ends in self.topology.cables.iter().filter(|ends| ends.iter().all(is_up)) {
            behind.extend([(ends[0], ends[1].0), (ends[1], ends[0].0)]);
        }
        let switches: Vec<usize> =
            (0..self.topology.nodes.len()).filter(|&node| is_switch(node)).collect();
        let tables: BTreeMap<usize, Vec<u8>> = switches
            .iter()
            .map(|&node| (node, self.fabric.lft(guid(node)).expect("a table")))
            .collect();
        let circles = |lid: Lid, mut at: usize| {
            for _ in 0..=switches.len() {
                let entry = tables.get(&at).and_then(|table| table.get(lid.index()));
                let Some(&num) = entry.filter(|num| ![0, LFT_NO_PATH].contains(num)) else {
                    return false;
                };
                let Some(&next) = behind.get(&(at, PortNum(num))) else { return false };
                at = next;
            }
            true
        };
        let lids = self.hosts.iter().map(|&(_, lid)| lid);
        let pairs = lids.flat_map(|lid| switches.iter().map(move |&at| (lid, at)));
        let circling = pairs.filter(|&(lid, at)| circles(lid, at));
        circling.map(|(lid, at)| format!("LID {lid} circles from {}", guid(at))).collect()
    }
}

impl SetWatch for ConnectivityWatch {
    fn look(&self, attr_id: u16) {
        let mut seen = self.seen.lock().expect("no panic");
        seen.sets += usize::from(attr_id == AttrId::LINEAR_FT);
        let parted = seen.pairs.iter().filter(|&&(from, lid)| !self.reaches(from, lid));
        let mut faults: Vec<String> =
            parted.map(|(from, lid)| format!("{from} does not reach LID {lid}")).collect();
        faults.extend(self.circles());
        let sets = seen.sets;
        seen.faults.extend(faults.iter().map(|fault| format!("LFT {sets}: {fault}")));
    }
}
