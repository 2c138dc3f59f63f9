//! open, read, write and ioctl on simulated devices, with the behaviour of `user_mad.c` in Linux.

use crate::connection;
use crate::device_table::{self, ReadLock};
use crate::errno::Errno;
use crate::protocol::{
    IOCTL, ISSM_BIT, MAX_INLINE, OPEN, PACKET_HEADER_SIZE, POST, WRITE, read_packet_header,
};
use crate::real;
use crate::redirected_path::RedirectedPath;
use crate::socket::receive_some;
use libc::{c_int, c_ulong, c_void, pollfd, size_t, ssize_t};
use std::os::fd::RawFd;

/// Size in bytes of a MAD, and of the first segment of a longer RMPP message.
const MAD_SIZE: usize = 256;
/// Size in bytes of `struct ib_user_mad_hdr`, and the offset of its timeout.
const UMAD_HEADER_SIZE: usize = 64;
const UMAD_TIMEOUT: usize = 8;
/// Offset of the method in a MAD, and its bit for responses.
const MAD_METHOD: usize = 3;
const RESPONSE_BIT: u8 = 0x80;
/// `RDMA_IOCTL_MAGIC`, the type of all ioctl requests of umad devices.
const UMAD_MAGIC: c_ulong = 0x1B;
/// Number of `IB_USER_MAD_REGISTER_AGENT2` among them.
const REGISTER_AGENT2: c_ulong = 4;

/// Interval between attempts to open a busy issm device, in microseconds.
const OPEN_RETRY_INTERVAL: libc::c_uint = 10_000;

pub fn open(path: &RedirectedPath, flags: c_int) -> Result<RawFd, Errno> {
    if flags & libc::O_DIRECTORY != 0 {
        return Err(Errno(libc::ENOTDIR));
    }
    let mut reply = Vec::new();
    let descriptor = loop {
        match connection::current()?.request(OPEN, &[path.relative()], &mut reply) {
            // As in Linux, a blocking open waits until the issm device is free.
            Err(Errno(libc::EAGAIN)) if flags & libc::O_NONBLOCK == 0 => {
                // SAFETY: no pointers.
                unsafe { libc::usleep(OPEN_RETRY_INTERVAL) };
            }
            result => break result?,
        }
    };
    let fd = descriptor.ok_or(Errno(libc::EIO))?;
    let number = reply.first_chunk().map_or(0, |raw| u64::from_ne_bytes(*raw));
    if !device_table::insert(fd, number) || !set_flags(fd, flags) {
        device_table::remove(fd);
        // SAFETY: only this function knows the new descriptor.
        unsafe { real::close(fd) };
        return Err(Errno(libc::EMFILE));
    }
    Ok(fd)
}

fn set_flags(fd: RawFd, flags: c_int) -> bool {
    // SAFETY: no pointers.
    unsafe {
        let stays_on_exec = flags & libc::O_CLOEXEC == 0;
        let mode = flags & libc::O_NONBLOCK;
        (!stays_on_exec || libc::fcntl(fd, libc::F_SETFD, 0) == 0)
            && (mode == 0 || libc::fcntl(fd, libc::F_SETFL, mode) == 0)
    }
}

/// Reads a packet. If the buffer is too small for an RMPP message, its first segment is stored, and
/// the packet stays in the queue.
///
/// # Safety
/// `buffer` is valid for `count` bytes.
///
/// # Errors
/// EINVAL if the buffer is smaller than one MAD; ENOSPC if it is smaller than the message; EIO if
/// the simulator is gone.
pub unsafe fn read(
    fd: RawFd,
    number: u64,
    buffer: *mut c_void,
    count: size_t,
) -> Result<ssize_t, Errno> {
    if number & ISSM_BIT != 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: required of the caller; the buffer is not aliased.
    let buffer = match count {
        0 => &mut [],
        _ => unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count) },
    };
    loop {
        match receive(fd, buffer) {
            Err(Errno(libc::EAGAIN)) if is_blocking(fd) => wait(fd)?,
            result => return result.map(|length| length as ssize_t),
        }
    }
}

/// Receives the first packet if it fits into the buffer; EAGAIN if there is none.
fn receive(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let _lock = ReadLock::new(fd);
    let mut packet = [0; PACKET_HEADER_SIZE + MAX_INLINE];
    let got = peek(fd, &mut packet)?;
    let packet_header =
        packet.first_chunk().filter(|_| got >= PACKET_HEADER_SIZE).ok_or(Errno(libc::EIO))?;
    let (length, header, has_file) = read_packet_header(*packet_header);
    let first = length.min(header + MAD_SIZE);
    if buffer.len() < first {
        return Err(Errno(libc::EINVAL));
    }
    let inline =
        packet.get(PACKET_HEADER_SIZE..PACKET_HEADER_SIZE + first).ok_or(Errno(libc::EIO))?;
    buffer.iter_mut().zip(inline).for_each(|(to, from)| *to = *from);
    if buffer.len() < length {
        return Err(Errno(libc::ENOSPC));
    }
    let (_, file) = receive_some(fd, &mut packet).map_err(|_| Errno(libc::EIO))?;
    if has_file {
        let file = file.ok_or(Errno(libc::EIO))?;
        let read = read_file(file, buffer.get_mut(..length).unwrap_or(&mut []));
        // SAFETY: only this function knows the new descriptor.
        unsafe { real::close(file) };
        read?;
    }
    Ok(length)
}

