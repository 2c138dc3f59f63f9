//! Functions on descriptors: read, write, ioctl, close, dup.

use crate::errno::{Errno, Failure};
use crate::{connection, device, device_table, real};
use libc::{c_int, c_ulong, c_void, size_t, ssize_t};

/// Converts an error to errno and the failure value.
fn c_result<R: Failure>(result: Result<R, Errno>) -> R {
    result.unwrap_or_else(Errno::fail)
}

/// Interposes the function of the C library.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: as for the function of the C library.
    unsafe {
        match device_table::number(fd) {
            Some(number) => c_result(device::read(fd, number, buffer, count)),
            None => real::read(fd, buffer, count),
        }
    }
}

/// Interposes the function of the C library that programs built with `_FORTIFY_SOURCE` call for
/// read.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    size: size_t,
) -> ssize_t {
    // SAFETY: as for the function of the C library, which aborts if the buffer is too small.
    unsafe {
        match device_table::number(fd) {
            Some(number) if count <= size => c_result(device::read(fd, number, buffer, count)),
            _ => real::read_chk(fd, buffer, count, size),
        }
    }
}

/// Interposes the function of the C library.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: as for the function of the C library.
    unsafe {
        match device_table::number(fd) {
            Some(number) => c_result(device::write(number, buffer, count)),
            None => real::write(fd, buffer, count),
        }
    }
}

/// Interposes the function of the C library.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    // SAFETY: as for the function of the C library.
    unsafe {
        match device_table::number(fd) {
            Some(number) if device::is_umad_request(request) => {
                c_result(device::ioctl(number, request, argument).map(|()| 0))
            }
            _ => real::ioctl(fd, request, argument),
        }
    }
}

/// Interposes the function of the C library. Keeps the connection to the simulator open when a
/// daemon closes all descriptors.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    if connection::is_connection(fd) {
        return Errno(libc::EBADF).fail();
    }
    device_table::remove(fd);
    // SAFETY: as for the function of the C library.
    unsafe { real::close(fd) }
}

/// Interposes the function of the C library.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: as for the function of the C library.
    let to = unsafe { real::dup(fd) };
    record_duplicate(fd, to)
}

/// Interposes the function of the C library.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: as for the function of the C library.
    let to = unsafe { real::dup2(fd, to) };
    record_duplicate(fd, to)
}

/// Interposes the function of the C library.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: as for the function of the C library.
    let to = unsafe { real::dup3(fd, to, flags) };
    record_duplicate(fd, to)
}

/// Records a duplicate; returns its descriptor.
fn record_duplicate(fd: c_int, to: c_int) -> c_int {
    if to >= 0 && to != fd {
        device_table::duplicate(fd, to);
    }
    to
}
