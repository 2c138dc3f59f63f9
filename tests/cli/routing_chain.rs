//! Routing chains in `torus-sm plan`: combined tables, fallbacks, path bits, dumps, and credit loops
//! across parts.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every group of all switches and all hosts.
const WHOLE_AS_TOPOLOGY: &str =
    "topology\nid: 1\nsw-grp: ALL_SWITCHES\nhca-grp: ALL_CAS\nend-topology\n";

/// A folder with the configuration of a chain, and the dumps of a plan.
struct Chain {
    folder: tempfile::TempDir,
}

impl Chain {
    fn new(groups: &str, topologies: &str, steps: &str) -> Self {
        let chain = Self { folder: tempfile::tempdir().expect("a folder") };
        chain.write("pgrp.conf", groups);
        chain.write("topo.conf", topologies);
        chain.write("rch.conf", steps);
        let path = |name| chain.path(name).display().to_string();
        chain.write(
            "opensm.conf",
            &format!(
                "pgrp_policy_file {}\ntopo_policy_file {}\nrch_policy_file {}\n",
                path("pgrp.conf"),
                path("topo.conf"),
                path("rch.conf")
            ),
        );
        chain
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("it is written");
    }

    /// Plans with the chain, without fallback to minhop.
    fn plan(&self, words: &[&str]) -> (Option<i32>, Value) {
        let config = self.path("opensm.conf").display().to_string();
        let dumps = self.path("dumps").display().to_string();
        let chain = ["-F", &config, "-R", "chain,no_fallback", "--dump", &dumps];
        plan(&[words, &chain].concat())
    }

    /// The entries of the dump of forwarding tables.
    fn tables(&self, name: &str) -> Tables {
        tables(&self.path("dumps").join(name))
    }

    fn has_dump(&self, name: &str) -> bool {
        self.path("dumps").join(name).exists()
    }
}

fn plan(words: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
    let output = command.arg("plan").args(words).arg("--json").output().expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors, "", "{words:?}");
    let report = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code(), report)
}

/// Output port by switch and destination, both by description, and LID.
type Tables = BTreeMap<(String, String, String), String>;

fn tables(file: &Path) -> Tables {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let quoted = |line: &str| line.split('\'').nth(1).expect("a description").to_owned();
    let mut tables = Tables::new();
    let mut switch = String::new();
    for line in text.lines() {
        if line.starts_with("Unicast") {
            switch = quoted(line);
        } else if line.starts_with("0x") {
            let mut words = line.split(' ');
            let lid = words.next().expect("a LID");
            let port = words.next().expect("a port");
            tables.insert((switch.clone(), quoted(line), lid.to_owned()), port.to_owned());
        }
    }
    tables
}

/// The tables of a single engine on the same fabric.
fn alone(words: &[&str]) -> Tables {
    let folder = tempfile::tempdir().expect("a folder");
    let dumps = folder.path().display().to_string();
    let (code, _) = plan(&[words, &["--dump", &dumps]].concat());
    assert_eq!(code, Some(0));
    tables(&folder.path().join("opensm-lfts.dump"))
}

fn step(id: u32, engine: &str, more: &str) -> String {
    format!("unicast-step\nid: {id}\nengine: {engine}\n{more}\nend-unicast-step\n")
}

fn notes(report: &Value) -> String {
    report["notes"].to_string() + &report["engine_errors"].to_string()
}

