//! The commands `torus-sm status` and so on, with the daemon of `torus-sm sim` in another process.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};
use testkit::{Simulator, torus_sm};
use torus_sm::sim::generate::Shape;

/// A command with the simulator's folder as the runtime folder.
fn command(sim: &Simulator, args: &[&str]) -> Command {
    let mut command = Command::new(torus_sm());
    command.args(args).env("TORUS_SM_RUNTIME_DIR", sim.dir.path());
    command
}

fn output(sim: &Simulator, args: &[&str]) -> Output {
    command(sim, args).output().expect("torus-sm starts")
}

/// Standard output of a command that succeeds.
fn shown(sim: &Simulator, args: &[&str]) -> String {
    let output = output(sim, args);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// Standard error of a command that fails with this code.
fn problem(sim: &Simulator, args: &[&str], code: i32) -> String {
    let output = output(sim, args);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    error
}

/// Of a switch, only port 0 announces extended speeds.
#[test]
fn links_have_the_speeds_of_the_fabric_file() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/corpus/ibnetdiscover/speeds");
    let sim = Simulator::start(&["--file", file]);
    let json: serde_json::Value =
        serde_json::from_str(&shown(&sim, &["links", "--json"])).expect("JSON");
    let links = json["links"].as_array().expect("links");
    let speeds: Vec<_> = links.iter().map(|link| link["link"]["speed"].as_str()).collect();
    assert_eq!(speeds, [Some("FDR"), Some("EDR")]);
    for node in ["sw", "h2 HCA-1"] {
        let ports = shown(&sim, &["ports", node]);
        assert!(ports.contains("EDR"), "{node}: {ports}");
    }
    // A cable that allows no more than QDR.
    sim.control(&["degrade", "\"h2 HCA-1\"[1]", "4x", "QDR"]);
    let is_slow = || shown(&sim, &["ports", "h2 HCA-1"]).contains("QDR");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !is_slow() {
        assert!(std::time::Instant::now() < deadline, "{}", shown(&sim, &["ports", "h2 HCA-1"]));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

#[test]
fn a_newcomer_sees_the_simulated_fabric() {
    let sim = Simulator::start(&["3x3x2"]);
    let status = shown(&sim, &["status"]);
    assert!(status.contains("MASTER, subnet up (generation"), "{status}");
    assert!(status.contains("torus-2QoS (requested: torus-2QoS)"), "{status}");
    assert!(status.contains("no credit loop"), "{status}");
    let nodes = shown(&sim, &["nodes"]);
    assert_eq!(nodes.lines().count(), 1 + 36, "{nodes}");
    let links = shown(&sim, &["links"]);
    assert!(links.lines().skip(1).all(|line| line.contains("ACTIVE")), "{links}");
    let ports = shown(&sim, &["ports", "sw 0,0,0"]);
    assert!(ports.contains("LinkUp"), "{ports}");
    let torus = shown(&sim, &["torus"]);
    assert!(
        torus.starts_with("torus 3 x 3 x 2: 18 switches and 0 missing, 0 missing cables, 0 of "),
        "{torus}"
    );
    let path = shown(&sim, &["path", "1", "2"]);
    assert!(path.contains("SL "), "{path}");
    let path = shown(&sim, &["path", "h0-0-0-0", "h1-0-0-0"]);
    assert!(path.starts_with("\"h0-0-0-0 HCA-1\"[1] 0x"), "{path}");
    for name in ["groups", "partitions", "sa"] {
        assert!(!shown(&sim, &[name]).is_empty(), "{name}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&shown(&sim, &["status", "--json"])).expect("JSON");
    assert_eq!(json["sm"]["state"], "MASTER");
    assert!(shown(&sim, &["metrics"]).contains("torus_sm_subnet_up 1"));
}

#[test]
fn actions_wait_for_their_results() {
    let sim = Simulator::start(&["3x3x1"]);
    assert!(shown(&sim, &["resweep"]).starts_with("subnet up: "));
    assert!(shown(&sim, &["reroute"]).starts_with("subnet up: 0 Sets in "));
    assert_eq!(shown(&sim, &["reload"]), "configuration read again\n");
    assert_eq!(shown(&sim, &["loglevel", "0x83"]), "log flags 0x83\n");
    assert_eq!(shown(&sim, &["priority", "4"]), "priority 4\n");
    assert_eq!(shown(&sim, &["priority", "5", "--no-wait"]), "priority: requested\n");
    assert!(problem(&sim, &["handover"], 1).contains("there is no standby SM: start one"));
    assert!(problem(&sim, &["perfmgr", "sweep"], 1).contains("'torus-sm perfmgr enable'"));
    let enabled = shown(&sim, &["perfmgr", "enable"]);
    assert!(enabled.contains(" ports read by "), "{enabled}");
    assert!(shown(&sim, &["perfmgr"]).contains("last sweep "), "the state has the sweep");
    assert_eq!(shown(&sim, &["resweep", "--no-wait"]), "resweep: requested\n");
    assert!(problem(&sim, &["priority", "16"], 2).contains("'16' is not a number from 0 to 15"));
    assert!(problem(&sim, &["path", "1", "nowhere"], 1).contains("no node has the description"));
    let lines = shown(&sim, &["events", "--after", "0", "--no-follow"]);
    assert!(lines.contains("subnet up") && !lines.contains('{'), "{lines}");
    let events = shown(&sim, &["events", "--after", "0", "--no-follow", "--json"]);
    assert!(
        events.lines().next().is_some_and(|line| line.starts_with("{\"number\":1,")),
        "{events}"
    );
    assert!(events.contains("\"event\":\"config_reloaded\""), "{events}");
}

/// A typing error in a file of the configuration: `reload` names file, line and column, fails, and
/// changes nothing; `status` shows what is rejected.
#[test]
fn a_reload_with_errors_fails_and_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| std::fs::write(file(name), text).expect("a file");
    let torus = Shape::torus([3, 3, 1]).torus_conf();
    write("torus-2QoS.conf", &torus);
    let conf =
        format!("routing_engine torus-2QoS\nqos TRUE\ntorus_config {}\n", file("torus-2QoS.conf"));
    write("opensm.conf", &conf);
    let sim = Simulator::start(&["3x3x1", "-F", &file("opensm.conf")]);
    assert!(shown(&sim, &["resweep"]).starts_with("subnet up: "));
    assert_eq!(shown(&sim, &["reload"]), "configuration read again\n");
    write("torus-2QoS.conf", &format!("{torus}xp_lnik 0x1 0x2\n"));
    let line = torus.lines().count() + 1;
    let expected = format!("{}:{line}:1", file("torus-2QoS.conf"));
    let text = problem(&sim, &["reload"], 4);
    assert!(text.contains(&expected), "{text}");
    assert!(shown(&sim, &["reroute"]).starts_with("subnet up: 0 Sets in "));
    let status = shown(&sim, &["status"]);
    assert!(status.contains("the last reload was rejected: ") && status.contains(&expected));
    assert!(status.contains("; later contents are rejected"), "{status}");
    write("torus-2QoS.conf", &torus);
    write("opensm.conf", &format!("{conf}sm_priority 16\nlmc 9\n"));
    let text = problem(&sim, &["reload"], 4);
    assert!(text.contains("opensm.conf:4:13: sm_priority: 16 is out of range"), "{text}");
    assert!(text.contains("opensm.conf:5:5: lmc: 9 is out of range"), "{text}");
    std::fs::remove_file(file("opensm.conf")).expect("the file is there");
    assert!(problem(&sim, &["reload"], 4).contains("opensm.conf does not exist any more"));
    write("opensm.conf", &conf);
    assert_eq!(shown(&sim, &["reload"]), "configuration read again\n");
    assert!(!shown(&sim, &["status"]).contains("rejected"));
}

#[test]
fn the_daemon_is_found_by_guid_or_socket_or_missing() {
    let one = Simulator::start(&["3x3x1"]);
    let other = Simulator::start(&["2x2x1"]);
    let socket = std::fs::read_dir(other.dir.path().join("sim.d")).expect("a folder");
    let socket = socket.map(|entry| entry.expect("an entry").path());
    let socket = socket.into_iter().find(|path| path.extension().is_some_and(|end| end == "sock"));
    let socket = socket.expect("a socket").display().to_string();
    let nodes = shown(&one, &["nodes", "--socket", &socket]);
    assert_eq!(nodes.lines().count(), 1 + 8, "{nodes}");
    let text = problem(&one, &["status", "--guid", "0x123"], 3);
    assert!(text.contains("no torus-sm runs on the port GUID 0x123\n  --guid 0x"), "{text}");
    // A second daemon in the same folder.
    std::os::unix::fs::symlink(&socket, one.dir.path().join("sm-0x00000000000000ff.sock"))
        .expect("a link");
    let text = problem(&one, &["status"], 2);
    assert!(text.contains("several torus-sm are running"), "{text}");
    assert_eq!(shown(&one, &["nodes", "-g", "ff"]).lines().count(), 1 + 8);
    let empty = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(torus_sm());
    command.arg("status").env("TORUS_SM_RUNTIME_DIR", empty.path());
    let output = command.output().expect("torus-sm starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("no torus-sm is running on this host"), "{text}");
}

#[test]
fn other_users_have_no_permission_unless_the_options_give_it() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can start programs as other users");
        return;
    }
    let conf = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(conf.path(), "management_read_all TRUE\n").expect("a file");
    let path = conf.path().display().to_string();
    let sim = Simulator::start(&["3x3x1", "-F", &path]);
    let pass = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(sim.dir.path(), pass).expect("a mode");
    let as_nobody = |args: &[&str]| command(&sim, args).uid(65_534).gid(65_534).output();
    let Ok(status) = as_nobody(&["status"]) else {
        println!("SKIPPED: other users cannot execute {}", torus_sm().display());
        return;
    };
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    let resweep = as_nobody(&["resweep"]).expect("it started before");
    let text = String::from_utf8_lossy(&resweep.stderr);
    assert!(!resweep.status.success() && text.contains("user 65534 may not act"), "{text}");
    let closed = Simulator::start(&["3x3x1"]);
    let pass = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(closed.dir.path(), pass).expect("a mode");
    let status = command(&closed, &["status"]).uid(65_534).gid(65_534).output().expect("as before");
    assert_eq!(status.status.code(), Some(3), "{}", String::from_utf8_lossy(&status.stderr));
}

#[test]
fn a_dump_is_complete_when_the_command_returns() {
    let sim = Simulator::start(&["3x3x1"]);
    for _ in 0..3 {
        let written = shown(&sim, &["dump"]);
        let folder = written.trim_end().strip_prefix("dump files written to ").expect("a folder");
        let routes = std::path::Path::new(folder).join("opensm-lfts.dump");
        let text = std::fs::read_to_string(&routes).expect("it is there");
        assert!(text.contains("0x0001"), "{text}");
        std::fs::remove_file(routes).expect("a file");
    }
}

#[test]
fn stop_returns_when_the_process_has_ended() {
    let sim = Simulator::start(&["3x3x1"]);
    assert_eq!(shown(&sim, &["stop"]), "stopped\n");
    let left = std::fs::read_dir(sim.dir.path().join("sim.d")).map(Iterator::count).unwrap_or(0);
    assert_eq!(left, 0, "the sockets are gone");
    assert!(problem(&sim, &["stop"], 3).contains("no torus-sm is running"));
}

#[test]
fn missing_and_quarantined_parts_are_shown_by_all_lists() {
    let sim = Simulator::start(&["3x3x1"]);
    let before = shown(&sim, &["status"]);
    assert!(before.contains(" (LID "), "{before}");
    assert!(before.contains("fabric      9 switches, 9 channel adapters, 27 links\n"), "{before}");
    assert!(!shown(&sim, &["links"]).contains("MISSING"));
    sim.control(&["link", "1,0,0[1]", "down"]);
    sim.control(&["unlink", "h2-2-0-0"]);
    shown(&sim, &["resweep"]);
    let links = shown(&sim, &["links"]);
    let missing: Vec<&str> = links.lines().filter(|line| line.contains("MISSING")).collect();
    assert_eq!(missing.len(), 2, "{links}");
    assert!(missing.iter().any(|line| line.contains("\"sw 1,0,0\"[1]")), "{links}");
    assert!(
        missing.iter().all(|line| line.contains("since 2") && line.ends_with(" UTC")),
        "{links}"
    );
    let status = shown(&sim, &["status"]);
    assert!(status.contains("missing: 1 node, 2 links"), "{status}");
    for name in ["h2-2-0-0", "\"h2-2-0-0 HCA-1\"[1]"] {
        let lost = problem(&sim, &["path", "h0-0-0-0", name], 1);
        assert!(lost.contains("\"h2-2-0-0 HCA-1\" (0x") && lost.contains("it was lost "), "{lost}");
    }
    // Every command takes a port as it is shown.
    for name in ["\"sw 0,1,0\"[2]", "sw 0,1,0[2]", "0,1,0[2]"] {
        let port = shown(&sim, &["ports", name]);
        assert_eq!(port.lines().count(), 2, "{port}");
        assert!(port.contains("\"sw 0,1,0\"[2]"), "{port}");
        assert!(shown(&sim, &["quarantine", name]).starts_with("subnet up"));
        let links = shown(&sim, &["links"]);
        let quarantined: Vec<_> =
            links.lines().filter(|line| line.contains("QUARANTINED")).collect();
        assert_eq!(quarantined.len(), 1, "{links}");
        assert!(quarantined[0].contains("\"sw 0,1,0\"[2]"), "{links}");
        assert_eq!(links.lines().filter(|line| line.contains("MISSING")).count(), 2, "{links}");
        assert!(shown(&sim, &["release", name]).starts_with("subnet up"));
        shown(&sim, &["path", "h0-0-0-0[1]", "\"h1-1-0-0 HCA-1\"[1]"]);
    }
    let without = problem(&sim, &["quarantine", "0,1,0"], 2);
    assert!(
        without.contains("the number of the port is missing, as in \"sw 0,1,0\"[3]"),
        "{without}"
    );
    // Parts that return are no longer missing.
    sim.control(&["repair"]);
    shown(&sim, &["resweep"]);
    assert!(!shown(&sim, &["links"]).contains("MISSING"));
    assert!(!shown(&sim, &["status"]).contains("missing: "));
}

#[test]
fn partitions_have_names_and_may_be_without_members() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("partitions.conf");
    std::fs::write(&file, "Default=0x7fff: ALL=full;\nstorage=0x12: 0xdead=full;\n")
        .expect("a file");
    let sim = Simulator::start(&["2x2x1", "-P", file.to_str().expect("UTF-8")]);
    let shown = shown(&sim, &["partitions"]);
    let rows: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["0x7fff", "Default", "0", "8", "0"]), "{shown}");
    assert!(rows.contains(&vec!["0x0012", "storage", "0", "0", "0"]), "{shown}");
}

