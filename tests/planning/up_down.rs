//! updn and dnup: which pairs may lack routes, and what happens to routes with credit loops.

use std::path::Path;
use testkit::planning::{PlanSetup, options};
use torus_sm::fabric::{Fabric, SwitchId, ibnet};
use torus_sm::ids::{Guid, Lid};
use torus_sm::plan::Plan;
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, verify};

/// Two leaves with a host each, and two spines.
const TREE: &str = "\
Switch 4 \"S-0000000000000011\"
[1] \"S-0000000000000021\"[1]
[2] \"S-0000000000000022\"[1]
[3] \"H-0000000000000101\"[1]

Switch 4 \"S-0000000000000012\"
[1] \"S-0000000000000021\"[2]
[2] \"S-0000000000000022\"[2]
[3] \"H-0000000000000201\"[1]

Switch 4 \"S-0000000000000021\"
[1] \"S-0000000000000011\"[1]
[2] \"S-0000000000000012\"[1]

Switch 4 \"S-0000000000000022\"
[1] \"S-0000000000000011\"[2]
[2] \"S-0000000000000012\"[2]

Hca 1 \"H-0000000000000101\"
[1] \"S-0000000000000011\"[3]

Hca 1 \"H-0000000000000201\"
[1] \"S-0000000000000012\"[3]
";

fn tree(engine: &str) -> PlanSetup {
    let topology = ibnet::parse(Path::new("tree"), TREE).expect("a fabric");
    let host = topology.nodes.len() - 1;
    PlanSetup::new(&topology, host, options(engine, false), String::new())
}

fn switch(fabric: &Fabric, guid: u64) -> SwitchId {
    let node = fabric.node_by_guid(Guid(guid)).expect("a node");
    fabric.node(node).switch.expect("a switch")
}

/// The LID of a port GUID.
fn lid(setup: &PlanSetup, plan: &Plan, guid: u64) -> Lid {
    let port = setup.fabric.port_by_guid(Guid(guid)).expect("a port");
    plan.lids.base(port).expect("a LID")
}

#[test]
fn roots_may_lack_routes_to_each_other() {
    for engine in ["updn,no_fallback", "dnup,no_fallback"] {
        let setup = tree(engine);
        let plan = setup.plan(&[]).expect("a tree is routed");
        let [one, two] = [0x21, 0x22].map(|guid| switch(&setup.fabric, guid));
        assert_eq!(plan.routing.lft(one).out(lid(&setup, &plan, 0x22)), None, "{engine}");
        assert_eq!(plan.routing.lft(two).out(lid(&setup, &plan, 0x21)), None, "{engine}");
        let verified = verify(&setup.fabric, plan, &Checks::new(false)).expect("it passes");
        assert_eq!(verified.summary().cycle, None, "{engine}");
    }
}

#[test]
fn connect_roots_adds_routes_between_roots() {
    for engine in ["updn,no_fallback", "dnup,no_fallback"] {
        let mut setup = tree(engine);
        setup.options.connect_roots = true;
        let plan = setup.plan(&[]).expect("a tree is routed");
        let one = switch(&setup.fabric, 0x21);
        assert!(plan.routing.lft(one).out(lid(&setup, &plan, 0x22)).is_some(), "{engine}");
        verify(&setup.fabric, plan, &Checks::new(false)).expect("it passes");
    }
}

#[test]
fn a_credit_loop_of_an_engine_without_promises_is_a_warning_or_strictly_a_refusal() {
    // Every switch of the ring has a host, and dnup permits all turns between leaves.
    let ring = Shape { hosts: 1, ..Shape::torus([6, 1, 1]) };
    let verdict = PlanSetup::generated(&ring, "dnup", false).verdict().expect("a plan");
    let verified = verdict.verdict.expect("a warning");
    assert_eq!(verified.plan().routing.engine, "dnup");
    assert!(verified.summary().has_host_loop);
    let [note] = &verified.summary().notes[..] else { panic!("{:?}", verified.summary().notes) };
    let text = &note.text;
    assert!(text.starts_with("routing engine dnup leaves a credit loop"), "{text}");
    assert!(text.ends_with("such as nue, dfsssp or torus-2QoS avoids credit loops"), "{text}");

    let strict = |engines: &str| {
        let mut setup = PlanSetup::generated(&ring, engines, false);
        setup.options.refuse_faulty_routes = true;
        setup.verdict().expect("a plan").verdict
    };
    let verified = strict("dnup").expect("minhop takes over");
    let routing = &verified.plan().routing;
    assert_eq!(routing.engine, "minhop");
    assert_eq!(routing.routing_errors.len(), 1);
    assert_eq!(routing.routing_errors[0].engine, "dnup");
    let note = &routing.notes[0].text;
    assert!(note.starts_with("dnup cannot route this fabric, minhop is used instead: "), "{note}");
    assert!(note.contains("its routes are rejected: "), "{note}");
    assert!(note.ends_with("minhop does not prevent credit loops"), "{note}");

    let failure = strict("dnup,no_fallback").expect_err("nothing else may route it");
    assert!(failure.credit_loop().is_some(), "{failure}");
}