#[test]
fn later_steps_replace_the_routes_of_their_part() {
    let tree = ["fattree:6x3", "--hosts", "2"];
    let groups = "port-group\nname: leaves\nport-regexp: leaf [0-3]\nend-port-group\n\
                  port-group\nname: spines\nport-regexp: spine [01]\nend-port-group\n\
                  port-group\nname: part\nunion-rule: leaves, spines\nend-port-group\n\
                  port-group\nname: hosts\nport-regexp: h[0-3]-\nend-port-group\n";
    let topologies = "topology\nid: 5\nsw-grp: part\nhca-grp: hosts\nend-topology\n";
    let steps = step(2, "ftree", "topology: 5") + &step(1, "updn", "");
    let chain = Chain::new(groups, topologies, &steps);
    let (code, report) = chain.plan(&tree);
    assert_eq!((code, &report["engine"]), (Some(0), &"chain".into()), "{}", notes(&report));
    assert_eq!(report["checks"]["credit_loop"], Value::Null);
    let whole = alone(&[&tree[..], &["-R", "updn,no_fallback"]].concat());
    let all = chain.tables("opensm-lfts.dump");
    assert_eq!(chain.tables("opensm-lfts.1.updn.dump"), whole);
    let part = chain.tables("opensm-lfts.2.ftree.dump");
    assert!(part.keys().all(|(switch, to, _)| {
        let inside = ["leaf 0", "leaf 1", "leaf 2", "leaf 3", "spine 0", "spine 1"];
        inside.contains(&&**switch) && (inside.contains(&&**to) || to.starts_with('h'))
    }));
    assert_eq!(all.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>());
    let mut replaced = 0;
    for (key, port) in &all {
        assert_eq!(port, part.get(key).unwrap_or(&whole[key]), "{key:?}");
        replaced += usize::from(part.contains_key(key) && *port != whole[key]);
        // Routes of the part avoid the third spine.
        let (switch, to, _) = key;
        let within =
            |name: &str| ["0", "1", "2", "3"].iter().any(|n| name.starts_with(&format!("h{n}-")));
        if part.keys().any(|(known, ..)| known == switch)
            && switch.starts_with("leaf")
            && within(to)
        {
            assert_ne!(port, "003", "{key:?}");
        }
    }
    assert!(replaced > 0, "the second step changed nothing");
    let names = [
        "opensm.fdbs.2.ftree",
        "opensm-lid-matrix.1.updn.dump",
        "opensm-lid-matrix.2.ftree.dump",
        "opensm-subnet.1.updn.lst",
        "opensm-updn-roots.1.updn.dump",
    ];
    for file in names {
        assert!(chain.has_dump(file), "{file}");
    }
    assert!(!chain.has_dump("opensm-sl2vl.2.ftree.dump"));
}

/// A ring of six switches: up/down routes from switch 0 avoid the turn at switch 3, which is the
/// root of the second step. Each part alone has no credit loop. With shortest paths in the second
/// part the loop is a warning, as for minhop alone.
#[test]
fn a_credit_loop_across_parts_is_named_and_strictly_refused() {
    let groups = "port-group\nname: far\nport-regexp: sw [234],0,0\nend-port-group\n\
                  port-group\nname: hosts\nport-regexp: h[234]-\nend-port-group\n";
    let topologies = "topology\nid: 1\nsw-grp: far\nhca-grp: hosts\nend-topology\n";
    let chain = Chain::new(groups, topologies, "");
    let config = |number: u32, root: &str| {
        let roots = format!("roots-{number}");
        let file = format!("step-{number}.conf");
        chain.write(&roots, root);
        chain.write(&file, &format!("root_guid_file {}\n", chain.path(&roots).display()));
        format!("config: {}", chain.path(&file).display())
    };
    let first = step(1, "updn", &config(1, "0x200000\n"));
    let second = config(2, "0x200003\n");
    chain.write("rch.conf", &first);
    let (code, report) = chain.plan(&["6x1x1"]);
    assert_eq!(code, Some(0), "{}", notes(&report));
    for further in
        [step(2, "minhop", "topology: 1"), step(2, "updn", &format!("topology: 1\n{second}"))]
    {
        chain.write("rch.conf", &(first.clone() + &further));
        let (code, report) = chain.plan(&["6x1x1"]);
        assert_eq!((code, &report["engine"]), (Some(0), &"chain".into()), "{}", notes(&report));
        let said = notes(&report);
        assert!(said.contains("routing engine chain leaves a credit loop"), "{said}");
    }
    let options = fs::read_to_string(chain.path("opensm.conf")).expect("a file");
    chain.write("opensm.conf", &format!("{options}\nrefuse_faulty_routes TRUE\n"));
    let (code, report) = chain.plan(&["6x1x1"]);
    assert_eq!(code, Some(1));
    let faults = report["faults"].to_string() + &notes(&report);
    for at in ["sw 0,0,0", "sw 2,0,0", "sw 3,0,0", "sw 4,0,0"] {
        assert!(faults.contains(at), "{at}: {faults}");
    }
    assert!(faults.contains("credit loop"), "{faults}");
}

