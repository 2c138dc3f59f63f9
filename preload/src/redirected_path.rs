//! Paths of the simulated node, translated to files in the simulator's directory for the node.

use crate::connection;
use crate::errno::Errno;
use crate::paths::{self, PathKind};
use crate::protocol::REFRESH;
use libc::c_char;
use std::ffi::CStr;

const MAX_PATH: usize = libc::PATH_MAX as usize;

/// A path in the simulator's directory.
pub struct RedirectedPath {
    pub kind: PathKind,
    path: [u8; MAX_PATH],
    /// Start of the part relative to the directory.
    relative: usize,
    /// Length of the whole path.
    end: usize,
}

impl RedirectedPath {
    /// The path with a NUL at its end.
    pub fn as_ptr(&self) -> *const c_char {
        self.path.as_ptr().cast()
    }

    /// The path relative to the directory.
    pub fn relative(&self) -> &[u8] {
        self.path.get(self.relative..self.end).unwrap_or(&[])
    }
}

/// Translates a path of the simulated node, and updates the file; `None` for all other paths.
///
/// # Safety
/// `path` is null or ends with NUL.
pub unsafe fn redirect(path: *const c_char) -> Option<Result<RedirectedPath, Errno>> {
    if path.is_null() {
        return None;
    }
    // SAFETY: required of the caller.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let kind = paths::kind(path)?;
    if !connection::is_enabled() {
        return None;
    }
    Some(translate(kind, path))
}

fn translate(kind: PathKind, path: &[u8]) -> Result<RedirectedPath, Errno> {
    let connection = connection::current()?;
    let directory = connection.directory();
    let end = directory.len() + path.len();
    let mut redirected =
        RedirectedPath { kind, path: [0; MAX_PATH], relative: directory.len() + 1, end };
    // The last byte is NUL.
    let buffer = redirected.path.get_mut(..end).filter(|_| end < MAX_PATH);
    let (head, tail) = buffer.ok_or(Errno(libc::ENAMETOOLONG))?.split_at_mut(directory.len());
    head.copy_from_slice(directory);
    tail.copy_from_slice(path);
    if kind == PathKind::Mirrored {
        connection.request(REFRESH, &[redirected.relative()], &mut Vec::new())?;
    }
    Ok(redirected)
}
