//! Unmodified programs on a fabric simulated by `torus-sm sim`: Debian's diagnostics, osmtest and
//! opensm, and the torus-sm daemon.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Running, tool, torus_sm, wait_for, wait_until_settled};
use testkit::{START_TIMEOUT, Simulator};
use torus_sm::fabric::ibnet;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

const DIAGNOSTICS: [&str; 12] = [
    "saquery",
    "ibnetdiscover",
    "iblinkinfo",
    "sminfo",
    "smpquery",
    "ibtracert",
    "ibroute",
    "dump_fts",
    "vendstat",
    "perfquery",
    "ibqueryerrors",
    "ibdiagnet",
];

fn have(names: &[&str]) -> bool {
    names.iter().all(|name| tool(name).is_some())
}

/// A fabric as the simulator generates it for `torus-sm sim SHAPE`.
struct Expected {
    topology: Topology,
    switches: usize,
    hosts: usize,
    /// Number of switch ports without port 0.
    ports: usize,
}

impl Expected {
    fn of(shape: [u16; 3]) -> Self {
        let topology = Shape::torus(shape).build().expect("a fabric");
        let count = |kind| topology.nodes.iter().filter(|node| node.kind == kind).count();
        let switch = topology.nodes.iter().find(|node| node.kind == NodeKind::Switch);
        let ports = usize::from(switch.expect("a switch").num_ports);
        Self { switches: count(NodeKind::Switch), hosts: count(NodeKind::Ca), ports, topology }
    }

    fn nodes(&self) -> usize {
        self.switches + self.hosts
    }

    /// Number of records of each kind that a master SM has on this fabric, in which every port is
    /// connected.
    fn records(&self) -> Vec<(&'static str, usize)> {
        let switches = self.switches;
        let hosts = self.hosts;
        let ports = self.ports;
        let all_ports = hosts + switches * (ports + 1);
        let pairs_of_ports = hosts + switches * (ports + 1) * (ports + 1);
        vec![
            ("NR", self.nodes()),
            ("PIR", all_ports),
            ("PR", self.nodes() * self.nodes()),
            ("LR", 2 * self.topology.cables.len()),
            ("LFTR", switches),
            ("SL2VL", pairs_of_ports),
            ("VLAR", 4 * all_ports),
        ]
    }
}

/// Number of records in the answer to a query of an SA table.
fn records(sim: &Simulator, args: &[&str]) -> usize {
    let text = sim.ask("saquery", args);
    text.matches("Record dump:").count() + text.matches("Record group dump:").count()
}

/// Names of all nodes and links, sorted.
fn census(topology: &Topology) -> (Vec<(Guid, String)>, usize) {
    let nodes = topology.nodes.iter().map(|node| (node.guid, node.description.clone()));
    let mut nodes: Vec<_> = nodes.collect();
    nodes.sort();
    (nodes, topology.cables.len())
}

/// Checks that ibnetdiscover finds the generated topology, port by port.
fn discovery_agrees(sim: &Simulator, expected: &Expected) {
    let text = sim.ask("ibnetdiscover", &[]);
    let mut seen = ibnet::parse("ibnetdiscover".as_ref(), &text).expect("a fabric");
    let mut built = expected.topology.clone();
    assert_eq!(census(&seen), census(&built));
    let named = |topology: &mut Topology| {
        let guid = |(node, port): (usize, _)| (topology.nodes[node].guid, port);
        let mut cables: Vec<_> = topology
            .cables
            .iter()
            .map(|&[a, b]| {
                let mut ends = [guid(a), guid(b)];
                ends.sort();
                ends
            })
            .collect();
        cables.sort();
        cables
    };
    assert_eq!(named(&mut seen), named(&mut built));
}

