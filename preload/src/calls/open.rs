//! open(2) and its variants, fopen(3).
//!
//! Variadic C functions are interposed by functions with all arguments: in the calling conventions
//! of the architectures that Linux supports InfiniBand on, both use the same registers.

use crate::device;
use crate::errno::Errno;
use crate::paths::PathKind;
use crate::real;
use crate::redirected_path::redirect;
use libc::{FILE, c_char, c_int, c_uint};
use std::ffi::CStr;

/// Flags that the read-only files of sysfs reject.
const WRITE_FLAGS: c_int = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

/// Opens a path of the simulated node; `None` for all other paths.
///
/// # Safety
/// `path` is null or ends with NUL.
unsafe fn open_redirected(path: *const c_char, flags: c_int) -> Option<c_int> {
    // SAFETY: required of the caller.
    let redirected = unsafe { redirect(path)? };
    let opened = redirected.and_then(|path| match path.kind {
        PathKind::Device => device::open(&path, flags),
        PathKind::Mirrored if flags & WRITE_FLAGS != 0 => Err(Errno(libc::EACCES)),
        // SAFETY: the translated path ends with NUL.
        PathKind::Mirrored => Ok(unsafe { real::open(path.as_ptr(), flags, 0) }),
    });
    Some(opened.unwrap_or_else(Errno::fail))
}

macro_rules! open {
    ($(fn $name:ident / $real:ident ($($at:ident: $at_ty:ty)? ; $($mode:ident: $mode_ty:ty)?);)*) => {$(
        /// Interposes the function of the C library.
        ///
        /// # Safety
        /// As for the function of the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(
            $($at: $at_ty,)? path: *const c_char, flags: c_int $(, $mode: $mode_ty)?
        ) -> c_int {
            // SAFETY: as for the function of the C library.
            unsafe {
                match open_redirected(path, flags) {
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

/// Opens a path of the simulated node as a stream; `None` for all other paths. Devices cannot be
/// opened as streams.
///
/// # Safety
/// `path` and `mode` are null or end with NUL.
unsafe fn fopen_redirected(path: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    // SAFETY: required of the caller, here and below.
    let redirected = unsafe { redirect(path)? };
    let opened = redirected.and_then(|path| {
        let mode_text = if mode.is_null() { c"" } else { unsafe { CStr::from_ptr(mode) } };
        let is_read_only =
            mode_text.to_bytes().first() == Some(&b'r') && !mode_text.to_bytes().contains(&b'+');
        match path.kind {
            PathKind::Mirrored if is_read_only => Ok(unsafe { real::fopen(path.as_ptr(), mode) }),
            _ => Err(Errno(libc::EACCES)),
        }
    });
    Some(opened.unwrap_or_else(Errno::fail))
}

/// Interposes the function of the C library.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: as for the function of the C library.
    unsafe { fopen_redirected(path, mode).unwrap_or_else(|| real::fopen(path, mode)) }
}

/// Interposes the function of the C library.
///
/// # Safety
/// As for the function of the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: as for the function of the C library.
    unsafe { fopen_redirected(path, mode).unwrap_or_else(|| real::fopen64(path, mode)) }
}
