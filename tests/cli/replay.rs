//! `torus-sm replay` as a process, on a recording of a pair of switches with a host each.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn seed() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/recording/pair")
}

fn replay(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
    command.arg("replay").args(args).output().expect("the program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_recording_is_shown_and_repeated() {
    let file = seed().display().to_string();
    let output = replay(&[&file]);
    let report = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{report}{}", text(&output.stderr));
    assert!(report.starts_with("program:     torus-sm "), "{report}");
    assert!(report.contains("\n  devices: as recorded\n  plan: as recorded\n"), "{report}");
    assert!(!report.contains(" Get NodeInfo "), "{report}");
    let report = text(&replay(&[&file, "--mads"]).stdout);
    assert!(report.contains(" sent          Get NodeInfo 0x0, path 0, tid "), "{report}");
    assert!(report.contains(" received      GetResp NodeInfo 0x0, path 0,1, tid "), "{report}");
    let report = text(&replay(&[&file, "--no-time-line"]).stdout);
    assert!(!report.contains("time line:") && report.contains("plan 1:"), "{report}");
}

#[test]
fn bad_input_is_located() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("bad.recording");
    let file = path.display().to_string();
    let bytes = fs::read(seed()).expect("the seed");
    let missing = format!("torus-sm: {file}: No such file or directory (os error 2)\n");
    let cases = [
        (None, missing),
        (Some(&b"opensm log\n"[..]), "byte 0: this is not a recording of torus-sm".to_owned()),
        (Some(&bytes[..30]), "byte 20: a section takes ".to_owned()),
        (Some(&bytes[..bytes.len() - 10]), format!("byte {}: ", bytes.len() - 10)),
    ];
    for (bytes, expected) in cases {
        if let Some(bytes) = bytes {
            fs::write(&path, bytes).expect("a file");
        }
        let output = replay(&[&file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{said}");
        assert!(said.contains(&expected), "{said}");
    }
    assert_eq!(replay(&[]).status.code(), Some(2));
    assert_eq!(replay(&[&file, "--mads", "--no-time-line"]).status.code(), Some(2));
}

/// The moments as JSON, from a file and from standard input, and as a document that contains them.
#[test]
fn moments_are_written_as_json_and_as_a_page() {
    let file = seed().display().to_string();
    let output = replay(&["--json", &file]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let view: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let frames = view["frames"].as_array().expect("frames");
    let nodes: usize =
        frames.iter().map(|frame| frame["nodes"]["set"].as_array().map_or(0, Vec::len)).sum();
    assert!(nodes >= 4, "two switches and two hosts, and their changes: {frames:?}");
    let last = frames.last().expect("a frame");
    assert_eq!(view["plans"][last["plan"].as_u64().expect("a plan") as usize]["result"], "minhop");
    assert!(frames.iter().any(|frame| frame["sets"]["PortInfo"].is_u64()), "{frames:?}");

    let mut command = Command::new(env!("CARGO_BIN_EXE_torus-sm"));
    let seed = fs::File::open(seed()).expect("the seed");
    let piped = command.args(["replay", "--json", "-"]).stdin(seed).output().expect("the program");
    assert_eq!(text(&piped.stdout), text(&output.stdout));

    let page = text(&replay(&["--page", &file]).stdout);
    assert!(page.starts_with("<!doctype html>") && page.contains("id=\"recorded\""), "{page}");
    assert!(page.contains(&text(&output.stdout).trim().replace('<', "\\u003c")));
    assert_eq!(replay(&["--page", "--json", &file]).status.code(), Some(2));
}
