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
