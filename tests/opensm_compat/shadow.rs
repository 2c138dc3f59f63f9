//! `torus-sm --dry-start` and `torus-sm shadow` beside Debian's opensm: no Set is sent, none is needed on
//! the fabrics that opensm has configured, and planted differences are told.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::process::{own_program, wait_until_settled};
use testkit::sa_client::{UmadClient, is_inside, joins, run_inside};
use testkit::{Ibsim, Running, Simulator, have, tool, torus_sm};
use torus_sm::fabric::ibnet;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::mad::{Method, Status};

/// The MLID that opensm gives the first group that a client creates, behind those of the partitions.
const GROUP_MLID: u16 = 0xC001;

/// Exit code if Sets would change what devices hold.
const CHANGES: i32 = 6;

/// Writes opensm.conf with `options`, torus-2QoS.conf and two partitions to `folder`.
fn configuration(folder: &Path, shape: &Shape, options: &str) -> PathBuf {
    let torus = folder.join("torus-2QoS.conf");
    fs::write(&torus, shape.torus_conf()).expect("a file");
    let partitions = folder.join("partitions.conf");
    fs::write(&partitions, "Default=0x7fff, ipoib: ALL=full;\nblue=0x1234: ALL=full;\n")
        .expect("a file");
    let config = folder.join("opensm.conf");
    let text = format!(
        "torus_config {}\npartition_config_file {}\nsweep_interval 0\n{options}\n",
        torus.display(),
        partitions.display()
    );
    fs::write(&config, text).expect("a file");
    config
}

/// opensm on ibsim, with the configuration that it and torus-sm read.
struct Managed {
    sim: Ibsim,
    config: PathBuf,
    host: String,
    /// Another host than that of opensm.
    other: String,
    /// Three hosts: these two and a further one.
    members: [String; 3],
    opensm: Running,
    _folder: TempDir,
}

impl Managed {
    /// Starts opensm on a generated fabric, and waits until it has configured the subnet. `None` if
    /// programs are missing.
    fn start(shape: &str, options: &str) -> Option<Self> {
        if !have(&["ibsim", "opensm"]) {
            return None;
        }
        let shape: Shape = shape.parse().expect("a shape");
        let topology = shape.build().expect("a fabric");
        let folder = tempfile::tempdir().expect("a folder");
        let net = folder.path().join("fabric.net");
        fs::write(&net, ibnet::write(&topology)).expect("a file");
        let config = configuration(folder.path(), &shape, options);
        let mut hosts = topology.nodes.iter().filter(|node| node.num_ports == 1);
        let mut host = || format!("H-{:016x}", hosts.next().expect("a host").guid.0);
        let members = [host(), host(), host()];
        let [host, other, _] = members.clone();
        let sim = Ibsim::start(&net);
        let log = sim.dir().join("opensm.log");
        let opensm = sim
            .command(&host, &tool("opensm").expect("checked"))
            // With dump files.
            .args(["-d2", "-D", "0x43", "-F"])
            .arg(&config)
            .arg("-f")
            .arg(&log)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("opensm starts");
        let opensm = Running(opensm);
        wait_until_settled(&log);
        Some(Self { sim, config, host, other, members, opensm, _folder: folder })
    }

    /// Lets two hosts join a group, and waits until opensm has dumped its tables.
    fn join_group(&self) {
        for host in &self.members[1..] {
            run_inside(self.sim.command(host, &own_program()), module_path!(), "joins_a_group");
        }
        let pid = Pid::from_raw(i32::try_from(self.opensm.0.id()).expect("a process"));
        // The dump files are written after a heavy sweep.
        kill(pid, Signal::SIGHUP).expect("it runs");
        let dump = self.sim.dir().join("opensm.mcfdbs");
        let deadline = Instant::now() + Duration::from_secs(60);
        let entry = format!("0x{GROUP_MLID:04X} :");
        while !fs::read_to_string(&dump).unwrap_or_default().contains(&entry) {
            assert!(Instant::now() < deadline, "opensm does not dump the group");
            std::thread::sleep(Duration::from_millis(50));
        }
        wait_until_settled(&self.sim.dir().join("opensm.log"));
    }

