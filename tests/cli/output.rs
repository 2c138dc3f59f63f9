//! Standard output that is closed or full, of all commands.

use std::fs::File;
use std::process::{Command, Output, Stdio};
use testkit::torus_sm;

/// Commands that print without a daemon.
const COMMANDS: &[&[&str]] = &[
    &["--help"],
    &["--version"],
    &["help", "help"],
    &["help", "plan"],
    &["completions", "bash"],
    &["plan", "3x3x1"],
    &["plan", "3x3x1", "--json"],
    &["check", "-F", "/dev/null"],
    &["torus-config", "3x3x1"],
    &["sim", "3x3x1", "-o"],
    &["sim", "ctl", "help"],
];

fn run(args: &[&str], stdout: Stdio, stderr: Stdio) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(torus_sm());
    command.args(args).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    command.env("TORUS_SM_RUNTIME_DIR", folder.path());
    let child = command.spawn().expect("torus-sm starts");
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_full_device_is_an_error_and_a_closed_pipe_is_not() {
    for args in COMMANDS {
        let full = || Stdio::from(File::options().write(true).open("/dev/full").expect("Linux"));
        let output = run(args, full(), Stdio::piped());
        let problem = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{args:?}: {problem}");
        assert!(
            problem.contains("torus-sm: standard output: No space left"),
            "{args:?}: {problem}"
        );
        assert!(!problem.contains("panicked"), "{args:?}: {problem}");
        // A full standard error has no place for the message either.
        assert_eq!(run(args, full(), full()).status.code(), Some(5), "{args:?}");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = run(args, writer.into(), Stdio::piped());
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(!problem.contains("panicked") && !problem.contains("ipe"), "{args:?}: {problem}");
        assert_eq!(output.status.code(), Some(0), "{args:?}: {problem}");
    }
}

#[test]
fn reports_have_colours_on_request() {
    let folder = tempfile::tempdir().expect("a folder");
    let wrong = folder.path().join("opensm.conf");
    std::fs::write(&wrong, "no_such_key 1\n").expect("a file");
    let wrong = wrong.to_str().expect("text");
    for command in [&["plan", "3x3x1"][..], &["check", "-F", wrong]] {
        let shown = |choice: &[&str]| {
            let output = run(&[command, choice].concat(), Stdio::piped(), Stdio::piped());
            String::from_utf8(output.stdout).expect("text")
        };
        let plain = shown(&[]);
        assert!(!plain.contains('\u{1b}') && plain == shown(&["--color", "never"]), "{plain}");
        let coloured = shown(&["--color", "always"]);
        assert!(coloured.contains("\u{1b}["), "{command:?}: {coloured}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }
}

#[test]
fn an_invalid_command_line_needs_no_standard_error() {
    let full = File::options().write(true).open("/dev/full").expect("Linux");
    let output = run(&["plan", "--nonsense"], Stdio::piped(), full.into());
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn help_has_help() {
    let output = run(&["help", "help"], Stdio::piped(), Stdio::piped());
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("Usage: torus-sm help [COMMAND]..."), "{text}");
}
