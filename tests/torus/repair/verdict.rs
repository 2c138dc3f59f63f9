//! What `verify` accepts of a repaired torus: exactly the listed pairs without a route.

use super::shape;
use super::trial::{Outcome, Undamaged};
use std::sync::Arc;
use testkit::torus::subnet::Subnet;
use torus_sm::fabric::SwitchId;
use torus_sm::notes::Severity;
use torus_sm::plan::Plan;
use torus_sm::plan::compute::compute;
use torus_sm::plan::lids::Memory;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, Fault, verify};
use torus_sm::wire::attr::tables::LFT_NO_PATH;

/// Two dead switches that leave 4 of 3,782 pairs without a route.
const DEAD: [[u16; 3]; 2] = [[7, 6, 0], [2, 6, 0]];

fn partial() -> (Subnet, Plan) {
    let torus = Undamaged::new(&shape("8x8"));
    let damaged = Shape { missing_switches: DEAD.to_vec(), ..torus.shape.clone() };
    assert_eq!(torus.trial(&damaged), Outcome::Partial(4));
    let subnet = Subnet::new(&torus.case(&damaged));
    let planned = subnet.with_input(&Memory::default(), &[], compute).expect("a plan");
    (subnet, planned.plan)
}

/// Changes the entry of a switch for the management LID of another one.
fn set_entry(subnet: &Subnet, plan: &mut Plan, [from, to]: [SwitchId; 2], port: u8) {
    let lid = plan.lids.base(subnet.fabric.switch(to).first_port).expect("a LID");
    let routing = Arc::make_mut(&mut plan.routing);
    Arc::make_mut(&mut routing.lfts[from.index()]).set(lid, port);
}

#[test]
fn exactly_the_listed_pairs_may_lack_a_route() {
    let (subnet, plan) = partial();
    let checks = Checks::new(true);
    let listed = plan.routing.policy.unrouted_switches().expect("a list").to_vec();
    assert_eq!(listed.len(), 4);
    let texts: Vec<_> = plan
        .notes
        .iter()
        .filter(|note| note.severity == Severity::Warning)
        .map(|n| &n.text)
        .collect();
    for [from, to] in &listed {
        let names = [from, to].map(|&at| format!("\"{}\"", subnet.fabric.switch(at).name()));
        let is_named = |text: &&&String| {
            let is_pair = text.contains("no route from switch");
            is_pair
                && text.ends_with("to restore it")
                && names.iter().all(|name| text.contains(name))
        };
        assert_eq!(texts.iter().filter(is_named).count(), 1, "{names:?} in {texts:#?}");
    }
    let verified = verify(&subnet.fabric, plan.clone(), &checks).expect("a correct plan");
    // Each switch has one host: four pairs of ports for each pair of switches.
    let unrouted = verified.summary().unrouted;
    assert_eq!((unrouted.hosts, unrouted.with_switches), (4, 12));
    assert!(verify(&subnet.fabric, plan.clone(), &checks.clone().strict()).is_err());

    // An entry less.
    let [from, to] = listed[0];
    let other = subnet
        .fabric
        .switch_ids()
        .find(|&at| ![from, to].contains(&at) && !listed.contains(&[from, at]));
    let mut lacking = plan.clone();
    set_entry(&subnet, &mut lacking, [from, other.expect("a switch")], LFT_NO_PATH);
    let failure = verify(&subnet.fabric, lacking, &checks).expect_err("a pair that is not listed");
    let is_unreachable = |fault: &Fault| matches!(fault, Fault::Unreachable { .. });
    assert!(failure.faults.iter().any(is_unreachable), "{failure}");

    // An entry more.
    let mut routed = plan.clone();
    let lft = plan.routing.lft(from);
    let port = lft.entries().find(|&port| (1..=4).contains(&port)).expect("a cable");
    set_entry(&subnet, &mut routed, listed[0], port);
    let failure = verify(&subnet.fabric, routed, &checks).expect_err("a listed pair with an entry");
    let is_listed = |fault: &Fault| matches!(fault, Fault::ListedAsUnrouted { .. });
    assert!(failure.faults.iter().any(is_listed), "{failure}");
}

/// Pairs of the subnet manager's own switch must have routes: from each end of a pair without one the
/// fabric is refused.
#[test]
fn the_subnet_manager_reaches_all_switches_or_the_torus_is_refused() {
    let (before, plan) = partial();
    let listed = plan.routing.policy.unrouted_switches().expect("a list").to_vec();
    let torus = Undamaged::new(&shape("8x8"));
    let damaged = Shape { missing_switches: DEAD.to_vec(), ..torus.shape.clone() };
    for switch in listed[0] {
        let guid = before.fabric.switch(switch).guid();
        let mut case = torus.case(&damaged);
        let home = case.topology.nodes.iter().position(|node| node.guid == guid).expect("a switch");
        case.local = home;
        let refusal = Subnet::new(&case).route(None).expect_err("no route to or from the manager");
        let reason =
            "torus_repair cannot route around the damage: the subnet manager would have no route";
        assert!(refusal.notes.iter().any(|note| note.text.starts_with(reason)), "{refusal:#?}");
        assert!(refusal.notes.iter().any(|note| note.code == Some("4E38")), "{refusal:#?}");
    }
}

/// The repair that the warnings name restores the routes.
#[test]
fn the_named_repair_restores_the_routes() {
    let torus = Undamaged::new(&shape("8x8"));
    let damaged = Shape { missing_switches: DEAD.to_vec(), ..torus.shape.clone() };
    let routing = Subnet::new(&torus.case(&damaged)).route(None).expect("a partial result");
    let named = |text: &str| -> Vec<[u16; 3]> {
        let Some((_, parts)) = text.split_once("; repair ") else { return Vec::new() };
        let parts = parts.trim_end_matches(" to restore it").split(" and ");
        let place = |part: &str| {
            let numbers = part.trim_start_matches("switch ").split(',');
            numbers.map(|n| n.parse().expect("a coordinate")).collect::<Vec<u16>>()
        };
        parts.map(|part| place(part).try_into().expect("three coordinates")).collect()
    };
    let is_pair = |text: &&str| text.contains("no route from switch");
    let mut pairs = routing.notes.iter().map(|note| &*note.text).filter(is_pair);
    let repair = named(pairs.next().expect("a pair"));
    assert!(!repair.is_empty() && repair.iter().all(|at| DEAD.contains(at)), "{repair:?}");
    let missing_switches = DEAD.into_iter().filter(|at| !repair.contains(at)).collect();
    let repaired = Shape { missing_switches, ..torus.shape.clone() };
    let outcome = torus.trial(&repaired);
    assert!(matches!(outcome, Outcome::Itself | Outcome::Complete), "{outcome:?}");
}
