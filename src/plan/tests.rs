//! Tests of whole plans: LID assignment, and that programmed devices need no further Sets.

use super::compute::{PlanInput, Planned, Registrations, compute};
use super::lids::{self, Memory};
use super::links::{differs, switch_differs};
use super::partitions;
use super::routing::chain::{Chain, EngineRegistry};
use super::routing::{Engine, Lft, Routing, RoutingError, RoutingInput, RoutingPolicy};
use crate::config::options::Options;
use crate::config::qos_policy::QosPolicy;
use crate::config::torus::TorusConfig;
use crate::fabric::topology::{Topology, TopologyNode};
use crate::fabric::virtual_ports::tests::vport;
use crate::fabric::virtual_ports::{VirtualPort, VirtualPorts, VirtualizedPort};
use crate::fabric::{Fabric, NodeParts};
use crate::fabric::{synthetic::Hardware, synthetic::SyntheticView};
use crate::ids::{Guid, Lid, PortNum};
use crate::notes::Note;
use crate::wire::attr::tables::PkeyTable;
use crate::wire::attr::{NodeKind, PortInfo, PortState};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A ring of `switches` switches with two cables each and one host per switch.
pub(crate) fn ring(switches: usize, lids: &[(u16, u8)]) -> Topology {
    let mut topology = Topology::default();
    for i in 0..switches {
        topology.nodes.push(node(lids, NodeKind::Ca, 0x10_0000 + 16 * i as u64, 1, 2 * i));
        topology.nodes.push(node(lids, NodeKind::Switch, 0x20_0000 + i as u64, 4, 2 * i + 1));
    }
    for i in 0..switches {
        topology.cables.push([(2 * i, PortNum(1)), (2 * i + 1, PortNum(1))]);
        let next = (i + 1) % switches;
        topology.cables.push([(2 * i + 1, PortNum(2)), (2 * next + 1, PortNum(3))]);
    }
    topology
}

fn node(
    lids: &[(u16, u8)],
    kind: NodeKind,
    guid: u64,
    num_ports: u8,
    index: usize,
) -> TopologyNode {
    let num = PortNum(u8::from(kind != NodeKind::Switch));
    let lids = lids.get(index).map(|&(lid, lmc)| (num, lid, lmc));
    let node = TopologyNode::new(kind, Guid(guid), num_ports).described(format!("N{guid:x}"));
    TopologyNode { lids: lids.into_iter().collect(), ..node }
}

/// Gives the port of each host `count` vports, the first of which is the port itself.
pub(crate) fn with_vports(fabric: &mut Fabric, count: u16, change: impl Fn(&mut VirtualPort)) {
    let hosts = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
    let ports = hosts.map(|port| fabric.port(port).guid).map(|guid| {
        let vports = (0..count).map(|index| {
            let own = Guid(guid.0 | u64::from(index) << 48);
            let mut vport = vport(index, own, Guid(guid.0 | 0xFF << 48));
            change(&mut vport);
            vport
        });
        let top_index = count - 1;
        let port = VirtualizedPort { is_discovered: true, top_index, vports: vports.collect() };
        (guid, Arc::new(port))
    });
    let ports = VirtualPorts::new(&ports.collect(), &VirtualPorts::default()).0;
    fabric.set_virtual_ports(Arc::new(ports));
}

fn fabric(topology: &Topology, hardware: Hardware) -> Fabric {
    let view = SyntheticView { hardware, ..SyntheticView::default() };
    Fabric::from_topology(topology, 0, &view).expect("a fabric")
}

/// An engine without routes that leaves SLs, VLs and trees to the defaults.
struct DefaultRoutes;
impl RoutingPolicy for DefaultRoutes {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl Engine for DefaultRoutes {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let empty = Arc::new(Lft::empty(input.lids.max()));
        let lfts = input.fabric.switch_ids().map(|_| empty.clone()).collect();
        Ok(Routing {
            engine: self.name(),
            lfts,
            policy: Arc::new(DefaultRoutes),
            notes: Vec::new(),
            routing_errors: Vec::new(),
        })
    }
}

