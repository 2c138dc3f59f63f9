//! Table of the descriptors that are simulated devices.
//!
//! The program can close and duplicate descriptors in ways that this library does not intercept. An
//! entry therefore has the inode of its socket, and is valid only while the descriptor has it.

use crate::socket;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Size of the table: devices have descriptors below this number.
const MAX_DESCRIPTORS: usize = 65_536;
/// Number of locks for readers; descriptors share them by their number modulo this.
const READ_LOCKS: usize = 64;

struct Entry {
    /// Number of the device in the simulator; 0 if the descriptor is not a device.
    number: AtomicU64,
    inode: AtomicU64,
}

static ENTRIES: [Entry; MAX_DESCRIPTORS] =
    [const { Entry { number: AtomicU64::new(0), inode: AtomicU64::new(0) } }; MAX_DESCRIPTORS];

/// Held by a thread from peeking at a packet until it has received it.
static LOCKED: [AtomicBool; READ_LOCKS] = [const { AtomicBool::new(false) }; READ_LOCKS];

fn entry(fd: RawFd) -> Option<&'static Entry> {
    ENTRIES.get(usize::try_from(fd).ok()?)
}

/// Adds a device; false if the descriptor is too large for the table.
pub fn insert(fd: RawFd, number: u64) -> bool {
    let (Some(entry), Some(inode)) = (entry(fd), socket::inode(fd)) else { return false };
    entry.inode.store(inode, Ordering::Relaxed);
    entry.number.store(number, Ordering::Release);
    true
}

/// Number in the simulator of the device `fd`; `None` if `fd` is not a device.
pub fn number(fd: RawFd) -> Option<u64> {
    let entry = entry(fd)?;
    let number = entry.number.load(Ordering::Acquire);
    if number == 0 {
        return None;
    }
    if socket::inode(fd) == Some(entry.inode.load(Ordering::Relaxed)) {
        return Some(number);
    }
    entry.number.store(0, Ordering::Release);
    None
}

/// Removes `fd`, which is about to be closed.
pub fn remove(fd: RawFd) {
    if let Some(entry) = entry(fd) {
        entry.number.store(0, Ordering::Release);
    }
}

/// Records that `to` is a duplicate of `fd`.
pub fn duplicate(fd: RawFd, to: RawFd) {
    match number(fd) {
        Some(number) => {
            insert(to, number);
        }
        None => remove(to),
    }
}

/// Guard of the right to receive packets from a descriptor.
pub struct ReadLock(&'static AtomicBool);

impl ReadLock {
    /// Spins until the lock is free; it is held for a few system calls at most.
    pub fn new(fd: RawFd) -> Self {
        let lock = &LOCKED[usize::try_from(fd).unwrap_or(0) % READ_LOCKS];
        while lock.swap(true, Ordering::Acquire) {
            // SAFETY: no arguments and no effect on memory.
            unsafe { libc::sched_yield() };
        }
        Self(lock)
    }
}

impl Drop for ReadLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Releases all locks in the child of a fork, where their holders do not exist.
pub fn after_fork() {
    LOCKED.iter().for_each(|lock| lock.store(false, Ordering::Release));
}
