//! Multicast trees with `hop_weights_file`.

use std::sync::Arc;
use testkit::planning::{PlanSetup, options};
use torus_sm::fabric::PortId;
use torus_sm::ids::{Mlid, Sl};
use torus_sm::plan::multicast::{GroupMembers, MulticastTables};
use torus_sm::sim::generate::Shape;

/// The trees of a group of all hosts of a ring, with weights for switch ports.
fn trees(engine: &str, weights: Option<&str>) -> Arc<MulticastTables> {
    let ring = Shape { hosts: 1, ..Shape::torus([5, 1, 1]) };
    let mut setup =
        PlanSetup { options: options(engine, true), ..PlanSetup::generated(&ring, engine, true) };
    let file = tempfile::NamedTempFile::new().expect("a file");
    if let Some(weights) = weights {
        std::fs::write(file.path(), weights).expect("a file");
        setup.options.hop_weights_file = Some(file.path().display().to_string());
    }
    let hosts = setup.fabric.end_ports().filter(|&port| !setup.fabric.node_of(port).is_switch());
    let members: Vec<PortId> = hosts.collect();
    let group = GroupMembers { mlid: Mlid(0xC000), sl: Sl(0), members, senders: Vec::new() };
    setup.plan(&[group]).expect("a plan").multicast.clone()
}

#[test]
fn lash_has_the_trees_of_minhop() {
    let plain = trees("lash,no_fallback", None);
    assert_eq!(plain.by_switch, trees("minhop", None).by_switch);
    // The cable between the first two switches is longer than the way round.
    let weights = "0x200000 1 20\n0x200001 2 20\n";
    let weighted = trees("lash,no_fallback", Some(weights));
    assert_ne!(weighted.by_switch, plain.by_switch, "the weights change the tree");
    assert_eq!(weighted.by_switch, trees("minhop", Some(weights)).by_switch);
}
