//! Calls that take a path and touch no descriptor: folders, attributes, links.

use crate::errno::Errno;
use crate::real::{Compare, Filter};
use crate::{real, redirect};
use libc::{DIR, c_char, c_int, c_uint, c_void, size_t, ssize_t};

/// Defines functions that are the C library's with a path of the simulated node translated:
/// the arguments before the path, and those after it.
macro_rules! translate {
    ($(fn $name:ident / $real:ident ($($before:ident: $before_ty:ty),*; $($after:ident: $after_ty:ty),*)
        -> $ret:ty;)*) => {$(
        /// Stands before the C library's.
        ///
        /// # Safety
        /// As that has it.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(
            $($before: $before_ty,)* path: *const c_char $(, $after: $after_ty)*
        ) -> $ret {
            // SAFETY: the program calls the C library's function; a translated path ends with NUL.
            unsafe {
                match redirect::find(path) {
                    None => real::$real($($before,)* path $(, $after)*),
                    Some(Ok(place)) => real::$real($($before,)* place.as_ptr() $(, $after)*),
                    Some(Err(errno)) => absent(errno).fail(),
                }
            }
        }
    )*};
}

/// Where there is no simulator, there is no InfiniBand.
fn absent(errno: Errno) -> Errno {
    if errno == Errno(libc::ENODEV) { Errno(libc::ENOENT) } else { errno }
}

translate! {
    fn opendir/opendir(;) -> *mut DIR;
    fn scandir/scandir(; list: *mut *mut *mut libc::dirent, filter: Filter, compare: Compare) -> c_int;
    fn scandir64/scandir64(; list: *mut *mut *mut libc::dirent, filter: Filter, compare: Compare)
        -> c_int;
    fn chdir/chdir(;) -> c_int;
    fn stat/stat(; out: *mut c_void) -> c_int;
    fn stat64/stat64(; out: *mut c_void) -> c_int;
    fn lstat/lstat(; out: *mut c_void) -> c_int;
    fn lstat64/lstat64(; out: *mut c_void) -> c_int;
    fn __xstat/xstat(version: c_int; out: *mut c_void) -> c_int;
    fn __xstat64/xstat64(version: c_int; out: *mut c_void) -> c_int;
    fn __lxstat/lxstat(version: c_int; out: *mut c_void) -> c_int;
    fn __lxstat64/lxstat64(version: c_int; out: *mut c_void) -> c_int;
    fn fstatat/fstatat(at: c_int; out: *mut c_void, flags: c_int) -> c_int;
    fn fstatat64/fstatat64(at: c_int; out: *mut c_void, flags: c_int) -> c_int;
    fn statx/statx(at: c_int; flags: c_int, mask: c_uint, out: *mut c_void) -> c_int;
    fn access/access(; mode: c_int) -> c_int;
    fn faccessat/faccessat(at: c_int; mode: c_int, flags: c_int) -> c_int;
    fn getxattr/getxattr(; name: *const c_char, value: *mut c_void, room: size_t) -> ssize_t;
    fn lgetxattr/lgetxattr(; name: *const c_char, value: *mut c_void, room: size_t) -> ssize_t;
    fn listxattr/listxattr(; list: *mut c_char, room: size_t) -> ssize_t;
    fn llistxattr/llistxattr(; list: *mut c_char, room: size_t) -> ssize_t;
    fn readlink/readlink(; buffer: *mut c_char, room: size_t) -> ssize_t;
    fn readlinkat/readlinkat(at: c_int; buffer: *mut c_char, room: size_t) -> ssize_t;
}