/// Copies the first packet without receiving it.
fn peek(fd: RawFd, packet: &mut [u8]) -> Result<usize, Errno> {
    loop {
        // SAFETY: pointer and length are those of the slice.
        let got = unsafe {
            let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
            libc::recv(fd, packet.as_mut_ptr().cast::<c_void>(), packet.len(), flags)
        };
        match usize::try_from(got) {
            // The simulator is gone; Linux returns EIO for a removed adapter.
            Ok(0) => return Err(Errno(libc::EIO)),
            Ok(got) => return Ok(got),
            Err(_) if Errno::last() == Errno(libc::EINTR) => {}
            Err(_) if Errno::last() == Errno(libc::EAGAIN) => return Err(Errno(libc::EAGAIN)),
            Err(_) => return Err(Errno(libc::EIO)),
        }
    }
}

/// Fills the buffer from the beginning of a file.
fn read_file(fd: RawFd, mut buffer: &mut [u8]) -> Result<(), Errno> {
    let mut at = 0;
    while !buffer.is_empty() {
        // SAFETY: pointer and length are those of the slice.
        let got = unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), buffer.len(), at) };
        match usize::try_from(got) {
            Ok(got) if got > 0 => {
                at += got as libc::off_t;
                buffer = buffer.get_mut(got..).unwrap_or(&mut []);
            }
            _ => return Err(Errno(libc::EIO)),
        }
    }
    Ok(())
}

fn is_blocking(fd: RawFd) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::fcntl(fd, libc::F_GETFL) & libc::O_NONBLOCK == 0 }
}

fn wait(fd: RawFd) -> Result<(), Errno> {
    let mut poll = pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: the count is 1, for one structure.
    let ready = unsafe { libc::poll(&raw mut poll, 1, -1) };
    if ready < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Writes a packet; returns the number of bytes written.
///
/// # Safety
/// `buffer` is valid for `count` bytes.
pub unsafe fn write(number: u64, buffer: *const c_void, count: size_t) -> Result<ssize_t, Errno> {
    if number & ISSM_BIT != 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: required of the caller.
    let bytes = match count {
        0 => &[],
        _ => unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), count) },
    };
    let is_mad = bytes.len() == UMAD_HEADER_SIZE + MAD_SIZE;
    if is_mad && (is_plain_response(bytes) || connection::writes_without_reply()) {
        connection::current()?.post(POST, &[&number.to_ne_bytes(), bytes])?;
        return Ok(count as ssize_t);
    }
    let mut reply = Vec::new();
    connection::current()?.request(WRITE, &[&number.to_ne_bytes(), bytes], &mut reply)?;
    let written = reply.first_chunk().map_or(0, |raw| u32::from_ne_bytes(*raw));
    Ok(written as ssize_t)
}

/// True for a MAD with the umad header that has a P_Key index, whose method is a response and which waits
/// for no answer: a segment of a table, or a short reply.
fn is_plain_response(bytes: &[u8]) -> bool {
    let timeout = bytes.get(UMAD_TIMEOUT..UMAD_TIMEOUT + 4);
    timeout == Some(&[0; 4])
        && bytes.get(UMAD_HEADER_SIZE + MAD_METHOD).is_some_and(|method| method & RESPONSE_BIT != 0)
}

/// True for ioctl requests of umad devices; all others go to the socket.
pub fn is_umad_request(request: c_ulong) -> bool {
    request >> 8 & 0xFF == UMAD_MAGIC
}

/// Executes an ioctl request of umad devices.
///
/// # Safety
/// `argument` points to the structure that belongs to `request`.
pub unsafe fn ioctl(number: u64, request: c_ulong, argument: *mut c_void) -> Result<(), Errno> {
    // As Linux answers a request that it does not know.
    if request & 0xFF == REGISTER_AGENT2 && connection::is_old_kernel() {
        return Err(Errno(libc::ENOTTY));
    }
    // The request number has the size of the argument (_IOC_SIZE).
    let size = (request >> 16 & 0x3FFF) as usize;
    if size > 0 && argument.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: required of the caller.
    let bytes = match size {
        0 => &mut [],
        _ => unsafe { std::slice::from_raw_parts_mut(argument.cast::<u8>(), size) },
    };
    let word = (request as u32).to_ne_bytes();
    let mut reply = Vec::new();
    let parts: [&[u8]; 3] = [&number.to_ne_bytes(), &word, bytes];
    let result = connection::current()?.request(IOCTL, &parts, &mut reply);
    // _IOC_READ: the argument is written back.
    if request >> 31 & 1 != 0 {
        bytes.iter_mut().zip(&reply).for_each(|(to, from)| *to = *from);
    }
    result.map(|_| ())
}
