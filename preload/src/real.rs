//! The functions of the C library that this library interposes.

use crate::errno::Errno;
use libc::{DIR, FILE, c_char, c_int, c_uint, c_ulong, c_void, mode_t, size_t, ssize_t};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Address of the next definition of a symbol after this library's, cached after the first lookup.
struct NextSymbol {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl NextSymbol {
    const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(null_mut()) }
    }

    fn find(&self) -> Option<*mut c_void> {
        let cached = self.address.load(Ordering::Relaxed);
        if !cached.is_null() {
            return Some(cached);
        }
        // SAFETY: the name ends with NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        (!found.is_null()).then_some(found)
    }
}

/// Filter of scandir(3).
pub type Filter = Option<unsafe extern "C" fn(*const libc::dirent) -> c_int>;
/// Comparison of scandir(3).
pub type Compare =
    Option<unsafe extern "C" fn(*mut *const libc::dirent, *mut *const libc::dirent) -> c_int>;

macro_rules! next {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(; $variadic:tt, $last:ident: $last_ty:ty)?)
        -> $ret:ty = $symbol:literal;)*) => {$(
        /// Calls the function of the C library.
        ///
        /// # Safety
        /// As for the function of the C library.
        pub unsafe fn $name($($arg: $ty,)* $($last: $last_ty)?) -> $ret {
            static NEXT: NextSymbol = NextSymbol::new($symbol);
            type Call = unsafe extern "C" fn($($ty,)* $($variadic)?) -> $ret;
            let Some(found) = NEXT.find() else {
                return Errno(libc::ENOSYS).fail();
            };
            // SAFETY: the C library's function of this name has this type.
            unsafe {
                let call: Call = std::mem::transmute::<*mut c_void, Call>(found);
                call($($arg,)* $($last)?)
            }
        }
    )*};
}

next! {
    fn open(path: *const c_char, flags: c_int; ..., mode: c_uint) -> c_int = c"open";
    fn open64(path: *const c_char, flags: c_int; ..., mode: c_uint) -> c_int = c"open64";
    fn openat(at: c_int, path: *const c_char, flags: c_int; ..., mode: c_uint) -> c_int = c"openat";
    fn openat64(at: c_int, path: *const c_char, flags: c_int; ..., mode: c_uint) -> c_int
        = c"openat64";
    fn open_2(path: *const c_char, flags: c_int) -> c_int = c"__open_2";
    fn open64_2(path: *const c_char, flags: c_int) -> c_int = c"__open64_2";
    fn openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int = c"__openat_2";
    fn openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int = c"__openat64_2";
    fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t = c"read";
    fn read_chk(fd: c_int, buffer: *mut c_void, count: size_t, size: size_t) -> ssize_t
        = c"__read_chk";
    fn write(fd: c_int, buffer: *const c_void, count: size_t) -> ssize_t = c"write";
    fn ioctl(fd: c_int, request: c_ulong; ..., argument: *mut c_void) -> c_int = c"ioctl";
    fn close(fd: c_int) -> c_int = c"close";
    fn dup(fd: c_int) -> c_int = c"dup";
    fn dup2(fd: c_int, to: c_int) -> c_int = c"dup2";
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int = c"dup3";
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE = c"fopen";
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE = c"fopen64";
    fn opendir(path: *const c_char) -> *mut DIR = c"opendir";
    fn scandir(path: *const c_char, list: *mut *mut *mut libc::dirent, filter: Filter,
        compare: Compare) -> c_int = c"scandir";
    fn scandir64(path: *const c_char, list: *mut *mut *mut libc::dirent, filter: Filter,
        compare: Compare) -> c_int = c"scandir64";
    fn chdir(path: *const c_char) -> c_int = c"chdir";
    fn stat(path: *const c_char, out: *mut c_void) -> c_int = c"stat";
    fn stat64(path: *const c_char, out: *mut c_void) -> c_int = c"stat64";
    fn lstat(path: *const c_char, out: *mut c_void) -> c_int = c"lstat";
    fn lstat64(path: *const c_char, out: *mut c_void) -> c_int = c"lstat64";
    fn xstat(version: c_int, path: *const c_char, out: *mut c_void) -> c_int = c"__xstat";
    fn xstat64(version: c_int, path: *const c_char, out: *mut c_void) -> c_int = c"__xstat64";
    fn lxstat(version: c_int, path: *const c_char, out: *mut c_void) -> c_int = c"__lxstat";
    fn lxstat64(version: c_int, path: *const c_char, out: *mut c_void) -> c_int = c"__lxstat64";
    fn fstatat(at: c_int, path: *const c_char, out: *mut c_void, flags: c_int) -> c_int
        = c"fstatat";
    fn fstatat64(at: c_int, path: *const c_char, out: *mut c_void, flags: c_int) -> c_int
        = c"fstatat64";
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, out: *mut c_void) -> c_int
        = c"statx";
    fn access(path: *const c_char, mode: c_int) -> c_int = c"access";
    fn faccessat(at: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int
        = c"faccessat";
    fn getxattr(path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t)
        -> ssize_t = c"getxattr";
    fn lgetxattr(path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t)
        -> ssize_t = c"lgetxattr";
    fn listxattr(path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t = c"listxattr";
    fn llistxattr(path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t
        = c"llistxattr";
    fn readlink(path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t = c"readlink";
    fn readlinkat(at: c_int, path: *const c_char, buffer: *mut c_char, size: size_t) -> ssize_t
        = c"readlinkat";
}

const _: () = assert!(size_of::<mode_t>() == size_of::<c_uint>());