fn diagnostics_agree(sim: &Simulator, expected: &Expected) {
    assert!(sim.ask("sminfo", &[]).contains("SMINFO_MASTER"));
    let links = sim.ask("iblinkinfo", &["-l"]);
    let active = links.lines().filter(|line| line.contains("Active/  LinkUp")).count();
    assert_eq!(active, 2 * expected.topology.cables.len());
    // The last host, by the LID in the SA's record.
    let host = expected.topology.nodes.iter().rfind(|node| node.kind == NodeKind::Ca);
    let host = host.expect("a host");
    let guid = host.port_guid(PortNum(1));
    let record = sim.ask("saquery", &["NR", &host.description]);
    let lid = record.lines().find_map(|line| line.trim().strip_prefix("lid"));
    let lid = lid.expect("a LID").trim_start_matches('.').to_owned();
    let port_guid = format!("{:#018x}", guid.0);
    assert!(sim.ask("smpquery", &["nodeinfo", &lid]).contains(&port_guid));
    assert!(sim.ask("smpquery", &["-G", "nodedesc", &port_guid]).contains(&host.description));
    let trace = sim.ask("ibtracert", &["1", &lid]);
    assert!(trace.contains(&host.description), "{trace}");
    let switch = expected.topology.nodes.iter().find(|node| node.kind == NodeKind::Switch);
    let switch_guid = format!("{:#018x}", switch.expect("a switch").guid.0);
    let valid = format!("{} valid lids dumped", expected.nodes());
    assert!(sim.ask("ibroute", &["-G", &switch_guid]).contains(&valid));
    let tables = sim.ask("dump_fts", &[]);
    assert_eq!(tables.matches("valid lids dumped").count(), expected.switches);
}

/// Checks that counters can be read and ibdiagnet finds no errors.
fn health_is_good(sim: &Simulator, expected: &Expected) {
    let counters = sim.ask("perfquery", &["-x"]);
    let sent = counters.lines().find_map(|line| line.strip_prefix("PortXmitPkts:"));
    let sent = sent.expect("a counter").trim_start_matches('.');
    assert!(sent.parse::<u64>().is_ok_and(|sent| sent > 0), "{counters}");
    let output = sim.run("", "ibqueryerrors", &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&format!("{} nodes checked", expected.nodes())), "{output:?}");
    let text = sim.ask("ibdiagnet", &["-o", sim.dir.path().to_str().expect("text")]);
    let report = text.split_once("Stages Status Report").expect("a report").1;
    let stages: Vec<&str> =
        report.lines().skip(2).take_while(|line| !line.trim().is_empty()).collect();
    assert!(stages.len() >= 5, "{text}");
    for stage in stages {
        let mut words = stage.split_whitespace().rev();
        assert_eq!(words.nth(1), Some("0"), "errors: {stage}\n{text}");
    }
}

/// Checks that an unsupported attribute yields an error status.
fn misses_are_errors(sim: &Simulator) {
    for (program, args) in [
        ("vendstat", &["-N", "1"][..]),
        ("smpquery", &["-D", "nodeinfo", "0,7,7"]),
        ("smpquery", &["nodeinfo", "1000"]),
        ("saquery", &["NR", "nobody"]),
    ] {
        let output = sim.run("", program, args);
        assert!(!output.status.success(), "{program} {args:?}: {output:?}");
    }
}

/// The SA and the diagnostics show the fabric as it was built.
fn tools_agree(sim: &Simulator, expected: &Expected) {
    for (name, count) in expected.records() {
        assert_eq!(records(sim, &[name]), count, "{name}");
    }
    assert_eq!(records(sim, &["MCMR"]), 1);
    discovery_agrees(sim, expected);
    diagnostics_agree(sim, expected);
    health_is_good(sim, expected);
    misses_are_errors(sim);
    flows_pass(sim, &["c", "v", "e", "m", "q"]);
}

