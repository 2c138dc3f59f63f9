//! Debian's ibdmchk as a second opinion: it reads the dump files of our plans, follows all paths
//! between channel adapters, and looks for credit loops with an algorithm of its own.

#[path = "common/mod.rs"]
mod common;
mod planning;

use planning::{Site, options};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use torus_sm::fabric::{Fabric, ibnet};
use torus_sm::ids::{Mlid, Sl};
use torus_sm::plan::Plan;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::publish::dumps;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, Fault, verify};
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::attr::tables::SlToVl;

const TORUS: &str = "torus-2QoS,no_fallback";

/// All channel adapters in one group.
fn everybody(fabric: &Fabric) -> GroupMembers {
    let is_host = |&port: &_| fabric.node_of(port).kind() == NodeKind::Ca;
    let members = fabric.end_ports().filter(is_host).collect();
    GroupMembers { mlid: Mlid(0xC000), sl: Sl(0), members, senders: Vec::new() }
}

/// What ibdmchk says of a plan.
fn judge(fabric: &Fabric, plan: &Plan) -> Option<String> {
    let ibdmchk = common::tool("ibdmchk")?;
    let dir = tempfile::tempdir().expect("a temporary folder");
    dumps::write_subnet(dir.path(), fabric, plan).expect("a writable folder");
    dumps::write_routing(dir.path(), fabric, plan).expect("a writable folder");
    let mut command = Command::new(ibdmchk);
    command.current_dir(dir.path()).arg("-M");
    for (flag, file) in [
        ("-s", "opensm-subnet.lst"),
        ("-f", "opensm.fdbs"),
        ("-m", "opensm.mcfdbs"),
        ("-c", "opensm.psl"),
        ("-d", "opensm-sl2vl.dump"),
    ] {
        if dir.path().join(file).exists() {
            command.args([flag, file]);
        }
    }
    let output = command.output().expect("ibdmchk starts");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Both sides find all paths and no credit loop.
fn assert_clean(name: &str, site: &Site) {
    let plan = site.plan(&[everybody(&site.fabric)]).unwrap_or_else(|no| panic!("{name}: {no:?}"));
    let verified = verify(&site.fabric, plan, &Checks::new(site.options.qos));
    let verified = verified.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    assert_eq!(verified.summary().cycle, None, "{name}");
    let Some(text) = judge(&site.fabric, verified.plan()) else { return };
    let hosts = everybody(&site.fabric).members.len();
    for expected in [
        format!("-I- Scanned:{} CA to CA paths", hosts * (hosts - 1)),
        "-I- Multicast Group:0xC000 has:".to_owned(),
        "-I- no credit loops found".to_owned(),
    ] {
        assert!(text.contains(&expected), "{name}: no '{expected}' in\n{text}");
    }
    assert!(!text.contains("-E-") && !text.contains("-W-"), "{name}:\n{text}");
}

#[test]
fn healthy_tori_have_all_paths_and_no_credit_loop() {
    for radix in [[6, 5, 1], [3, 3, 3], [4, 4, 4]] {
        let site = Site::generated(&Shape::torus(radix), TORUS, true);
        assert_clean(&format!("{radix:?}"), &site);
    }
}

/// A fabric of the vectors, as seen from its first channel adapter that has a cable.
fn vector(folder: &Path) -> Site {
    let net = folder.join("fabric.net");
    let topology = ibnet::parse(&net, &fs::read_to_string(&net).unwrap()).unwrap();
    let is_cabled = |node: usize| topology.cables.iter().flatten().any(|end| end.0 == node);
    let is_host = |node: &usize| topology.nodes[*node].kind == NodeKind::Ca && is_cabled(*node);
    let local = (0..topology.nodes.len()).find(is_host).unwrap();
    let conf = fs::read_to_string(folder.join("torus-2QoS.conf")).unwrap();
    Site::new(&topology, local, options(TORUS, true), conf)
}

#[test]
fn degraded_and_odd_tori_have_all_paths_and_no_credit_loop() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/torus-2qos");
    let folders = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> = folders.filter(|path| path.is_dir()).collect();
    folders.sort();
    let mut clean = 0;
    for folder in folders {
        let meta = fs::read_to_string(folder.join("meta.json")).unwrap();
        let meta: serde_json::Value = serde_json::from_str(&meta).unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let mut site = vector(&folder);
        if meta["data_vls"] == 4 {
            site.options.max_op_vls = 3;
        }
        if meta["routed"] == true {
            assert_clean(&name, &site);
            clean += 1;
        } else {
            assert!(site.plan(&[]).is_err(), "{name} is routed");
        }
    }
    assert!(clean >= 10, "{clean} vectors");
}

/// Both sides find a credit loop.
fn assert_loop(site: &Site, plan: &Plan) {
    let Some(text) = judge(&site.fabric, plan) else { return };
    assert!(text.contains("-E- credit loops in routing"), "{text}");
}

#[test]
fn shortest_paths_around_a_ring_are_a_credit_loop() {
    let site = Site::generated(&Shape::torus([5, 1, 1]), "minhop", false);
    let plan = site.plan(&[]).expect("minhop routes anything");
    let verified = verify(&site.fabric, plan, &Checks::new(false)).expect("a warning");
    let cycle = verified.summary().cycle.as_ref().expect("a credit loop");
    assert_eq!(cycle.0.len(), 5);
    assert_loop(&site, verified.plan());
}

#[test]
fn a_torus_whose_sls_share_a_vl_is_refused() {
    let site = Site::generated(&Shape::torus([5, 5, 1]), TORUS, true);
    let mut plan = site.plan(&[]).expect("a healthy torus");
    for (_, _, map) in plan.qos.sl_to_vl.iter_mut().flatten() {
        *map = SlToVl::default();
    }
    assert_loop(&site, &plan);
    let failure = verify(&site.fabric, plan, &Checks::new(true)).expect_err("a credit loop");
    let [Fault::CreditLoop(cycle)] = &failure.faults[..] else { panic!("{failure}") };
    assert!(cycle.0.len() >= 3 && cycle.0.iter().all(|channel| channel.vl.0 == 0), "{cycle}");
}
