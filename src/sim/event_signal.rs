//! Wakes up what waits for the next timed event: a task, or a thread.

use std::sync::OnceLock;
use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct EventSignal {
    task: Notify,
    /// Wakes up the thread that handles the events, if a thread does.
    thread: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl EventSignal {
    /// Lets `wake` be called from now on: it wakes up the thread that handles the events.
    pub(super) fn wake_thread(&self, wake: impl Fn() + Send + Sync + 'static) {
        // There is one such thread; a second call changes nothing.
        let _ = self.thread.set(Box::new(wake));
    }

    pub(super) fn raise(&self) {
        match self.thread.get() {
            Some(wake) => wake(),
            None => self.task.notify_one(),
        }
    }

    /// Waits until the signal is raised; returns at once if it was raised since the last call.
    pub(super) async fn raised(&self) {
        self.task.notified().await;
    }
}
