//! errno, and failing as C functions do.

use libc::{c_int, ssize_t};

/// An error number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Errno(pub c_int);

impl Errno {
    /// What the last call of this thread left.
    pub fn last() -> Self {
        // SAFETY: the C library gives every thread an errno of its own.
        Self(unsafe { *libc::__errno_location() })
    }

    /// Sets errno.
    pub fn set(self) {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = self.0 }
    }

    /// Sets errno and gives what the function returns then.
    pub fn fail<R: Failure>(self) -> R {
        self.set();
        R::FAILURE
    }
}

/// What a function returns when it fails.
pub trait Failure {
    /// The value.
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
