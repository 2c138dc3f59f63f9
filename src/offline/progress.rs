//! Progress of `plan` on standard error, if it is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// Text, bar of 40 characters, percentage, and count of steps.
const BAR: &str = "{msg} [{bar:40}] {percent:>3}% {pos}/{len}";
/// Text and time.
const SPINNER: &str = "{spinner} {msg} {elapsed}";
/// Time between two pictures of a spinner.
const TICK: Duration = Duration::from_millis(200);

/// A progress bar for `steps` steps of work.
pub(super) fn bar(text: &'static str, steps: usize) -> ProgressBar {
    styled(ProgressBar::new(steps as u64), BAR).with_message(text)
}

/// A line about work that has no steps.
pub(super) fn spinner(text: &'static str) -> ProgressBar {
    let spinner = styled(ProgressBar::new_spinner(), SPINNER).with_message(text);
    if !spinner.is_hidden() {
        spinner.enable_steady_tick(TICK);
    }
    spinner
}

/// The bar in a style; one that draws nothing if standard error is not a terminal.
fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("#.")),
        Err(_) => bar,
    }
}
