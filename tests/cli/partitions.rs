//! partitions.conf: the example of opensm(8), the diagnostics of typical mistakes, and the same
//! file given to Debian's opensm and to torus-sm. The qos_* options are compared in the same way.

mod check_command;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::{Ibsim, Running, have, tool, torus_sm, wait_for};
use torus_sm::config::excerpt;
use torus_sm::config::options::Options;
use torus_sm::config::partitions::PartitionsConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::ibnet;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::ids::{Gid, Guid, Pkey, PortNum};
use torus_sm::notes::Severity;
use torus_sm::plan::partitions;
use torus_sm::plan::partitions::removed_pkeys::RemovedPkeys;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/partitions")
}

/// Separates a file from its diagnostics.
const RULE: &str = "----------------------------------------\n";

#[test]
fn mistakes_are_explained() {
    let folder = vectors().join("mistakes");
    let mut cases: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    cases.sort();
    assert!(cases.len() >= 20);
    for case in cases {
        let golden = fs::read_to_string(&case).unwrap();
        let (text, wanted) = golden.split_once(RULE).unwrap_or((&golden, ""));
        let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), text);
        assert_eq!(
            config.is_none(),
            findings.iter().any(|found| found.severity == Severity::Error),
            "{}",
            case.display()
        );
        let said: Vec<String> = findings.iter().map(|f| excerpt::render(f, text) + "\n").collect();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&case, [text, RULE, &said.concat()].concat()).unwrap();
        } else {
            assert_eq!(said.concat(), wanted, "{}", case.display());
        }
    }
}

#[test]
fn the_examples_of_our_manual_are_right() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/partitions.conf.5");
    let page = fs::read_to_string(page).unwrap().replace("\\-", "-");
    let (_, examples) = page.split_once(".SH EXAMPLES\n").expect("examples");
    let blocks = examples.split(".EX\n").skip(1).filter_map(|rest| rest.split(".EE").next());
    let mut count = 0;
    for block in blocks {
        let (config, findings) = PartitionsConfig::parse(Path::new("example"), block);
        assert_eq!(findings, [], "{block}");
        let options = Options::default();
        let (_, notes) = partitions::partitions(&config.expect("no error"), &options, &[]);
        assert_eq!(notes, [], "{block}");
        count += 1;
    }
    assert_eq!(count, 3);
}

/// The cases that opensm(8) calls equivalent: a file without a rule for the default partition, no
/// file, and the behaviour of OpenSM versions without partitions.
#[test]
fn rules_that_the_manual_calls_equivalent_agree() {
    let shape = Shape { hosts: 2, router: true, ..Shape::torus([3, 1, 1]) };
    let topology = shape.build().expect("a ring");
    let fabric =
        Fabric::from_topology(&topology, 3, &SyntheticView::default()).expect("node 3 exists");
    let options = Options::default();
    let made = |text: Option<&str>| {
        let found = text.map_or_else(
            || partitions::default(&options),
            |text| {
                let (config, findings) = PartitionsConfig::parse(Path::new("p.conf"), text);
                assert_eq!(findings, [], "{text}");
                partitions::partitions(&config.expect("no error"), &options, &[]).0
            },
        );
        let gone = RemovedPkeys::default();
        let (tables, _, notes) = partitions::tables(&fabric, &found, &[], &gone, &options);
        assert_eq!(notes, []);
        let keys: Vec<Vec<Pkey>> = fabric
            .end_ports()
            .map(|port| {
                let keys = tables.keys[port.index()].iter().copied();
                keys.filter(|key| key.base() == 0x7FFF).collect()
            })
            .collect();
        let groups = found.iter().flat_map(|part| &part.groups).map(|group| group.mgid);
        (keys, groups.collect::<Vec<_>>())
    };
    let limited = made(Some("Default=0x7fff : ALL=limited, SELF=full ;"));
    assert_eq!(made(Some("Other=0x10 : ALL;")), limited);
    let own = fabric.end_ports().position(|port| port == fabric.local()).expect("it exists");
    for (index, keys) in limited.0.iter().enumerate() {
        let expected = if index == own { Pkey::DEFAULT_FULL } else { Pkey::DEFAULT_LIMITED };
        assert_eq!(*keys, [expected]);
    }
    let (full, no_groups) = made(Some("Default=0x7fff : ALL=full ;"));
    assert!(full.iter().all(|keys| *keys == [Pkey::DEFAULT_FULL]) && no_groups.is_empty());
    let (without_file, groups) = made(None);
    assert_eq!((&without_file, groups.len()), (&full, 1));
    assert_eq!(made(Some("Default=0x7fff,ipoib:ALL=full;")), (without_file, groups));
}

