use super::*;
use crate::config::options::Options;
use crate::fabric::SwitchId;
use crate::fabric::synthetic::SyntheticView;
use crate::fabric::topology::Topology;
use crate::ids::{Guid, Mlid, PortNum, Sl};
use crate::plan::lids::{self, Memory};
use crate::plan::routing::minhop::MinHop;
use crate::plan::routing::{Engine, MulticastTree, PortMask, RoutingInput, RoutingPolicy};
use crate::plan::tests::ring;

const SWITCHES: usize = 4;

/// Indexes of cables in the topology: that of the host at a switch, and that to the next switch.
const fn host_cable(switch: usize) -> usize {
    2 * switch
}

const fn link(switch: usize) -> usize {
    2 * switch + 1
}

/// The port GUID of the host at a switch.
fn host_guid(switch: usize) -> Guid {
    Guid(0x10_0001 + 16 * switch as u64)
}

/// A ring of switches with a host each, without some cables; hosts without a cable are not found.
fn fabric(without: &[usize]) -> Arc<Fabric> {
    fabric_of(&Topology { cables: cables(without), ..ring(SWITCHES, &[]) })
}

fn cables(without: &[usize]) -> Vec<[(usize, PortNum); 2]> {
    let all = ring(SWITCHES, &[]).cables.into_iter().enumerate();
    all.filter(|(index, _)| !without.contains(index)).map(|(_, cable)| cable).collect()
}

fn fabric_of(topology: &Topology) -> Arc<Fabric> {
    Arc::new(Fabric::from_topology(topology, 0, &SyntheticView::default()).expect("a fabric"))
}

fn host(fabric: &Fabric, switch: usize) -> PortId {
    fabric.port_by_guid(host_guid(switch)).expect("a host")
}

struct RoutedRing {
    fabric: Arc<Fabric>,
    lids: LidTable,
    memory: Memory,
    routing: Arc<Routing>,
}

impl RoutedRing {
    fn new(fabric: Arc<Fabric>) -> Self {
        let options = Options::default();
        let (lids, memory, _) = lids::assign(&fabric, &options, &Memory::default());
        let input = RoutingInput {
            fabric: &fabric,
            lids: &lids,
            options: &options,
            torus_config: &Err(Vec::new()),
            previous: None,
            previous_fabric: None,
        };
        let routing = MinHop::default().route(&input).expect("routes");
        Self { fabric, lids, memory, routing: Arc::new(routing) }
    }

    fn with_policy(mut self, policy: impl RoutingPolicy + 'static) -> Self {
        self.routing = Arc::new(Routing { policy: Arc::new(policy), ..(*self.routing).clone() });
        self
    }

    fn keep(&self, present: &Fabric) -> (LidTable, Routing) {
        let memory = self.memory.keeping(&self.fabric, &self.lids);
        let (lids, ..) = lids::assign(present, &Options::default(), &memory);
        let Self { fabric, lids: before, routing, .. } = self;
        let routing = keep(present, &lids, &RoutedFabric { fabric, lids: before, routing });
        (lids, routing)
    }
}

#[test]
fn entries_stay_and_new_hosts_have_none() {
    let routed = RoutedRing::new(fabric(&[host_cable(1)]));
    let present = fabric(&[link(2)]);
    let (lids, kept) = routed.keep(&present);
    for switch in present.switch_ids() {
        for (lid, _) in routed.lids.iter() {
            let before = routed.routing.lft(switch).out(lid);
            assert_eq!(kept.lft(switch).out(lid), before, "LID {lid} at {switch:?}");
        }
    }
    let new = host(&present, 1);
    let lid = lids.base(new).expect("a LID");
    assert!(present.switch_ids().all(|switch| kept.lft(switch).out(lid).is_none()));
    let others = [0, 2, 3].map(|at| host(&present, at));
    assert!(others.iter().all(|&port| kept.policy.has_routes(port)));
    assert!(!kept.policy.has_routes(new));
    assert!(kept.policy.may_use_uncabled_ports(), "the entries over the lost cable stay");
}

#[test]
fn a_host_that_returns_has_its_routes_again() {
    let routed = RoutedRing::new(fabric(&[]));
    let (_, without) = routed.keep(&fabric(&[host_cable(1)]));
    assert_eq!(without.lfts.len(), SWITCHES);
    let (lids, kept) = routed.keep(&fabric(&[]));
    assert!(lids == routed.lids);
    assert!(kept.lfts.iter().zip(&routed.routing.lfts).all(|(kept, lft)| Arc::ptr_eq(kept, lft)));
}

