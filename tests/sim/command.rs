//! `torus-sm sim` as a process: reports, foreground operation and interruption.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use torus_sm::fabric::ibnet;
use torus_sm::sim::generate::Shape;

fn sim(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
    command.arg("sim").args(args).env_remove("OSM_CACHE_DIR");
    command.output().expect("the program starts")
}

/// The output of a run that must succeed without warnings.
fn report(args: &[&str]) -> String {
    let output = sim(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}\n{errors}", output.status);
    assert_eq!(errors, "", "{args:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The rest of the line that starts with `head`.
fn line<'a>(text: &'a str, head: &str) -> &'a str {
    let found = text.lines().find_map(|line| line.strip_prefix(head));
    found.unwrap_or_else(|| panic!("no line {head:?} in\n{text}")).trim()
}

#[test]
fn a_torus_comes_up_and_is_reported() {
    let text = report(&["6x5x1", "-o"]);
    assert!(text.starts_with("6x5x1 torus: 30 switches, 30 hosts, 90 cables\n"), "{text}");
    line(&text, "subnet manager on \"h0-0-0-0 HCA-1\"[1]; routing engine torus-2QoS with QoS");
    let smps: u64 = line(&text, "SUBNET UP after ")
        .split_once(" s and ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok())
        .expect("a number of SMPs");
    // Every node, port and table is read, and every switch programmed.
    assert!((500..10_000).contains(&smps), "{text}");
    assert!(line(&text, "fabric:").starts_with("30 switches, 30 channel adapters"), "{text}");
    assert!(line(&text, "routing:").starts_with("torus-2QoS, 60 LIDs"), "{text}");
    assert!(line(&text, "verified:").contains("no credit loop"), "{text}");
    // The last host is at 5,4,0: one step down in x over the dateline, one down in y.
    let sample = line(&text, "sample:");
    assert!(sample.starts_with("path h0-0-0-0 HCA-1 (LID "), "{text}");
    assert!(sample.contains("-> h5-4-0-0 HCA-1 (LID "), "{text}");
    assert!(sample.contains("\"sw 5,0,0\" 1>4, \"sw 5,4,0\" 3>7, SL 3, VLs"), "{text}");
    assert!(!text.contains("until interrupted"), "{text}");
}

#[test]
fn shapes_hosts_cables_and_gaps() {
    let text = report(&["3x3mx3", "--hosts", "2", "--parallel=2", "-o"]);
    assert!(line(&text, "fabric:").ends_with("198 cables"), "{text}");
    let text =
        report(&["4x4x4", "--missing-link", "1,1,1:-x", "-o", "-R", "torus-2QoS,no_fallback"]);
    assert!(line(&text, "fabric:").ends_with("255 cables"), "{text}");
    let text = report(&["3x3x3", "--missing-switch", "0,0,0", "-o", "-Q"]);
    assert!(line(&text, "fabric:").starts_with("26 switches, 26 channel"), "{text}");
    assert!(line(&text, "routing:").starts_with("torus-2QoS"), "{text}");
}

#[test]
fn the_command_line_overrules_the_defaults() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("sm.log");
    let log_name = log.to_str().expect("text");
    // The port GUID of the host at 1,0,0, and the log with its major events in a file.
    let text = report(&["4mx4m", "-R", "minhop", "-g", "0x10000101", "-f", log_name, "-o"]);
    line(&text, "subnet manager on \"h1-0-0-0 HCA-1\"[1]; routing engine minhop");
    assert!(line(&text, "routing:").starts_with("minhop, "), "{text}");
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("] 0x80 -> Entering MASTER state"), "{log}");
    assert!(log.contains("] 0x80 -> SUBNET UP"), "{log}");
}

#[test]
fn a_fabric_file_is_routed_with_minhop() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("fabric.net");
    let topology = Shape::torus([2, 1, 1]).build().expect("a small fabric");
    std::fs::write(&file, ibnet::write(&topology)).expect("a file");
    let text = report(&["--file", file.to_str().expect("text"), "-o"]);
    assert!(text.contains("fabric.net: 2 switches, 2 hosts, 3 cables"), "{text}");
    assert!(line(&text, "routing:").starts_with("minhop, 4 LIDs"), "{text}");
}

