//! `torus-sm check` with torus-2QoS: it finds what `plan` and the daemon find, in the same words.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use torus_sm::sim::generate::Shape;

const OPTIONS: &str = "routing_engine torus-2QoS,no_fallback\n";

fn run(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
    command.args(args).current_dir(folder).env("OSM_CACHE_DIR", folder);
    command.output().expect("the program starts")
}

/// Writes opensm.conf, torus-2QoS.conf and an empty partitions.conf.
fn configure(folder: &Path, options: &str, torus: &str) {
    let path = |name: &str| folder.join(name).display().to_string();
    let options = format!(
        "{OPTIONS}{options}torus_config {}\npartition_config_file {}\n",
        path("torus-2QoS.conf"),
        path("partitions.conf")
    );
    fs::write(folder.join("opensm.conf"), options).expect("written");
    fs::write(folder.join("torus-2QoS.conf"), torus).expect("written");
    fs::write(folder.join("partitions.conf"), "Default=0x7fff,ipoib,sl=3:ALL=full;\n")
        .expect("written");
}

/// (severity, message) of all findings of `check`, and its exit code.
fn check(folder: &Path, more: &[&str]) -> (Option<i32>, Vec<(String, String)>) {
    let output = run(folder, &[&["check", "-F", "opensm.conf", "--json"], more].concat());
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let lists = report["files"].as_array().expect("files").iter().map(|file| &file["findings"]);
    let all = lists.chain([&report["findings"]]).flat_map(|list| list.as_array().expect("a list"));
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let all = all.map(|found| (text(&found["severity"]), text(&found["message"]))).collect();
    (output.status.code(), all)
}

#[test]
fn configurations_that_can_never_route_are_errors_without_a_fabric() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let shape = Shape::torus([4, 5, 1]);
    let good = shape.torus_conf();
    let guid = |at: [u16; 3]| format!("{:#x}", shape.switch_guid(at).0);
    let origin = guid([0, 0, 0]);
    let other = guid([2, 2, 0]);
    let without = |key: &str| -> String {
        good.lines().filter(|line| !line.starts_with(key)).map(|line| format!("{line}\n")).collect()
    };
    for (torus, expected) in [
        (without("torus"), "three radices above 0"),
        (without("yp_link"), "torus seed 0 needs yp_link or ym_link"),
        (without("xm_link"), "radix 4 also needs xm_link"),
        (format!("{good}ym_link {other} {origin}\n"), "x and y links must have the same origin"),
        (format!("{good}ym_link {origin} {origin}\n"), "ym_link leads from switch"),
        (
            format!("{good}next_seed\nyp_link {other} {origin}\n"),
            "torus seed 1: a looped x dimension",
        ),
        (format!("{good}next_seed\n"), "torus seed 1: a looped x dimension"),
    ] {
        configure(folder, "qos TRUE\n", &torus);
        let (code, found) = check(folder, &[]);
        let is_told = |(severity, message): &(String, String)| {
            severity == "error" && message.contains(expected)
        };
        assert!(code == Some(4) && found.iter().any(is_told), "{torus}\n{code:?} {found:?}");
    }
    configure(folder, "qos FALSE\n", &good);
    let (code, found) = check(folder, &[]);
    let wanted =
        ("error".to_owned(), "torus-2QoS needs QoS: start with -Q or set `qos TRUE`".to_owned());
    assert!(code == Some(4) && found.contains(&wanted), "{found:?}");
    configure(folder, "qos TRUE\nqos_swe_sl2vl 0,1\nqos_swe_vlarb_low 0:4,1:8\n", &good);
    let (code, found) = check(folder, &[]);
    for expected in ["qos_swe_sl2vl is ignored", "qos_swe_vlarb_low: weights should", "have SL 3"] {
        let is_told = |(severity, message): &&(String, String)| {
            severity == "warning" && message.contains(expected)
        };
        assert_eq!(found.iter().filter(is_told).count(), 1, "{expected}: {found:?}");
    }
    assert_eq!(code, Some(0), "{found:?}");
}

#[test]
fn warnings_of_plan_are_warnings_of_check() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let cut_off = ["--missing-link", "2,2,0:+x", "--missing-link", "2,2,0:-x"];
    let written = run(folder, &[&["plan", "6x5", "--write", "."][..], &cut_off].concat());
    // The host at the switch that is cut off along x is unreachable.
    assert_eq!(written.status.code(), Some(1), "{written:?}");
    let shape = Shape::torus([6, 5, 1]);
    let guid = |at: [u16; 3]| format!("{:#x}", shape.switch_guid(at).0);
    let link = |key: &str, from, to| format!("{key} {} {}\n", guid(from), guid(to));
    let torus = shape.torus_conf()
        + "next_seed\n"
        + &link("xp_link", [3, 3, 0], [4, 3, 0])
        + &link("yp_link", [3, 3, 0], [3, 4, 0])
        + "next_seed\n"
        + &link("xp_link", [3, 3, 0], [4, 3, 0])
        + &link("yp_link", [3, 3, 0], [3, 4, 0])
        + "x_dateline -3\ny_dateline -3\n";
    configure(folder, "qos TRUE\nqos_swe_sl2vl 0,1\nqos_swe_vlarb_low 0:4,1:8\n", &torus);
    let planned = run(folder, &["plan", "-F", "opensm.conf", "--file", "fabric.net", "--json"]);
    let report: Value = serde_json::from_slice(&planned.stdout).expect("JSON");
    let notes = report["notes"].as_array().expect("notes").iter();
    let warnings: Vec<String> = notes
        .filter(|note| note["severity"] == "Warning")
        .map(|note| note["text"].as_str().expect("a text").to_owned())
        .collect();
    let (code, found) = check(folder, &["--file", "fabric.net"]);
    assert_eq!(code, Some(0), "{found:?}");
    for text in &warnings {
        let same =
            found.iter().filter(|(severity, message)| severity == "warning" && message == text);
        assert_eq!(same.count(), 1, "{text}\n{found:#?}");
    }
    for expected in [
        "qos_swe_sl2vl is ignored",
        "qos_swe_vlarb_low: weights should be equal",
        "torus seed 1 gives other coordinates than seed 0",
        "torus seeds 1 and 2 share switch",
        "1 switch is outside the torus and cannot be reached, nor can 1 end port behind",
        "belongs at 2,2,0 by its cables",
        "have no routes and stay unreachable",
        "multicast groups of partition \"Default\"",
    ] {
        assert!(warnings.iter().any(|text| text.contains(expected)), "{expected}: {warnings:#?}");
    }
}

#[test]
fn a_plan_that_fails_verification_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    run(folder, &["plan", "6x5", "--write", ".", "--missing-switch", "2,2,0"]);
    let torus = fs::read_to_string(folder.join("torus-2QoS.conf")).expect("written");
    configure(folder, "qos TRUE\nmax_op_vls 2\n", &torus);
    let (code, found) = check(folder, &["--file", "fabric.net"]);
    let is_told = |(severity, message): &(String, String)| {
        severity == "error"
            && message.contains("credit loop")
            && message.contains("raise max_op_vls")
    };
    assert!(code == Some(4) && found.iter().any(is_told), "{found:?}");
}
