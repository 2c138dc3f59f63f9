//! The guarantees of torus-2QoS: the worked examples of its behaviour, and properties that hold for
//! any torus.

mod rejections;
mod remedies;
mod seeds;

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::fabric::{Fabric, PortId, SwitchId};
use torus_sm::ids::{Guid, Lid, Mlid, PortNum, Sl};
use torus_sm::notes::{Note, Severity};
use torus_sm::plan::LidTable;
use torus_sm::plan::routing::torus::{Coordinates, Torus, Torus2Qos};
use torus_sm::plan::routing::{Engine, Routing, RoutingError, RoutingInput};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// A fabric with LIDs, ready to be routed.
struct Subnet {
    fabric: Fabric,
    lids: LidTable,
}

impl Subnet {
    fn new(topology: &Topology, lmc: u8) -> Self {
        let is_cabled = |node: usize| topology.cables.iter().flatten().any(|end| end.0 == node);
        let local = (0..topology.nodes.len()).find(|&node| is_cabled(node)).unwrap();
        let fabric = Fabric::from_topology(topology, local, &SyntheticView::default()).unwrap();
        let mut lids = LidTable::new(fabric.ports().len());
        let mut next = 1u16 << lmc;
        for port in fabric.end_ports() {
            let own = if fabric.node_of(port).is_switch() { 0 } else { lmc };
            lids.assign(port, Lid(next), own);
            next += 1 << lmc;
        }
        Self { fabric, lids }
    }

    fn of(shape: &Shape) -> Self {
        Self::new(&shape.build().unwrap(), 0)
    }

    fn route_after(
        &self,
        config: &str,
        previous: Option<&Routing>,
    ) -> Result<Routing, RoutingError> {
        // These tests are about torus-2QoS itself, and its refusals.
        let options = Options { qos: true, torus_repair: false, ..Options::default() };
        let torus_config = TorusConfig::parse(Path::new("torus-2QoS.conf"), config);
        Torus2Qos.route(&RoutingInput {
            fabric: &self.fabric,
            lids: &self.lids,
            options: &options,
            torus_config: &torus_config,
            previous,
            previous_fabric: None,
        })
    }

    fn route(&self, config: &str) -> Result<Routing, RoutingError> {
        self.route_after(config, None)
    }

    fn switch(&self, guid: Guid) -> SwitchId {
        self.fabric.node(self.fabric.node_by_guid(guid).unwrap()).switch.unwrap()
    }

    /// Number of switches on the path from a switch to an end port; `None` if the packet is lost.
    fn walk(&self, routing: &Routing, from: SwitchId, to: PortId) -> Option<Vec<SwitchId>> {
        let lid = self.lids.base(to)?;
        let mut at = from;
        let mut path = vec![from];
        loop {
            let out = routing.lft(at).out(lid)?;
            let port = self.fabric.switch_port(at, PortNum(out))?;
            if port == to {
                return Some(path);
            }
            let peer = self.fabric.port(port).peer?;
            if peer == to {
                return Some(path);
            }
            at = self.fabric.node_of(peer).switch?;
            path.push(at);
            if path.len() > 64 {
                return None;
            }
        }
    }
}

fn text(coordinates: Coordinates) -> String {
    coordinates.0.iter().map(ToString::to_string).collect()
}

fn codes(notes: &[Note]) -> Vec<&'static str> {
    notes.iter().filter_map(|note| note.code).collect()
}

