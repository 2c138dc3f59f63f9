//! Verification by Debian's ibdmchk: it reads the dump files of our plans, follows all paths
//! between channel adapters, and looks for credit loops with an algorithm of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::planning::{PlanSetup, options};
use testkit::torus::failures::{all_failures, case, name};
use testkit::{in_parallel, setting};
use torus_sm::fabric::{Fabric, ibnet};
use torus_sm::ids::{Mlid, Sl};
use torus_sm::plan::Plan;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::publish::dump_file::StopWriting;
use torus_sm::publish::dumps;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, Fault, verify};
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::attr::tables::SlToVl;

const TORUS: &str = "torus-2QoS,no_fallback";
/// ibdmchk's message for a credit loop.
const CREDIT_LOOP: &str = "-E- credit loops in routing";

/// All channel adapters in one group.
fn everybody(fabric: &Fabric) -> GroupMembers {
    let is_host = |&port: &_| fabric.node_of(port).kind() == NodeKind::Ca;
    let members = fabric.end_ports().filter(is_host).collect();
    GroupMembers { mlid: Mlid(0xC000), sl: Sl(0), members, senders: Vec::new() }
}

/// The output of ibdmchk for a plan; `None` if ibdmchk is not installed.
fn ibdmchk_output(fabric: &Fabric, plan: &Plan) -> Option<String> {
    let ibdmchk = testkit::tool("ibdmchk")?;
    let dir = tempfile::tempdir().expect("a temporary folder");
    dumps::write_subnet(dir.path(), fabric, plan).expect("a writable folder");
    dumps::write_routing(dir.path(), fabric, plan, &StopWriting::default())
        .expect("a writable folder");
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

/// Asserts that both programs find all paths in the plan for a fabric and some groups, and that
/// ibdmchk finds no credit loop. Returns whether we find one; `None` if ibdmchk is not installed.
fn has_loop(name: &str, site: &PlanSetup, groups: &[GroupMembers]) -> Option<bool> {
    let plan = site.plan(groups).unwrap_or_else(|no| panic!("{name}: {no:?}"));
    let verified = verify(&site.fabric, plan, &Checks::of(&site.options));
    let verified = verified.unwrap_or_else(|failure| panic!("{name}: {failure}"));
    let text = ibdmchk_output(&site.fabric, verified.plan())?;
    let hosts = everybody(&site.fabric).members.len();
    let mut expected = vec![
        format!("-I- Scanned:{} CA to CA paths", hosts * (hosts - 1)),
        "-I- no credit loops found".to_owned(),
    ];
    let multicast =
        groups.iter().map(|group| format!("-I- Multicast Group:{:#X} has:", group.mlid.0));
    expected.extend(multicast);
    for line in expected {
        assert!(text.contains(&line), "{name}: no '{line}' in\n{text}");
    }
    assert!(!text.contains("-E-") && !text.contains("-W-"), "{name}:\n{text}");
    Some(verified.summary().cycle.is_some())
}

/// Asserts that both programs find all paths and no credit loop, with all channel adapters in a
/// group.
fn assert_clean(name: &str, site: &PlanSetup) {
    assert_ne!(has_loop(name, site, &[everybody(&site.fabric)]), Some(true), "{name}");
}

#[test]
fn healthy_tori_have_all_paths_and_no_credit_loop() {
    for radix in [[6, 5, 1], [3, 3, 3], [4, 4, 4]] {
        let site = PlanSetup::generated(&Shape::torus(radix), TORUS, true);
        assert_clean(&format!("{radix:?}"), &site);
    }
}

/// A fabric of the vectors, seen from its first channel adapter that has a link.
fn vector(folder: &Path) -> PlanSetup {
    let net = folder.join("fabric.net");
    let topology = ibnet::parse(&net, &fs::read_to_string(&net).unwrap()).unwrap();
    let is_cabled = |node: usize| topology.cables.iter().flatten().any(|end| end.0 == node);
    let is_host = |node: &usize| topology.nodes[*node].kind == NodeKind::Ca && is_cabled(*node);
    let local = (0..topology.nodes.len()).find(is_host).unwrap();
    let conf = fs::read_to_string(folder.join("torus-2QoS.conf")).unwrap();
    PlanSetup::new(&topology, local, options(TORUS, true), conf)
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
            site.options.torus_repair = false;
            assert!(site.plan(&[]).is_err(), "{name} is routed");
        }
    }
    assert!(clean >= 10, "{clean} vectors");
}

