//! The task or thread that handles a fabric's timed events.

use super::event_signal::EventSignal;
use std::time::Duration;
use tokio::time::Instant;

/// What handles timed events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimedEvents {
    /// A task, with the resolution of tokio's timers, one millisecond.
    #[default]
    Task,
    /// A thread, in real time with the resolution of the kernel's timers.
    Thread,
    /// As `Thread`: that of the fabric's [server](super::serve::Server), if one is started before any port is
    /// attached.
    ServerThread,
}

/// Time by which the thread handles events late, so that a wake-up handles several: it costs more than an
/// event. Programs that send meanwhile handle them in time.
const GRACE: Duration = Duration::from_micros(10);

/// When the next event is due.
pub(super) enum NextEvent {
    At(Instant),
    /// There is none.
    Never,
    /// The fabric was dropped.
    Ended,
}

/// Handles timed events until the fabric is dropped. `handle_due` handles those that are due.
pub(super) async fn run(handle_due: impl Fn() -> NextEvent, signal: &EventSignal) {
    loop {
        match handle_due() {
            NextEvent::At(due) => tokio::select! {
                () = tokio::time::sleep_until(due) => {}
                () = signal.raised() => {}
            },
            NextEvent::Never => signal.raised().await,
            NextEvent::Ended => return,
        }
    }
}

/// As [`run`], in real time.
pub(super) fn run_in_thread(handle_due: impl Fn() -> NextEvent, signal: &EventSignal) {
    let thread = std::thread::current();
    signal.wake_thread(move || thread.unpark());
    make_timers_exact();
    loop {
        match handle_due() {
            NextEvent::At(due) => std::thread::park_timeout(time_to(due + GRACE)),
            NextEvent::Never => std::thread::park(),
            NextEvent::Ended => return,
        }
    }
}

/// Lets the timers of this thread end in time.
pub(super) fn make_timers_exact() {
    // The kernel may otherwise let the thread sleep 50 microseconds longer. Without, times are less exact.
    let _ = nix::sys::prctl::set_timerslack(1);
}

pub(super) fn time_to(due: Instant) -> Duration {
    due.saturating_duration_since(Instant::now())
}
