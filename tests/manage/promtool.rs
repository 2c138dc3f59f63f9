//! Metrics and alert rules as Prometheus' own promtool checks them.

use crate::perfmgr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use testkit::tool;

/// A file of the repository.
fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Runs promtool with a text as its standard input.
fn run(promtool: &Path, args: &[&str], input: &str) -> Output {
    let mut command = Command::new(promtool);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("promtool reads");
    child.wait_with_output().expect("promtool ends")
}

/// Asserts that promtool accepts something without a complaint.
fn accepted(output: &Output) {
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && error.is_empty(), "{out}{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promtool_accepts_the_metrics() {
    let Some(promtool) = tool("promtool") else { return };
    // With all families: port counters with errors and rates, and congestion control.
    let managed = perfmgr::managed(|options| options.congestion_control = true).await;
    perfmgr::set(&managed, 1, "SymbolErrorCounter", 7);
    perfmgr::sweep(&managed).await;
    perfmgr::sweep(&managed).await;
    let metrics = managed.get("/metrics").body;
    for part in ["torus_sm_port_errors_total{", "torus_sm_port_transmit_bytes_per_second{"] {
        assert!(metrics.contains(part), "{part}");
    }
    accepted(&run(&promtool, &["check", "metrics"], &metrics));
    let wrong = run(&promtool, &["check", "metrics"], "# TYPE x counter\nx 1\n");
    assert!(!wrong.status.success(), "promtool finds a counter without _total");
}

#[test]
fn promtool_accepts_the_alerts_and_they_fire() {
    let Some(promtool) = tool("promtool") else { return };
    let rules = file("etc/prometheus-alerts.yml").display().to_string();
    let checked = run(&promtool, &["check", "rules", &rules], "");
    accepted(&checked);
    // The file names the rules by a path from its own folder.
    let test = file("tests/vectors/prometheus-alerts-test.yml").display().to_string();
    accepted(&run(&promtool, &["test", "rules", &test], ""));
}
