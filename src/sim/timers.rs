//! The task that handles a fabric's timed events.

use super::event_signal::EventSignal;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// What handles timed events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TimedEvents {
    /// A task, with the resolution of tokio's timers, one millisecond.
    #[default]
    Task,
    /// A task, in real time with the resolution of the kernel's timers.
    ExactTask,
    /// The thread of the fabric's [server](super::serve::Server), if one is started before any port is
    /// attached, with the resolution of the kernel's timers; an exact task otherwise.
    ServerThread,
}

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

/// As [`run`], in real time and with the resolution of the kernel's timers. The task belongs on the thread of
/// the daemon that sends the requests: another thread would have to be woken up for each of them, and back.
pub(super) async fn run_exact(handle_due: impl Fn() -> NextEvent, signal: &EventSignal) {
    let Ok(timer) = KernelTimer::new() else { return run(handle_due, signal).await };
    loop {
        match handle_due() {
            NextEvent::At(due) => {
                let time = time_to(due);
                if time.is_zero() || !timer.set(time) {
                    tokio::task::yield_now().await;
                    continue;
                }
                tokio::select! {
                    () = timer.expired() => {}
                    () = signal.raised() => {}
                }
            }
            NextEvent::Never => signal.raised().await,
            NextEvent::Ended => return,
        }
    }
}

/// A timerfd(2), which tokio polls.
struct KernelTimer(AsyncFd<OwnedFd>);

impl KernelTimer {
    #[expect(deprecated, reason = "the replacement is unsafe, for types other than OwnedFd")]
    fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(AsyncFd::with_interest(timer, Interest::READABLE)?))
    }

    /// Lets the timer expire after this time, which is not zero, and no more after the one set before.
    fn set(&self, time: Duration) -> bool {
        let Ok(it_value) = Timespec::try_from(time) else { return false };
        let it_interval = Timespec::default();
        let expiration = Itimerspec { it_interval, it_value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &expiration).is_ok()
    }

    async fn expired(&self) {
        // The next `set` takes the expiration back, so it need not be read.
        if let Ok(mut ready) = self.0.readable().await {
            ready.clear_ready();
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
