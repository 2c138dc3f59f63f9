//! Every failure of a single switch or link of three tori: path SLs stay the same, and there is no
//! credit loop. `tests/opensm_compat/torus_failures.rs` compares the same failures with OpenSM.

use std::collections::BTreeMap;
use testkit::torus::failures::{RADICES, case, failures, name};
use testkit::torus::subnet::{Case, Subnet};
use torus_sm::ids::{Guid, Mlid, Sl};
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::sim::generate::Shape;

/// Path SLs by the GUIDs of source and destination.
fn path_sls(case: &Case) -> Option<BTreeMap<(Guid, Guid), Sl>> {
    let subnet = Subnet::new(case);
    let routing = subnet.route(None).ok()?;
    let guid = |port| subnet.fabric.port(port).guid;
    let mut sls = BTreeMap::new();
    for from in subnet.fabric.end_ports() {
        for to in subnet.fabric.end_ports() {
            sls.insert((guid(from), guid(to)), routing.policy.path_sl(from, to, Sl(8)));
        }
    }
    Some(sls)
}

#[test]
fn a_single_failure_leaves_sls_alone_and_makes_no_credit_loop() {
    for radix in RADICES {
        let healthy = Shape::torus(radix);
        let before = path_sls(&case(&healthy)).expect("a healthy torus");
        for broken in failures(&healthy) {
            let case = case(&broken);
            let Some(after) = path_sls(&case) else {
                panic!("{} is refused", name(&broken));
            };
            assert!(after.iter().all(|(pair, sl)| before[pair] == *sl), "{}", name(&broken));
            if let Err(fault) = Subnet::new(&case).verified() {
                panic!("{}: {fault}", name(&broken));
            }
        }
    }
}

/// The multicast trees are those of OpenSM's torus-2QoS. After the loss of some switches they close
/// a credit loop with the early turns of unicast routes, which is logged as a warning; without a
/// failure and after the loss of any single link they do not.
#[test]
fn a_group_of_all_closes_a_loop_around_some_missing_switches_only() {
    let mut closed = Vec::new();
    for radix in RADICES {
        let healthy = Shape::torus(radix);
        for shape in failures(&healthy).into_iter().chain([healthy]) {
            let subnet = Subnet::new(&case(&shape));
            let members = subnet.fabric.end_ports().collect();
            let group = GroupMembers { mlid: Mlid(0xC000), sl: Sl(0), members, senders: vec![] };
            if let Err(fault) = subnet.verified_with(&[group]) {
                assert!(!shape.missing_switches.is_empty(), "{}: {fault}", name(&shape));
                closed.push((radix, shape.missing_switches[0]));
            }
        }
    }
    // The row of the trunk of the tree, in two dimensions: 6 of 154 missing switches.
    let trunk: Vec<_> = (0..6).map(|x| ([6, 5, 1], [x, 2, 0])).collect();
    assert_eq!(closed, trunk);
}
