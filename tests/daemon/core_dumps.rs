//! Core dumps of the daemon as a process on ibsim: they contain keys only if the administrator wants
//! its memory in them.

use super::process::{configure, ended, ring, signal, start};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A key that occurs nowhere else.
const KEY: u64 = 0x5EC2_E7F1_9A3B_D481;

/// True if the kernel writes core dumps into the working directory of the process.
fn kernel_writes_files() -> bool {
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    let is_file = !pattern.trim().is_empty() && !pattern.starts_with(['|', '/']);
    if !is_file {
        println!("not checked: the kernel does not write core dumps here: {pattern}");
    }
    is_file
}

/// The core dump in a folder or those below it.
fn dump_in(dir: &Path) -> Option<PathBuf> {
    fs::read_dir(dir).ok()?.flatten().find_map(|entry| {
        if entry.path().is_dir() {
            dump_in(&entry.path())
        } else {
            entry.file_name().to_str()?.starts_with("core").then(|| entry.path())
        }
    })
}

/// True if the key is in these bytes, in any byte order.
fn has_key(bytes: &[u8]) -> bool {
    [KEY.to_be_bytes(), KEY.to_le_bytes()]
        .iter()
        .any(|key| bytes.windows(key.len()).any(|window| window == key))
}

/// The core dump of a daemon with `text` in its configuration.
fn dump(text: &str) -> Option<Vec<u8>> {
    let sim = ring()?;
    configure(&sim, &format!("sa_key {KEY:#x}\n{text}"));
    let daemon = start(&sim, &[]);
    let id = daemon.0.id();
    let filter = fs::read_to_string(format!("/proc/{id}/coredump_filter")).expect("a filter");
    let is_narrow = !text.contains("core_dump_memory TRUE");
    assert_eq!(filter.trim() == "00000010", is_narrow, "{filter}");
    if !kernel_writes_files() {
        return None;
    }
    let limit = ["--core=unlimited".to_owned(), format!("--pid={id}")];
    let status = Command::new("prlimit").args(limit).status().expect("prlimit(1) is there");
    assert!(status.success());
    signal(id, "ABRT");
    let (code, _) = ended(daemon);
    assert_eq!(code, None, "it ends by the signal");
    // The sandbox of a build may refuse dumps.
    let Some(file) = dump_in(sim.dir()) else {
        println!("not checked: the kernel has written no core dump");
        return None;
    };
    Some(fs::read(file).expect("a dump"))
}

#[test]
fn a_core_dump_contains_no_keys() {
    let Some(bytes) = dump("") else { return };
    assert!(bytes.starts_with(b"\x7FELF"), "{} bytes", bytes.len());
    assert!(!has_key(&bytes), "{} bytes", bytes.len());
}

#[test]
fn a_core_dump_with_memory_contains_them() {
    let Some(bytes) = dump("core_dump_memory TRUE\n") else { return };
    assert!(has_key(&bytes), "{} bytes", bytes.len());
}
