//! Layers and refusals of LASH. The comparison with OpenSM is in the integration tests.

use super::*;
use crate::fabric::SwitchId;
use crate::ids::{PortNum, Sl};
use crate::plan::routing::balancing::hops::HopMatrix;
use crate::plan::routing::balancing::tests::{is_acyclic, number, picture, ring, wiring};
use proptest::prelude::*;
use std::collections::HashSet;

fn options(start_vl: u8) -> LashOptions {
    LashOptions { start_vl, max_op_vls: 5, seed: 1, do_mesh_analysis: false }
}

#[test]
fn a_ring_needs_layers_and_their_vls() {
    let fabric = ring(6);
    let lids = number(&fabric, 0);
    let routing = route(&fabric, &lids, options(0), &Arc::default()).expect("8 VLs are enough");
    assert_eq!(
        routing.notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(),
        ["3 layers with 12, 10, 8 paths between switches"]
    );
    let started = route(&fabric, &lids, options(5), &Arc::default()).expect("3 VLs are enough");
    let shifted: Vec<_> = sls(&fabric, &routing).into_iter().map(|sl| sl + 5).collect();
    assert_eq!(sls(&fabric, &started), shifted);
    assert_eq!(
        refused(&fabric, &lids, 6),
        "ERR 4D02: shortest paths without credit loops need more than the 2 layers that links \
         with 8 VLs and lash_start_vl 6 allow"
    );
    assert_eq!(
        refused(&fabric, &lids, 8),
        "ERR 4D03: lash_start_vl is 8, but links have only 8 VLs (from 0)"
    );
}

fn refused(fabric: &Fabric, lids: &LidTable, start: u8) -> String {
    route(fabric, lids, options(start), &Arc::default()).expect_err("a refusal").to_string()
}

fn sls(fabric: &Fabric, routing: &Routing) -> Vec<u8> {
    let hosts: Vec<_> =
        fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch()).collect();
    let pairs = hosts.iter().flat_map(|&from| hosts.iter().map(move |&to| (from, to)));
    pairs.map(|(from, to)| routing.policy.path_sl(from, to, Sl(0)).0).collect()
}

/// The dependencies of all paths of a layer, as pairs of channels.
fn dependencies(
    fabric: &Fabric,
    lids: &LidTable,
    routing: &Routing,
    layer: u8,
) -> HashSet<[(SwitchId, u8); 2]> {
    let mut found = HashSet::new();
    for from in fabric.switch_ids() {
        for to in fabric.switch_ids() {
            let target = fabric.switch(to).first_port;
            let sl = routing.policy.path_sl(fabric.switch(from).first_port, target, Sl(0));
            let lid = lids.base(target).expect("a LID");
            let mut here = from;
            let mut last = None;
            while here != to && sl == Sl(layer) {
                let out = routing.lft(here).out(lid).expect("a route");
                let channel = (here, out);
                found.extend(last.map(|last| [last, channel]));
                last = Some(channel);
                let port = fabric.switch_port(here, PortNum(out)).expect("a port");
                let peer = fabric.port(port).peer.expect("a link");
                here = fabric.node_of(peer).switch.expect("a switch");
            }
        }
    }
    found
}

proptest! {
    #[test]
    fn paths_are_shortest_and_layers_acyclic(
        topology in wiring(),
        lmc in 0u8..2,
        do_mesh_analysis: bool,
    ) {
        let fabric = picture(&topology);
        let lids = number(&fabric, lmc);
        let options = LashOptions { do_mesh_analysis, ..options(0) };
        let Ok(routing) = route(&fabric, &lids, options, &Arc::default()) else { return Ok(()) };
        let graph = SwitchGraph::new(&fabric, &[]);
        let hops = HopMatrix::new(&graph);
        for (lid, port) in lids.iter() {
            let to = fabric.switch_behind(port).expect("a switch");
            for from in fabric.switch_ids() {
                let out = routing.lft(from).out(lid).expect("a route");
                let next = fabric.switch_port(from, PortNum(out)).expect("a port");
                if from == to {
                    let reached = if out == 0 { next } else { fabric.port(next).peer.unwrap() };
                    prop_assert_eq!(reached, port);
                } else {
                    let next = fabric.node_of(fabric.port(next).peer.unwrap()).switch.unwrap();
                    prop_assert_eq!(hops.row(next)[to.index()] + 1, hops.row(from)[to.index()]);
                }
            }
        }
        for layer in 0..8 {
            prop_assert!(is_acyclic(dependencies(&fabric, &lids, &routing, layer)));
        }
    }
}
