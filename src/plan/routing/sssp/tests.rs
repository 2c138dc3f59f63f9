//! Lanes and refusals of SSSP and DFSSSP. The comparison with OpenSM is in the integration tests.

use super::*;
use crate::config::options::Options;
use crate::ids::{Mlid, PortNum, Sl};
use crate::plan::LidTable;
use crate::plan::routing::MulticastTree;
use crate::plan::routing::balancing::tests::{is_acyclic, number, picture, ring, wiring};
use proptest::prelude::*;
use std::collections::HashSet;

fn route(
    engine: &dyn Engine,
    fabric: &Fabric,
    lids: &LidTable,
    max_op_vls: u8,
) -> Result<Routing, RoutingError> {
    engine.route(&RoutingInput {
        fabric,
        lids,
        options: &Options { max_op_vls, ..Options::default() },
        torus_config: &Err(Vec::new()),
        previous: None,
        previous_fabric: None,
    })
}

#[test]
fn a_ring_needs_vls() {
    let fabric = ring(6);
    let lids = number(&fabric, 0);
    let engine = DfSssp::default();
    let routing = route(&engine, &fabric, &lids, 3).expect("4 VLs are enough");
    let notes: Vec<_> = routing.notes.iter().map(|note| note.text.as_str()).collect();
    assert!(notes[0].starts_with("2 VLs are needed of 4"), "{notes:?}");
    let refusal = route(&engine, &fabric, &lids, 1).expect_err("a refusal");
    assert_eq!(
        refusal.reason().map(ToString::to_string).as_deref(),
        Some("ERR AD25: routes without credit loops need more than the 1 VL that all links have")
    );
    assert!(route(&Sssp::default(), &fabric, &lids, 1).is_ok(), "SSSP needs no VLs");
}

#[test]
fn a_ring_has_a_multicast_tree() {
    let fabric = ring(5);
    let lids = number(&fabric, 0);
    let routing = route(&Sssp::default(), &fabric, &lids, 1).expect("routes");
    let hosts: Vec<_> =
        fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect();
    let policy = &routing.policy;
    assert_eq!(policy.multicast_tree(Mlid(0xc000), &hosts[..1]), None);
    let tree = policy.multicast_tree(Mlid(0xc000), &hosts);
    let MulticastTree { switches, notes } = tree.expect("a tree");
    assert_eq!((switches.len(), notes.len()), (5, 0));
    // A host at each switch, and both ends of all links but one.
    let ports: usize = switches.iter().map(|(_, mask)| mask.iter().count()).sum();
    assert_eq!(ports, 5 + 2 * 4);
}

type Channel = (u32, u8);

/// The dependencies of all paths on an SL, as pairs of channels.
fn dependencies(
    fabric: &Fabric,
    lids: &LidTable,
    routing: &Routing,
    sl: u8,
) -> HashSet<[Channel; 2]> {
    let mut found = HashSet::new();
    for source in fabric.end_ports() {
        let Some(start) = fabric.switch_behind(source) else { continue };
        for (lid, to) in lids.iter() {
            if routing.policy.path_sl_to_lid(source, to, lid, Sl(0)) != Sl(sl) {
                continue;
            }
            let mut here = start;
            let mut last = None;
            loop {
                let out = routing.lft(here).out(lid).expect("a route");
                let port = fabric.switch_port(here, PortNum(out)).expect("a port");
                let peer = fabric.port(port).peer.filter(|_| out != 0);
                let Some(next) = peer.and_then(|peer| fabric.node_of(peer).switch) else { break };
                let channel = (here.0, out);
                found.extend(last.map(|last| [last, channel]));
                (here, last) = (next, Some(channel));
            }
        }
    }
    found
}

proptest! {
    #[test]
    fn lanes_are_acyclic(topology in wiring(), lmc in 0u8..3) {
        let fabric = picture(&topology);
        let lids = number(&fabric, lmc);
        let Ok(routing) = route(&DfSssp::default(), &fabric, &lids, 4) else { return Ok(()) };
        for sl in 0..8 {
            prop_assert!(is_acyclic(dependencies(&fabric, &lids, &routing, sl)));
        }
    }
}
