//! Wakes up what waits for the next timed event: a task, or a thread.

use std::sync::OnceLock;
use std::thread::Thread;
use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct EventSignal {
    task: Notify,
    thread: OnceLock<Thread>,
}

impl EventSignal {
    /// Lets the current thread, which parks, be woken up from now on.
    pub(super) fn wake_this_thread(&self) {
        // There is one such thread; a second call changes nothing.
        let _ = self.thread.set(std::thread::current());
    }

    pub(super) fn raise(&self) {
        match self.thread.get() {
            Some(thread) => thread.unpark(),
            None => self.task.notify_one(),
        }
    }

    /// Waits until the signal is raised; returns at once if it was raised since the last call.
    pub(super) async fn raised(&self) {
        self.task.notified().await;
    }
}
