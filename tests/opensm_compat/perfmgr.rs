//! The performance manager against that of Debian's opensm: dump and log lines for the same
//! counters of simulated ports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use testkit::simulator::Simulator;
use testkit::{Running, tool, torus_sm};

/// Time for sweeps.
const LIMIT: Duration = Duration::from_secs(60);

/// Counters of a cabled port, set before the manager starts.
const COUNTERS: [(&str, &str); 13] = [
    ("SymbolErrorCounter", "11"),
    ("LinkErrorRecoveryCounter", "12"),
    ("PortRcvErrors", "14"),
    ("PortRcvRemotePhysicalErrors", "15"),
    ("PortRcvSwitchRelayErrors", "16"),
    ("PortXmitDiscards", "17"),
    ("PortXmitConstraintErrors", "18"),
    ("PortRcvConstraintErrors", "19"),
    ("LocalLinkIntegrityErrors", "3"),
    ("ExcessiveBufferOverrunErrors", "4"),
    ("VL15Dropped", "20"),
    ("PortXmitWait", "70000"),
    ("PortXmitData", "5000000000"),
];

/// Options of both programs.
const OPTIONS: &str = "perfmgr TRUE\nperfmgr_sweep_time_s 1\nperfmgr_xmit_wait_log TRUE\n";

/// A port with all counters, and its neighbour with a few.
fn set_counters(sim: &Simulator) {
    for (name, value) in COUNTERS {
        sim.control(&["counters", "set", "0,0/7", &format!("{name}={value}")]);
    }
    sim.control(&["counters", "set", "1,0/1", "PortRcvErrors=5"]);
    // The fabric is 3x3: the switches have no cables along z.
    sim.control(&["counters", "set", "1,1/5", "PortRcvData=123456"]);
    sim.control(&["counters", "set", "1,1/5", "PortXmitPkts=4096"]);
    sim.control(&["counters", "set", "1,1/5", "LinkDownedCounter=13"]);
}

/// A simulator with the counters, and the configuration file of a manager.
fn start() -> (Simulator, PathBuf) {
    let sim = Simulator::start(&["3x3", "--no-sm"]);
    set_counters(&sim);
    let path = |name: &str| sim.dir.path().join(name);
    let conf = path("perfmgr.conf");
    let options = format!("{OPTIONS}event_db_dump_file {}\n", path("counters.log").display());
    fs::write(&conf, options).expect("a file");
    (sim, conf)
}

fn log(sim: &Simulator) -> String {
    fs::read_to_string(sim.dir.path().join("sm.log")).unwrap_or_default()
}

/// The lines about counters, without time and process. OpenSM takes links down when it configures
/// them, so LinkDownedCounter is that of the port without a cable only.
fn error_lines(log: &str) -> BTreeSet<String> {
    let lines = log.lines().filter_map(|line| line.split_once(" -> "));
    let lines = lines.map(|(_, text)| text.trim());
    let is_compared = |text: &&str| {
        let downed = text.contains("LinkDownedCounter");
        text.starts_with("perfmgr_") && !(downed && text.contains("connected to"))
    };
    lines.filter(is_compared).map(str::to_owned).collect()
}

/// A line of OpenSM's with the GUID of the peer as it is: OpenSM prints it with its bytes swapped.
fn with_peer_guid(line: &str) -> String {
    let Some((start, peer)) = line.split_once(" connected to ") else { return line.to_owned() };
    let (name, rest) = peer.split_once("(NodeGUID: 0x").expect("a GUID");
    let (guid, rest) = rest.split_once(')').expect("its end");
    let guid = u64::from_str_radix(guid, 16).expect("digits").swap_bytes();
    format!("{start} connected to {name}(NodeGUID: 0x{guid:x}){rest}")
}

/// Place of LinkDownedCounter among the counters of a row.
const LINK_DOWNED: usize = 2;

/// Rows of a dump by GUID and port: name, activity and counters, without LinkDownedCounter except
/// where it was set.
fn rows(dump: &str) -> BTreeMap<(String, String), Vec<String>> {
    let fields = dump.lines().filter(|line| !line.is_empty() && !line.starts_with("Name\t"));
    let row = |line: &str| {
        let fields: Vec<String> = line.split('\t').map(str::to_owned).collect();
        assert_eq!(fields.len(), 28, "{line}");
        let name = [&fields[..1], &fields[2..3]].concat();
        let mut counters = fields[7..].to_vec();
        if counters[LINK_DOWNED] != "13" {
            counters[LINK_DOWNED].clear();
        }
        ((fields[1].clone(), fields[3].clone()), [name, counters].concat())
    };
    fields.map(row).collect()
}