#[test]
fn opensm_and_its_tools_find_the_whole_fabric() {
    if !have(&DIAGNOSTICS) || !have(&["opensm", "osmtest"]) {
        return;
    }
    let expected = Expected::of([3, 3, 2]);
    let sim = Simulator::start(&["3x3x2", "--no-sm"]);
    let _opensm = sim.opensm("", "opensm.log", &[]);
    wait_until_settled(&sim.dir.path().join("opensm.log"));
    let switches = expected.switches;
    let hosts = expected.hosts;
    let ports = expected.ports;
    // Two blocks at each port; opensm omits a switch's base port 0.
    let blocks = 2 * (hosts + switches * ports);
    assert_eq!(records(&sim, &["--smkey", "1", "PKTR"]), blocks);
    for (name, count) in [("MFTR", 0), ("SR", 0), ("IIR", 0)] {
        assert_eq!(records(&sim, &[name]), count, "{name}");
    }
    tools_agree(&sim, &expected);
}

/// osmtest sleeps while leases expire: two fabrics run at once.
#[test]
fn opensm_passes_osmtest_with_services() {
    if !have(&["opensm", "osmtest"]) {
        return;
    }
    let pass = |flow: &'static str| {
        let sim = Simulator::start(&["2x2x1", "--no-sm"]);
        let _opensm = sim.opensm("", "opensm.log", &[]);
        wait_until_settled(&sim.dir.path().join("opensm.log"));
        flows_pass(&sim, &["c", flow]);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| pass("s"));
        scope.spawn(|| pass("a"));
    });
}

#[test]
fn services_of_torus_sm_pass_osmtest() {
    if !have(&["osmtest"]) {
        return;
    }
    let pass = |flow: &'static str| {
        let sim = Simulator::start(&["3x3x1"]);
        flows_pass(&sim, &["c", flow]);
        sim
    };
    std::thread::scope(|scope| {
        scope.spawn(|| pass("a"));
        let sim = pass("s");
        // osmtest creates and deletes groups beside those of other clients, then creates groups
        // until the table is full.
        for mode in ["2", "3", "4"] {
            let output = sim.ask("osmtest", &["-f", "m", "-M", mode]);
            assert!(output.contains("PASS") && !output.contains("FAIL"), "-M {mode}:\n{output}");
        }
    });
}

fn flows_pass(sim: &Simulator, flows: &[&str]) {
    for flow in flows {
        let output = sim.ask("osmtest", &["-f", flow]);
        assert!(output.contains("PASS") && !output.contains("FAIL"), "-f {flow}:\n{output}");
    }
}

#[test]
fn torus_sm_answers_the_tools() {
    if !have(&DIAGNOSTICS) || !have(&["osmtest"]) {
        return;
    }
    let expected = Expected::of([3, 3, 2]);
    let sim = Simulator::start(&["3x3x2"]);
    tools_agree(&sim, &expected);
}

/// The service flow registers, renews and deletes services with keys and leases.
#[test]
fn torus_sm_passes_osmtest_with_services() {
    if have(&["osmtest"]) {
        flows_pass(&Simulator::start(&["2x2x1"]), &["c", "s"]);
    }
}

/// The stress flows ask for 4,000 tables one after the other, as fast as they are answered; the trap
/// flow needs another program for its second half, and passes when it has waited for that.
#[test]
fn torus_sm_passes_the_stress_flows_of_osmtest() {
    if !have(&["osmtest"]) {
        return;
    }
    let pass = |flows: &[&[&str]]| {
        let sim = Simulator::start(&["3x3x2"]);
        flows_pass(&sim, &["c"]);
        for flow in flows {
            let output = sim.ask("osmtest", flow);
            assert!(output.contains("PASS") && !output.contains("FAIL"), "{flow:?}:\n{output}");
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| pass(&[&["-f", "f", "-s", "2"], &["-f", "f", "-s", "4"]]));
        pass(&[&["-f", "f", "-s", "3"], &["-f", "f", "-s", "1"], &["-f", "t", "-w", "2"]]);
    });
}