#[test]
fn a_failed_step_has_a_fallback() {
    let groups = "port-group\nname: line\nport-regexp: sw [0123],0,0\nend-port-group\n\
                  port-group\nname: hosts\nport-regexp: h[0123]-\nend-port-group\n";
    let topologies = "topology\nid: 1\nsw-grp: line\nhca-grp: hosts\nend-topology\n";
    let fallback = step(3, "minhop", "topology: 1\nfallback-to: 2");
    let two = step(1, "minhop", "") + &step(2, "ftree", "topology: 1");
    let chain = Chain::new(groups, topologies, &(two.clone() + &fallback));
    let (code, report) = chain.plan(&["5mx1x1"]);
    assert_eq!(code, Some(0), "{}", notes(&report));
    let said = notes(&report);
    assert!(said.contains("step 2 (ftree): ERR AB"), "{said}");
    let names = [
        "opensm-subnet.2.ftree.lst",
        "opensm-subnet.3.minhop.lst",
        "opensm-lfts.3.minhop.dump",
        "opensm-lid-matrix.3.minhop.dump",
        "opensm-lid-matrix.2.ftree.dump",
        "opensm.fdbs.2.ftree",
        "opensm.fdbs.3.minhop",
    ];
    for file in names {
        assert!(chain.has_dump(file), "{file}");
    }
    assert_eq!(chain.tables("opensm-lfts.2.ftree.dump"), Tables::new(), "it has no entries");
    chain.write("rch.conf", &two);
    let (code, report) = chain.plan(&["5mx1x1"]);
    assert_eq!(code, Some(0));
    let said = notes(&report);
    assert!(
        said.contains("step 2 has no routes; its part keeps the routes of earlier steps"),
        "{said}"
    );
    chain.write("rch.conf", &step(1, "ftree", ""));
    let (code, report) = chain.plan(&["5mx1x1"]);
    assert_eq!(code, Some(1));
    let said = notes(&report);
    assert!(said.contains("step 1 cannot route the fabric, and no fallback can"), "{said}");
}

#[test]
fn a_path_bit_selects_one_lid_of_each_host() {
    let tree = ["fattree:4x3", "--hosts", "2", "--lmc", "1"];
    let groups = "port-group\nname: few\nport-regexp: spine 0\nend-port-group\n\
                  port-group\nname: leaves\nport-regexp: leaf\nend-port-group\n\
                  port-group\nname: part\nunion-rule: leaves, few\nend-port-group\n";
    let topologies = "topology\nid: 1\nsw-grp: part\nhca-grp: ALL_CAS\nend-topology\n";
    let steps = step(1, "updn", "") + &step(2, "minhop", "topology: 1\npath-bit: 1");
    let chain = Chain::new(groups, topologies, &steps);
    let (code, report) = chain.plan(&tree);
    assert_eq!(code, Some(0), "{}", notes(&report));
    let all = chain.tables("opensm-lfts.dump");
    let whole = chain.tables("opensm-lfts.1.updn.dump");
    let part = chain.tables("opensm-lfts.2.minhop.dump");
    let mut first = 0;
    let mut second = 0;
    for (key, port) in &all {
        let (switch, to, lid) = key;
        if !to.starts_with('h') || !switch.starts_with("leaf") {
            continue;
        }
        // Hosts have two LIDs, the first of which is even.
        let lid = u32::from_str_radix(&lid[2..], 16).expect("a LID");
        let is_second = lid % 2 == 1;
        assert_eq!(port, if is_second { &part[key] } else { &whole[key] }, "{key:?}");
        *(if is_second { &mut second } else { &mut first }) += 1;
    }
    assert_eq!((first, second), (4 * 8, 4 * 8));
}

#[test]
fn torus_2qos_is_a_step_with_its_service_levels() {
    let chain = Chain::new(
        "",
        WHOLE_AS_TOPOLOGY,
        &(step(1, "minhop", "") + &step(2, "torus-2QoS", "topology: 1")),
    );
    let torus = ["5x5x1", "-Q"];
    let (code, report) = chain.plan(&[&torus[..], &["--path-sl"]].concat());
    assert_eq!((code, &report["engine"]), (Some(0), &"chain".into()), "{}", notes(&report));
    let (_, single) = plan(&[&torus[..], &["--path-sl", "-R", "torus-2QoS,no_fallback"]].concat());
    assert!(chain.has_dump("opensm-lid-matrix.2.torus-2QoS.dump"));
    assert_eq!(report["path_sl"], single["path_sl"]);
    assert_eq!(report["vls"], single["vls"]);
    assert_eq!(report["checks"]["dependencies"], single["checks"]["dependencies"]);
}

/// An example of the manual of routing chains.
fn example(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/routing-chains");
    fs::read_to_string(folder.join(name)).expect("the example")
}

/// Two switches with hosts, given by name and port GUID, in turns.
fn two_switches(hosts: &[(&str, u64)]) -> String {
    let guids = ["S-0000000000000100", "S-0000000000000110"];
    let host = |guid: u64| format!("H-{:016x}", guid + 0x1000);
    let mut text = String::new();
    for (number, guid) in guids.iter().enumerate() {
        let peer = guids[1 - number];
        text += &format!("Switch\t8 \"{guid}\"\t\t# \"sw {number}\" base port 0 lid 0 lmc 0\n");
        text += &format!("[8]\t\"{peer}\"[8]\t\t# \"sw\" lid 0 4xQDR\n");
        for (place, (name, port)) in hosts.iter().enumerate().filter(|(at, _)| at % 2 == number) {
            let own = place / 2 + 1;
            text += &format!("[{own}]\t\"{}\"[1]({port:x})\t\t# \"{name}\"\n", host(*port));
        }
        text += "\n";
    }
    for (place, (name, port)) in hosts.iter().enumerate() {
        let own = place / 2 + 1;
        let switch = guids[place % 2];
        text += &format!("Ca\t1 \"{}\"\t\t# \"{name}\"\n", host(*port));
        text +=
            &format!("[1]({port:x})\t\"{switch}\"[{own}]\t\t# lid 0 lmc 0 \"sw\" lid 0 4xQDR\n\n");
    }
    text
}

