//! Words of the implementation in what users see: the log at all levels, the output of commands, a
//! recording, errors of the command line and of the management interface.

use crate::client::Managed;
use regex::Regex;
use std::process::Command;
use testkit::{Simulator, torus_sm};

/// What Rust writes and people should not have to read, with an example.
const PATTERNS: [(&str, &str); 8] = [
    (r"\b[A-Z][A-Za-z]+ \{ ", "ReportCounters { sent: 1 }"),
    (r"\b[A-Z][A-Za-z]+\((?:[A-Z][A-Za-z]+|0x[0-9a-f]+|\d+|\[)", "Guid(0x12)"),
    (r"\b(?:Some|Ok|Err|Local)\(|\bNone\b", "Some(3)"),
    (r"\d\.\d{3,}(?:ns|µs|us|ms|s)\b", "1.415168ms"),
    (r"\d+\.\.=?\d*", "0..=15"),
    (r"at line \d+ column \d+", "expected value at line 1 column 13"),
    (r"\bexpected (?:struct|[iu](?:8|16|32|64))\b", "expected u8"),
    (r"invalid digit found|panicked", "invalid digit found in string"),
];

/// The lines of `text` with such words.
fn offences(text: &str) -> Vec<String> {
    let patterns: Vec<Regex> =
        PATTERNS.iter().map(|(pattern, _)| Regex::new(pattern).expect("a pattern")).collect();
    let has_pattern = |line: &&str| patterns.iter().any(|pattern| pattern.is_match(line));
    text.lines().filter(has_pattern).map(str::to_owned).collect()
}

#[test]
fn the_patterns_find_their_examples() {
    for (pattern, example) in PATTERNS {
        assert!(Regex::new(pattern).expect("a pattern").is_match(example), "{pattern}");
    }
}

fn all_output(sim: &Simulator, args: &[&str]) -> String {
    let mut command = Command::new(torus_sm());
    command.args(args).env("TORUS_SM_RUNTIME_DIR", sim.dir.path());
    let output = command.output().expect("torus-sm starts");
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    format!("{out}{err}")
}

#[test]
fn log_commands_and_recordings_have_words_for_people() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("sm.log").display().to_string();
    // All flags but FUNCS and FRAMES, which name functions of the source.
    let sim = Simulator::start(&["3x3x1", "-f", &log, "-D", "0xcf", "-s", "1"]);
    let mut text = sim.control(&["link", "1,0,0[1]", "down"]);
    text += &sim.control(&["silent", "h2-2-0"]);
    text += &sim.control(&["show", "faults"]);
    for args in [
        &["resweep"][..],
        &["status"],
        &["links"],
        &["ports"],
        &["nodes"],
        &["partitions"],
        &["torus"],
        &["path", "h0-0-0", "h1-1-0"],
        &["path", "h0-0-0", "nowhere"],
        &["dump"],
        &["priority", "3"],
        &["priority", "16"],
        &["loglevel", "0x100"],
        &["status", "--watch", "0"],
        &["events", "--after", "x"],
        &["quarantine", "1,0,0"],
        &["sim", "3x3", "--hosts", "201"],
        &["sim", "3x3", "-l", "8"],
        &["plan", "3x3", "--parallel", "x"],
        &["handover"],
        &["reload"],
        &["perfmgr", "enable"],
    ] {
        text += &all_output(&sim, args);
    }
    let recorded = all_output(&sim, &["record"]);
    let recording = recorded.trim().rsplit("wrote ").next().expect("a path").to_owned();
    text += &all_output(&sim, &["replay", &recording]);
    assert!(text.contains("light"), "the recording has light sweeps: {text}");
    text += &all_output(&sim, &["stop"]);
    let log = std::fs::read_to_string(log).expect("a log");
    assert!(log.contains("SA: reports:"), "the log is complete");
    assert_eq!(offences(&format!("{text}{log}")), [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_the_management_interface_have_words_for_people() {
    let managed = Managed::start("3x3x1").await;
    let mut text = String::new();
    for (action, body) in [
        ("priority", "{\"priority\": 256}"),
        ("priority", "{\"priority\": \"high\"}"),
        ("priority", "7"),
        ("priority", "{"),
        ("loglevel", "{\"flags\": -1}"),
        ("handover", "[]"),
        ("quarantine", "{\"guid\": 5, \"port\": 1}"),
        ("release", "{\"guid\": \"0x5\", \"port\": 999}"),
        ("perfmgr", "{\"command\": null}"),
        ("resweep", "x"),
    ] {
        let reply = managed.post(&format!("/v1/actions/{action}"), body);
        assert_eq!(reply.status, 400, "{action} {body}");
        text += &format!("{}\n", reply.error());
    }
    assert_eq!(offences(&text), [""; 0]);
}
