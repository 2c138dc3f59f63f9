//! The system calls, and the only unsafe code of the crate.
//!
//! Only libc's `open`, `read`, `write`, `ioctl`, `poll` and `close` are called, because preloaded
//! simulators replace these. Their descriptors are unknown to the kernel and must not be passed to
//! any other call, which is why [`Descriptor`] is not an `OwnedFd`.

#![allow(unsafe_code)]

use super::abi::{self, RegisterRequest, RegisterRequest2};
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

/// An open device, closed on drop.
#[derive(Debug)]
pub(super) struct Descriptor(RawFd);

impl Descriptor {
    /// Opens the device `path` for reading and writing, without blocking.
    pub(super) fn open(path: &CStr) -> io::Result<Self> {
        Self::open_as(path, libc::O_RDWR)
    }

    /// Opens the device `path` to keep it open without I/O.
    pub(super) fn hold(path: &CStr) -> io::Result<Self> {
        Self::open_as(path, libc::O_RDONLY)
    }

    /// Uses a socket in place of a device.
    #[cfg(test)]
    pub(super) fn of(socket: std::os::fd::OwnedFd) -> Self {
        Self(std::os::fd::IntoRawFd::into_raw_fd(socket))
    }

    fn open_as(path: &CStr, access: libc::c_int) -> io::Result<Self> {
        let flags = access | libc::O_NONBLOCK | libc::O_CLOEXEC;
        // SAFETY: `path` ends with NUL; the mode argument is not looked at without O_CREAT.
        let fd = unsafe { libc::open(path.as_ptr(), flags) };
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(fd)) }
    }

    /// True if the kernel knows the descriptor; false under a simulator.
    pub(super) fn is_real(&self) -> bool {
        // SAFETY: F_GETFD has no argument and touches no memory; a foreign number yields EBADF.
        unsafe { libc::fcntl(self.0, libc::F_GETFD) >= 0 }
    }

    /// Reads one MAD; `None` if the queue is empty, which simulators report by a negative number
    /// without errno.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        clear_errno();
        // SAFETY: the pointer and the length are those of `buffer`, which is borrowed mutably.
        let got = unsafe { libc::read(self.0, buffer.as_mut_ptr().cast(), buffer.len()) };
        if let Ok(len) = usize::try_from(got) {
            return Ok((len > 0).then_some(len.min(buffer.len())));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            None | Some(0 | libc::EAGAIN | libc::EINTR) => Ok(None),
            _ => Err(error),
        }
    }

    /// Writes one MAD with its header.
    pub(super) fn write(&self, message: &[u8]) -> io::Result<()> {
        loop {
            clear_errno();
            // SAFETY: the pointer and the length are those of `message`.
            let sent = unsafe { libc::write(self.0, message.as_ptr().cast(), message.len()) };
            if sent >= 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Waits until the device or `stop` is readable, at most `timeout_ms` milliseconds (-1: no
    /// limit). Returns true if the device was removed.
    pub(super) fn wait(&self, stop: Option<RawFd>, timeout_ms: libc::c_int) -> bool {
        let mut fds = [
            libc::pollfd { fd: self.0, events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: stop.unwrap_or(-1), events: libc::POLLIN, revents: 0 },
        ];
        let count = if stop.is_some() { 2 } else { 1 };
        // SAFETY: `count` elements of the array are valid for reading and writing.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), count, timeout_ms) };
        let gone = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        ready > 0 && fds[0].revents & gone != 0 && fds[0].revents & libc::POLLIN == 0
    }

    /// Enables headers with a P_Key index. Must precede all other calls.
    pub(super) fn enable_pkey_index(&self) -> io::Result<()> {
        // SAFETY: this request takes no argument.
        check(unsafe { libc::ioctl(self.0, abi::ENABLE_PKEY as _, 0) })
    }

    /// `IB_USER_MAD_REGISTER_AGENT`.
    pub(super) fn register(&self, request: &mut RegisterRequest) -> io::Result<()> {
        let request: *mut RegisterRequest = request;
        // SAFETY: the request's structure has the layout the kernel reads and writes.
        check(unsafe { libc::ioctl(self.0, abi::REGISTER_AGENT as _, request) })
    }

    /// `IB_USER_MAD_REGISTER_AGENT2`.
    pub(super) fn register2(&self, request: &mut RegisterRequest2) -> io::Result<()> {
        let request: *mut RegisterRequest2 = request;
        // SAFETY: the request's structure has the layout the kernel reads and writes.
        check(unsafe { libc::ioctl(self.0, abi::REGISTER_AGENT2 as _, request) })
    }

    pub(super) fn unregister(&self, id: u32) -> io::Result<()> {
        let id: *const u32 = &id;
        // SAFETY: the kernel reads four bytes.
        check(unsafe { libc::ioctl(self.0, abi::UNREGISTER_AGENT as _, id) })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the descriptor came from `open` and is closed nowhere else.
        unsafe { libc::close(self.0) };
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Simulators fail without setting errno, which must not contain an older error then.
fn clear_errno() {
    nix::errno::Errno::clear();
}

/// Lets the calling thread wake up without preempting running ones (SCHED_BATCH, sched(7)).
pub(super) fn wake_without_preemption() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // If the kernel refuses, only more time is needed.
    // SAFETY: the pointer is valid during the call; 0 stands for the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy is the 41st field (proc_pid_stat(5)); the name of the thread, the second one, has no blanks.
    fn policy() -> Option<String> {
        let text = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
        text.split(' ').nth(40).map(str::to_owned)
    }

    #[test]
    fn a_thread_may_give_up_preemption_without_a_privilege() {
        let thread = std::thread::Builder::new().name("batch".to_owned());
        let changed = thread.spawn(|| {
            wake_without_preemption();
            policy()
        });
        let changed = changed.expect("a thread").join().expect("no panic");
        assert_eq!(changed, Some(libc::SCHED_BATCH.to_string()));
    }
}
