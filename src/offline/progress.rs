//! Progress bar of `plan --what-if` on standard error.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// Bar of 40 characters, percentage, and count of steps.
const TEMPLATE: &str = "[{bar:40}] {percent:>3}% {pos}/{len}";

/// Returns a progress bar for `steps` steps; it draws nothing if standard error is not a terminal.
pub(super) fn bar(steps: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps as u64);
    match ProgressStyle::with_template(TEMPLATE) {
        Ok(style) => bar.with_style(style.progress_chars("#.")),
        Err(_) => bar,
    }
}