    /// Runs torus-sm at a host with these arguments and the configuration of opensm, without its cache.
    fn torus_sm(&self, host: &str, args: &[&str]) -> Output {
        let mut command = self.sim.command(host, &torus_sm());
        command.args(args).arg("-F").arg(&self.config);
        command.env("OSM_CACHE_DIR", self.sim.dir().join("own-cache"));
        command.output().expect("torus-sm runs")
    }

    fn dry_start(&self) -> (Value, Output) {
        let output = self.torus_sm(&self.host, &["--dry-start-json"]);
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
        });
        (report, output)
    }

    /// The report of one pass of a shadow at another host, with these further options.
    fn shadow(&self, options: &[&str]) -> Value {
        let ignored = NOT_STORED.join(",");
        let state = self.sim.dir().join("shadow.json");
        let state = state.to_str().expect("text");
        let pass = ["shadow", "--passes", "1", "--rate", "20000", "--ignore", &ignored];
        let watched =
            self.torus_sm(&self.other, &[&pass[..], &["--state", state], options].concat());
        let errors = String::from_utf8_lossy(&watched.stderr);
        let args = ["shadow", "--report", "--json", "--state", state];
        let shown = self.torus_sm(&self.other, &args);
        assert_eq!(shown.status.code(), watched.status.code(), "{errors}");
        serde_json::from_slice(&shown.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
    }
}

/// Bytes before the MAD in a request of ibsim's preloaded library to ibsim: addresses, status and context.
const SHIM_HEADER: usize = 32;

/// The class and method of each MAD that a trace of system calls shows on its way to ibsim.
fn traced_mads(trace: &str) -> Vec<(u8, u8)> {
    let written = trace.lines().filter_map(|line| line.split_once("\"\\x")?.1.split_once('"'));
    let bytes = written.map(|(text, _)| -> Vec<u8> {
        let digits = text.split("\\x").filter_map(|digits| u8::from_str_radix(digits, 16).ok());
        digits.collect()
    });
    let requests = bytes.filter(|bytes| bytes.len() == SHIM_HEADER + 256);
    requests.map(|bytes| (bytes[SHIM_HEADER + 1], bytes[SHIM_HEADER + 3])).collect()
}

/// The MADs of a shadow as the kernel gets them from ibsim's library.
#[test]
fn a_shadow_beside_opensm_sends_no_set() {
    const GET: u8 = 1;
    const GET_TABLE: u8 = 0x12;
    const SMI_CLASSES: [u8; 2] = [0x01, 0x81];
    let Some(strace) = tool("strace") else { return };
    let Some(managed) = Managed::start("4x4x2", TORUS) else { return };
    let trace = managed.sim.dir().join("trace");
    let state = managed.sim.dir().join("shadow.json");
    let mut command = managed.sim.command(&managed.other, &strace);
    command.args(["-f", "-xx", "-s", "400", "-e", "trace=write,sendto", "-o"]).arg(&trace);
    command.arg(torus_sm()).args(["shadow", "--passes", "2", "--interval", "1", "--rate", "20000"]);
    command.arg("--state").arg(&state).arg("-F").arg(&managed.config);
    command.env("OSM_CACHE_DIR", managed.sim.dir().join("own-cache"));
    let output = command.output().expect("strace runs");
    let trace = fs::read_to_string(&trace).expect("a trace");
    let mads = traced_mads(&trace);
    let smps = mads.iter().filter(|(class, _)| SMI_CLASSES.contains(class)).count();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(smps > 1000, "{smps} SMPs of {} MADs: {errors}", mads.len());
    let others: Vec<&(u8, u8)> =
        mads.iter().filter(|(_, method)| ![GET, GET_TABLE].contains(method)).collect();
    println!("{} MADs, of which {smps} are SMPs; {} are no Gets", mads.len(), others.len());
    assert!(others.is_empty(), "class and method: {others:?}");
}

const TORUS: &str = "routing_engine torus-2QoS\nqos TRUE";