/// Each failure of a single switch or link of three tori, or a sample unless `TORUS_ALL_FAILURES`
/// is 1, leaves all paths and no credit loop. With all channel adapters in a multicast group,
/// torus-sm finds a credit loop after the loss of a switch in the row of the tree's trunk; OpenSM's
/// tree closes the same loop, see torus-2QoS(8). ibdmchk does not find it, because it assumes that
/// multicast packets keep their VL at every turn, whatever the SL to VL tables say.
#[test]
fn single_failures_leave_all_paths_and_no_credit_loop() {
    if testkit::tool("ibdmchk").is_none() {
        return;
    }
    let all = all_failures();
    let step = if setting("TORUS_ALL_FAILURES", 0) == 1 { 1 } else { 17 };
    let chosen: Vec<&Shape> = all.iter().step_by(step).collect();
    let with_group = in_parallel(chosen.len(), |index| {
        let case = case(chosen[index]);
        let options = options(TORUS, true);
        let site = PlanSetup::new(&case.topology, case.local, options, case.config.clone());
        let name = name(chosen[index]);
        assert_eq!(has_loop(&name, &site, &[]), Some(false), "{name}");
        has_loop(&name, &site, &[everybody(&site.fabric)]) == Some(true)
    });
    let mut loops = 0;
    let mut missing = 0;
    for (shape, has_loop) in chosen.iter().zip(with_group) {
        missing += usize::from(!shape.missing_switches.is_empty());
        let row = shape.missing_switches.first().map(|at| at[1]);
        assert_eq!(has_loop, shape.radix == [6, 5, 1] && row == Some(2), "{}", name(shape));
        loops += usize::from(has_loop);
    }
    println!(
        "{} failures, {missing} of them switches: clean; with a group of all, {loops} of our own",
        chosen.len()
    );
}

/// Asserts that both programs find a credit loop.
fn assert_loop(site: &PlanSetup, plan: &Plan) {
    let Some(text) = ibdmchk_output(&site.fabric, plan) else { return };
    assert!(text.contains(CREDIT_LOOP), "{text}");
}

#[test]
fn shortest_paths_around_a_ring_are_a_credit_loop() {
    let site = PlanSetup::generated(&Shape::torus([5, 1, 1]), "minhop", false);
    let plan = site.plan(&[]).expect("minhop routes every fabric");
    let verified = verify(&site.fabric, plan, &Checks::new(false)).expect("a warning");
    let cycle = verified.summary().cycle.as_ref().expect("a credit loop");
    assert_eq!(cycle.0.len(), 5);
    assert_loop(&site, verified.plan());
}

#[test]
fn a_torus_whose_sls_share_a_vl_is_rejected() {
    let site = PlanSetup::generated(&Shape::torus([5, 5, 1]), TORUS, true);
    let mut plan = site.plan(&[]).expect("a healthy torus");
    for rows in &mut plan.qos.sl_to_vl {
        let on_one_vl = |&(input, output, _): &_| (input, output, SlToVl::default());
        *rows = rows.iter().map(on_one_vl).collect();
    }
    assert_loop(&site, &plan);
    let failure = verify(&site.fabric, plan, &Checks::new(true)).expect_err("a credit loop");
    let [Fault::CreditLoop(cycle)] = &failure.faults[..] else { panic!("{failure}") };
    assert!(cycle.0.len() >= 3 && cycle.0.iter().all(|channel| channel.vl.0 == 0), "{cycle}");
}
