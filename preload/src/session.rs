//! The connection of this process to the simulator.
//!
//! It is made when the first path of the simulated node is touched, and again when it was lost or
//! the process is the child of a fork. Nothing but the folder's name hangs on it: open devices
//! live and die with their own descriptors.

use crate::errno::Errno;
use crate::protocol::{
    FRAME_HEAD, HELLO, PLACE_VARIABLE, SOCKET_VARIABLE, VERSION, frame_head, read_frame_head,
};
use crate::real;
use libc::{c_char, c_int, c_void};
use std::ffi::{CStr, CString};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::RawFd;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The connection's descriptor stays out of the way of those the program counts on.
const LOWEST_DESCRIPTOR: c_int = 400;
/// Most replies fit in here.
const REPLY: usize = 512;

static CURRENT: AtomicPtr<Session> = AtomicPtr::new(null_mut());

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}
/// `PTHREAD_CANCEL_DISABLE`.
const CANCEL_DISABLE: c_int = 1;

/// A connection.
pub struct Session {
    fd: RawFd,
    inode: u64,
    folder: Vec<u8>,
    /// One request at a time.
    turn: Mutex<()>,
}

/// True if this process is to see the simulated node.
pub fn is_wanted() -> bool {
    variable(SOCKET_VARIABLE).is_some()
}

/// The connection.
///
/// # Errors
/// ENODEV if there is no simulator, or no such place in it.
pub fn current() -> Result<&'static Session, Errno> {
    let known = CURRENT.load(Ordering::Acquire);
    // SAFETY: sessions are never freed: there is one, and one more per fork or loss.
    if let Some(session) = unsafe { known.as_ref() }
        && inode(session.fd) == Some(session.inode)
    {
        return Ok(session);
    }
    static FORKS: Once = Once::new();
    // SAFETY: the function only gives the connection up.
    FORKS.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(after_fork));
    });
    let session = Box::into_raw(Box::new(Session::connect()?));
    let order = Ordering::AcqRel;
    match CURRENT.compare_exchange(known, session, order, Ordering::Acquire) {
        // SAFETY: as above.
        Ok(_) => Ok(unsafe { &*session }),
        Err(faster) => {
            // SAFETY: this one has never been shown to anybody; the other one is not null.
            unsafe {
                real::close(Box::from_raw(session).fd);
                faster.as_ref().ok_or(Errno(libc::EAGAIN))
            }
        }
    }
}

/// The child makes a connection of its own.
unsafe extern "C" fn after_fork() {
    crate::files::after_fork();
    let known = CURRENT.swap(null_mut(), Ordering::AcqRel);
    // SAFETY: sessions are never freed; the descriptor is the child's copy.
    if let Some(session) = unsafe { known.as_ref() }
        && inode(session.fd) == Some(session.inode)
    {
        // SAFETY: nobody else in the child knows it.
        unsafe { real::close(session.fd) };
    }
}

/// True if the descriptor is the connection's, which the program knows nothing of.
pub fn is_connection(fd: RawFd) -> bool {
    // SAFETY: sessions are never freed.
    let session = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
    session.is_some_and(|session| session.fd == fd && inode(fd) == Some(session.inode))
}

/// The inode number behind a descriptor, if it is a socket.
pub fn inode(fd: RawFd) -> Option<u64> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat fills the structure if it returns 0.
    let stat = unsafe {
        if libc::fstat(fd, stat.as_mut_ptr()) != 0 {
            return None;
        }
        stat.assume_init()
    };
    (stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

fn variable(name: &str) -> Option<&'static CStr> {
    let name = CString::new(name).ok()?;
    // SAFETY: the name ends with NUL, and so does what the C library returns.
    let value = unsafe {
        let value: *const c_char = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    value.filter(|value| !value.is_empty())
}

impl Session {
    fn connect() -> Result<Self, Errno> {
        let path = variable(SOCKET_VARIABLE).ok_or(Errno(libc::ENODEV))?;
        let fd = connected(path.to_bytes()).map_err(|errno| {
            complain("no simulator", path.to_bytes(), errno);
            Errno(libc::ENODEV)
        })?;
        let inode = inode(fd).unwrap_or_default();
        let mut session = Self { fd, inode, folder: Vec::new(), turn: Mutex::new(()) };
        let place = variable(PLACE_VARIABLE).map(CStr::to_bytes).unwrap_or_default();
        let mut reply = Vec::new();
        match session.request(HELLO, &[&VERSION.to_ne_bytes(), place], &mut reply) {
            Ok(_) => session.folder = reply,
            Err(errno) => {
                complain("the simulator refuses", &reply, errno);
                // SAFETY: the descriptor is this function's.
                unsafe { real::close(fd) };
                return Err(Errno(libc::ENODEV));
            }
        }
        Ok(session)
    }

    /// The folder below which `sys` and `dev` of this node are.
    pub fn folder(&self) -> &[u8] {
        &self.folder
    }

    /// Asks for something and waits for the reply, which goes to `reply`; with the descriptor that
    /// came along.
    ///
    /// # Errors
    /// The simulator's; EIO if it is gone.
    pub fn request(
        &self,
        operation: u32,
        parts: &[&[u8]],
        reply: &mut Vec<u8>,
    ) -> Result<Option<RawFd>, Errno> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _whole = Uncancelled::new();
        let body = parts.iter().map(|part| part.len()).sum();
        let answered = send(self.fd, &frame_head(operation, body), parts)
            .and_then(|()| receive(self.fd, reply));
        let (errno, fd) = answered.map_err(|_| {
            self.forget();
            Errno(libc::EIO)
        })?;
        match errno {
            0 => Ok(fd),
            errno => Err(Errno(errno)),
        }
    }
}

