//! Connection of the process to the simulator.
//!
//! The first use of a path of the simulated node connects. The child of a fork, and a process that
//! has lost its connection, connect again. Open devices do not depend on the connection: they have
//! their own descriptors.

use crate::errno::Errno;
use crate::protocol::{
    ATTACH, FRAME_HEADER_SIZE, NO_REPLY_VARIABLE, NODE_VARIABLE, OLD_KERNEL_VARIABLE,
    SOCKET_VARIABLE, VERSION, frame_header, read_frame_header,
};
use crate::real;
use crate::socket::{self, inode, receive_some};
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// Size of the buffer for the first part of a reply, in bytes; most replies are shorter.
const REPLY_BUFFER: usize = 512;

static CURRENT: AtomicPtr<Connection> = AtomicPtr::new(null_mut());

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}
/// `PTHREAD_CANCEL_DISABLE`.
const CANCEL_DISABLE: c_int = 1;

pub struct Connection {
    fd: RawFd,
    inode: u64,
    directory: Vec<u8>,
    /// Held during a request.
    lock: Mutex<()>,
}

/// True if the environment names a simulator.
pub fn is_enabled() -> bool {
    variable(SOCKET_VARIABLE).is_some()
}

/// The connection of this process; connects if there is none.
///
/// # Errors
/// ENODEV if there is no simulator, or it has no such node.
pub fn current() -> Result<&'static Connection, Errno> {
    let current = CURRENT.load(Ordering::Acquire);
    // SAFETY: a connection is never freed once it is in `CURRENT`; a process makes few of them.
    if let Some(connection) = unsafe { current.as_ref() }
        && inode(connection.fd) == Some(connection.inode)
    {
        return Ok(connection);
    }
    static REGISTER_FORK_HANDLER: Once = Once::new();
    // SAFETY: the handler only drops the connection.
    REGISTER_FORK_HANDLER.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(after_fork));
    });
    let connection = Box::into_raw(Box::new(Connection::connect()?));
    let order = Ordering::AcqRel;
    match CURRENT.compare_exchange(current, connection, order, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => Ok(unsafe { &*connection }),
        Err(other) => {
            // SAFETY: `connection` was not stored in `CURRENT`, so no other thread uses it; the
            // connection that another thread stored is never freed.
            unsafe {
                real::close(Box::from_raw(connection).fd);
                other.as_ref().ok_or(Errno(libc::EAGAIN))
            }
        }
    }
}

/// Drops the connection in the child of a fork, which will connect itself.
unsafe extern "C" fn after_fork() {
    crate::device_table::after_fork();
    let current = CURRENT.swap(null_mut(), Ordering::AcqRel);
    // SAFETY: connections are never freed; the descriptor is the child's copy.
    if let Some(connection) = unsafe { current.as_ref() }
        && inode(connection.fd) == Some(connection.inode)
    {
        // SAFETY: only this library knows the descriptor.
        unsafe { real::close(connection.fd) };
    }
}

/// True if `fd` is the descriptor of the connection, which the program did not open.
pub fn is_connection(fd: RawFd) -> bool {
    // SAFETY: connections are never freed.
    let connection = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    connection.is_some_and(|connection| connection.fd == fd && inode(fd) == Some(connection.inode))
}

/// True if the devices are those of a kernel without `IB_USER_MAD_REGISTER_AGENT2`.
pub fn is_old_kernel() -> bool {
    variable(OLD_KERNEL_VARIABLE).is_some()
}

/// True if the program does not wait for the replies to its writes.
pub fn writes_without_reply() -> bool {
    static IS_SET: OnceLock<bool> = OnceLock::new();
    *IS_SET.get_or_init(|| variable(NO_REPLY_VARIABLE).is_some())
}

/// Value of an environment variable, if it is not empty.
fn variable(name: &str) -> Option<&'static CStr> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name and the value end with NUL.
    let value = unsafe {
        let value: *const c_char = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    value.filter(|value| !value.is_empty())
}

impl Connection {
    fn connect() -> Result<Self, Errno> {
        let path = variable(SOCKET_VARIABLE).ok_or(Errno(libc::ENODEV))?;
        let fd = socket::connect(path.to_bytes()).map_err(|errno| {
            report_error("cannot connect to the simulator", path.to_bytes(), errno);
            Errno(libc::ENODEV)
        })?;
        let inode = inode(fd).unwrap_or(0);
        let mut connection = Self { fd, inode, directory: Vec::new(), lock: Mutex::new(()) };
        let node = variable(NODE_VARIABLE).map_or(&[][..], CStr::to_bytes);
        let mut reply = Vec::new();
        match connection.request(ATTACH, &[&VERSION.to_ne_bytes(), node], &mut reply) {
            Ok(_) => connection.directory = reply,
            Err(errno) => {
                report_error("the simulator rejects this program", &reply, errno);
                // SAFETY: the descriptor is owned by this function.
                unsafe { real::close(fd) };
                return Err(Errno(libc::ENODEV));
            }
        }
        Ok(connection)
    }

