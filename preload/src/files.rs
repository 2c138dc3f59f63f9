//! Which descriptors are open devices of the simulator.
//!
//! The program closes and passes descriptors on in ways that are not seen here. So an entry names
//! the socket it was made for, and counts only as long as its number still stands for that.

use crate::session;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Higher numbers cannot be devices.
const DESCRIPTORS: usize = 65_536;
const READERS: usize = 64;

struct Entry {
    /// The simulator's number; 0: no device.
    number: AtomicU64,
    inode: AtomicU64,
}

static ENTRIES: [Entry; DESCRIPTORS] =
    [const { Entry { number: AtomicU64::new(0), inode: AtomicU64::new(0) } }; DESCRIPTORS];

/// A thread between looking at a packet and taking it.
static READING: [AtomicBool; READERS] = [const { AtomicBool::new(false) }; READERS];

fn entry(fd: RawFd) -> Option<&'static Entry> {
    ENTRIES.get(usize::try_from(fd).ok()?)
}

/// Remembers a device; false if the number is too high for that.
pub fn insert(fd: RawFd, number: u64) -> bool {
    let (Some(entry), Some(inode)) = (entry(fd), session::inode(fd)) else { return false };
    entry.inode.store(inode, Ordering::Relaxed);
    entry.number.store(number, Ordering::Release);
    true
}

/// The simulator's number of the device behind `fd`.
pub fn number(fd: RawFd) -> Option<u64> {
    let entry = entry(fd)?;
    let number = entry.number.load(Ordering::Acquire);
    if number == 0 {
        return None;
    }
    if session::inode(fd) == Some(entry.inode.load(Ordering::Relaxed)) {
        return Some(number);
    }
    entry.number.store(0, Ordering::Release);
    None
}

/// Forgets what `fd` was: it is about to be closed.
pub fn remove(fd: RawFd) {
    if let Some(entry) = entry(fd) {
        entry.number.store(0, Ordering::Release);
    }
}

/// `to` is a copy of `fd` from now on.
pub fn copied(fd: RawFd, to: RawFd) {
    match number(fd) {
        Some(number) => {
            insert(to, number);
        }
        None => remove(to),
    }
}

/// While this is there, no other thread takes packets from the descriptor.
pub struct Reading(&'static AtomicBool);

impl Reading {
    /// Waits for its turn, which is never longer than two system calls.
    pub fn new(fd: RawFd) -> Self {
        let turn = &READING[usize::try_from(fd).unwrap_or_default() % READERS];
        while turn.swap(true, Ordering::Acquire) {
            // SAFETY: has neither arguments nor effects.
            unsafe { libc::sched_yield() };
        }
        Self(turn)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// In the child of a fork the other threads, and what they were about, are gone.
pub fn after_fork() {
    READING.iter().for_each(|turn| turn.store(false, Ordering::Release));
}
