//! open and its kin, fopen.
//!
//! A C function with a variable number of arguments is met by one with all of them: on the
//! processors that Linux runs InfiniBand on, both take them from the same registers.

use crate::device;
use crate::errno::Errno;
use crate::paths::Kind;
use crate::{real, redirect};
use libc::{FILE, c_char, c_int, c_uint};
use std::ffi::CStr;

/// What nobody may do with the files of sysfs.
const WRITING: c_int = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

/// Opens a path of the simulated node; `None` if it is none.
///
/// # Safety
/// `path` is null or ends with NUL.
unsafe fn open_here(path: *const c_char, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let place = unsafe { redirect::find(path)? };
    let opened = place.and_then(|place| match place.kind {
        Kind::Device => device::open(&place, flags),
        Kind::Folder if flags & WRITING != 0 => Err(Errno(libc::EACCES)),
        // SAFETY: the translated path ends with NUL.
        Kind::Folder => Ok(unsafe { real::open(place.as_ptr(), flags, 0) }),
    });
    Some(opened.unwrap_or_else(Errno::fail))
}

macro_rules! open {
    ($(fn $name:ident / $real:ident ($($at:ident: $at_ty:ty)? ; $($mode:ident: $mode_ty:ty)?);)*) => {$(
        /// Stands before the C library's.
        ///
        /// # Safety
        /// As that has it.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(
            $($at: $at_ty,)? path: *const c_char, flags: c_int $(, $mode: $mode_ty)?
        ) -> c_int {
            // SAFETY: the program calls the C library's function.
            unsafe {
                match open_here(path, flags) {
                    Some(fd) => fd,
                    None => real::$real($($at,)? path, flags $(, $mode)?),
                }
            }
        }
    )*};
}

open! {
    fn open/open(; mode: c_uint);
    fn open64/open64(; mode: c_uint);
    fn openat/openat(at: c_int; mode: c_uint);
    fn openat64/openat64(at: c_int; mode: c_uint);
    fn __open_2/open_2(;);
    fn __open64_2/open64_2(;);
    fn __openat_2/openat_2(at: c_int;);
    fn __openat64_2/openat64_2(at: c_int;);
}

/// A stream of a path of the simulated node; `None` if it is none. Devices are no matter for
/// streams.
///
/// # Safety
/// `path` and `mode` are null or end with NUL.
unsafe fn fopen_here(path: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    // SAFETY: the caller's promise, here and below.
    let place = unsafe { redirect::find(path)? };
    let opened = place.and_then(|place| {
        let mode_text = if mode.is_null() { c"" } else { unsafe { CStr::from_ptr(mode) } };
        let reads =
            mode_text.to_bytes().first() == Some(&b'r') && !mode_text.to_bytes().contains(&b'+');
        match place.kind {
            Kind::Folder if reads => Ok(unsafe { real::fopen(place.as_ptr(), mode) }),
            _ => Err(Errno(libc::EACCES)),
        }
    });
    Some(opened.unwrap_or_else(Errno::fail))
}

/// Stands before the C library's.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program calls the C library's function.
    unsafe { fopen_here(path, mode).unwrap_or_else(|| real::fopen(path, mode)) }
}

/// Stands before the C library's.
///
/// # Safety
/// As that has it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program calls the C library's function.
    unsafe { fopen_here(path, mode).unwrap_or_else(|| real::fopen64(path, mode)) }
}
