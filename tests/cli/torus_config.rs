//! `torus-sm torus-config` as a process.

use std::path::Path;
use std::process::{Command, Output};
use torus_sm::config::torus::{TorusConfig, TorusSize};

fn run(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
    command.arg("torus-config").args(args).output().unwrap()
}

fn config(output: &Output) -> TorusConfig {
    let text = String::from_utf8_lossy(&output.stdout);
    TorusConfig::parse(Path::new("stdout"), &text).unwrap()
}

#[test]
fn a_healthy_torus_is_written() {
    let output = run(&["5x4x3m", "--hosts", "2"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let config = config(&output);
    let size = TorusSize { radix: [5, 4, 3], looped: [true, true, false] };
    assert_eq!(config.size, Some(size));
    assert!(config.seeds.len() > 1);
}

#[test]
fn missing_parts_are_reported() {
    let output = run(&["6x5x3", "--missing-switch", "2,2,1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("missing switch at "), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("# missing switch at "));
}

#[test]
fn the_result_goes_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("torus-2QoS.conf");
    let output = run(&["3x3", "-o", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(output.stdout.is_empty());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(TorusConfig::parse(&path, &text).unwrap().size.is_some());
}

#[test]
fn other_topologies_are_rejected() {
    let output = run(&["1x1x1"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("this is no torus"), "{output:?}");
}

#[test]
fn two_dimensions_survive_failed_switches_in_a_row() {
    let output = run(&["6x5"]);
    assert_eq!(config(&output).size, Some(TorusSize { radix: [1, 6, 5], looped: [true; 3] }));
}
