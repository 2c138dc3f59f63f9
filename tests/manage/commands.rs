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
    assert!(torus.starts_with("torus 3 x 3 x 2: 18 switches, 0 missing"), "{torus}");
    let path = shown(&sim, &["path", "1", "2"]);
    assert!(path.contains("SL "), "{path}");
    let path = shown(&sim, &["path", "h0-0-0-0", "h1-0-0-0"]);
    assert!(path.starts_with("\"h0-0-0-0 HCA-1\" 0x"), "{path}");
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
    assert_eq!(shown(&sim, &["loglevel", "0x83"]), "loglevel: requested\n");
    assert_eq!(shown(&sim, &["resweep", "--no-wait"]), "resweep: requested\n");
    assert!(problem(&sim, &["priority", "16"], 2).contains("16 is not in 0..=15"));
    assert!(problem(&sim, &["path", "1", "nowhere"], 1).contains("no node has the description"));
    let events = shown(&sim, &["events", "--after", "0", "--no-follow"]);
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
    let (one, other) = (Simulator::start(&["3x3x1"]), Simulator::start(&["2x2x1"]));
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
