//! Open devices: what open, read, write and ioctl do with them, as user_mad.c has it.

use crate::errno::Errno;
use crate::files::{self, Reading};
use crate::protocol::{HELD, INSIDE, IOCTL, OPEN, PACKET_HEAD, WRITE, read_packet_head};
use crate::real;
use crate::redirect::Place;
use crate::session;
use libc::{c_int, c_ulong, c_void, pollfd, size_t, ssize_t};
use std::os::fd::RawFd;

/// The MAD inside a packet: a longer message is told by its first segment.
const MAD: usize = 256;
/// The letter of all requests to umad devices, `RDMA_IOCTL_MAGIC`.
const MAGIC: c_ulong = 0x1B;

/// How often to look whether a device is free, microseconds.
const TURN: libc::c_uint = 10_000;

/// Opens a device.
pub fn open(place: &Place, flags: c_int) -> Result<RawFd, Errno> {
    if flags & libc::O_DIRECTORY != 0 {
        return Err(Errno(libc::ENOTDIR));
    }
    let mut reply = Vec::new();
    let passed = loop {
        match session::current()?.request(OPEN, &[place.below()], &mut reply) {
            // Somebody holds the issm device: who can wait does.
            Err(Errno(libc::EAGAIN)) if flags & libc::O_NONBLOCK == 0 => {
                // SAFETY: touches no memory.
                unsafe { libc::usleep(TURN) };
            }
            answered => break answered?,
        }
    };
    let fd = passed.ok_or(Errno(libc::EIO))?;
    let number = reply.first_chunk().map_or(0, |raw| u64::from_ne_bytes(*raw));
    if !files::insert(fd, number) || !set_flags(fd, flags) {
        files::remove(fd);
        // SAFETY: the descriptor came just now and is known to nobody else.
        unsafe { real::close(fd) };
        return Err(Errno(libc::EMFILE));
    }
    Ok(fd)
}

fn set_flags(fd: RawFd, flags: c_int) -> bool {
    // SAFETY: fcntl with numbers touches no memory.
    unsafe {
        let stays_on_exec = flags & libc::O_CLOEXEC == 0;
        let mode = flags & libc::O_NONBLOCK;
        (!stays_on_exec || libc::fcntl(fd, libc::F_SETFD, 0) == 0)
            && (mode == 0 || libc::fcntl(fd, libc::F_SETFL, mode) == 0)
    }
}

/// Reads a packet: all of it, or, if it is too long, what the kernel gives of it with the error.
///
/// # Safety
/// `buffer` has room for `count` bytes.
pub unsafe fn read(
    fd: RawFd,
    number: u64,
    buffer: *mut c_void,
    count: size_t,
) -> Result<ssize_t, Errno> {
    if number & HELD != 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller's promise; nobody else looks at the buffer meanwhile.
    let buffer = match count {
        0 => &mut [],
        _ => unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), count) },
    };
    loop {
        match take(fd, buffer) {
            Err(Errno(libc::EAGAIN)) if blocks(fd) => wait(fd)?,
            taken => return taken.map(|length| length as ssize_t),
        }
    }
}

/// Takes the first packet if it fits; EAGAIN if there is none.
fn take(fd: RawFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    let _turn = Reading::new(fd);
    let mut packet = [0; PACKET_HEAD + INSIDE];
    let got = peek(fd, &mut packet)?;
    let head = packet.first_chunk().filter(|_| got >= PACKET_HEAD).ok_or(Errno(libc::EIO))?;
    let (length, header, outside) = read_packet_head(*head);
    let first = length.min(header + MAD);
    if buffer.len() < first {
        return Err(Errno(libc::EINVAL));
    }
    let inside = packet.get(PACKET_HEAD..PACKET_HEAD + first).ok_or(Errno(libc::EIO))?;
    buffer.iter_mut().zip(inside).for_each(|(to, from)| *to = *from);
    if buffer.len() < length {
        return Err(Errno(libc::ENOSPC));
    }
    let (_, passed) = session::receive_some(fd, &mut packet).map_err(|_| Errno(libc::EIO))?;
    if outside {
        let whole = passed.ok_or(Errno(libc::EIO))?;
        let read = read_whole(whole, buffer.get_mut(..length).unwrap_or_default());
        // SAFETY: the descriptor came just now and is known to nobody else.
        unsafe { real::close(whole) };
        read?;
    }
    Ok(length)
}