#[test]
fn hosts_at_roots_lack_routes_or_strictly_the_engine_refuses() {
    // An aggregation node at each spine.
    let adapters = "\nHca 1 \"H-0000000000000301\"\n[1] \"S-0000000000000021\"[3]\n\
                    \nHca 1 \"H-0000000000000401\"\n[1] \"S-0000000000000022\"[3]\n";
    let mut text = format!("{TREE}{adapters}");
    for (number, adapter) in [(1, 3), (2, 4)] {
        let before = format!("[2] \"S-0000000000000012\"[{number}]\n");
        assert_eq!(text.matches(&before).count(), 1);
        let after = format!("{before}[3] \"H-0000000000000{adapter}01\"[1]\n");
        text = text.replace(&before, &after);
    }
    let topology = ibnet::parse(Path::new("tree"), &text).expect("a fabric");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("roots");
    std::fs::write(&file, "0x21\n0x22\n").expect("a file");
    // ftree takes the hosts at spines for I/O nodes.
    let adapter_file = folder.path().join("adapters");
    std::fs::write(&adapter_file, "0x302\n0x402\n").expect("a file");
    for (engine, code) in [("updn", Some("AA0E")), ("ftree", None)] {
        let mut options = options(engine, false);
        options.root_guid_file = Some(file.display().to_string());
        options.io_guid_file = Some(adapter_file.display().to_string());
        let mut setup = PlanSetup::new(&topology, 4, options, String::new());
        let verified = setup.verdict().expect("a plan").verdict.expect("a warning");
        assert_eq!(verified.plan().routing.engine, engine);
        let unrouted = verified.summary().unrouted;
        // The two adapters, and each with the other spine, in both directions.
        assert_eq!(unrouted.hosts, 2, "{engine}");
        let notes = &verified.summary().notes;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].text.contains("leaves 2 pairs of hosts and "), "{notes:?}");

        setup.options.refuse_faulty_routes = true;
        let verified = setup.verdict().expect("a plan").verdict.expect("minhop takes over");
        let routing = &verified.plan().routing;
        assert_eq!(routing.engine, "minhop", "{engine}");
        let reason = routing.routing_errors[0].reason().expect("a reason");
        assert_eq!(reason.code, code, "{engine}");
    }
}

#[test]
fn a_fabric_without_roots_is_refused_with_the_remedy() {
    let ring = Shape { hosts: 1, ..Shape::torus([6, 1, 1]) };
    let failure = PlanSetup::generated(&ring, "updn,no_fallback", false).plan(&[]);
    let failure = failure.expect_err("a ring has no roots");
    let reason = failure.routing_errors[0].reason().expect("a reason");
    assert_eq!(reason.code, Some("AA0A"));
    assert!(reason.text.contains("root_guid_file"), "{}", reason.text);
}

#[test]
fn dumped_hops_give_the_same_tables_again() {
    for engine in ["minhop", "updn,no_fallback"] {
        let setup = tree(engine);
        let plan = setup.plan(&[]).expect("a tree is routed");
        let dumps = plan.routing.policy.dumps(&setup.fabric, &plan.lids);
        let matrix = dumps.iter().find(|dump| dump.file == "opensm-lid-matrix.dump");
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("matrix");
        std::fs::write(&file, &matrix.expect("a dump").text).expect("a file");
        let mut loaded = tree("file,no_fallback");
        loaded.options.lid_matrix_dump_file = Some(file.display().to_string());
        let again = loaded.plan(&[]).expect("the dump is complete");
        assert_eq!(again.routing.engine, "file");
        assert_eq!(again.routing.lfts, plan.routing.lfts, "{engine}");
    }
}

#[test]
fn a_dump_with_a_mistake_is_refused_with_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("lfts");
    let header = "Unicast lids [0-6] of switch Lid 1 guid 0x0000000000000011 ('s'):\n";
    let cases = [
        (format!("{header}0x0001 x\n"), ":2:8: an output port is missing"),
        (format!("{header}0x0001 077 # Switch portguid 0x11: 's'\n"), "lfts_file:2: switch "),
    ];
    for (text, expected) in cases {
        std::fs::write(&file, text).expect("a file");
        let mut setup = tree("file,no_fallback");
        setup.options.lfts_file = Some(file.display().to_string());
        let failure = setup.plan(&[]).expect_err("a mistake");
        let reason = failure.routing_errors[0].reason().expect("a reason").text.clone();
        assert!(reason.contains(expected), "{reason}");
    }
}
