//! The dump files, byte for byte as OpenSM wrote them for the same fabric.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use testkit::planning::{PlanSetup, options};
use torus_sm::config::guid2lid;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, ibnet};
use torus_sm::ids::Mlid;
use torus_sm::plan::lids::Memory;
use torus_sm::plan::routing::PortMask;
use torus_sm::publish::dump_file::StopWriting;
use torus_sm::publish::dumps::{self, DumpWriter};
use torus_sm::wire::attr::PortState;

fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/dumps");
    fs::read_to_string(folder.join(name)).expect("a file of the vectors")
}

/// The fabric with OpenSM's LIDs, seen from its first switch when all links are up.
fn site() -> PlanSetup {
    let net = golden("fabric.net");
    let topology = ibnet::parse(Path::new("fabric.net"), &net).expect("a fabric");
    let mut site = PlanSetup::new(&topology, 0, options("minhop", true), String::new());
    let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
    site.fabric = Fabric::from_topology(&topology, 0, &view).expect("node 0");
    let (lids, diagnostics) = guid2lid::parse(Path::new("guid2lid"), &golden("guid2lid"), 0);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    site.memory = Memory::new(lids);
    site
}

#[test]
fn files_are_those_of_opensm() {
    let site = site();
    let plan = site.plan(&[]).expect("minhop routes every fabric");
    let files: [(&str, DumpWriter); 5] = [
        ("opensm-lid-matrix.dump", dumps::lid_matrix),
        ("opensm-lfts.dump", dumps::lfts),
        ("opensm.fdbs", dumps::fdbs),
        ("opensm-sl2vl.dump", dumps::sl2vl),
        ("opensm-subnet.lst", dumps::subnet),
    ];
    for (name, dump) in files {
        // ibsim's devices have another revision and another speed.
        let expected =
            golden(name).replace("Rev:000000A1", "Rev:00000000").replace("SPD=2.5", "SPD=10");
        let text = dumps::render(dump, &site.fabric, &plan);
        for (number, (ours, theirs)) in text.lines().zip(expected.lines()).enumerate() {
            assert_eq!(ours, theirs, "{name}, line {}", number + 1);
        }
        assert_eq!(text, expected, "{name}");
    }
}

#[test]
fn multicast_entries_name_their_ports() {
    let site = site();
    let mut plan = site.plan(&[]).expect("minhop routes every fabric");
    assert_eq!(dumps::render(dumps::mcfdbs, &site.fabric, &plan), "");
    let mut mask = PortMask::default();
    [0, 4, 18].into_iter().for_each(|port| mask.insert(port));
    let by_switch = vec![vec![(Mlid(0xC001), mask)], Vec::new()];
    Arc::make_mut(&mut plan.multicast).by_switch = by_switch;
    assert_eq!(
        dumps::render(dumps::mcfdbs, &site.fabric, &plan),
        "\nSwitch 0x0000000000200000\nLID    : Out Port(s)\n0xC001 : 0x000  0x004  0x012 \n"
    );
}

#[test]
fn path_sls_have_a_line_for_each_pair_of_hosts() {
    let site = site();
    let plan = site.plan(&[]).expect("minhop routes every fabric");
    assert_eq!(
        dumps::render(dumps::path_sls, &site.fabric, &plan),
        "0x0000000010000000 4 0\n0x0000000010000041 2 0\n"
    );
    assert_eq!(dumps::path_sl_count(&site.fabric, &plan), 2);
}

#[test]
fn a_missing_folder_is_an_error_with_its_name() {
    let site = site();
    let plan = site.plan(&[]).expect("minhop routes every fabric");
    let dir = tempfile::tempdir().expect("a temporary folder");
    dumps::write_routing(dir.path(), &site.fabric, &plan, &StopWriting::default())
        .expect("a folder to write to");
    let written = fs::read_dir(dir.path()).expect("a folder").count();
    assert_eq!(written, 6, "no temporary file is left");
    let missing = dir.path().join("missing");
    let error = dumps::write_routing(&missing, &site.fabric, &plan, &StopWriting::default())
        .expect_err("no folder");
    assert!(error.to_string().contains("missing/opensm-lfts.dump"), "{error}");
}

#[test]
fn dumps_that_are_stopped_keep_their_old_content() {
    let site = site();
    let plan = site.plan(&[]).expect("minhop routes every fabric");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let old = dir.path().join("opensm-lfts.dump");
    fs::write(&old, "old").expect("a folder to write to");
    let stop = StopWriting::default();
    stop.request();
    let error =
        dumps::write_routing(dir.path(), &site.fabric, &plan, &stop).expect_err("it is stopped");
    assert!(error.to_string().ends_with("opensm-lfts.dump: the writing was stopped"), "{error}");
    assert_eq!(fs::read_to_string(&old).expect("the dump"), "old");
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "no other file is left");
}