/// The P_Key at index 0 of the subnet manager's port: as in OpenSM a later entry for the port in
/// the same partition cancels `indx0`, and the previous key does not return.
#[test]
fn a_later_entry_cancels_index_0() {
    let shape = Shape { hosts: 2, ..Shape::torus([3, 1, 1]) };
    let topology = shape.build().expect("a ring");
    let fabric =
        Fabric::from_topology(&topology, 3, &SyntheticView::default()).expect("node 3 exists");
    let options = Options { allow_both_pkeys: true, ..Options::default() };
    for (text, expected) in [
        ("A=2: SELF; Default=0x7fff: SELF=full;", 0xFFFF),
        ("A=2, indx0: SELF; Default=0x7fff: SELF=full;", 2),
        ("A=2, indx0: SELF; B=3, indx0: ALL=full;", 0x8003),
        ("A=2, indx0: SELF; B=3, indx0: ALL; A=2: SELF=full;", 3),
        ("A=2, indx0: SELF; A=2: SELF=full;", 0xFFFF),
        ("A=2, indx0: SELF; D=0x7fff, indx0: ALL=both; D=0x7fff: SELF=full;", 0xFFFF),
        ("A=2, indx0: SELF; B=3, indx0: ALL; B=3: SELF; A=2, indx0: SELF;", 2),
    ] {
        let (config, _) = PartitionsConfig::parse(Path::new("p.conf"), text);
        let (found, _) = partitions::partitions(&config.expect("no error"), &options, &[]);
        let gone = RemovedPkeys::default();
        let (tables, _, _) = partitions::tables(&fabric, &found, &[], &gone, &options);
        let (_, block) = tables.blocks[fabric.local().index()][0];
        assert_eq!(block.0[0], Pkey(expected), "{text}");
    }
}

/// A 3x1x1 ring whose hosts have the GUIDs of the manual's example, port after port.
#[test]
fn the_example_of_the_manual_takes_effect() {
    let text = fs::read_to_string(vectors().join("opensm.8.conf")).unwrap();
    let (config, findings) = PartitionsConfig::parse(Path::new("partitions.conf"), &text);
    let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["partitions.conf:4:53: `limi` is read as `limited`"]);
    let options = Options { qos: true, ..Options::default() };
    let (found, notes) = partitions::partitions(&config.expect("no error"), &options, &[]);
    assert_eq!(notes, []);
    let names: Vec<_> = found.iter().map(|part| (part.name.as_str(), part.pkey.0)).collect();
    let expected =
        [("Default", 0x7FFF), ("NewPartition", 1), ("YetAnotherOne", 0x300), ("ShareIO", 0x80)];
    assert_eq!(names, expected);
    let groups: Vec<_> = found[0].groups.iter().map(|g| (g.mgid.to_string(), g.sl.0)).collect();
    let group = |name: &str, sl| (name.to_owned(), sl);
    assert_eq!(
        groups,
        [
            group("ff12:401b:ffff::ffff:ffff", 0),
            group("ff12:401b:ffff::707", 1),
            group("ff12:601b:ffff::16", 0),
            group("ff12:401b:ffff::16", 0),
            group("ff12:601b:ffff::2", 0),
            group("ff12::1", 1),
        ]
    );
    assert_eq!(found[1].groups[0].mgid.to_string(), "ff12:401b:8001::ffff:ffff");
    let random = &found[0].groups[5];
    assert_eq!((random.q_key, random.rate, random.mtu), (0xDEAD_BEEF, 3, 2));

    let shape = Shape { hosts: 8, ..Shape::torus([3, 1, 1]) };
    let mut topology = shape.build().expect("a ring");
    let listed = [
        0x12_3456_u64,
        0x34_5678_9034,
        0x21_34af_2306,
        0x12_3451,
        0x12_3452,
        0x12_3453,
        0x12_3454,
        0x12_3455,
        0x12_3457,
        0x12_3458,
        0x12_3459,
        0x12_345a,
        0x12_345b,
        0x12_345c,
        0x12_345d,
    ];
    let hosts = topology.nodes.iter_mut().filter(|node| node.kind == NodeKind::Ca).skip(1);
    for (node, guid) in hosts.zip(listed) {
        node.port_guids = vec![(PortNum(1), Guid(guid))];
    }
    let fabric =
        Fabric::from_topology(&topology, 3, &SyntheticView::default()).expect("node 3 exists");
    let (tables, _, notes) =
        partitions::tables(&fabric, &found, &[], &RemovedPkeys::default(), &options);
    assert_eq!(notes, []);
    let keys = |guid: u64| -> Vec<u16> {
        let port = fabric.port_by_guid(Guid(guid)).unwrap_or_else(|| panic!("{guid:#x}"));
        tables.keys[port.index()].iter().map(|key| key.0).collect()
    };
    for (guid, expected) in [
        (0x12_3456, vec![0xFFFF, 0x80, 0x8001, 0x300]),
        (0x34_5678_9034, vec![0xFFFF, 1, 0x300]),
        (0x21_34af_2306, vec![0xFFFF, 1, 0x300]),
        (0x12_3451, vec![0xFFFF, 0x8080, 0x300]),
        (0x12_3453, vec![0xFFFF, 0x80, 0x300]),
        (0x12_3455, vec![0xFFFF, 0x8080, 0x300]),
        (0x12_3457, vec![0xFFFF, 0x80, 0x300]),
        (0x12_3458, vec![0xFFFF, 0x8080, 0x300]),
        (0x12_345a, vec![0xFFFF, 0x8080, 0x300]),
        (0x12_345c, vec![0xFFFF, 0x80, 0x300]),
        (0x12_345d, vec![0xFFFF, 0x8080, 0x300]),
    ] {
        let mut found = keys(guid);
        found[1..].sort_unstable_by_key(|key| key & 0x7FFF);
        let mut expected = expected;
        expected[1..].sort_unstable_by_key(|key| key & 0x7FFF);
        assert_eq!(found, expected, "{guid:#x}");
    }
    assert_eq!(tables.service_level(Pkey(0x8001)).0, 0);
}