    /// Directory with `sys` and `dev` of the node.
    pub fn directory(&self) -> &[u8] {
        &self.directory
    }

    /// Sends a request and waits for the reply, whose body is stored in `reply`. Returns the
    /// descriptor that the reply carries, if any.
    ///
    /// # Errors
    /// The error in the reply; EIO if the connection is lost.
    pub fn request(
        &self,
        operation: u32,
        parts: &[&[u8]],
        reply: &mut Vec<u8>,
    ) -> Result<Option<RawFd>, Errno> {
        let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _cancellation = CancellationDisabled::new();
        let result = self.send(operation, parts).and_then(|()| receive(self.fd, reply));
        let (errno, fd) = result.map_err(|_| self.lost())?;
        match errno {
            0 => Ok(fd),
            errno => Err(Errno(errno)),
        }
    }

    /// Sends a request that has no reply.
    ///
    /// # Errors
    /// EIO if the connection is lost.
    pub fn post(&self, operation: u32, parts: &[&[u8]]) -> Result<(), Errno> {
        let _lock = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let _cancellation = CancellationDisabled::new();
        self.send(operation, parts).map_err(|_| self.lost())
    }

    fn send(&self, operation: u32, parts: &[&[u8]]) -> Result<(), Errno> {
        let body = parts.iter().map(|part| part.len()).sum();
        send(self.fd, &frame_header(operation, body), parts)
    }

    /// Drops the connection, which is lost.
    fn lost(&self) -> Errno {
        self.drop_current();
        Errno(libc::EIO)
    }
}

impl Connection {
    /// Makes the next request connect again, perhaps to a new simulator. The descriptor stays open,
    /// because other threads may be waiting on it.
    fn drop_current(&self) {
        let this = std::ptr::from_ref(self).cast_mut();
        // Another thread may have done the same.
        let _ = CURRENT.compare_exchange(this, null_mut(), Ordering::AcqRel, Ordering::Acquire);
    }
}

/// Prints a message to standard error.
fn report_error(what: &str, detail: &[u8], errno: Errno) {
    let parts =
        [b"torus-sm: ".as_slice(), what.as_bytes(), b": ", detail, b": errno ", &digits(errno)]
            .concat();
    let line = [parts.as_slice(), b"\n"].concat();
    // SAFETY: pointer and length are those of the line. Errors are ignored.
    unsafe { real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

fn digits(errno: Errno) -> Vec<u8> {
    errno.0.to_string().into_bytes()
}

/// Disables cancellation of the thread between a request and its reply.
struct CancellationDisabled(c_int);

impl CancellationDisabled {
    fn new() -> Self {
        let mut old = 0;
        // SAFETY: `old` is writable.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut old) };
        Self(old)
    }
}

impl Drop for CancellationDisabled {
    fn drop(&mut self) {
        let mut ignored = 0;
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(self.0, &raw mut ignored) };
    }
}

fn send(fd: RawFd, header: &[u8], parts: &[&[u8]]) -> Result<(), Errno> {
    // One buffer, so that short frames are sent by one call.
    let mut frame = Vec::with_capacity(header.len() + parts.iter().map(|p| p.len()).sum::<usize>());
    frame.extend_from_slice(header);
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        // SAFETY: pointer and length are those of the slice.
        let sent = unsafe {
            libc::send(fd, rest.as_ptr().cast::<c_void>(), rest.len(), libc::MSG_NOSIGNAL)
        };
        match usize::try_from(sent) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or(&[]),
            Err(_) if Errno::last() == Errno(libc::EINTR) => {}
            Err(_) => return Err(Errno::last()),
        }
    }
    Ok(())
}

/// Receives a frame. Stores its body in `body`; returns its errno and the descriptor that it
/// carries.
fn receive(fd: RawFd, body: &mut Vec<u8>) -> Result<(c_int, Option<RawFd>), Errno> {
    let mut buffer = [0; REPLY_BUFFER];
    let (mut filled, passed) = receive_some(fd, &mut buffer)?;
    while filled < FRAME_HEADER_SIZE {
        let (more, _) = receive_some(fd, buffer.get_mut(filled..).unwrap_or(&mut []))?;
        filled += more;
    }
    let invalid = Errno(libc::EPROTO);
    let header = buffer.first_chunk::<FRAME_HEADER_SIZE>().ok_or(invalid)?;
    let (errno, length) = read_frame_header(*header).ok_or(invalid)?;
    body.clear();
    body.extend_from_slice(buffer.get(FRAME_HEADER_SIZE..filled).unwrap_or(&[]));
    let mut at = body.len();
    body.resize(length, 0);
    while at < length {
        at += receive_some(fd, body.get_mut(at..).unwrap_or(&mut []))?.0;
    }
    Ok((c_int::try_from(errno).unwrap_or(libc::EPROTO), passed))
}