/// The settings of ports that ibsim does not store, so that every subnet manager sends them again.
const NOT_STORED: [&str; 6] = [
    "LocalPhyErrors",
    "OverrunErrors",
    "M_KeyLeasePeriod",
    "SubnetTimeOut",
    "MasterSMSL",
    "LinkWidthEnabled",
];

#[test]
fn on_ibsim_only_settings_that_it_does_not_store_would_be_written_after_opensm() {
    for (shape, options) in [("4x4x2", TORUS), ("5x4x1", TORUS), ("4x4x2", "routing_engine minhop")]
    {
        let Some(managed) = Managed::start(shape, options) else { return };
        let (report, output) = managed.dry_start();
        assert_eq!(output.status.code(), Some(CHANGES), "{shape} {options}");
        let sets = report["sets"].as_array().expect("a list");
        for set in sets {
            assert_eq!(set["attribute"], "PortInfo", "{shape} {options}: {set:#}");
            for difference in set["differences"].as_array().expect("a list") {
                let text = difference.as_str().expect("text");
                let is_known = NOT_STORED.iter().any(|name| text.starts_with(name));
                assert!(is_known, "{shape} {options}: {set:#}");
            }
        }
    }
}

#[test]
fn nothing_would_be_written_after_opensm_with_the_same_configuration() {
    if !have(&["opensm"]) {
        return;
    }
    for (shape, options) in [("4x4x2", TORUS), ("5x4x1", TORUS), ("4x4x2", "routing_engine minhop")]
    {
        let sim = Simulator::start(&[shape, "--no-sm"]);
        let config = configuration(sim.dir.path(), &shape.parse().expect("a shape"), options);
        let config = config.to_str().expect("text");
        let _opensm = sim.opensm("", "opensm.log", &["-F", config]);
        wait_until_settled(&sim.dir.path().join("opensm.log"));
        let program = torus_sm();
        let run = |args: &[&str]| {
            let mut command = sim.command("", &program);
            command.args(args).args(["-F", config]);
            command.env("OSM_CACHE_DIR", sim.dir.path().join("own-cache"));
            command.output().expect("torus-sm runs")
        };
        let output = run(&["--dry-start-json"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["changes"], 0, "{shape} {options}: {report:#}");
        assert_eq!(output.status.code(), Some(0));
        let text = String::from_utf8_lossy(&run(&["--dry-start"]).stdout).into_owned();
        println!("{text}");
    }
}

#[test]
fn the_dump_files_of_opensm_are_those_of_the_same_plan() {
    for (shape, options, other) in [
        ("4x4x2", TORUS, "minhop"),
        ("5x4x1", TORUS, "dor"),
        ("4x4x2", "routing_engine minhop", "dor"),
    ] {
        let Some(managed) = Managed::start(shape, options) else { return };
        managed.join_group();
        let folder = managed.sim.dir().to_str().expect("text").to_owned();
        let compare = |more: &[&str]| {
            let args = [&["shadow", "--dumps", &folder, "--json"][..], more].concat();
            let output = managed.torus_sm("", &args);
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            serde_json::from_slice::<Value>(&output.stdout)
                .unwrap_or_else(|error| panic!("{error}: {errors}"))
        };
        let report = compare(&[]);
        assert_eq!(report["safe_to_switch"], true, "{shape} {options}: {report:#}");
        assert_eq!(report["groups"], 1, "{shape} {options}: {report:#}");
        // P_Keys and VL arbitration; without QoS, opensm dumps no SL to VL mappings.
        let has_qos = options.contains("qos TRUE");
        let not_compared = |report: &Value| report["not_compared"].as_array().map(Vec::len);
        let missing = if has_qos { 1 } else { 2 };
        assert_eq!(not_compared(&report), Some(missing), "{shape} {options}: {report:#}");
        let changed = compare(&["-R", other]);
        assert_eq!(changed["safe_to_switch"], false, "{shape} {options}: {changed:#}");
        assert!(attributes(&changed).contains("LinearForwardingTable"), "{changed:#}");

        // Differences that are planted in one file each.
        if has_qos {
            let file = managed.sim.dir().join("opensm-sl2vl.dump");
            let mapping = "\n2   1   : 0 ";
            let changed = "\n2   1   : 9 ";
            plant(&file, mapping, changed);
            assert_eq!(attributes(&compare(&[])), "SLtoVLMappingTable", "{shape} {options}");
            plant(&file, changed, mapping);
        }
        let entry = format!("0x{:04X} :", GROUP_MLID);
        let moved = format!("0x{:04X} :", GROUP_MLID + 1);
        plant(&managed.sim.dir().join("opensm.mcfdbs"), &entry, &moved);
        assert_eq!(attributes(&compare(&[])), "MulticastForwardingTable", "{shape} {options}");
        fs::remove_file(managed.sim.dir().join("opensm.mcfdbs")).expect("a file");
        let report = compare(&[]);
        assert_eq!(report["safe_to_switch"], true, "{shape} {options}: {report:#}");
        assert_eq!(not_compared(&report), Some(missing + 1), "{report:#}");
    }
}

/// The attributes in which a report tells differences, separated by commas.
fn attributes(report: &Value) -> String {
    let differences = report["differences"].as_array().expect("a list").iter();
    let names: BTreeSet<&str> = differences.filter_map(|set| set["attribute"].as_str()).collect();
    names.into_iter().collect::<Vec<_>>().join(",")
}

/// Replaces the first occurrence of a text in a file.
fn plant(path: &Path, text: &str, other: &str) {
    let before = fs::read_to_string(path).expect("a file");
    let after = before.replacen(text, other, 1);
    assert_ne!(after, before, "{text} is in {}", path.display());
    fs::write(path, after).expect("a file");
}

/// Joins a group at a host of ibsim. Outside, it does nothing.
#[test]
#[ignore = "needs the shim: run by the_dump_files_of_opensm_are_those_of_the_same_plan"]
fn joins_a_group() {
    if !is_inside() {
        return;
    }
    let client = UmadClient::open();
    let reply = client.call(&joins::request(Method::SET, client.guid(), 1, 7));
    assert_eq!(reply.status(), Status::OK);
}

#[test]
fn a_shadow_beside_opensm_finds_no_difference_on_ibsim_and_names_planted_ones() {
    for (shape, options) in [("4x4x2", TORUS), ("5x4x1", TORUS), ("4x4x2", "routing_engine minhop")]
    {
        let Some(managed) = Managed::start(shape, options) else { return };
        let report = managed.shadow(&[]);
        assert_eq!(report["safe_to_switch"], true, "{shape} {options}: {report:#}");
        assert_eq!(report["path_sls"]["asked"], report["path_sls"]["answered"]);
        assert_eq!(report["managers"][0]["state"], "MASTER");
        let has_loop = !report["credit_loop"].is_null();
        assert_eq!(has_loop, options.contains("minhop"), "{shape} {options}: {report:#}");

        let partitions = managed.sim.dir().join("other-partitions.conf");
        fs::write(&partitions, "Default=0x7fff, ipoib: ALL=full;\nred=0x2345: ALL=full;\n")
            .expect("a file");
        let text = fs::read_to_string(&managed.config).expect("a file");
        let other = text.replace("partition_config_file", "#");
        let sl_to_vl = "qos_swe_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0";
        let path = partitions.display();
        fs::write(&managed.config, format!("{other}\npartition_config_file {path}\n{sl_to_vl}\n"))
            .expect("a file");
        let report = managed.shadow(&["-R", "dor"]);
        assert_eq!(report["safe_to_switch"], false);
        let differences = report["differences"].as_array().expect("a list");
        let texts: Vec<&str> = differences
            .iter()
            .flat_map(|set| set["differences"].as_array().expect("a list"))
            .map(|text| text.as_str().expect("text"))
            .collect();
        let has = |part: &str| texts.iter().any(|text| text.contains(part));
        assert!(has("held 0x9234, planned none") && has("planned 0xa345"), "{texts:#?}");
        assert!(texts.iter().any(|text| text.starts_with("LID ")), "{texts:#?}");
        let has_mappings = texts.iter().any(|text| text.starts_with("SL "));
        assert_eq!(has_mappings, options.contains("qos"), "{texts:#?}");
    }
}
