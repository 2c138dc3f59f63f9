//! System calls on sockets, with errno as result.

use crate::errno::Errno;
use crate::real;
use libc::{c_char, c_int, c_void};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::RawFd;

/// Lowest descriptor of a connection, above those that a program may expect to be free.
const LOWEST_DESCRIPTOR: c_int = 400;

/// Inode of a descriptor; `None` if it is not a socket.
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

/// Connects to a Unix stream socket.
pub fn connect(path: &[u8]) -> Result<RawFd, Errno> {
    // SAFETY: no pointers; all zeroes is a valid address structure.
    let (low, mut address) = unsafe {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        (libc::socket(libc::AF_UNIX, kind, 0), zeroed::<libc::sockaddr_un>())
    };
    if low < 0 {
        return Err(Errno::last());
    }
    address.sun_family = libc::AF_UNIX as _;
    let is_short_enough = path.len() < address.sun_path.len();
    for (to, &from) in address.sun_path.iter_mut().zip(path) {
        *to = from as c_char;
    }
    let length = size_of::<libc::sockaddr_un>() as libc::socklen_t;
    // SAFETY: `length` is the size of the address; the descriptor is owned by this function.
    unsafe {
        if !is_short_enough || libc::connect(low, (&raw const address).cast(), length) != 0 {
            let errno = if is_short_enough { Errno::last() } else { Errno(libc::ENAMETOOLONG) };
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

/// Receives at least one byte, and the descriptor that a message carries, if any.
pub fn receive_some(fd: RawFd, buffer: &mut [u8]) -> Result<(usize, Option<RawFd>), Errno> {
    let mut part =
        libc::iovec { iov_base: buffer.as_mut_ptr().cast::<c_void>(), iov_len: buffer.len() };
    // Large enough for one descriptor, and aligned for its header.
    let mut control = [0_u64; 4];
    // SAFETY: all zeroes is a valid message header.
    let mut message = unsafe { zeroed::<libc::msghdr>() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    loop {
        // SAFETY: the header points to buffers of the given sizes that outlive the call.
        let got = unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_CMSG_CLOEXEC) };
        match usize::try_from(got) {
            Ok(0) => return Err(Errno(libc::EPIPE)),
            // SAFETY: recvmsg has filled the header.
            Ok(got) => return Ok((got, unsafe { passed_descriptor(&message) })),
            Err(_) if Errno::last() == Errno(libc::EINTR) => {}
            Err(_) => return Err(Errno::last()),
        }
    }
}

/// The descriptor that a message carries.
///
/// # Safety
/// recvmsg has filled `message`, and its buffers exist.
unsafe fn passed_descriptor(message: &libc::msghdr) -> Option<RawFd> {
    // SAFETY: recvmsg has written the control messages.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(message).as_ref()?;
        if control.cmsg_level != libc::SOL_SOCKET || control.cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        Some(libc::CMSG_DATA(control).cast::<RawFd>().read_unaligned())
    }
}
