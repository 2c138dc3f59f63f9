//! A progress bar on a terminal's standard error; silent elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WIDTH: usize = 40;
const INTERVAL: Duration = Duration::from_millis(100);

/// The bar; any thread may move it.
pub(super) struct Progress {
    total: usize,
    done: AtomicUsize,
    is_shown: bool,
    /// When it was drawn last.
    drawn: Mutex<Instant>,
}

#[allow(clippy::disallowed_methods, reason = "the bar is drawn outside of any runtime")]
impl Progress {
    /// A bar for so many steps.
    pub(super) fn new(total: usize) -> Self {
        Self {
            total,
            done: AtomicUsize::new(0),
            is_shown: std::io::stderr().is_terminal(),
            drawn: Mutex::new(Instant::now()),
        }
    }

    /// One step is done.
    pub(super) fn step(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.is_shown {
            return;
        }
        // Whoever finds another thread drawing has nothing to add.
        if let Ok(mut drawn) = self.drawn.try_lock()
            && drawn.elapsed() >= INTERVAL
        {
            *drawn = Instant::now();
            eprint!("\r{}", line(done, self.total));
            let _ = std::io::stderr().flush();
        }
    }

    /// Takes the bar away.
    pub(super) fn finish(self) {
        if self.is_shown {
            eprint!("\r{:width$}\r", "", width = line(self.total, self.total).chars().count());
        }
    }
}

/// `[#####.....]  50% 1024/2048`.
fn line(done: usize, total: usize) -> String {
    let total = total.max(1);
    let filled = WIDTH * done.min(total) / total;
    let (full, empty) = ("#".repeat(filled), ".".repeat(WIDTH - filled));
    format!("[{full}{empty}] {:3}% {done}/{total}", 100 * done.min(total) / total)
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn the_bar_fills_up() {
        assert_eq!(line(0, 8), format!("[{}]   0% 0/8", ".".repeat(40)));
        assert_eq!(line(4, 8), format!("[{}{}]  50% 4/8", "#".repeat(20), ".".repeat(20)));
        assert_eq!(line(8, 8), format!("[{}] 100% 8/8", "#".repeat(40)));
        assert_eq!(line(0, 0), format!("[{}]   0% 0/1", ".".repeat(40)));
    }
}
