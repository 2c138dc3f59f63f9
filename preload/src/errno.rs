//! errno, and the return values of C functions that fail.

use libc::{c_int, ssize_t};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

impl Errno {
    /// errno of the calling thread.
    pub fn last() -> Self {
        // SAFETY: the location of errno is always valid.
        Self(unsafe { *libc::__errno_location() })
    }

    pub fn set(self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 }
    }

    /// Sets errno and returns the failure value of the function.
    pub fn fail<R: Failure>(self) -> R {
        self.set();
        R::FAILURE
    }
}

/// Return value of a C function that fails.
pub trait Failure {
    const FAILURE: Self;
}

impl Failure for c_int {
    const FAILURE: Self = -1;
}

impl Failure for ssize_t {
    const FAILURE: Self = -1;
}

impl<T> Failure for *mut T {
    const FAILURE: Self = std::ptr::null_mut();
}