impl Session {
    /// The next one who needs a connection makes a new one: there may be a new simulator. The old
    /// one keeps its descriptor, which other threads may be waiting at.
    fn forget(&self) {
        let this = std::ptr::from_ref(self).cast_mut();
        // Somebody else may have done it.
        let _ = CURRENT.compare_exchange(this, null_mut(), Ordering::AcqRel, Ordering::Acquire);
    }
}

fn connected(path: &[u8]) -> Result<RawFd, Errno> {
    // SAFETY: plain numbers; the structure is all zeroes before it is filled.
    let (low, mut address) = unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        (libc::socket(libc::AF_UNIX, kind, 0), zeroed::<libc::sockaddr_un>())
    };
    if low < 0 {
        return Err(Errno::last());
    }
    address.sun_family = libc::AF_UNIX as _;
    let fits = path.len() < address.sun_path.len();
    for (to, &from) in address.sun_path.iter_mut().zip(path) {
        *to = from as c_char;
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: the address is as long as said; the descriptor is this function's.
    unsafe {
        if !fits || libc::connect(low, (&raw const address).cast(), length) != 0 {
            let errno = if fits { Errno::last() } else { Errno(libc::ENAMETOOLONG) };
            real::close(low);
            return Err(errno);
        }
        let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
        if high < 0 {
            return Ok(low);
        }
        real::close(low);
        Ok(high)
    }
}

fn complain(what: &str, detail: &[u8], errno: Errno) {
    let parts =
        [b"torus-sm: ".as_slice(), what.as_bytes(), b": ", detail, b": errno ", &digits(errno)]
            .concat();
    let line = [parts.as_slice(), b"\n"].concat();
    // SAFETY: pointer and length are those of the line. A closed standard error is no matter.
    unsafe { real::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

fn digits(errno: Errno) -> Vec<u8> {
    errno.0.to_string().into_bytes()
}

/// Keeps the thread from being cancelled between a request and its reply.
struct Uncancelled(c_int);

impl Uncancelled {
    fn new() -> Self {
        let mut old = 0;
        // SAFETY: `old` is there to be written.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut old) };
        Self(old)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        let mut ignored = 0;
        // SAFETY: as above.
        unsafe { pthread_setcancelstate(self.0, &raw mut ignored) };
    }
}

/// Sends a frame.
fn send(fd: RawFd, head: &[u8], parts: &[&[u8]]) -> Result<(), Errno> {
    // Short frames go in one piece.
    let mut frame = Vec::with_capacity(head.len() + parts.iter().map(|p| p.len()).sum::<usize>());
    frame.extend_from_slice(head);
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        // SAFETY: pointer and length are those of the slice.
        let sent = unsafe {
            libc::send(fd, rest.as_ptr().cast::<c_void>(), rest.len(), libc::MSG_NOSIGNAL)
        };
        match usize::try_from(sent) {
            Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
            Err(_) if Errno::last() == Errno(libc::EINTR) => {}
            Err(_) => return Err(Errno::last()),
        }
    }
    Ok(())
}

/// Receives a frame: its errno and the descriptor that came along; the body goes to `body`.
fn receive(fd: RawFd, body: &mut Vec<u8>) -> Result<(c_int, Option<RawFd>), Errno> {
    let mut buffer = [0; REPLY];
    let (mut filled, passed) = receive_some(fd, &mut buffer)?;
    while filled < FRAME_HEAD {
        let (more, _) = receive_some(fd, buffer.get_mut(filled..).unwrap_or_default())?;
        filled += more;
    }
    let broken = Errno(libc::EPROTO);
    let head = buffer.first_chunk::<FRAME_HEAD>().ok_or(broken)?;
    let (errno, length) = read_frame_head(*head).ok_or(broken)?;
    body.clear();
    body.extend_from_slice(buffer.get(FRAME_HEAD..filled).unwrap_or_default());
    let mut at = body.len();
    body.resize(length, 0);
    while at < length {
        at += receive_some(fd, body.get_mut(at..).unwrap_or_default())?.0;
    }
    Ok((c_int::try_from(errno).unwrap_or(libc::EPROTO), passed))
}

/// Receives at least one byte, and a descriptor if one comes along.
pub fn receive_some(fd: RawFd, buffer: &mut [u8]) -> Result<(usize, Option<RawFd>), Errno> {
    let mut part =
        libc::iovec { iov_base: buffer.as_mut_ptr().cast::<c_void>(), iov_len: buffer.len() };
    // Room for one descriptor, aligned as its header needs.
    let mut control = [0_u64; 4];
    // SAFETY: all zeroes is a valid message header.
    let mut message = unsafe { zeroed::<libc::msghdr>() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    loop {
        // SAFETY: the header points to buffers that outlive the call, as long as it says.
        let got = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        match usize::try_from(got) {
            Ok(0) => return Err(Errno(libc::EPIPE)),
            // SAFETY: the header was just filled.
            Ok(got) => return Ok((got, unsafe { passed_descriptor(&message) })),
            Err(_) if Errno::last() == Errno(libc::EINTR) => {}
            Err(_) => return Err(Errno::last()),
        }
    }
}

/// # Safety
/// `message` was filled by recvmsg, and its buffers are alive.
unsafe fn passed_descriptor(message: &libc::msghdr) -> Option<RawFd> {
    // SAFETY: the macros walk what recvmsg wrote.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(message).as_ref()?;
        if control.cmsg_level != libc::SOL_SOCKET || control.cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        Some(libc::CMSG_DATA(control).cast::<RawFd>().read_unaligned())
    }
}
