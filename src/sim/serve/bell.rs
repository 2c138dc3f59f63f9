//! How the fabric tells the server's thread that packets wait.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Rung by anybody; never blocks.
pub(super) struct Bell {
    waiting: Mutex<Vec<u64>>,
    /// Set while the server will look at `waiting` without being called.
    awake: AtomicBool,
    ended: AtomicBool,
    rope: UnixStream,
}

/// The end that the server listens at.
pub(super) struct Ear(pub(super) UnixStream);

impl Bell {
    pub(super) fn new() -> io::Result<(Self, Ear)> {
        let (rope, ear) = UnixStream::pair()?;
        rope.set_nonblocking(true)?;
        ear.set_nonblocking(true)?;
        let bell = Self {
            waiting: Mutex::default(),
            awake: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            rope,
        };
        Ok((bell, Ear(ear)))
    }

    /// Packets wait in the open file `number`.
    pub(super) fn ring(&self, number: u64) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        self.pull();
    }

    /// The server is to end.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.awake.store(false, Ordering::SeqCst);
        self.pull();
    }

    fn pull(&self) {
        if !self.awake.swap(true, Ordering::SeqCst) {
            // If the pipe is full, the server has been called often enough.
            let _ = (&self.rope).write(&[1]);
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Files in which packets wait.
    pub(super) fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server is about to sleep; false if it must not.
    pub(super) fn may_sleep(&self) -> bool {
        self.awake.store(false, Ordering::SeqCst);
        let is_empty = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        is_empty && !self.has_ended()
    }

    /// The server is up again.
    pub(super) fn wake(&self, ear: &Ear) {
        self.awake.store(true, Ordering::SeqCst);
        let mut rung = [0; 64];
        // There is one byte at most per sleep; an empty pipe is no error.
        let _ = (&ear.0).read(&mut rung);
    }
}
