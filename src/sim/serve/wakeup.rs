//! Wake-up of the server's thread by the fabric when packets arrive for open files.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Sending end; never blocks.
pub(super) struct Wakeup {
    /// Numbers of open files with packets in their receive queue.
    readable: Mutex<Vec<u64>>,
    /// Set while the server checks `readable` without a wake-up.
    is_awake: AtomicBool,
    is_stopped: AtomicBool,
    sender: UnixStream,
}

/// Receiving end, which the server polls.
pub(super) struct WakeupReceiver(pub(super) UnixStream);

impl Wakeup {
    pub(super) fn new() -> io::Result<(Self, WakeupReceiver)> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        let wakeup = Self {
            readable: Mutex::default(),
            is_awake: AtomicBool::new(true),
            is_stopped: AtomicBool::new(false),
            sender,
        };
        Ok((wakeup, WakeupReceiver(receiver)))
    }

    /// Reports packets in the receive queue of the open file `number`.
    pub(super) fn notify(&self, number: u64) {
        self.readable.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        self.wake();
    }

    /// Stops the server.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.is_awake.store(false, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes the server up if it waits, as an event is due earlier than it knows.
    pub(super) fn wake(&self) {
        if !self.is_awake.swap(true, Ordering::SeqCst) {
            // A full socket wakes the server as well.
            let _ = (&self.sender).write(&[1]);
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::SeqCst)
    }

    /// Takes the numbers of open files with packets in their receive queue.
    pub(super) fn take_readable(&self) -> Vec<u64> {
        std::mem::take(&mut *self.readable.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Called before the server waits; false if it must not block.
    pub(super) fn may_block(&self) -> bool {
        self.is_awake.store(false, Ordering::SeqCst);
        let is_empty = self.readable.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        is_empty && !self.is_stopped()
    }

    /// Called after the server has waited.
    pub(super) fn woken(&self, receiver: &WakeupReceiver) {
        self.is_awake.store(true, Ordering::SeqCst);
        let mut bytes = [0; 64];
        // There is at most one byte per wait; an empty socket is no error.
        let _ = (&receiver.0).read(&mut bytes);
    }
}
