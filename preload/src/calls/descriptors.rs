//! What is done with open descriptors: read, write, ioctl, close, dup.

use crate::errno::{Errno, Failure};
use crate::{device, files, real, session};
use libc::{c_int, c_ulong, c_void, size_t, ssize_t};

fn result<R: Failure>(done: Result<R, Errno>) -> R {
    done.unwrap_or_else(Errno::fail)
}

/// Stands before the C library's.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the program calls the C library's function.
    unsafe {
        match files::number(fd) {
            Some(number) => result(device::read(fd, number, buffer, count)),
            None => real::read(fd, buffer, count),
        }
    }
}

/// Stands before the C library's, which programs built with checks call for read.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: the program calls the C library's function; that one ends it if there is no room.
    unsafe {
        match files::number(fd) {
            Some(number) if count <= room => result(device::read(fd, number, buffer, count)),
            _ => real::read_chk(fd, buffer, count, room),
        }
    }
}

/// Stands before the C library's.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the program calls the C library's function.
    unsafe {
        match files::number(fd) {
            Some(number) => result(device::write(number, buffer, count)),
            None => real::write(fd, buffer, count),
        }
    }
}

/// Stands before the C library's.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: the program calls the C library's function.
    unsafe {
        match files::number(fd) {
            Some(number) if device::is_umad_request(request) => {
                result(device::ioctl(number, request, argument).map(|()| 0))
            }
            _ => real::ioctl(fd, request, argument),
        }
    }
}

/// Stands before the C library's. The connection to the simulator is not the program's to close:
/// daemons close whatever number there is.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if session::is_connection(fd) {
        return Errno(libc::EBADF).fail();
    }
    files::remove(fd);
    // SAFETY: the program calls the C library's function.
    unsafe { real::close(fd) }
}

/// Stands before the C library's.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: the program calls the C library's function.
    let to = unsafe { real::dup(fd) };
    remember(fd, to)
}

/// Stands before the C library's.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: the program calls the C library's function.
    let to = unsafe { real::dup2(fd, to) };
    remember(fd, to)
}

/// Stands before the C library's.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: the program calls the C library's function.
    let to = unsafe { real::dup3(fd, to, flags) };
    remember(fd, to)
}

fn remember(fd: c_int, to: c_int) -> c_int {
    if to >= 0 && to != fd {
        files::copied(fd, to);
    }
    to
}
