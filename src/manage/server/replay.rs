//! Replays recordings for the page, in a process of its own: neither its memory nor a defect that a
//! strange recording meets is that of the daemon.

use crate::manage::api::{ApiError, HttpReply};
use rustix::process::{Pid, Resource, Rlimit, prlimit, setpriority_process};
use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use tracing::debug;

/// Maximum length of a recording, in bytes: several times what `recorder_size` allows by default.
pub(super) const MAX_RECORDING: usize = 64 << 20;
/// Maximum length of the reply, in bytes.
const MAX_REPLY: u64 = 64 << 20;
/// Maximum length of the error message of the process, in bytes.
const MAX_PROBLEM: u64 = 4096;
/// Seconds after which the process leaves moments out.
const TIME_LIMIT: &str = "12";
/// Seconds of processor time after which the kernel ends the process.
const MAX_CPU_SECONDS: u64 = 60;
/// Address space of the process, in bytes.
const MAX_MEMORY: u64 = 4 << 30;
/// The lowest priority.
const NICE: i32 = 19;

/// Replays a recording with the command `torus-sm replay`. Blocks until it has ended.
///
/// # Errors
/// The recording cannot be read (400), or the process failed (500).
pub(super) fn replay(program: &Path, recording: &[u8]) -> Result<HttpReply, ApiError> {
    let mut child = Command::new(program)
        .args(["replay", "--json", "--time-limit", TIME_LIMIT, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(&error))?;
    limit(&child);
    let (body, problem) = exchange(&mut child, recording);
    let status = child.wait().map_err(|error| failed(&error))?;
    if status.success() && body.len() as u64 <= MAX_REPLY {
        return Ok(HttpReply {
            status: 200,
            content_type: "application/json",
            body,
            is_gzip: false,
        });
    }
    if status.success() {
        let text = format!("the recording takes more than {MAX_REPLY} bytes as JSON");
        return Err(ApiError::new(413, text));
    }
    let problem = String::from_utf8_lossy(&problem);
    let problem = problem.trim().trim_start_matches("torus-sm: standard input: ");
    match status.code() {
        Some(_) if !problem.is_empty() => {
            Err(ApiError::new(400, format!("the recording: {problem}")))
        }
        _ => Err(failed(&format!("the process ended with {status}"))),
    }
}

fn failed(error: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(500, format!("replay: {error}"))
}

/// Limits a process that was just started. Where the kernel refuses, the process has the limits of the
/// daemon.
fn limit(child: &Child) {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let limits = [
        set_limit(pid, Resource::Cpu, MAX_CPU_SECONDS),
        set_limit(pid, Resource::As, MAX_MEMORY),
        setpriority_process(Some(pid), NICE),
    ];
    for problem in limits.into_iter().filter_map(Result::err) {
        debug!("management interface: a limit of the replay is not set: {problem}");
    }
}

fn set_limit(pid: Pid, resource: Resource, maximum: u64) -> rustix::io::Result<()> {
    let limit = Rlimit { current: Some(maximum), maximum: Some(maximum) };
    prlimit(Some(pid), resource, limit).map(drop)
}

/// Gives a process the recording; returns what it wrote to its outputs.
fn exchange(child: &mut Child, recording: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let input = child.stdin.take();
    let output = child.stdout.take();
    let errors = child.stderr.take();
    thread::scope(|scope| {
        scope.spawn(move || {
            // A process that has read enough closes its input.
            let _ = input.map(|mut input| input.write_all(recording));
        });
        let problem = scope.spawn(|| read(errors, MAX_PROBLEM));
        let body = read(output, MAX_REPLY + 1);
        (body, problem.join().expect("reading an output does not panic"))
    })
}

/// The first `max` bytes of an output. It is read to its end, so that the process does not wait; what was
/// read before an error counts.
fn read(output: Option<impl Read>, max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(mut output) = output else { return bytes };
    let _ = output.by_ref().take(max).read_to_end(&mut bytes);
    let _ = std::io::copy(&mut output, &mut std::io::sink());
    bytes
}