#[test]
fn nonsensical_arguments_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken.net");
    std::fs::write(&broken, "Switch 4 \"S-1\"\n[9] \"S-2\"[1]\n").expect("a file");
    let broken = broken.to_str().expect("text");
    for (args, code, words) in [
        (&["6x5x1", "--missing-switch", "6,0,0"][..], 2, "there is no switch at 6,0,0"),
        (&["4mx4", "--missing-link", "0,0,0:-x"], 2, "there is no cable at 0,0,0:-x"),
        (&["300x2"], 2, "300"),
        (&["3x3", "--hosts", "200", "--parallel", "30"], 2, "254"),
        (&["3x3", "-g", "0x77"], 3, "no port with GUID 0x0000000000000077"),
        (&["3x3", "-g", "0"], 2, "-g 0"),
        (&["--file", "/nonexistent.net"], 4, "/nonexistent.net: No such file"),
        (&["--file", broken], 4, "broken.net:2:"),
        (&["3x3", "-F", "/"], 4, "/: Is a directory"),
        (&["3x3x3", "-R", "torus-2QoS,no_fallback", "--torus_config", "/nonexistent", "-o"], 1, ""),
    ] {
        let output = sim(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {errors}");
        assert!(errors.contains(words), "{args:?}: {errors}");
    }
}

/// The simulation runs until it is interrupted, then ends with the right code and leaves no files
/// behind.
#[test]
fn interrupted_it_leaves_cleanly() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    use std::io::Read as _;
    let folder = tempfile::tempdir().expect("a folder");
    let runtime = tempfile::tempdir().expect("a folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_torus-sm"))
        .args(["sim", "3x3x1"])
        .env("TMPDIR", folder.path())
        .env("XDG_RUNTIME_DIR", runtime.path())
        .env_remove("OSM_CACHE_DIR")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let pid = Pid::from_raw(child.id().cast_signed());
    let mut until = |words: &str| {
        let found = lines.by_ref().map_while(Result::ok).find(|line| line.contains(words));
        assert!(found.is_some(), "no {words:?} before the end");
    };
    until("up until interrupted");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    kill(pid, Signal::SIGHUP).expect("it runs");
    until("SUBNET UP again (generation 2");
    std::thread::sleep(Duration::from_millis(1));
    assert!(child.try_wait().expect("a child").is_none());
    kill(pid, Signal::SIGINT).expect("it runs");
    assert!(child.wait().expect("a child").success());
    let mut rest = String::new();
    child.stderr.take().map(|mut stderr| stderr.read_to_string(&mut rest));
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 0);
    let served = std::fs::read_dir(runtime.path().join("torus-sm")).expect("the folder");
    assert_eq!(served.count(), 0);
}

/// Names in the runtime folder that begin with `sim-`: private directories of simulators.
fn scratch_directories(runtime: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(runtime.join("torus-sm")).expect("the folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("sim-")).collect()
}

#[test]
fn the_files_of_a_simulator_that_was_killed_are_removed_by_the_next_one() {
    let runtime = tempfile::tempdir().expect("a folder");
    let start = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
        command.arg("sim").args(args).env("XDG_RUNTIME_DIR", runtime.path());
        command.env_remove("OSM_CACHE_DIR").env_remove("OSM_TMP_DIR");
        command.stdout(std::process::Stdio::piped()).spawn().expect("the program starts")
    };
    let mut killed = start(&["3x3"]);
    let lines = BufReader::new(killed.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.contains("up until interrupted")));
    let [directory] = &scratch_directories(runtime.path())[..] else { panic!("one directory") };
    // Dump files are written there, not to /var/log.
    let dump = runtime.path().join("torus-sm").join(directory).join("opensm-subnet.lst");
    testkit::wait_for(&dump, "h2-2-0-0", Duration::from_secs(20));
    killed.kill().expect("it runs");
    killed.wait().expect("a child");
    assert_eq!(scratch_directories(runtime.path()).len(), 1);
    assert!(start(&["3x3", "-o"]).wait().expect("a child").success());
    assert_eq!(scratch_directories(runtime.path()), [""; 0]);
}

#[test]
fn torus_2qos_routes_a_torus_from_a_file_without_a_configuration() {
    let dir = tempfile::tempdir().expect("a folder");
    let net = dir.path().join("fabric.net");
    let topology = Shape::torus([4, 3, 1]).build().expect("a shape that can be built");
    std::fs::write(&net, ibnet::write(&topology)).expect("a file");
    let net = net.to_str().expect("UTF-8");
    let text = report(&["--file", net, "-R", "torus-2QoS,no_fallback", "-Q", "-o"]);
    assert!(line(&text, "routing:").starts_with("torus-2QoS"), "{text}");
}
