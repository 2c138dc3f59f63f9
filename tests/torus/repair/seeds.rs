//! Seeds that lack switches: their other links still serve, and tell positions that cables leave open.

use super::shape;
use super::trial::{Outcome, Undamaged, seed_at};
use testkit::torus::subnet::Subnet;
use torus_sm::notes::Severity;
use torus_sm::plan::routing::torus::Torus;
use torus_sm::sim::generate::Shape;

/// A torus whose only seed has all links of the switch at the origin.
fn with_one_seed(text: &str) -> Undamaged {
    let shape = shape(text);
    let [x, y, z] = shape.radix;
    let config = format!("torus {x} {y} {z}\n{}", seed_at(&shape, [0; 3]));
    Undamaged::with_config(&shape, config)
}

/// Each dimension keeps one of its two links: the axes are still told apart.
#[test]
fn a_seed_without_some_neighbors_serves() {
    for (text, dead) in [
        ("6x6", vec![[1, 0, 0], [3, 3, 0]]),
        ("6x6", vec![[5, 0, 0], [0, 1, 0]]),
        ("5x5x5", vec![[1, 0, 0], [0, 4, 0], [0, 0, 1]]),
    ] {
        let torus = with_one_seed(text);
        let damaged = Shape { missing_switches: dead, ..torus.shape.clone() };
        let outcome = torus.trial(&damaged);
        assert_eq!(outcome, Outcome::Complete, "{text} without {:?}", damaged.missing_switches);
    }
}

/// Around one dead switch torus-2QoS itself routes, as it would with a complete seed.
#[test]
fn the_rule_routes_from_a_seed_without_one_neighbor() {
    let shape = shape("6x6");
    let damaged = Shape { missing_switches: vec![[1, 0, 0]], ..shape.clone() };
    let torus = with_one_seed("6x6");
    let mut subnet = Subnet::new(&torus.case(&damaged));
    let routing = subnet.route(None).expect("it routes");
    assert!(Torus::of(&routing).is_some_and(|torus| torus.repair().is_none()));
    let warning = routing.notes.iter().find(|note| note.text.contains("torus_repair"));
    let warning = warning.expect("a warning about the seed");
    assert_eq!(warning.severity, Severity::Warning);
    let dead = shape.switch_guid([1, 0, 0]);
    assert_eq!(
        warning.text,
        format!(
            "no torus seed has all its switches in the fabric: seed 0 lacks {dead}; without \
             torus_repair, torus-2QoS would refuse the fabric; seed 0 is used without its xp_link"
        )
    );
    let complete = Undamaged::new(&shape);
    let expected = Subnet::new(&complete.case(&damaged)).route(None).expect("it routes");
    assert_eq!(routing.lfts, expected.lfts);

    subnet.options.torus_repair = false;
    let refusal = subnet.route(None).expect_err("no seed is complete");
    assert_eq!(refusal.reason().and_then(|note| note.code), Some("4E30"));
}

/// A dimension without a link leaves the directions of the torus open, and so does a ring of four with
/// one link, or a seed whose origin is dead.
#[test]
fn a_seed_that_lacks_a_dimension_is_refused() {
    for (text, dead) in [
        ("6x6", vec![[1, 0, 0], [5, 0, 0]]),
        ("6x6", vec![[0, 0, 0], [3, 3, 0]]),
        ("4x6", vec![[1, 0, 0], [2, 3, 0]]),
    ] {
        let torus = with_one_seed(text);
        let damaged = Shape { missing_switches: dead, ..torus.shape.clone() };
        let mut case = torus.case(&damaged);
        let own = torus.shape.switch_guid([2, 2, 0]);
        case.local = case.topology.nodes.iter().position(|node| node.guid == own).expect("a node");
        let refusal = Subnet::new(&case).route(None).expect_err("no seed is complete");
        assert_eq!(refusal.reason().and_then(|note| note.code), Some("4E30"), "{text}");
    }
}

/// A corner of a mesh with one cable fits two positions by its cables; the first seed, which lacks its other
/// neighbour, names it.
#[test]
fn a_seed_without_a_neighbor_settles_the_position_of_its_origin() {
    let torus = Undamaged::new(&shape("6mx6m"));
    for other in [[1, 1, 0], [0, 2, 0]] {
        let missing_switches = vec![[1, 0, 0], other];
        let damaged = Shape { missing_switches, ..torus.shape.clone() };
        assert_eq!(torus.trial(&damaged), Outcome::Complete, "{other:?}");
        assert_eq!(torus.unplaced(&damaged), Some(0), "{other:?}");
    }
}

/// Seeds that give two positions to a switch settle neither.
#[test]
fn seeds_that_contradict_each_other_settle_no_position() {
    let healthy = shape("6mx6m");
    let guid = |at: [u16; 3]| healthy.switch_guid(at).0;
    let config = format!(
        "mesh 6 6 1\n{}next_seed\n{}",
        seed_at(&healthy, [4, 4, 0]),
        seed_at(&healthy, [0, 0, 0])
    );
    // The corner is said to be at the other position that its cable allows.
    let elsewhere = format!(
        "next_seed\nxp_link {0:#x} {1:#x}\nyp_link {0:#x} {2:#x}\nx_dateline -1\ny_dateline -1\n",
        guid([0, 0, 0]),
        guid([1, 0, 0]),
        guid([1, 1, 0])
    );
    let damaged = Shape { missing_switches: vec![[1, 0, 0], [1, 1, 0]], ..healthy.clone() };
    let unplaced = |config: String| {
        let mut case = Undamaged::with_config(&healthy, config).case(&damaged);
        let own = healthy.switch_guid([4, 4, 0]);
        case.local = case.topology.nodes.iter().position(|node| node.guid == own).expect("a node");
        let subnet = Subnet::new(&case);
        let routing = subnet.route(None).expect("it routes");
        let torus = Torus::of(&routing).expect("torus-2QoS");
        subnet.fabric.switches().len() - torus.switches().count()
    };
    assert_eq!(unplaced(config.clone()), 0);
    assert_eq!(unplaced(config + &elsewhere), 1);
}

/// Nothing is missing in a ring on its own, which torus-2QoS cannot place: the summary is no warning.
#[test]
fn a_healthy_ring_is_not_called_damaged() {
    let shape = shape("5x1");
    let ring = Undamaged::with_config(&shape, shape.torus_conf());
    let routing = Subnet::new(&ring.case(&shape)).route(None).expect("it routes");
    let summary = "torus-2QoS: no switch or cable is missing; no pair of switches needs a detour; \
                   all connected, SLs unchanged, no credit loops";
    let note = routing.notes.iter().find(|note| note.text == summary).expect("a summary");
    assert_eq!(note.severity, Severity::Info);
}