/// A fabric, a partitions.conf, and a subnet manager that has read both.
struct Site {
    sim: Ibsim,
    host: String,
    manager: Running,
    files: TempDir,
}

impl Site {
    fn new(shape: &Shape, conf: &str, program: &Path, extra: &[&str]) -> Self {
        let files = tempfile::tempdir().expect("a folder");
        let topology = shape.build().expect("a torus");
        let net = files.path().join("fabric.net");
        let partitions = files.path().join("p.conf");
        fs::write(&net, ibnet::write(&topology)).expect("a file");
        fs::write(&partitions, conf).expect("a file");
        let sim = Ibsim::start(&net);
        let log = sim.dir().join("sm.log");
        let host = format!("H-{:016x}", shape.host_guid([0, 0, 0], 0).0);
        let manager = sim
            .command(&host, program)
            .args(["-R", "minhop", "-Q", "-n", "64", "-d2"])
            .args(extra)
            .arg("-P")
            .arg(&partitions)
            .arg("-f")
            .arg(&log)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the subnet manager starts");
        let manager = Running(manager);
        wait_for(&log, "SUBNET UP", Duration::from_secs(30));
        Self { sim, host, manager, files }
    }

    /// The output of a tool, run beside the subnet manager, whose port is a full member of the
    /// default partition.
    fn text(&self, program: &str, args: &[&str]) -> String {
        let output = self.sim.run(&self.host, program, args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {text}{errors}");
        text
    }

    /// The P_Key table of a port as the device holds it, without trailing zeros.
    fn keys(&self, guid: Guid, port: PortNum) -> Vec<u16> {
        let text = self.text("smpquery", &["-G", "pkeys", &guid.to_string(), &port.to_string()]);
        let words = text.split_whitespace().filter_map(|word| word.strip_prefix("0x"));
        let mut keys: Vec<u16> =
            words.map(|word| u16::from_str_radix(word, 16).expect("a key")).collect();
        keys.truncate(keys.iter().rposition(|&key| key != 0).map_or(0, |last| last + 1));
        keys
    }

    /// The record of a group; empty if there is none.
    fn group(&self, mgid: &Gid) -> String {
        self.text("saquery", &["MCMR", "--mgid", &mgid.to_string()])
    }
}

/// Compares the tables of the devices and the answers of the administrator for a file.
fn same_as_opensm(conf: &str, extra: &[&str]) {
    let shape = Shape { hosts: 2, ..Shape::torus([3, 3, 1]) };
    let theirs = Site::new(&shape, conf, &tool("opensm").expect("checked"), extra);
    let ours = Site::new(&shape, conf, &torus_sm(), extra);
    let topology = shape.build().expect("a torus");
    for node in &topology.nodes {
        let first = u8::from(node.kind != NodeKind::Switch);
        let guid = node.port_guid(PortNum(first));
        let mut ports = vec![PortNum(first)];
        if node.kind == NodeKind::Switch {
            // The port to another switch, and those to the hosts.
            ports.extend([1, 7, 8].map(PortNum));
        }
        for port in ports {
            let our = ours.keys(guid, port);
            let their = theirs.keys(guid, port);
            assert_eq!(our, their, "{guid} port {port} of\n{conf}");
        }
    }
    if extra.contains(&"-W") {
        // OpenSM does not find the groups then for requesters that have the full key only.
        return;
    }
    let (config, _) = PartitionsConfig::parse(Path::new("p.conf"), conf);
    let options = Options { qos: true, ..Options::default() };
    let (found, _) = partitions::partitions(&config.expect("no error"), &options, &[]);
    for group in found.iter().flat_map(|partition| &partition.groups) {
        let our = ours.group(&group.mgid);
        let their = theirs.group(&group.mgid);
        assert!(our.contains("mlid"), "{} is not there: {our}", group.mgid);
        assert_eq!(our, their, "{} of\n{conf}", group.mgid);
    }
}

#[test]
fn tables_and_groups_are_those_of_opensm() {
    if !have(&["ibsim", "opensm", "smpquery", "saquery"]) {
        return;
    }
    let conf = "Default=0x7fff, ipoib : ALL=limited, ALL_SWITCHES=full, SELF=full ;
        A=0x10, ipoib, mtu=5, rate=7, sl=4, defmember=full : ALL_CAS;
        B, defmember=full : ALL=limited, SELF;
        C=0x100 : ALL_CAS=both;
        D=0x0203, indx0 : ALL_CAS=full;
        Default=0x7fff, ipoib:
            mgid=ff12:401b::0707,sl=1
            mgid=ff12:601b::16
            mgid=ff15::1,scope=2,Q_Key=7,TClass=5,FlowLabel=9,rate=3,mtu=2
            SELF=full;";
    same_as_opensm(conf, &[]);
    same_as_opensm(conf, &["-W"]);
}

/// A random file. It avoids the intended differences from OpenSM: generated keys that appear
/// further down in the file, groups of partitions without members, and scopes of broadcast groups.
fn generated(seed: u64, shape: &Shape) -> String {
    let mut random = Random(seed);
    let mut conf = String::new();
    let hosts: Vec<u64> = (0..3)
        .flat_map(|x| (0..3).map(move |y| [x, y, 0]))
        .flat_map(|at| (0..2).map(move |host| (at, host)))
        .map(|(at, host)| shape.host_guid(at, host).0 + 1)
        .collect();
    for number in 0..4 + random.below(12) {
        let name = format!("P{}", random.below(8));
        // Explicit keys come before generated ones.
        conf += &match random.below(5) {
            0 => "Default=0x7fff".to_owned(),
            1 | 2 if number < 6 => format!("K{number}={:#x}", 0x100 + random.below(0x7000)),
            _ if number < 6 => "Q=0x123".to_owned(),
            _ => name,
        };
        for flag in ["ipoib", "defmember=full", "defmember=both", "mtu=5", "rate=7", "sl=4"] {
            if random.below(4) == 0 {
                conf += &format!(" , {flag}");
            }
        }
        conf += " :\n";
        let ports = 1 + random.below(6);
        for _ in 0..ports {
            conf += &match random.below(8) {
                0 => "ALL".to_owned(),
                1 => "ALL_CAS".to_owned(),
                2 => "ALL_SWITCHES".to_owned(),
                _ => format!("{:#x}", hosts[random.below(hosts.len())]),
            };
            conf += ["", "=full", " = limited", "=both"][random.below(4)];
            conf += [",\n", " , "][random.below(2)];
        }
        conf += " SELF;\n";
    }
    // The tools send their queries from the subnet manager's port.
    conf + "Default=0x7fff : SELF=full;\n"
}

#[test]
fn generated_files_mean_the_same_to_opensm() {
    if !have(&["ibsim", "opensm", "smpquery", "saquery"]) {
        return;
    }
    let shape = Shape { hosts: 2, ..Shape::torus([3, 3, 1]) };
    let rounds = std::env::var("TORUS_SM_ROUNDS").ok().and_then(|text| text.parse().ok());
    for seed in 0..rounds.unwrap_or(2) {
        println!("seed {seed}");
        same_as_opensm(&generated(seed, &shape), &[]);
    }
}

/// VL arbitration, limit and SL to VL tables of a port, as read from the device. Lines with LIDs
/// are left out.
fn service_levels(site: &Site, guid: Guid, port: PortNum) -> String {
    let guid = guid.to_string();
    let port = port.to_string();
    let of = |what: &str| site.text("smpquery", &["-G", what, &guid, &port]);
    let info = of("portinfo");
    let info =
        info.lines().filter(|line| ["VLHighLimit", "OperVLs"].iter().any(|w| line.starts_with(w)));
    let tables = [of("vlarb"), of("sl2vl")].concat();
    let tables = tables.lines().filter(|line| !line.contains("Lid "));
    info.chain(tables).map(|line| format!("{line}\n")).collect()
}

/// Without `max_op_vls`: OpenSM's first sweep cuts the tables to the VLs that a port had, torus-sm
/// to those that it gets.
#[test]
fn qos_options_mean_the_same_to_opensm() {
    if !have(&["ibsim", "opensm", "smpquery"]) {
        return;
    }
    let shape = Shape { hosts: 1, ..Shape::torus([3, 1, 1]) };
    let switch = shape.switch_guid([1, 0, 0]);
    let host = Guid(shape.host_guid([1, 0, 0], 0).0 + 1);
    let general = "qos_max_vls 15\nqos_high_limit 6\nqos_vlarb_high 0:4,1:64,2:0x10\n\
        qos_vlarb_low 0:1,1:2,2:3,3:4,4:5,5:6,6:7,7:8,8:9,9:10,15:3\n\
        qos_sl2vl 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n";
    let kinds = "qos_ca_high_limit 0\nqos_ca_vlarb_low 3:3,2:2\nqos_ca_sl2vl 7,6,5,4,3,2,1,0\n\
        qos_swe_high_limit 255\nqos_swe_vlarb_high 1:1\n\
        qos_swe_sl2vl 0,1,0,1,0,1,0,1,0,1,0,1,0,1,15,15\nqos_sw0_sl2vl 3,3,3\n";
    for options in ["", general, &[general, kinds].concat()] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("opensm.conf");
        fs::write(&file, options).expect("a file");
        let extra = ["-F", file.to_str().expect("a name in UTF-8")];
        let theirs = Site::new(&shape, "", &tool("opensm").expect("checked"), &extra);
        let ours = Site::new(&shape, "", &torus_sm(), &extra);
        for (guid, port) in [(host, 1), (switch, 0), (switch, 1), (switch, 7)] {
            let port = PortNum(port);
            let our = service_levels(&ours, guid, port);
            let their = service_levels(&theirs, guid, port);
            assert!(our.contains("OperVLs"), "{our}");
            assert_eq!(our, their, "{guid} port {port} with\n{options}");
        }
    }
}