fn placement(shape: &Shape) -> String {
    let routing = Subnet::of(shape).route(&shape.torus_conf()).unwrap();
    let order = Torus::of(&routing).unwrap().placement_order();
    order.map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn switches_are_placed_in_order() {
    assert_eq!(placement(&Shape::torus([3, 3, 1])), "000 100 010 110 200 210 020 120 220");
    assert_eq!(
        placement(&Shape::torus([3, 3, 3])),
        "000 100 010 001 110 101 011 111 211 210 200 201 121 120 020 021 220 221 112 102 002 012 \
         202 212 022 122 222"
    );
}

#[test]
fn parallel_cables_are_shared_out_by_placement_and_port_order() {
    let shape = Shape { hosts: 4, parallel: 3, ..Shape::torus([5, 3, 1]) };
    let subnet = Subnet::of(&shape);
    let config = format!("{}port_order 22 20 19 21\n", shape.torus_conf());
    let routing = subnet.route(&config).unwrap();
    let source = routing.lft(subnet.switch(shape.switch_guid([0, 0, 0])));
    let rows = [
        ([1, 0, 0], [1, 2, 3, 1, 1]),
        ([1, 1, 0], [2, 3, 1, 2, 2]),
        ([2, 0, 0], [3, 1, 2, 3, 3]),
        ([2, 1, 0], [1, 2, 3, 1, 1]),
        ([1, 2, 0], [2, 3, 1, 2, 2]),
    ];
    for (at, outputs) in rows {
        let switch = subnet.switch(shape.switch_guid(at));
        let port = |num| subnet.fabric.switch_port(switch, PortNum(num)).unwrap();
        let hosts = [22, 20, 19, 21].map(|num| subnet.fabric.port(port(num)).peer.unwrap());
        for (end, output) in hosts.into_iter().chain([port(0)]).zip(outputs) {
            assert_eq!(source.out(subnet.lids.base(end).unwrap()), Some(output), "{at:?}");
        }
    }
}

#[test]
fn packets_turn_early_around_a_missing_switch() {
    let shape = Shape { missing_switches: vec![[2, 1, 1]], ..Shape::torus([4, 4, 3]) };
    let subnet = Subnet::of(&shape);
    let routing = subnet.route(&shape.torus_conf()).unwrap();
    let torus = Torus::of(&routing).unwrap();
    for (from, to, path) in [
        ([0, 1, 1], [2, 2, 1], "011 111 121 221"),
        ([0, 1, 1], [2, 1, 2], "011 111 112 212"),
        ([0, 1, 1], [2, 3, 1], "011 111 121 221 231"),
        ([3, 1, 1], [1, 1, 1], "311 011 111"),
        ([2, 0, 1], [2, 2, 1], "201 231 221"),
    ] {
        let from = Coordinates(from);
        let to = Coordinates(to);
        let switch = torus.switch_at(to).unwrap();
        let port = subnet.fabric.switch(switch).first_port;
        let walked = subnet.walk(&routing, torus.switch_at(from).unwrap(), port).unwrap();
        let walked: Vec<_> =
            walked.into_iter().map(|switch| text(torus.coordinates(switch).unwrap())).collect();
        assert_eq!(walked.join(" "), path);
        let source = subnet.fabric.switch(torus.switch_at(from).unwrap()).first_port;
        assert_eq!(routing.policy.path_sl(source, port, Sl(0)), Sl(0));
    }
    assert_eq!(torus.root().0, [2, 2, 0]);
}

#[test]
fn multicast_root_is_next_to_the_centre() {
    let root = |shape: &Shape| {
        let routing = Subnet::of(shape).route(&shape.torus_conf()).unwrap();
        Torus::of(&routing).unwrap().root().0
    };
    assert_eq!(root(&Shape::torus([6, 5, 1])), [3, 2, 0]);
    assert_eq!(root(&Shape::torus([3, 3, 3])), [1, 1, 1]);
    let shape = Shape { missing_switches: vec![[3, 2, 0]], ..Shape::torus([6, 5, 1]) };
    assert_eq!(root(&shape), [2, 1, 0]);
}

#[test]
fn a_missing_multicast_root_is_rejected_with_a_reason() {
    let missing_switches = (0..5).map(|z| [2, 0, z]).collect();
    let shape = Shape { missing_switches, ..Shape::torus([5, 1, 5]) };
    let refusal = Subnet::of(&shape).route(&shape.torus_conf()).unwrap_err();
    let error = refusal.notes.iter().find(|note| note.code == Some("4E43")).unwrap();
    assert!(error.text.contains("no multicast tree"), "{}", error.text);
    let neighbour = shape.switch_guid([1, 0, 0]);
    let first = format!("switch 2,0,0 (missing, +x from 1,0,0 (GUID {neighbour} \"sw 1,0,0\"))");
    assert!(error.text.contains(&format!("missing: {first}, switch 2,0,1 (")), "{}", error.text);
    // Rings and holes do not prevent routing here. One switch alone would complete a plane, but no
    // face by which it could be placed, so two repairs are needed.
    let advice = &refusal.notes.last().unwrap().text;
    let start = format!("repair first, in this order: (1) {first}, (2) switch 2,0,1 (");
    assert!(advice.starts_with(&start) && !advice.contains("(3)"), "{advice}");
}

#[test]
fn groups_without_multicast_tables_are_cut_off() {
    let shape = Shape::torus([3, 3, 1]);
    let mut view = SyntheticView::default();
    view.hardware.multicast_fdb_cap = 0;
    let topology = shape.build().unwrap();
    let fabric = Fabric::from_topology(&topology, 0, &view).unwrap();
    let lids = LidTable::new(fabric.ports().len());
    let subnet = Subnet { fabric, lids };
    let routing = subnet.route(&shape.torus_conf()).unwrap();
    let member = subnet.fabric.port_by_guid(Guid(shape.host_guid([0, 0, 0], 0).0 + 1)).unwrap();
    let tree = routing.policy.multicast_tree(Mlid(0xC000), &[member]).unwrap();
    assert!(tree.switches.is_empty());
    assert_eq!(codes(&tree.notes), ["4E3F"]);
}

#[test]
fn a_rejected_torus_is_dumped() {
    let shape = Shape::torus([5, 5, 1]);
    let missing_links = vec![([0, 2, 0], 0), ([3, 2, 0], 0)];
    let broken = Shape { missing_links, ..shape.clone() };
    let healthy = Subnet::of(&shape);
    let routing = healthy.route(&shape.torus_conf()).unwrap();
    let refusal = Subnet::of(&broken).route(&shape.torus_conf()).unwrap_err();
    let dump = refusal.dump.unwrap();
    assert_eq!(dump.file, "opensm-torus.dump");
    assert_eq!(dump.text, Torus::of(&routing).unwrap().dump(&healthy.fabric));
    let nothing_built = Subnet::of(&broken).route("torus 5 5 1\n").unwrap_err();
    assert_eq!(nothing_built.dump, None);
}

#[test]
fn dump_has_a_line_for_each_switch() {
    let shape = Shape::torus([3, 2, 1]);
    let subnet = Subnet::of(&shape);
    let routing = subnet.route(&shape.torus_conf()).unwrap();
    let dump = Torus::of(&routing).unwrap().dump(&subnet.fabric);
    assert_eq!(dump.lines().next(), Some("switch 0,0,0 GUID 0x200000 (sw 0,0,0)"));
    assert_eq!(dump.lines().nth(1), Some("switch 1,0,0 GUID 0x200002 (sw 1,0,0)"));
    assert_eq!(dump.lines().count(), 6);
}

/// Shapes of up to 60 switches that can be seeded at the origin.
fn shapes() -> impl Strategy<Value = Shape> {
    let radix = (2..=6u16, 2..=5u16, 1..=3u16);
    (radix, any::<[bool; 3]>(), 0..=2u8, 1..=3u8, any::<bool>()).prop_map(
        |((x, y, z), looped, hosts, parallel, router)| Shape {
            looped,
            hosts: hosts.max(1),
            parallel,
            router,
            ..Shape::torus([x, y, z])
        },
    )
}

/// The same links under other GUIDs, with other port numbers.
fn relabel(topology: &Topology, factor: u64, shift: u8) -> (Topology, BTreeMap<Guid, Guid>) {
    let mut other = topology.clone();
    let mut names = BTreeMap::new();
    for node in &mut other.nodes {
        let old = node.guid;
        node.guid = Guid((old.0 ^ factor).reverse_bits() >> 8 | 1 << 60);
        names.insert(old, node.guid);
    }
    for end in other.cables.iter_mut().flatten() {
        let ports = u16::from(topology.nodes[end.0].num_ports);
        let num = (u16::from(end.1.0) - 1 + u16::from(shift)) % ports + 1;
        if topology.nodes[end.0].kind == NodeKind::Switch {
            end.1 = PortNum(num as u8);
        }
    }
    (other, names)
}

fn renamed(config: &str, names: &BTreeMap<Guid, Guid>) -> String {
    let word = |word: &str| match word.strip_prefix("0x") {
        Some(hex) => format!("{:#x}", names[&Guid(u64::from_str_radix(hex, 16).unwrap())].0),
        None => word.to_owned(),
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    config.lines().map(|text| line(text) + "\n").collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn all_end_ports_reach_each_other(shape in shapes(), lmc in 0..=2u8) {
        let subnet = Subnet::new(&shape.build().unwrap(), lmc);
        let routing = subnet.route(&shape.torus_conf()).unwrap();
        for switch in subnet.fabric.switch_ids() {
            for port in subnet.fabric.end_ports() {
                prop_assert!(subnet.walk(&routing, switch, port).is_some());
                let base = subnet.lids.base(port).unwrap();
                let out = routing.lft(switch).out(base);
                for offset in 0..1 << subnet.lids.lmc(port) {
                    prop_assert_eq!(routing.lft(switch).out(Lid(base.0 + offset)), out);
                }
            }
        }
    }

    #[test]
    fn names_and_port_numbers_do_not_matter(shape in shapes(), factor in 0..1u64 << 40, shift in 0..9u8) {
        let topology = shape.build().unwrap();
        let (other, names) = relabel(&topology, factor, shift);
        let first = Subnet::new(&topology, 0);
        let second = Subnet::new(&other, 0);
        let one = first.route(&shape.torus_conf()).unwrap();
        let two = second.route(&renamed(&shape.torus_conf(), &names)).unwrap();
        let torus = Torus::of(&one).unwrap();
        let renamed = Torus::of(&two).unwrap();
        for (coordinates, switch) in torus.switches() {
            let guid = names[&first.fabric.switch(switch).guid()];
            prop_assert_eq!(renamed.coordinates(second.switch(guid)), Some(coordinates));
        }
        prop_assert!(torus.placement_order().eq(renamed.placement_order()));
    }

    #[test]
    fn threads_do_not_matter(shape in shapes()) {
        let subnet = Subnet::of(&shape);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = pool.install(|| subnet.route(&shape.torus_conf())).unwrap();
        let together = subnet.route(&shape.torus_conf()).unwrap();
        prop_assert_eq!(&alone.lfts, &together.lfts);
        prop_assert_eq!(&alone.notes, &together.notes);
    }

    #[test]
    fn group_trees_reach_all_members_once(shape in shapes(), mlid in 0xC000..0xC040u16, pick in any::<u64>()) {
        let subnet = Subnet::of(&shape);
        let routing = subnet.route(&shape.torus_conf()).unwrap();
        let members: BTreeSet<PortId> = subnet.fabric.end_ports().enumerate()
            .filter(|(index, _)| pick >> (index % 64) & 1 == 1).map(|(_, port)| port).collect();
        let list: Vec<PortId> = members.iter().copied().collect();
        let tree = routing.policy.multicast_tree(Mlid(mlid), &list).unwrap();
        prop_assert!(tree.notes.is_empty());
        let masks: BTreeMap<_, _> = tree.switches.iter().copied().collect();
        let Some(&start) = masks.keys().next() else { return Ok(()) };
        let mut delivered = BTreeSet::new();
        let mut seen = BTreeSet::from([start]);
        let mut queue = VecDeque::from([(start, None)]);
        while let Some((switch, entry)) = queue.pop_front() {
            for num in masks[&switch].iter() {
                let port = subnet.fabric.switch_port(switch, PortNum(num)).unwrap();
                let end = if num == 0 { port } else { subnet.fabric.port(port).peer.unwrap() };
                match subnet.fabric.node_of(end).switch {
                    Some(_) if Some(port) == entry => {}
                    Some(next) if num != 0 => {
                        prop_assert!(seen.insert(next), "a loop");
                        prop_assert!(masks[&next].contains(subnet.fabric.port(end).num.0));
                        queue.push_back((next, Some(end)));
                    }
                    _ => prop_assert!(delivered.insert(end), "delivered twice"),
                }
            }
        }
        prop_assert_eq!(delivered, members);
        prop_assert_eq!(seen.len(), masks.len());
    }

    #[test]
    fn sls_survive_a_lost_cable(shape in shapes(), at in any::<[u16; 3]>(), axis in 0..3usize) {
        let at: [u16; 3] = std::array::from_fn(|axis| at[axis] % shape.radix[axis]);
        let broken = Shape { missing_links: vec![(at, axis)], ..shape.clone() };
        let whole = Subnet::of(&shape);
        let hurt = Subnet::of(&broken);
        let before = whole.route(&shape.torus_conf()).unwrap();
        let Ok(after) = hurt.route(&shape.torus_conf()) else {
            prop_assert!(!shape.looped[axis] || shape.radix[axis] <= 4);
            return Ok(());
        };
        prop_assert_eq!(whole.fabric.ports().len(), hurt.fabric.ports().len());
        // In a mesh a corner may be left out when it has lost a link.
        let torus = Torus::of(&after).unwrap();
        let is_placed = |&port: &PortId| {
            let switch = hurt.fabric.switch_behind(port);
            switch.is_some_and(|switch| torus.coordinates(switch).is_some())
        };
        let ports: Vec<PortId> = hurt.fabric.end_ports().filter(is_placed).collect();
        for &from in &ports {
            for &to in &ports {
                let sl = before.policy.path_sl(from, to, Sl(8));
                prop_assert_eq!(after.policy.path_sl(from, to, Sl(8)), sl);
            }
        }
    }
}
