//! Functions with a path and without a descriptor: directories, file attributes, links.

use crate::errno::Errno;
use crate::real;
use crate::real::{Compare, Filter};
use crate::redirected_path::redirect;
use libc::{DIR, c_char, c_int, c_uint, c_void, size_t, ssize_t};

/// Defines functions that translate a path of the simulated node and call the C library. The
/// parameters are those before the path and those after it.
macro_rules! translate {
    ($(fn $name:ident / $real:ident ($($before:ident: $before_ty:ty),*; $($after:ident: $after_ty:ty),*)
        -> $ret:ty;)*) => {$(
        /// Interposes the function of the C library.
        ///
        /// # Safety
        /// As for the function of the C library.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(
            $($before: $before_ty,)* path: *const c_char $(, $after: $after_ty)*
        ) -> $ret {
            // SAFETY: as for the function of the C library; a translated path ends with NUL.
            unsafe {
                match redirect(path) {
                    None => real::$real($($before,)* path $(, $after)*),
                    Some(Ok(redirected)) => real::$real($($before,)* redirected.as_ptr() $(, $after)*),
                    Some(Err(errno)) => path_error(errno).fail(),
                }
            }
        }
    )*};
}

/// Without a simulator the InfiniBand paths do not exist: ENODEV becomes ENOENT.
fn path_error(errno: Errno) -> Errno {
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
    fn getxattr/getxattr(; name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t;
    fn lgetxattr/lgetxattr(; name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t;
    fn listxattr/listxattr(; list: *mut c_char, size: size_t) -> ssize_t;
    fn llistxattr/llistxattr(; list: *mut c_char, size: size_t) -> ssize_t;
    fn readlink/readlink(; buffer: *mut c_char, size: size_t) -> ssize_t;
    fn readlinkat/readlinkat(at: c_int; buffer: *mut c_char, size: size_t) -> ssize_t;
}