/// osmtest's multicast flow sends joins that the SA must refuse.
#[test]
fn refused_joins_are_logged() {
    if !have(&["osmtest"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let log = dir.path().join("opensm.log");
    let sim = Simulator::start(&["2x2x1", "-f", log.to_str().expect("text")]);
    flows_pass(&sim, &["c", "m"]);
    wait_for(&log, "ERR 1B12", START_TIMEOUT);
    let text = std::fs::read_to_string(&log).expect("a log");
    let refused: Vec<&str> =
        text.lines().filter(|line| line.contains("ERR 1B12: Port 0x")).collect();
    assert!(!refused.is_empty() && refused.len() < 20, "{refused:#?}");
    for line in refused {
        assert!(line.contains(" may not ") && line.contains(" the group with MGID "), "{line}");
        assert!(line.contains("\"[1], LID ") && line.contains(": "), "{line}");
        assert!(line.contains("; status 0x0") && line.contains(" of this LID refused"), "{line}");
    }
}

/// Clients at four hosts ask for all paths in a loop: each table has 1,660 segments.
#[test]
fn tables_in_a_loop_are_complete() {
    if !have(&["saquery"]) {
        return;
    }
    let expected = Expected::of([6, 6, 1]);
    let sim = Simulator::start(&["6x6x1"]);
    std::thread::scope(|scope| {
        for at in ["h1-0-0", "h2-3-0", "h3-1-0", "h5-5-0"] {
            let sim = &sim;
            let expected = &expected;
            scope.spawn(move || {
                for round in 0..12 {
                    let output = sim.run(at, "saquery", &["PR"]);
                    assert!(output.status.success(), "{at}, round {round}: {output:?}");
                    let text = String::from_utf8_lossy(&output.stdout);
                    let records = text.matches("Record dump:").count();
                    assert_eq!(records, expected.nodes().pow(2), "{at}, round {round}");
                }
            });
        }
    });
}

#[test]
fn torus_sm_passes_osmtest_with_strict_permissions() {
    if !have(&["osmtest"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let conf = dir.path().join("opensm.conf");
    std::fs::write(&conf, "sa_trust strict\n").expect("a file");
    let sim = Simulator::start(&["2x2x1", "-F", conf.to_str().expect("text")]);
    flows_pass(&sim, &["c", "v", "s", "e", "m", "q"]);
}

/// One master, one standby; the standby takes over when the master is killed.
#[test]
fn of_two_opensms_one_takes_over() {
    if !have(&["opensm", "sminfo"]) {
        return;
    }
    let sim = Simulator::start(&["2x2x1", "--no-sm"]);
    let conf = sim.dir.path().join("opensm.conf");
    let text = "sminfo_polling_timeout 200\npolling_retry_number 2\n";
    std::fs::write(&conf, text).expect("a file");
    let conf = conf.to_str().expect("text");
    let first = sim.opensm("h0-0", "first.log", &["-p", "5", "-F", conf]);
    wait_for(&sim.dir.path().join("first.log"), "SUBNET UP", START_TIMEOUT);
    let _second = sim.opensm("h1-1", "second.log", &["-p", "1", "-F", conf]);
    wait_for(&sim.dir.path().join("second.log"), "Entering STANDBY state", START_TIMEOUT);
    assert!(sim.ask("sminfo", &[]).contains("SMINFO_MASTER"));
    let state = |at: &str| {
        let output = sim.run(at, "sminfo", &["-D", "0"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(state("h0-0").contains("priority 5 state 3"), "{}", state("h0-0"));
    assert!(state("h1-1").contains("priority 1 state 2"), "{}", state("h1-1"));
    drop(first);
    wait_for(&sim.dir.path().join("second.log"), "Entering MASTER state", START_TIMEOUT);
    wait_for(&sim.dir.path().join("second.log"), "SUBNET UP", START_TIMEOUT);
    assert!(state("h1-1").contains("priority 1 state 3"), "{}", state("h1-1"));
}

/// The daemon opens the simulated port like a real one, and leaves nothing behind when it is
/// killed.
#[test]
fn torus_sm_is_a_client_too() {
    let sim = Simulator::start(&["2x2x1", "--no-sm"]);
    for log in ["first.log", "second.log"] {
        let path = sim.dir.path().join(log);
        let child = sim
            .command("h1-0", &torus_sm())
            .args(["-R", "minhop", "-f"])
            .arg(&path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let daemon = Running(child.expect("torus-sm starts"));
        wait_for(&path, "SUBNET UP", START_TIMEOUT);
        assert_ne!(capabilities(&sim) & 2, 0, "IsSM");
        drop(daemon);
        let patience = Instant::now() + START_TIMEOUT;
        while capabilities(&sim) & 2 != 0 {
            assert!(Instant::now() < patience, "IsSM is still set");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_second_daemon_on_the_same_port_is_refused_and_names_the_first_one() {
    let sim = Simulator::start(&["3x2x1", "--no-sm"]);
    let command = |log: &str| {
        let mut command = sim.command("h1-0", &torus_sm());
        command.args(["-R", "minhop", "-f"]).arg(sim.dir.path().join(log));
        command.env("TORUS_SM_RUNTIME_DIR", sim.dir.path().join("run"));
        command.stdout(Stdio::null());
        command
    };
    let first = command("first.log").stderr(Stdio::null()).spawn().expect("torus-sm starts");
    let first = Running(first);
    wait_for(&sim.dir.path().join("first.log"), "SUBNET UP", START_TIMEOUT);
    let second = command("second.log").output().expect("torus-sm runs");
    let errors = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(3), "{errors}");
    // `sim exec` becomes the program that it starts.
    let named = format!("another subnet manager uses this port: torus-sm (pid {})", first.0.id());
    assert!(errors.contains(&named), "{errors}");
    assert_ne!(capabilities(&sim) & 2, 0, "the first one stays");
}

fn capabilities(sim: &Simulator) -> u32 {
    let output = sim
        .command("h1-0", "/bin/cat".as_ref())
        .arg("/sys/class/infiniband/sim0/ports/1/cap_mask")
        .output()
        .expect("cat");
    let text = String::from_utf8(output.stdout).expect("text");
    u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).expect("a number")
}

#[test]
fn sysfs_follows_the_fabric_and_other_paths_pass_through() {
    let sim = Simulator::start(&["2x2x1"]);
    let shell = |at: &str, script: &str| {
        let output = sim.command(at, "/bin/sh".as_ref()).args(["-c", script]).output();
        String::from_utf8(output.expect("a shell").stdout).expect("text")
    };
    let port = "/sys/class/infiniband/sim0/ports/1";
    assert_eq!(shell("", &format!("cat {port}/state {port}/lid")), "4: ACTIVE\n0x1\n");
    assert_eq!(shell("h1-1", &format!("cat {port}/gids/0")).trim(), gid_of(&sim, "h1-1"));
    assert_eq!(shell("sw 0,0,0", "ls /sys/class/infiniband/sim0/ports"), "0\n");
    assert_eq!(shell("", "cd /dev/infiniband && ls; pwd"), "issm0\numad0\n/dev/infiniband\n");
    assert_eq!(shell("", "echo x 2>&1 > /sys/class/infiniband/sim0/node_desc | wc -l"), "1\n");
    let own = "cat /sys/class/net/lo/operstate; ls /sys/class/net | head -1; cat /proc/self/comm";
    let plain = Command::new("/bin/sh").args(["-c", own]).output().expect("a shell");
    assert_eq!(shell("", own), String::from_utf8_lossy(&plain.stdout));
}

fn gid_of(sim: &Simulator, node: &str) -> String {
    let output = sim.command(node, "/bin/cat".as_ref());
    let output = { output }.arg("/sys/class/infiniband/sim0/node_guid").output().expect("cat");
    // The generator numbers ports after their node.
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let guid = u64::from_str_radix(&text.replace(':', ""), 16).expect("a GUID") + 1;
    let guid = format!("{guid:016x}");
    let groups = [&guid[..4], &guid[4..8], &guid[8..12], &guid[12..]];
    format!("fe80:0000:0000:0000:{}", groups.join(":"))
}

#[test]
fn programs_of_a_shell_are_attached() {
    if !have(&["ibstat"]) {
        return;
    }
    let sim = Simulator::start(&["2x2x1"]);
    let script = sim.dir.path().join("script");
    std::fs::write(&script, "ibstat -p; cat /sys/class/infiniband/sim0/ports/1/state\n")
        .expect("a file");
    let output = Command::new(torus_sm())
        .args(["sim", "shell", "--at", "h1-1/1", "--socket"])
        .arg(sim.dir.path().join("sim.sock"))
        .env("SHELL", "/bin/sh")
        .stdin(std::fs::File::open(&script).expect("the file"))
        .output()
        .expect("torus-sm runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let guid = gid_of(&sim, "h1-1").replace(':', "");
    assert_eq!(text, format!("0x{}\n4: ACTIVE\n", &guid[16..]), "{output:?}");
}

#[test]
fn programs_wait_for_a_simulator_that_is_starting() {
    if !have(&["sminfo"]) {
        return;
    }
    testkit::simulator::library();
    let dir = tempfile::tempdir().expect("a folder");
    let socket = dir.path().join("sim.sock");
    let socket = socket.to_str().expect("UTF-8");
    let program = |words: &[&str]| {
        let mut command = Command::new(torus_sm());
        command.args(words).env_remove("OSM_CACHE_DIR").env_remove("TORUS_SM_SIM_AT");
        command.current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("torus-sm starts")
    };
    let query = program(&["sim", "exec", "--wait", "30", "--socket", socket, "--", "sminfo"]);
    std::thread::sleep(Duration::from_millis(200));
    let _simulator = Running(program(&["sim", "4x4x4", "--socket", socket]));
    let output = query.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    // The subnet manager has finished its first sweep.
    assert!(output.status.success() && text.contains("SMINFO_MASTER"), "{output:?}");
    let at_once = program(&["sim", "exec", "--wait", "0", "--socket", "/none", "--", "true"]);
    let output = at_once.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
}

#[test]
fn programs_that_cannot_be_attached_are_reported() {
    let sim = Simulator::start(&["2x2x1"]);
    let try_at = |at: &str| {
        let output = sim.command(at, "/bin/true".as_ref()).output().expect("torus-sm runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (at, code, words) in [
        ("h0-1", 0, ""),
        ("sw 1,1,0/0", 0, ""),
        ("1,1/0", 0, ""),
        ("nowhere", 3, "no node has the description \"nowhere\""),
        ("h", 3, "\"h\" matches 4 nodes, such as \"h0-0-0-0 HCA-1\" and \"h0-1-0-0 HCA-1\""),
        ("h0-1/2", 3, "has no end port 2"),
    ] {
        let (status, errors) = try_at(at);
        assert_eq!(status, Some(code), "{at}: {errors}");
        assert!(errors.contains(words), "{at}: {errors}");
    }
    let socket = sim.dir.path().join("sim.sock");
    let second = Command::new(torus_sm())
        .args(["sim", "2x2x1", "--no-sm", "--socket"])
        .arg(&socket)
        .output()
        .expect("torus-sm runs");
    assert_eq!(second.status.code(), Some(5));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another process uses this socket"));
    let pid = Pid::from_raw(i32::try_from(sim.pid()).expect("a process"));
    kill(pid, Signal::SIGTERM).expect("it runs");
    let patience = Instant::now() + START_TIMEOUT;
    while socket.exists() {
        assert!(Instant::now() < patience, "the socket still exists");
        std::thread::sleep(Duration::from_millis(5));
    }
    let (status, errors) = try_at("");
    assert_eq!(status, Some(3));
    assert!(errors.contains("start a simulator first"), "{errors}");
}
