//! MTU and rate of a path are those of the links that the tables lead over, whether the responder
//! follows the tables or relies on the verification of the plan.

use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use testkit::dimension_order::with_lfts;
use testkit::sa_client::request;
use testkit::snapshot::{published, torus};
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Gid, Guid, PortNum, Sl};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::Address;
use torus_sm::verify::walk::{WalkEnd, walk};
use torus_sm::verify::{Checks, verify};
use torus_sm::wire::attr::tables::LFT_NO_PATH;
use torus_sm::wire::attr::{LinkWidth, NodeKind, PortInfo};
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::record::PathRecord;
use torus_sm::wire::sa::SaAttr;

/// The part of the fabric that differs from the rest.
#[derive(Clone, Copy, Debug)]
enum Odd {
    Nothing,
    /// A link with a lower rate.
    Cable(usize),
    /// A port with a smaller MTU.
    Port(usize),
    /// All links between switches have a lower rate.
    Backbone,
    /// All other links have a lower rate.
    Edge,
}

fn odd() -> impl Strategy<Value = Odd> {
    prop_oneof![
        Just(Odd::Nothing),
        any::<usize>().prop_map(Odd::Cable),
        any::<usize>().prop_map(Odd::Port),
        Just(Odd::Backbone),
        Just(Odd::Edge),
    ]
}

/// Replaces the last host by a switch with a host, which torus-2QoS leaves out.
fn add_outsiders(topology: &mut Topology) {
    let last = topology.nodes.len() - 1;
    let host = topology.nodes[last].clone();
    let guid = Guid(host.guid.0 | 1 << 48);
    topology.nodes.push(TopologyNode { guid, system_guid: guid, port_guids: Vec::new(), ..host });
    let switch = &mut topology.nodes[last];
    (switch.kind, switch.num_ports) = (NodeKind::Switch, 2);
    switch.port_guids.clear();
    topology.cables.push([(last, PortNum(2)), (last + 1, PortNum(1))]);
}

/// A torus without some links, if it can be routed.
fn damaged(shape: &Shape, lmc: u8, lost: &[usize], outsiders: bool, odd: Odd) -> Option<Subnet> {
    let mut topology = shape.build().expect("the shape fits a fabric");
    if outsiders {
        add_outsiders(&mut topology);
    }
    for cable in lost {
        topology.cables.swap_remove(cable % topology.cables.len());
    }
    let mut fabric = Fabric::from_topology(&topology, 0, &SyntheticView::default())?;
    if fabric.nodes().len() == 1 {
        // The subnet manager's own node has lost its last link.
        return None;
    }
    fabric.acknowledge(&oddities(&fabric, odd), &[]);
    let options = Options { qos: true, lmc, ..Options::default() };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    published(fabric, options, &config, &partitions)
}

/// PortInfos of the ports that `odd` changes.
fn oddities(fabric: &Fabric, odd: Odd) -> Vec<(PortId, PortInfo)> {
    let ports = || fabric.port_ids().filter(|&port| fabric.port(port).info().is_some());
    let cabled = || ports().filter_map(|port| Some((port, fabric.port(port).peer?)));
    let is_backbone =
        |(a, b): (PortId, PortId)| [a, b].into_iter().all(|port| fabric.node_of(port).is_switch());
    let chosen: Vec<PortId> = match odd {
        Odd::Nothing => Vec::new(),
        Odd::Cable(number) => {
            let cable = cabled().nth(number % cabled().count()).expect("there are cables");
            vec![cable.0, cable.1]
        }
        Odd::Port(number) => ports().nth(number % ports().count()).into_iter().collect(),
        Odd::Backbone => cabled().filter(|&ends| is_backbone(ends)).map(|(port, _)| port).collect(),
        Odd::Edge => cabled().filter(|&ends| !is_backbone(ends)).map(|(port, _)| port).collect(),
    };
    let changed = |port: PortId| {
        let mut info = fabric.port(port).info()?;
        match odd {
            Odd::Port(_) => info.set_mtu_cap(2),
            _ => info.set_link_width_active(LinkWidth::X1),
        }
        Some((port, info))
    };
    chosen.into_iter().filter_map(changed).collect()
}