/// Pseudo-random numbers (SplitMix64): the same files in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit.max(1) as u64) as usize
    }
}

#[test]
fn a_wrong_file_prevents_the_start_and_is_ignored_on_reload() {
    if !have(&["ibsim", "smpquery"]) {
        return;
    }
    let shape = Shape { hosts: 1, ..Shape::torus([3, 1, 1]) };
    let conf = "Default=0x7fff : ALL=full; Storage=0x10, defmember=full : ALL_CAS;";
    let site = Site::new(&shape, conf, &torus_sm(), &[]);
    let guid = Guid(shape.host_guid([1, 0, 0], 0).0 + 1);
    assert_eq!(site.keys(guid, PortNum(1)), [0xFFFF, 0x8010]);
    let file = site.files.path().join("p.conf");
    let log = site.sim.dir().join("sm.log");
    let reload = |text: &str, log_line: &str| {
        fs::write(&file, text).expect("a file");
        let pid = nix::unistd::Pid::from_raw(site.manager.0.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).expect("it runs");
        wait_for(&log, log_line, Duration::from_secs(10));
    };
    reload("Default=0x7fff : ALL=full; Storage=10h : ALL;", "the configuration stays as it was");
    let said = fs::read_to_string(&log).expect("the log");
    assert!(said.contains("p.conf:1:36: error: `10h` is not a P_Key"), "{said}");
    assert_eq!(site.keys(guid, PortNum(1)), [0xFFFF, 0x8010]);
    reload("Default=0x7fff : ALL=full; Other=0x11 : ALL;", "configuration read again");
    let deadline = Instant::now() + Duration::from_secs(10);
    while site.keys(guid, PortNum(1)) != [0xFFFF, 0, 0x11] {
        assert!(Instant::now() < deadline, "{:x?}", site.keys(guid, PortNum(1)));
    }
    fs::write(&file, "Storage : 0x12g;").expect("a file");
    let again = site.sim.command(&site.host, &torus_sm()).arg("-P").arg(&file).output();
    let again = again.expect("it starts");
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(4), "{said}");
    assert!(said.contains("Storage : 0x12g;\n              ^^^^^\n"), "{said}");
}
