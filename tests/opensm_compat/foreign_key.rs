//! A manager with an SM_Key of its own beside a master that does not know it: torus-sm does not
//! become a second master, and says so. Debian's opensm is the master, or torus-sm.

use std::process::{Command, Output};
use std::time::{Duration, Instant};
use testkit::{Simulator, have, torus_sm};

/// Runs a manager with `--once` and this sm_key at a host; its log is in the file `own.log`.
fn run_once(sim: &Simulator, key: &str, args: &[&str]) -> (Output, String) {
    let conf = sim.dir.path().join("own.conf");
    let log = sim.dir.path().join("own.log");
    std::fs::write(&conf, format!("sm_key {key}\n")).expect("a file");
    let _ = std::fs::remove_file(&log);
    let mut command: Command = sim.command("h2-2-0", &torus_sm());
    command.arg("-F").arg(&conf).arg("-f").arg(&log).arg("--once").args(args);
    let output = command.output().expect("torus-sm runs");
    (output, std::fs::read_to_string(&log).unwrap_or_default())
}

fn refuses(sim: &Simulator) {
    let (output, log) = run_once(sim, "0x5678", &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}\n{log}");
    for words in ["is master with another SM_Key", "sm_key_peers", "--ignore-other-sm"] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(!log.contains("Entering MASTER state"), "{log}");
    let (output, log) = run_once(sim, "0x5678", &["--ignore-other-sm"]);
    assert!(log.contains("Entering MASTER state"), "{output:?}\n{log}");
}

#[test]
fn a_manager_with_another_key_is_no_second_master_beside_torus_sm() {
    refuses(&Simulator::start(&["3x3x1"]));
}

#[test]
fn a_manager_with_another_key_is_no_second_master_beside_opensm() {
    if !have(&["opensm", "sminfo"]) {
        return;
    }
    let sim = Simulator::start(&["3x3x1", "--no-sm"]);
    let _opensm = sim.opensm("h0-0-0", "opensm.log", &[]);
    let start = Instant::now();
    let is_master = || {
        let output = sim.run("h1-0-0", "sminfo", &[]);
        String::from_utf8_lossy(&output.stdout).contains("SMINFO_MASTER")
    };
    while !is_master() {
        assert!(start.elapsed() < Duration::from_secs(60), "opensm does not become master");
        std::thread::sleep(Duration::from_millis(200));
    }
    refuses(&sim);
}