#[test]
fn a_host_elsewhere_loses_its_routes() {
    let routed = RoutedRing::new(fabric(&[]));
    let mut topology = Topology { cables: cables(&[host_cable(1)]), ..ring(SWITCHES, &[]) };
    topology.cables.push([(2, PortNum(1)), (7, PortNum(4))]);
    let present = fabric_of(&topology);
    let (lids, kept) = routed.keep(&present);
    let moved = host(&present, 1);
    let lid = lids.base(moved).expect("a LID");
    assert_eq!(routed.lids.base(host(&routed.fabric, 1)), Some(lid), "it keeps its LID");
    assert!(present.switch_ids().all(|switch| kept.lft(switch).out(lid).is_none()));
    assert!(!kept.policy.has_routes(moved));
}

#[test]
fn known_hosts_keep_their_lids_whatever_was_assigned_since() {
    let routed = RoutedRing::new(fabric(&[host_cable(1)]));
    let first = routed.lids.base(host(&routed.fabric, 0)).expect("a LID");
    let entries = [(host_guid(1), (first, first)), (host_guid(0), (Lid(500), Lid(500)))];
    let stolen = Memory::new(entries.into_iter().collect());
    let memory = stolen.keeping(&routed.fabric, &routed.lids);
    let present = fabric(&[]);
    let (lids, ..) = lids::assign(&present, &Options::default(), &memory);
    for old in routed.fabric.end_ports() {
        let guid = routed.fabric.port(old).guid;
        let port = present.port_by_guid(guid).expect("it is there");
        assert_eq!(lids.base(port), routed.lids.base(old), "{guid}");
    }
    assert!(lids.base(host(&present, 1)).is_some_and(|lid| lid != first));
}

/// Forwards each group from switch 0 to switch 1 by their cable and to the members there, and has
/// an SL for each pair of switches.
struct OneLink;

impl RoutingPolicy for OneLink {
    fn path_sl(&self, source: PortId, _: PortId, _: Sl) -> Sl {
        Sl(source.0 as u8 % 16)
    }

    fn multicast_tree(&self, _: Mlid, members: &[PortId]) -> Option<MulticastTree> {
        let routed = fabric(&[host_cable(1)]);
        let mut masks = [PortMask::default(); 2];
        masks[0].insert(2);
        masks[1].insert(3);
        for &member in members {
            let switch = routed.switch_behind(member)?;
            let exit = if routed.node_of(member).is_switch() {
                0
            } else {
                routed.port(routed.port(member).peer?).num.0
            };
            masks.get_mut(switch.index())?.insert(exit);
        }
        let switches = masks.into_iter().enumerate();
        let switches = switches.map(|(index, mask)| (SwitchId(index as u32), mask)).collect();
        Some(MulticastTree { switches, notes: Vec::new() })
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn trees_of_the_engine_include_new_members_while_their_cables_are_there() {
    let routed = RoutedRing::new(fabric(&[host_cable(1)])).with_policy(OneLink);
    let present = fabric(&[link(2)]);
    let members = [host(&present, 0), host(&present, 1)];
    let (_, kept) = routed.keep(&present);
    let tree = kept.policy.multicast_tree(Mlid(0xC001), &members).expect("a tree");
    let ports: Vec<Vec<u8>> = tree.switches.iter().map(|(_, mask)| mask.iter().collect()).collect();
    assert_eq!(ports, [vec![1, 2], vec![1, 3]], "port 0 stands for no member");
    let port_0 = present.switch(SwitchId(1)).first_port;
    let both = [host(&present, 0), host(&present, 1), port_0];
    let tree = kept.policy.multicast_tree(Mlid(0xC001), &both).expect("a tree");
    assert_eq!(tree.switches[1].1.iter().collect::<Vec<u8>>(), [0, 1, 3]);
    let (_, kept) = routed.keep(&fabric(&[link(0)]));
    assert_eq!(kept.policy.multicast_tree(Mlid(0xC001), &members), None, "its cable is lost");
}

#[test]
fn path_sls_are_those_of_the_routed_fabric() {
    let routed = RoutedRing::new(fabric(&[])).with_policy(OneLink);
    // The SM is at host 0; without host 1, other ids are lower than before.
    let present = fabric(&[host_cable(1), link(1)]);
    let (_, kept) = routed.keep(&present);
    for at in [0, 2] {
        let sl = kept.policy.path_sl(host(&present, at), host(&present, 3), Sl(0));
        assert_eq!(sl, Sl(host(&routed.fabric, at).0 as u8 % 16));
    }
}
