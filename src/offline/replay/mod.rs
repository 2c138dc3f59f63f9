//! `torus-sm replay`: shows a recording of the flight recorder, and repeats discovery and planning.
//!
//! * `time_line`: the entries as text;
//! * [`rerun`]: the stages observe, plan and verify on recorded devices and inputs;
//! * `compare`: differences between the recorded result and the repeated one;
//! * [`frames`]: the recording moment by moment, for the page; `moments`: which moments.

mod compare;
pub mod frames;
mod moments;
pub mod rerun;
mod time_line;

use crate::cli::output::print_to;
use crate::cli::replay::ReplayArgs;
use crate::cli::{CommandFailure, ExitCode};
use crate::manage::page;
use crate::notes::counted;
use crate::record::Recording;
use crate::record::entry::EntryBody;
pub use compare::ReplayComparison;
use rerun::Rerun;
use std::fmt::Write as _;
use std::io::{Read as _, Write};
use std::time::Duration;
use time_line::TimeLine;

/// Shows and repeats the recording given on the command line. Returns [`ExitCode::Fatal`] if a
/// result differs from the recorded one.
///
/// # Errors
/// The recording cannot be read or is damaged, or the report cannot be written.
pub fn run(args: &ReplayArgs, out: &mut dyn Write) -> Result<ExitCode, CommandFailure> {
    let is_input = args.file.as_os_str() == "-";
    let name = if is_input { "standard input".into() } else { args.file.display().to_string() };
    let bytes = if is_input { read_input() } else { std::fs::read(&args.file) };
    let bytes = bytes.map_err(|error| system_error(format!("{name}: {error}")))?;
    let recording =
        Recording::decode(&bytes).map_err(|error| system_error(format!("{name}: {error}")))?;
    if args.page || args.json {
        let text = moments_text(&recording, args);
        print_to(out, &text.map_err(|problem| system_error(format!("{name}: {problem}")))?)?;
        return Ok(ExitCode::Ok);
    }
    let mut text = heading(&recording);
    if !args.no_time_line {
        text += &TimeLine::new(&recording.header, args.mads).text(&recording.entries);
    }
    let comparisons =
        replay(&recording).map_err(|error| system_error(format!("{name}: {error}")))?;
    for comparison in &comparisons {
        text += &comparison.text();
    }
    text += &conclusion(&recording, &comparisons);
    print_to(out, &text)?;
    if comparisons.iter().all(ReplayComparison::is_equal) {
        Ok(ExitCode::Ok)
    } else {
        Ok(ExitCode::Fatal)
    }
}

fn system_error(text: String) -> CommandFailure {
    CommandFailure::new(ExitCode::System, text)
}

fn read_input() -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The moments of a recording as JSON, or as a document for browsers.
fn moments_text(recording: &Recording, args: &ReplayArgs) -> Result<String, String> {
    let view = frames::frames(recording, Duration::from_secs(args.time_limit.into()))?;
    let json = serde_json::to_string(&view).map_err(|error| error.to_string())?;
    Ok(if args.page { page::with_recording(&json) } else { json + "\n" })
}

/// Repeats the plans of a recording and compares the results.
///
/// # Errors
/// Threads cannot be started, or a configuration in the recording is invalid.
pub fn replay(recording: &Recording) -> Result<Vec<ReplayComparison>, String> {
    let runtime = rerun::start_runtime()?;
    let mut rerun = Rerun::new(recording);
    let mut comparisons = Vec::new();
    for plan in &recording.header.plans {
        let again = runtime.block_on(rerun.plan(plan))?;
        let comparison = ReplayComparison::new(plan, &again);
        rerun.compared(comparison.has_same_plan());
        comparisons.push(comparison);
    }
    Ok(comparisons)
}

/// The circumstances of the recording.
fn heading(recording: &Recording) -> String {
    let Recording { header, entries, .. } = recording;
    let mads = entries.iter().filter(|entry| matches!(entry.body, EntryBody::Mad(_))).count();
    let start = entries.first().map_or(header.written_at, |entry| entry.at);
    let seconds = header.written_at.saturating_sub(start) / 1_000_000;
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "program:     {}", header.program);
    let _ = writeln!(text, "port:        {}", header.port);
    let _ = writeln!(text, "written:     {}", header.written);
    let _ = writeln!(text, "reason:      {}", header.reason);
    let _ = writeln!(
        text,
        "contents:    {}, {} and {} of {seconds} s",
        counted(header.plans.len(), "plan", "plans"),
        counted(mads, "MAD", "MADs"),
        counted(entries.len() - mads, "event", "events"),
    );
    text
}

fn conclusion(recording: &Recording, comparisons: &[ReplayComparison]) -> String {
    if comparisons.is_empty() {
        return "result:      the recording has no plan to repeat\n".to_owned();
    }
    let different = comparisons.iter().filter(|comparison| !comparison.is_equal()).count();
    let plans = counted(recording.header.plans.len(), "plan", "plans");
    match different {
        0 => format!("result:      {plans} repeated, the same as recorded\n"),
        _ => format!("result:      {plans} repeated, {different} with differences\n"),
    }
}