/// The reply to a query for all paths from a port.
fn paths_from(subnet: &Subnet, port: PortId) -> Vec<u8> {
    let lid = |port| subnet.plan.lids.base(port);
    let asker = Address::gsi(lid(subnet.fabric.local()).expect("a LID"), Sl(0));
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(subnet.options.subnet_prefix, subnet.fabric.port(port).guid));
    let mad: Mad = request(SaAttr::PATH_RECORD, Method::GET_TABLE, PathRecord::SGID, &wanted);
    let reply = Responder::default().handle(subnet, &asker, &mad.0, Instant::now());
    reply.expect("a reply").mad
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn paths_are_the_same_with_and_without_following_the_tables(
        shape in prop_oneof![Just([4, 4, 1]), Just([3, 3, 3]), Just([5, 3, 2])],
        hosts in 1u8..=2,
        lmc in 0u8..=1,
        lost in prop::collection::vec(any::<usize>(), 0..=3),
        outsiders: bool,
        odd in odd(),
    ) {
        let shape = Shape { hosts, ..Shape::torus(shape) };
        let checked = damaged(&shape, lmc, &lost, outsiders, odd);
        prop_assume!(checked.is_some());
        let checked = checked.expect("it routes");
        prop_assert!(checked.summary.lids > 0);
        // The outsiders' link may be among the lost ones.
        let are_seen = outsiders && lost.is_empty();
        prop_assert!(!are_seen || !checked.summary.left_out.is_empty());
        // Without verification the responder follows every path.
        let unchecked = Subnet { summary: Arc::default(), ..checked.clone() };
        for port in checked.fabric.end_ports() {
            let [with, without] = [&checked, &unchecked].map(|subnet| paths_from(subnet, port));
            prop_assert!(with == without, "paths of {}", checked.fabric.describe(port));
        }
    }
}

#[test]
fn verified_paths_are_not_followed_again() {
    let checked = torus([3, 3, 1], 1);
    // Each switch with an entry is believed to deliver.
    let plan = with_lfts((*checked.plan).clone(), |tables| {
        let entries = tables.iter_mut().flatten();
        entries.filter(|entry| **entry != LFT_NO_PATH).for_each(|entry| *entry = 1);
    });
    let plan = Arc::new(plan);
    let from = checked.fabric.end_ports().last().expect("a port");
    let untold = Subnet { plan: plan.clone(), summary: Arc::default(), ..checked.clone() };
    let emptied = Subnet { plan, ..checked.clone() };
    assert_eq!(paths_from(&emptied, from), paths_from(&checked, from));
    assert_ne!(paths_from(&untold, from), paths_from(&checked, from));
}

/// True if a query for a path gets a record.
fn has_path(subnet: &Subnet, from: PortId, to: PortId) -> bool {
    let lid = |port| subnet.plan.lids.base(port).expect("a LID");
    let asker = Address::gsi(lid(subnet.fabric.local()), Sl(0));
    let mut wanted = PathRecord::default();
    wanted.set_slid(lid(from));
    wanted.set_dlid(lid(to));
    let mask = PathRecord::SLID | PathRecord::DLID;
    let mad: Mad = request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted);
    let reply = Responder::default().handle(subnet, &asker, &mad.0, Instant::now());
    let status = u16::from_be_bytes(reply.expect("a reply").mad[4..6].try_into().expect("2 bytes"));
    assert!([0, NO_RECORDS].contains(&status), "{status:#x}");
    status == 0
}

/// ERR_NO_RECORDS, as the status of a MAD.
const NO_RECORDS: u16 = 0x0300;

#[test]
fn only_routes_in_the_tables_have_records() {
    let whole = torus([3, 3, 1], 2);
    let ports: Vec<PortId> = whole.fabric.end_ports().collect();
    let lid = |port: PortId| whole.plan.lids.base(port).expect("a LID").index();
    // A hole at a source, one at the destination's own switch, one in the middle, for a host and for
    // a switch; and a switch without any entry, whose end ports send nothing.
    let host = ports.len() - 1;
    let switch =
        ports.iter().position(|&port| whole.fabric.node_of(port).is_switch()).expect("a switch");
    let mut holes: Vec<Vec<(usize, usize)>> = Vec::new();
    for at in 0..9 {
        for to in [ports[host], ports[switch]] {
            holes.push(vec![(at, lid(to))]);
        }
        holes.push(ports.iter().map(|&to| (at, lid(to))).collect());
    }
    let mut lost = 0;
    for holes in holes {
        let plan = with_lfts((*whole.plan).clone(), |tables| {
            holes.iter().for_each(|&(at, lid)| tables[at][lid] = LFT_NO_PATH);
        });
        let verified = verify(&whole.fabric, plan, &Checks::new(true)).expect("a warning");
        let summary = Arc::new(verified.summary().clone());
        let subnet = Subnet { plan: verified.plan().clone(), summary, ..whole.clone() };
        for &from in &ports {
            for &to in &ports {
                let base = subnet.plan.lids.base(to).expect("a LID");
                let arrives = match subnet.fabric.node_of(from).switch {
                    // As by OpenSM, a switch reaches itself by its table as well.
                    Some(switch) if from == to => {
                        subnet.plan.routing.lft(switch).out(base).is_some()
                    }
                    _ => {
                        let walked = walk(&subnet.fabric, &subnet.plan, from, base);
                        walked.end == WalkEnd::Delivered
                    }
                };
                let pair = [from, to].map(|port| subnet.fabric.describe(port));
                assert_eq!(has_path(&subnet, from, to), arrives, "{pair:?}");
                lost += usize::from(!arrives);
            }
        }
    }
    assert!(lost > 100, "{lost}");
}