fn plan(fabric: &Fabric, options: &Options, memory: &Memory, pkeys: &[PkeyTable]) -> Planned {
    with_input(fabric, options, (memory, pkeys), None, |input| compute(input).expect("a plan"))
}

/// Calls `work` with the input of a plan by the engine without routes.
pub(crate) fn with_input<T>(
    fabric: &Fabric,
    options: &Options,
    (memory, pkeys): (&Memory, &[PkeyTable]),
    qos_policy: Option<&Arc<QosPolicy>>,
    work: impl FnOnce(&PlanInput<'_>) -> T,
) -> T {
    let torus_config: Result<TorusConfig, Vec<Note>> = Err(Vec::new());
    let registry = EngineRegistry::default().with(Arc::new(DefaultRoutes));
    let input = PlanInput {
        fabric,
        options,
        memory,
        torus_config: &torus_config,
        partitions: &partitions::default(options),
        observed_pkeys: pkeys,
        registrations: Registrations::default(),
        previous: None,
        reregister: &|_| false,
        chain: &Chain::parse("silent", &registry).expect("a known engine"),
        qos_policy,
    };
    work(&input)
}

/// The PortInfo that a device reports after a Set of `target`.
fn reported_after_set(observed: &PortInfo, target: &PortInfo) -> PortInfo {
    let mut info = *target;
    info.set_port_state(PortState::Active);
    info.set_phys_state(observed.phys_state());
    if info.link_width_enabled() == 255 {
        info.set_link_width_enabled(info.link_width_supported());
    }
    if info.link_speed_enabled() == 15 {
        info.set_link_speed_enabled(info.link_speed_supported());
    }
    info
}

/// The fabric after its devices were programmed with the plan.
fn programmed(old: &Fabric, plan: &super::Plan) -> Fabric {
    let parts = old.node_ids().map(|id| {
        let node = old.node(id);
        let mut switch_info = node.switch_info;
        if let Some(switch) = node.switch {
            switch_info = plan.switch_infos[switch.index()];
        }
        let ports = node
            .slots()
            .map(|slot| {
                let port = old.port(slot);
                let target = plan.ports.of(slot);
                let info = match (port.info(), target) {
                    (Some(observed), Some(target)) => Some(reported_after_set(&observed, &target)),
                    (observed, _) => observed,
                };
                (port.guid, info.map(Arc::new))
            })
            .collect();
        NodeParts {
            info: node.info,
            description: node.description,
            switch_info,
            route: node.route,
            ports,
        }
    });
    let cables: Vec<_> = old
        .port_ids()
        .filter_map(|id| old.port(id).peer.map(|peer| (old.end_of(id), old.end_of(peer))))
        .collect();
    Fabric::assemble(parts.collect(), &cables, old.end_of(old.local()), Vec::new())
        .expect("a fabric")
}

fn by_guid(fabric: &Fabric, table: &super::LidTable) -> BTreeMap<Guid, (Lid, u8)> {
    fabric
        .end_ports()
        .filter_map(|port| Some((fabric.port(port).guid, (table.base(port)?, table.lmc(port)))))
        .collect()
}

#[test]
fn a_programmed_fabric_needs_no_further_sets() {
    for enhanced_port0 in [false, true] {
        for (qos, force_link_width) in [(false, 255), (true, 2), (true, 0)] {
            let options = Options {
                qos,
                force_link_width,
                lmc: 1,
                qos_high_limit: 3,
                max_op_vls: 3,
                ..Options::default()
            };
            let old = fabric(&ring(5, &[]), Hardware { enhanced_port0, ..Hardware::default() });
            let first = plan(&old, &options, &Memory::default(), &[]);
            assert!(first.plan.notes.is_empty(), "{:?}", first.plan.notes);
            let now = programmed(&old, &first.plan);
            let planned = first.plan.partitions.blocks.iter();
            let pkeys: Vec<PkeyTable> =
                planned.map(|blocks| blocks.iter().map(|it| it.1).collect()).collect();
            let second = plan(&now, &options, &first.memory, &pkeys);
            for id in now.port_ids() {
                if let (Some(info), Some(target)) = (now.port(id).info(), second.plan.ports.of(id))
                {
                    assert!(!differs(&info, &target), "{}\n{info:?}\n{target:?}", now.describe(id));
                }
            }
            for id in now.switch_ids() {
                let target = second.plan.switch_infos[id.index()];
                assert!(!switch_differs(&now.switch(id).switch_info, &target));
            }
            assert_eq!(second.plan.partitions, first.plan.partitions);
            assert_eq!(second.plan.qos, first.plan.qos);
            assert_eq!(second.memory, first.memory);
            assert_eq!(qos, !first.plan.qos.sl_to_vl.is_empty());
        }
    }
}

#[test]
fn an_unconfigured_fabric_differs_where_opensm_writes() {
    let fabric = fabric(&ring(3, &[]), Hardware::default());
    let plan = plan(&fabric, &Options::default(), &Memory::default(), &[]).plan;
    let local = fabric.local();
    let target = plan.ports.of(local).expect("a target");
    assert!(differs(&fabric.port(local).info().expect("reached"), &target));
    assert_eq!((target.lid(), target.master_sm_lid()), (Lid(1), Lid(1)));
    assert_eq!((target.neighbor_mtu(), target.operational_vls()), (4, 4));
    assert_eq!(target.port_state(), PortState::NoChange);
    let leaf = fabric.port(local).peer.expect("cabled");
    let leaf = plan.ports.of(leaf).expect("a target");
    assert_eq!((leaf.hoq_life(), leaf.vl_stall_count()), (0x10, 7));
    assert!(leaf.partition_enforcement_in() && leaf.partition_enforcement_out());
    assert_eq!(plan.switch_infos[0].linear_fdb_top(), 6);
}

/// A switch that once answered as a router was recorded with a range of 2^LMC LIDs.
#[test]
fn a_switch_keeps_the_lid_that_it_carries_despite_a_recorded_range() {
    let topology = ring(2, &[(4, 1), (7, 0), (8, 1), (9, 0)]);
    let fabric = fabric(&topology, Hardware::default());
    let switch = Guid(0x20_0000);
    let lid_after = |other: Option<(u64, u16)>| {
        let mut guid2lid = BTreeMap::from([(switch, (Lid(340), Lid(341)))]);
        guid2lid.extend(other.map(|(guid, lid)| (Guid(guid), (Lid(lid), Lid(lid)))));
        let options = Options { lmc: 1, ..Options::default() };
        let (table, after, _) = lids::assign(&fabric, &options, &Memory::new(guid2lid));
        let lid = by_guid(&fabric, &table)[&switch].0;
        assert_eq!(after.guid2lid[&switch], (lid, lid));
        lid
    };
    assert_eq!(lid_after(None), Lid(7));
    assert_eq!(lid_after(Some((0x99, 7))), Lid(340), "LID 7 is reserved for another port");
}

#[test]
fn ports_without_a_lid_are_named() {
    let hardware = Hardware { linear_fdb_cap: 6, ..Hardware::default() };
    let fabric = fabric(&ring(3, &[]), hardware);
    let (table, _, notes) = lids::assign(&fabric, &Options::default(), &Memory::default());
    assert_eq!(by_guid(&fabric, &table).len(), 5);
    let [note] = &notes[..] else { panic!("one note: {notes:?}") };
    assert_eq!(note.code, Some("0307"));
    assert!(note.text.contains("N100020"), "{}", note.text);
}

/// The LIDs of absent ports and vports are assigned anew before a port stays without one.
#[test]
fn lids_of_absent_ports_are_the_last_to_be_used() {
    let hardware = Hardware { linear_fdb_cap: 8, ..Hardware::default() };
    let fabric = fabric(&ring(3, &[]), hardware);
    let absent = [(Guid(0x98), (Lid(1), Lid(1))), (Guid(0x99), (Lid(4), Lid(4)))];
    let memory = Memory::new(absent.into_iter().collect());
    let (table, after, notes) = lids::assign(&fabric, &Options::default(), &memory);
    assert_eq!(by_guid(&fabric, &table).len(), 6);
    let left: Vec<Guid> = absent.map(|(guid, _)| guid).into_iter().collect();
    let left: Vec<&Guid> = left.iter().filter(|guid| after.guid2lid.contains_key(*guid)).collect();
    assert_eq!(left, [&Guid(0x99)], "the LIDs above 7 do not fit into the tables");
    let [note] = &notes[..] else { panic!("one note: {notes:?}") };
    assert!(note.text.contains("1 absent port or vport"), "{}", note.text);
    let (again, same, notes) = lids::assign(&fabric, &Options::default(), &after);
    assert_eq!((again, same, notes), (table, after, vec![]));
}

#[test]
fn many_ports_without_a_lid_are_counted() {
    let hardware = Hardware { linear_fdb_cap: 6, ..Hardware::default() };
    let fabric = fabric(&ring(9, &[]), hardware);
    let (table, _, notes) = lids::assign(&fabric, &Options::default(), &Memory::default());
    assert_eq!(by_guid(&fabric, &table).len(), 5);
    let [note] = &notes[..] else { panic!("one note: {notes:?}") };
    assert!(note.text.contains("13 end ports get none"), "{}", note.text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lids_do_not_overlap_and_are_stable(
        switches in 3usize..7,
        own in prop::collection::vec((0u16..40, 0u8..3), 0..14),
        known in prop::collection::btree_map(0u64..10, (1u16..40, 0u16..5), 0..6),
        lmc in 0u8..3,
        lmc_esp0: bool,
        reassign_lids: bool,
    ) {
        let options = Options { lmc, lmc_esp0, reassign_lids, ..Options::default() };
        let guid2lid = known.into_iter().map(|(guid, (first, more))| {
            let guid = if guid < 6 { 0x20_0000 + guid } else { 0x999 + guid };
            (Guid(guid), (Lid(first), Lid(first + more)))
        });
        let memory = Memory::new(guid2lid.collect());
        let topology = ring(switches, &own);
        let hardware = Hardware { enhanced_port0: true, ..Hardware::default() };
        let fabric = fabric(&topology, hardware);
        let (table, after, notes) = lids::assign(&fabric, &options, &memory);
        prop_assert_eq!(notes, vec![]);
        let owned: usize = fabric.end_ports().map(|port| 1 << table.lmc(port)).sum();
        prop_assert_eq!(table.iter().count(), owned);
        let mut free_from = 0;
        let mut ranges: Vec<_> = after.guid2lid.values().collect();
        ranges.sort();
        for (first, last) in ranges {
            prop_assert!(first.0 > free_from && last >= first);
            free_from = last.0;
        }
        for port in fabric.end_ports() {
            let base = table.base(port).expect("a LID");
            prop_assert_eq!(base.0 % (1 << table.lmc(port)), 0);
        }
        if !reassign_lids && lmc == 0 && memory.guid2lid.is_empty() {
            // Every LID that a device carried is still in use.
            for port in fabric.end_ports() {
                if let Some(lid) = fabric.observed_lid(port) {
                    prop_assert!(table.port(lid).is_some());
                }
            }
        }
        let (again, remembered, _) = lids::assign(&fabric, &options, &after);
        prop_assert_eq!(by_guid(&fabric, &again), by_guid(&fabric, &table));
        prop_assert_eq!(remembered, after);
    }

    #[test]
    fn the_order_of_discovery_does_not_matter(
        switches in 3usize..7,
        own in prop::collection::vec((0u16..20, 0u8..1), 14),
    ) {
        let topology = ring(switches, &own);
        let mut turned = topology.clone();
        turned.nodes.reverse();
        let last = topology.nodes.len() - 1;
        for end in turned.cables.iter_mut().flatten() {
            end.0 = last - end.0;
        }
        turned.cables.reverse();
        let options = Options::default();
        let one = fabric(&topology, Hardware::default());
        let two = Fabric::from_topology(&turned, last, &SyntheticView::default()).expect("a fabric");
        let lids_of_one = lids::assign(&one, &options, &Memory::default()).0;
        let lids_of_two = lids::assign(&two, &options, &Memory::default()).0;
        prop_assert_eq!(by_guid(&one, &lids_of_one), by_guid(&two, &lids_of_two));
    }
}