/// Names of the columns.
fn headings(dump: &str) -> BTreeSet<String> {
    dump.lines().filter(|line| line.starts_with("Name\t")).map(str::to_owned).collect()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits for the first counters, changes some, and waits until these have been read, too.
fn play(sim: &Simulator) {
    wait_until("the first reading", || log(sim).contains("ERR 543D"));
    // Near its maximum: the counter is cleared.
    sim.control(&["counters", "set", "0,1/2", "SymbolErrorCounter=50000"]);
    wait_until("the second reading", || log(sim).contains("SymbolErrorCounter : 50000"));
    std::thread::sleep(Duration::from_millis(2500));
    sim.control(&["counters", "set", "0,1/2", "SymbolErrorCounter=7"]);
    wait_until("the reading after clearing", || log(sim).contains("SymbolErrorCounter : 7 "));
    // Someone else clears the counters.
    sim.control(&["counters", "clear", "1,0/1"]);
    wait_until("the foreign clearing", || log(sim).contains("ERR 540A"));
    std::thread::sleep(Duration::from_millis(2500));
}

/// The dumps in both formats, and the log, of a manager.
struct Outcome {
    machine: String,
    human: String,
    log: String,
}

fn outcome(sim: &Simulator, mut dump: impl FnMut(&str)) -> Outcome {
    play(sim);
    let path = sim.dir.path().join("counters.log");
    let mut read = |command: &str| {
        let _ = fs::remove_file(&path);
        dump(command);
        let mut text = String::new();
        wait_until(command, || {
            text = fs::read_to_string(&path).unwrap_or_default();
            !text.is_empty()
        });
        // OpenSM writes the file in parts.
        std::thread::sleep(Duration::from_millis(300));
        fs::read_to_string(&path).unwrap_or(text)
    };
    let machine = read("perfmgr dump_counters mach");
    let human = read("perfmgr dump_counters");
    Outcome { machine, human, log: log(sim) }
}

fn theirs() -> Outcome {
    let (sim, conf) = start();
    let child = sim
        .command("", &tool("opensm").expect("checked before"))
        .args(["-q", "local", "-f"])
        .arg(sim.dir.path().join("sm.log"))
        .arg("-F")
        .arg(&conf)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut opensm = Running(child.expect("opensm starts"));
    let mut console = opensm.0.stdin.take().expect("a pipe");
    outcome(&sim, |command| writeln!(console, "{command}").expect("opensm reads its console"))
}

fn ours() -> Outcome {
    let (sim, conf) = start();
    let child = sim
        .command("", &torus_sm())
        .arg("-f")
        .arg(sim.dir.path().join("sm.log"))
        .arg("-F")
        .arg(&conf)
        .env("TORUS_SM_RUNTIME_DIR", sim.dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn();
    let _daemon = Running(child.expect("torus-sm starts"));
    outcome(&sim, |command| {
        let output: Output = Command::new(torus_sm())
            .args(command.split(' '))
            .env("TORUS_SM_RUNTIME_DIR", sim.dir.path())
            .output()
            .expect("torus-sm starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {errors}");
    })
}

/// The lines of the format for people that do not depend on times and traffic.
fn steady(human: &str) -> BTreeSet<String> {
    let words = ["Last", "_data ", "_pkts ", "link_downed"];
    let lines = human.lines().filter(|line| !words.iter().any(|word| line.contains(word)));
    lines.map(str::to_owned).collect()
}

#[test]
fn dumps_and_log_lines_equal_those_of_opensm() {
    if tool("opensm").is_none() {
        return;
    }
    let (theirs, ours) = std::thread::scope(|scope| {
        let theirs = scope.spawn(theirs);
        let ours = ours();
        (theirs.join().expect("no panic"), ours)
    });
    assert_eq!(headings(&ours.machine), headings(&theirs.machine));
    let [our_rows, their_rows] = [&ours, &theirs].map(|outcome| rows(&outcome.machine));
    let [our_ports, their_ports] =
        [&our_rows, &their_rows].map(|rows| rows.keys().cloned().collect::<BTreeSet<_>>());
    assert_eq!(our_ports, their_ports);
    // Name, activity and error counters; the data counters count the managers' own traffic.
    let differences: Vec<_> = our_rows
        .iter()
        .filter(|(port, row)| row[..15] != their_rows[*port][..15])
        .map(|(port, row)| (port, &row[..15], &their_rows[port][..15]))
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
    let unplugged = our_rows.iter().find(|(_, row)| row[16] == "123456").expect("the set counter");
    assert_eq!(unplugged.1[15..], their_rows[unplugged.0][15..]);
    assert_eq!(unplugged.1[17], "4096");
    assert_eq!(steady(&ours.human), steady(&theirs.human));
    let their_lines: BTreeSet<String> =
        error_lines(&theirs.log).iter().map(|line| with_peer_guid(line)).collect();
    assert_eq!(error_lines(&ours.log), their_lines);
    assert!(error_lines(&ours.log).len() >= 16, "{:?}", error_lines(&ours.log));
}
