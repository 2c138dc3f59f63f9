//! The commands of README.md do what it says, one block after the other, as they stand there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::simulator::library;
use testkit::{have, torus_sm};

/// Lines that do not run here, and the reason.
const OMITTED: [(&str, &str); 4] = [
    ("scripts/test", "runs this test"),
    ("apt install infiniband-diags && cargo build --release", "installs; the program is built"),
    ("cargo build --release", "the program is built"),
    ("target/release/torus-sm -R torus-2QoS,no_fallback -Q", "needs InfiniBand, and would use it"),
];

/// Lines that run until they are interrupted.
const ENDLESS: [&str; 4] =
    ["sim 6x5x1", "top", "events", "target/release/torus-sm sim exec -- opensm"];

/// Results of lines: part of the line, and what it prints, in this order.
const PRINTED: [(&str, &[&str]); 21] = [
    ("sim 6x5x1", &["SUBNET UP after", "fabric:    30 switches", "sample:    path h0-", ", SL "]),
    ("-- saquery", &["NodeRecord dump:", "node_type"]),
    ("-- sminfo", &["sminfo: sm lid 1 ", "SMINFO_MASTER"]),
    ("'link 1,0,0[1] down'", &[]),
    ("sim ctl silent 2,2,2", &[]),
    ("sim --help", &["Simulate a fabric", "--hosts"]),
    ("sim exec -- opensm", &["OpenSM 3.", "Entering MASTER state"]),
    ("torus-sm status", &["MASTER, subnet up", "torus-2QoS", "SWEEP"]),
    ("torus-sm path", &["\"h0-0-0-0 HCA-1\"[1]", "SL ", "SWITCH", "VL"]),
    ("torus-sm metrics", &["# TYPE torus_sm_info gauge"]),
    ("torus-sm resweep", &["subnet up: "]),
    ("torus-sm help", &["Commands that look at", "status", "plan"]),
    ("--compare ftree,updn,minhop", &["ftree", "updn", "credit loop"]),
    ("--compare nue,dfsssp,lash", &["nue", "dfsssp", "lash", "credit loops"]),
    ("--what-if", &["failures", "are routed"]),
    ("sim fattree:18x9 -o", &["SUBNET UP after", "routing:   ftree"]),
    ("--draw fabric.svg", &["LIDs:        60 in use"]),
    ("torus-sm replay /tmp", &["reason:      SIGUSR2", "repeated, the same as recorded"]),
    ("-c /etc/opensm/opensm.conf", &[]),
    ("--dry-start", &["routed by minhop, verified", "of which 0 change what devices hold"]),
    ("shadow --report", &["safe to switch", "1 pass, "]),
];

/// Files that lines write.
const WRITTEN: [(&str, &str); 4] = [
    ("fabric.txt", "Switch"),
    ("fabric.svg", "<svg"),
    ("opensm.conf", "# Configuration of torus-sm"),
    ("recording.html", "<!doctype html>"),
];

/// Beginnings of code in the text that are commands: those are in the blocks, where they run.
const PROGRAMS: [&str; 6] = ["sim ", "plan ", "torus-sm ", "target/", "cargo ", "kill "];

/// The lines of the blocks of shell commands, without comments.
fn blocks(readme: &str) -> Vec<Vec<&str>> {
    let parts = readme.split("```sh\n").skip(1);
    let texts = parts.map(|part| part.split("```").next().unwrap_or_default());
    texts
        .map(|text| {
            let codes = text.lines().map(|line| line.split(" # ").next().unwrap_or_default());
            codes.map(str::trim).collect()
        })
        .collect()
}

/// The line as lines of a script that runs the program under test in `folder`.
fn script_line(line: &str, folder: &Path) -> String {
    let program = torus_sm().display().to_string();
    let mut code = line.to_owned();
    // Directories first: the path of the program may contain them.
    for directory in [" /tmp", " /etc/opensm"] {
        code = code.replace(directory, &format!(" {}", folder.display()));
    }
    for name in ["cargo run --release --", "target/release/torus-sm"] {
        code = code.replace(name, &program);
    }
    let is_endless = ENDLESS.iter().any(|end| line.ends_with(end));
    if is_endless {
        code = format!("timeout 5 {code} || [ $? = 124 ]");
    }
    format!("echo '$ {}'\n{code}\n", line.replace('\'', "'\\''"))
}

/// Runs the lines of a block in a folder of their own. Returns what each has printed.
fn run(lines: &[&str]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a folder");
    let script: String = lines.iter().map(|line| script_line(line, dir.path())).collect();
    // Simulators in the background end with the script.
    let trap = "trap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT";
    let text = format!("set -e\nexec 2>&1\n{trap}\n{script}echo '$ '\n");
    let mut shell = Command::new("bash");
    shell.arg("-c").arg(&text).current_dir(dir.path()).stdin(Stdio::null());
    shell.env("XDG_RUNTIME_DIR", dir.path()).env("OSM_TMP_DIR", dir.path());
    shell.env("OSM_CACHE_DIR", dir.path());
    let output = shell.output().expect("a shell");
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{printed}");
    for (file, content) in WRITTEN {
        if lines.iter().any(|line| line.contains(file)) {
            let written = fs::read_to_string(dir.path().join(file)).expect(file);
            assert!(written.contains(content), "{file}: {written}");
        }
    }
    let mut rest = &*printed;
    let mut parts = Vec::new();
    for line in lines {
        let head = format!("$ {}\n", line);
        let (_, after) = rest.split_once(&head).unwrap_or_else(|| panic!("{head} in {printed}"));
        parts.push(after.split("\n$ ").next().unwrap_or_default().to_owned());
        rest = after;
    }
    parts
}

#[test]
fn the_commands_of_the_readme_work() {
    if !have(&["saquery", "opensm"]) {
        return;
    }
    library();
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let readme = readme.expect("README.md");
    let blocks = blocks(&readme);
    let all: Vec<&str> = blocks.iter().flatten().copied().collect();
    let missing = |known: &str| !all.iter().any(|line| line.contains(known));
    for known in OMITTED.map(|entry| entry.0).into_iter().chain(PRINTED.map(|entry| entry.0)) {
        assert!(!missing(known), "README.md has no command {known:?}");
    }
    for mut lines in blocks {
        lines.retain(|line| !line.is_empty() && !OMITTED.iter().any(|&(code, _)| code == *line));
        for (line, printed) in lines.iter().zip(run(&lines)) {
            for (part, words) in PRINTED.iter().filter(|(part, _)| line.contains(part)) {
                let mut rest = &*printed;
                for word in *words {
                    let found = rest.split_once(word);
                    let (_, after) = found.unwrap_or_else(|| panic!("{part}: {word}: {printed}"));
                    rest = after;
                }
            }
        }
    }
}

/// Commands outside the blocks do not run: they have a placeholder in capital letters, or name what a
/// block or a test of their own runs.
#[test]
fn the_readme_has_its_commands_in_blocks() {
    let readme = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md"));
    let readme = readme.expect("README.md");
    let texts = readme.split("```").step_by(2);
    let codes = texts.flat_map(|text| text.split('`').skip(1).step_by(2));
    let commands = codes.filter(|code| PROGRAMS.iter().any(|head| code.starts_with(head)));
    let is_pattern = |code: &str| {
        code.split_whitespace().any(|word| word.len() > 3 && word.chars().all(char::is_uppercase))
    };
    let outside: Vec<&str> = commands.filter(|code| !is_pattern(code)).collect();
    assert_eq!(outside, ["kill -USR2", "torus-sm check"], "commands without a block");
}