/// Looks at the first packet and leaves it there.
fn peek(fd: RawFd, packet: &mut [u8]) -> Result<usize, Errno> {
    loop {
        // SAFETY: pointer and length are those of the slice.
        let got = unsafe {
            let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
            libc::recv(fd, packet.as_mut_ptr().cast::<c_void>(), packet.len(), flags)
        };
        match usize::try_from(got) {
            // The simulator is gone, as an adapter that is pulled out.
            Ok(0) => return Err(Errno(libc::EIO)),
            Ok(got) => return Ok(got),
            Err(_) if Errno::last() == Errno(libc::EINTR) => {}
            Err(_) if Errno::last() == Errno(libc::EAGAIN) => return Err(Errno(libc::EAGAIN)),
            Err(_) => return Err(Errno(libc::EIO)),
        }
    }
}

fn read_whole(fd: RawFd, mut buffer: &mut [u8]) -> Result<(), Errno> {
    let mut at = 0;
    while !buffer.is_empty() {
        // SAFETY: pointer and length are those of the slice.
        let got = unsafe { libc::pread(fd, buffer.as_mut_ptr().cast(), buffer.len(), at) };
        match usize::try_from(got) {
            Ok(got) if got > 0 => {
                at += got as libc::off_t;
                buffer = buffer.get_mut(got..).unwrap_or_default();
            }
            _ => return Err(Errno(libc::EIO)),
        }
    }
    Ok(())
}

fn blocks(fd: RawFd) -> bool {
    // SAFETY: fcntl with numbers touches no memory.
    unsafe { libc::fcntl(fd, libc::F_GETFL) & libc::O_NONBLOCK == 0 }
}

fn wait(fd: RawFd) -> Result<(), Errno> {
    let mut poll = pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, as the count says.
    let ready = unsafe { libc::poll(&raw mut poll, 1, -1) };
    if ready < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// Writes a packet.
///
/// # Safety
/// `buffer` holds `count` bytes.
pub unsafe fn write(number: u64, buffer: *const c_void, count: size_t) -> Result<ssize_t, Errno> {
    if number & HELD != 0 {
        return Err(Errno(libc::EINVAL));
    }
    // SAFETY: the caller's promise.
    let bytes = match count {
        0 => &[],
        _ => unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), count) },
    };
    let mut reply = Vec::new();
    session::current()?.request(WRITE, &[&number.to_ne_bytes(), bytes], &mut reply)?;
    let taken = reply.first_chunk().map_or(0, |raw| u32::from_ne_bytes(*raw));
    Ok(taken as ssize_t)
}

/// True if the request is one for umad devices; sockets have requests of their own.
pub fn is_umad_request(request: c_ulong) -> bool {
    request >> 8 & 0xFF == MAGIC
}

/// Does a request of umad devices.
///
/// # Safety
/// `argument` points to what the request's number says.
pub unsafe fn ioctl(number: u64, request: c_ulong, argument: *mut c_void) -> Result<(), Errno> {
    // The number says how long the argument is; only sizes of the real requests get here.
    let size = (request >> 16 & 0x3FFF) as usize;
    if size > 0 && argument.is_null() {
        return Err(Errno(libc::EFAULT));
    }
    // SAFETY: the caller's promise.
    let bytes = match size {
        0 => &mut [],
        _ => unsafe { std::slice::from_raw_parts_mut(argument.cast::<u8>(), size) },
    };
    let word = (request as u32).to_ne_bytes();
    let mut reply = Vec::new();
    let parts: [&[u8]; 3] = [&number.to_ne_bytes(), &word, bytes];
    let done = session::current()?.request(IOCTL, &parts, &mut reply);
    // _IOC_READ: the kernel writes the structure back.
    if request >> 31 & 1 != 0 {
        bytes.iter_mut().zip(&reply).for_each(|(to, from)| *to = *from);
    }
    done.map(|_| ())
}
