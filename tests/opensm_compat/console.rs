//! Sessions on the console: the replies of torus-sm are those of Debian's opensm on the same fabric.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use testkit::console::{ConsoleClient, free_port};
use testkit::{Running, Simulator, tool, torus_sm};

/// Commands whose replies are the same but for masked numbers.
const COMMANDS: [&str; 62] = [
    "",
    "help",
    "help loglevel",
    "help permodlog",
    "help priority",
    "help resweep",
    "help reroute",
    "help sweep",
    "help status",
    "help logflush",
    "help querylid",
    "help portstatus",
    "help switchbalance",
    "help lidbalance",
    "help dump_conf",
    "help update_desc",
    "help version",
    "help quit",
    "help help",
    "help nonsense",
    "nonsense",
    "loglevel 3",
    "loglevel 0x143",
    "loglevel",
    "permodlog",
    "priority",
    "priority 16",
    "resweep",
    "resweep nonsense",
    "sweep",
    "status",
    "status nonsense",
    "   status   ",
    "logflush on",
    "querylid",
    "querylid 1",
    "querylid 2",
    "querylid 0",
    "querylid 4000",
    "portstatus",
    "portstatus ca",
    "portstatus switch",
    "portstatus router",
    "portstatus nonsense",
    "switchbalance",
    "switchbalance verbose",
    "switchbalance verbose 0x200000",
    "switchbalance 0x1",
    "lidbalance",
    "lidbalance 0x200000",
    "lidbalance 0x1",
    "perfmgr",
    "perfmgr nonsense",
    "perfmgr print_counters nonsense",
    "perfmgr print_errors",
    "perfmgr dump_redir",
    "perfmgr sweep_time 0",
    // These start sweeps, during which the status changes.
    "update_desc",
    "resweep light",
    "priority 3",
    "sweep off",
    "sweep on",
];

/// Commands about port counters, after two sweeps of them.
const COUNTERS: [&str; 7] = [
    "pm print_counters 0x10000000",
    "pm pc h0-0-0-0 HCA-1",
    "pm pc h0-0-0-0 HCA-1:1",
    "pm pc h0-0-0-0 HCA-1:7",
    "pm pe nonsense",
    "pm sweep_time",
    "pm clear_inactive",
];

/// What differs with a reason, as beginnings of lines: the version, and words that say more.
const MASKED: [&str; 8] = [
    "sweep state ",
    "   PerfMgr state/sweep state",
    "   OpenSM Version       :",
    "   SM Priority          :",
    "   QP0 ",
    "\"nonsense\" option not found",
    "Current log level is 0x",
    "   0x10000001 Master",
];

/// The replies of a session, one for each command.
fn session(opensm: &Path, folder: &str) -> Vec<String> {
    let sim = Simulator::start(&["4x4", "--no-sm"]);
    let files = sim.dir.path().join(folder);
    std::fs::create_dir(&files).expect("a folder");
    let port = free_port();
    let child = sim
        .command("", opensm)
        .args([
            "-q",
            "loopback",
            "-C",
            &port.to_string(),
            "-d2",
            "-F",
            "/dev/null",
            "--perfmgr",
            "-f",
        ])
        .arg(files.join("sm.log"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _running = Running(child.expect("it starts"));
    let mut client = ConsoleClient::connect(port);
    client.until("OpenSM $ ");
    client.ask_until("status", "SM State             : Master     ");
    client.ask_until("status", "Routing Engine       : minhop");
    client.ask_until("status", "Ignore existing lfts           : 0");
    client.ask_until("status", "SA State             : Ready");
    // OpenSM sweeps once more for the traps of its own first sweep.
    std::thread::sleep(Duration::from_secs(1));
    let mut replies: Vec<String> = COMMANDS.iter().map(|line| client.ask(line)).collect();
    for _ in 0..2 {
        client.ask("pm sweep");
        std::thread::sleep(Duration::from_secs(2));
    }
    replies.extend(COUNTERS.iter().map(|line| client.ask(line)));
    replies
}

/// A line without what differs from run to run.
fn masked(line: &str) -> String {
    if let Some(head) = MASKED.iter().find(|head| line.starts_with(**head)) {
        return (*head).to_owned();
    }
    // Durations, dates and values of counters.
    let (head, value) = line.split_once(" : ").unwrap_or((line, ""));
    let is_counter = line.starts_with("     ");
    match line.split_once(" nodes in ") {
        Some((head, _)) => head.to_owned(),
        None if is_counter => head.to_owned(),
        None if value.is_empty() => line.to_owned(),
        None => format!("{head} : {value}"),
    }
}

#[test]
fn replies_are_those_of_opensm() {
    let Some(opensm) = tool("opensm") else { return };
    let theirs = session(&opensm, "theirs");
    let ours = session(&torus_sm(), "ours");
    let commands = COMMANDS.iter().chain(&COUNTERS);
    for (command, (ours, theirs)) in commands.zip(ours.iter().zip(&theirs)) {
        let [ours, theirs] =
            [ours, theirs].map(|reply| reply.lines().map(masked).collect::<Vec<_>>());
        assert_eq!(ours, theirs, "{command}");
    }
}