/// Groups of ports of all switches and of one, and paths with all ports that switches may choose.
#[test]
fn adaptive_routing_is_shown() {
    let capable = "mlnx:adaptive-routing-revised,out-of-order";
    let sim =
        Simulator::start(&["3x3x1", "--parallel", "2", "--vendor", capable, "-R", "ar_torus"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let is_on = || {
        let text = shown(&sim, &["adaptive", "--json"]);
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let switches = json["switches"].as_array().expect("switches").clone();
        switches.len() == 9 && switches.iter().all(|switch| switch["state"] == "on")
    };
    while !is_on() {
        assert!(std::time::Instant::now() < deadline, "{}", shown(&sim, &["adaptive"]));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let all = shown(&sim, &["adaptive"]);
    let expected = "adaptive routing on, local repair on, groups of parallel cables: 9 capable \
                    switches, 0 LIDs static\n";
    assert!(all.starts_with(expected), "{all}");
    let one = shown(&sim, &["adaptive", "sw 1,1,0"]);
    assert_eq!(one.lines().filter(|line| line.starts_with("  group ")).count(), 4, "{one}");
    assert!(one.contains("  group 1: ports 1, 2\n"), "{one}");
    let path = shown(&sim, &["path", "sw 0,0,0", "sw 1,1,0"]);
    assert!(path.contains(" or "), "{path}");
    let metrics = shown(&sim, &["metrics"]);
    assert!(metrics.contains("torus_sm_adaptive_switches{state=\"configured\"} 9"), "{metrics}");
    assert!(problem(&sim, &["adaptive", "nowhere"], 1).contains("nowhere"));
}