/// The groups grp1 to grp4 of the manual: the last definition of grp3 leaves the first port of grp1
/// and the first adapter of the host kika.
#[test]
fn the_groups_of_the_manual_select_the_hosts_of_a_step() {
    let groups = example("port-groups.conf");
    let topologies = "topology\nid: 1\nsw-grp: ALL_SWITCHES\nhca-grp: grp3\nend-topology\n";
    let chain =
        Chain::new(&groups, topologies, &(step(1, "minhop", "") + &step(2, "updn", "topology: 1")));
    let hosts = [
        ("a HCA-1", 0x281),
        ("b HCA-1", 0x282),
        ("c HCA-1", 0x283),
        ("server1 HCA-1", 0x290),
        ("kika HCA-1", 0x291),
        ("kika HCA-2", 0x292),
    ];
    chain.write("fabric.net", &two_switches(&hosts));
    let file = chain.path("fabric.net").display().to_string();
    let (code, report) = chain.plan(&["--file", &file]);
    assert_eq!((code, &report["engine"]), (Some(0), &"chain".into()), "{}", notes(&report));
    let destinations = |name: &str| -> BTreeSet<String> {
        chain.tables(name).into_keys().map(|(_, to, _)| to).collect()
    };
    let all: BTreeSet<String> = hosts
        .iter()
        .map(|(name, _)| name.to_string())
        .chain(["sw 0".into(), "sw 1".into()])
        .collect();
    assert_eq!(destinations("opensm-lfts.1.minhop.dump"), all);
    let part = ["a HCA-1", "kika HCA-1", "sw 0", "sw 1"].map(String::from);
    assert_eq!(destinations("opensm-lfts.2.updn.dump"), BTreeSet::from(part));
}

/// The steps of the manual: ftree refuses several LIDs for each port, so that its fallback routes
/// the second LIDs of the hosts.
#[test]
fn the_steps_of_the_manual_route_a_tree() {
    let groups = "port-group\nname: ys_switches\nport-regexp: .*(leaf|spine)\nend-port-group\n\
                  port-group\nname: ys_hosts\nport-regexp: h[01]-\nend-port-group\n";
    let chain = Chain::new(groups, &example("topologies.conf"), "");
    chain.write("step.conf", "port_shifting TRUE\n");
    let config = chain.path("step.conf").display().to_string();
    chain.write("rch.conf", &example("steps.conf").replace("/etc/config/opensm2.cfg", &config));
    let (code, report) = chain.plan(&["fattree:4x3", "--hosts", "2", "--lmc", "1"]);
    assert_eq!((code, &report["engine"]), (Some(0), &"chain".into()), "{}", notes(&report));
    assert!(notes(&report).contains("step 2 (ftree): LMC 1"), "{}", notes(&report));
    for file in
        ["opensm-lid-matrix.3.minhop.dump", "opensm.fdbs.3.minhop", "opensm-subnet.2.ftree.lst"]
    {
        assert!(chain.has_dump(file), "{file}");
    }
    assert!(chain.tables("opensm-lfts.3.minhop.dump").keys().all(|(_, to, _)| {
        !to.starts_with('h') || to.starts_with("h0-") || to.starts_with("h1-")
    }));
}

#[test]
fn mistakes_in_the_files_are_located() {
    let chain = Chain::new("", "", "unicast-step\nid: 1\nengine: pqtf\nend-unicast-step\n");
    let (code, report) = chain.plan(&["3x3x1"]);
    assert_eq!(code, Some(1));
    let file = chain.path("rch.conf").display().to_string();
    let said = notes(&report);
    assert!(said.contains(&format!("{file}:3:9: `pqtf` is not an engine")), "{said}");
    let config = chain.path("opensm.conf").display().to_string();
    let check = Command::new(env!("CARGO_BIN_EXE_torus-sm"))
        .args(["check", "-F", &config, "-R", "chain"])
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&check.stdout);
    assert!(text.contains("did you mean `pqft`?"), "{text}");
}
