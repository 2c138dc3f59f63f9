//! The commands of README.md work as they stand there, one block after the other.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::simulator::library;
use testkit::{have, torus_sm};

/// Beginnings of lines that build, install or need InfiniBand.
const OMITTED: [&str; 3] = ["apt ", "cargo build", "scripts/"];
/// The line before which a block needs InfiniBand.
const NEEDS_INFINIBAND: &str = "On a machine with InfiniBand, as root:";
/// Commands that run until they are interrupted.
const ENDLESS: [&str; 3] = ["TORUS sim 6x5x1", "TORUS top", "TORUS events"];
/// How the README calls the program.
const NAMES: [&str; 2] = ["cargo run --release --", "target/release/torus-sm"];

/// The blocks of shell commands, without those that need InfiniBand.
fn blocks(readme: &str) -> Vec<String> {
    let (usable, _) = readme.split_once(NEEDS_INFINIBAND).expect("the part for real fabrics");
    let parts = usable.split("```sh\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_owned()).collect()
}

/// A line of a block as lines of the script; simulators in the background end with the script.
fn script_line(line: &str, folder: &Path) -> Option<String> {
    let code = line.split(" # ").next().unwrap_or_default().trim();
    let mut code = NAMES.iter().fold(code.to_owned(), |code, name| code.replace(name, "TORUS"));
    code = code.replace("/tmp", &folder.display().to_string());
    if code.is_empty() || OMITTED.iter().any(|head| code.starts_with(head)) {
        return None;
    }
    if ENDLESS.contains(&code.as_str()) {
        code = format!("timeout 3 {code} || [ $? = 124 ]");
    }
    Some(format!("echo '$ {}'\n{code}\n", code.replace('\'', "")))
}

#[test]
fn the_lines_of_the_readme_work() {
    if !have(&["saquery"]) {
        return;
    }
    library();
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let blocks = blocks(&readme.expect("README.md"));
    assert!(blocks.len() >= 4, "{blocks:?}");
    let mut lines = 0;
    for block in blocks {
        let dir = tempfile::tempdir().expect("a folder");
        let script: Vec<String> =
            block.lines().filter_map(|line| script_line(line, dir.path())).collect();
        lines += script.len();
        let program = torus_sm();
        let text = format!(
            "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT\n{}",
            script.concat().replace("TORUS", program.to_str().expect("UTF-8"))
        );
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(&text).current_dir(dir.path()).stdin(Stdio::null());
        shell.env("XDG_RUNTIME_DIR", dir.path()).env_remove("OSM_CACHE_DIR");
        let output = shell.output().expect("a shell");
        let streams = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8_lossy(&streams);
        assert!(output.status.success(), "{text}\n{said}");
    }
    assert!(lines >= 9, "only {lines} lines are commands");
}
