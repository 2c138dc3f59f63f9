//! The task or thread that handles a fabric's timed events.

use super::delivery_queue::{PassedOn, PortDeliveries};
use super::event_signal::EventSignal;
use std::time::Duration;
use tokio::time::Instant;

/// What handles timed events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimedEvents {
    /// A task, with the resolution of tokio's timers, one millisecond.
    #[default]
    Task,
    /// A thread, that of the first attached port unless events begin earlier: in real time with the resolution of the kernel's timers.
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

/// As [`run`], in real time, by a thread that also delivers the MADs of a port, if there is one: most events
/// cause deliveries, and deliveries further requests, which would otherwise pass from thread to thread.
pub(super) fn run_in_thread(
    handle_due: impl Fn() -> NextEvent,
    signal: &EventSignal,
    mut port: Option<PortDeliveries>,
) {
    let thread = std::thread::current();
    let wake = move || thread.unpark();
    signal.wake_thread(wake.clone());
    if let Some(port) = &port {
        port.queue.changed.wake_thread(wake);
    }
    make_timers_exact();
    loop {
        let next = handle_due();
        match port.as_ref().map_or(PassedOn::Nothing, PortDeliveries::pass_on) {
            PassedOn::All => continue,
            PassedOn::Nothing => {}
            PassedOn::Closed => port = None,
        }
        match next {
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
