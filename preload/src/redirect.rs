//! Where a path leads: elsewhere, or into the folder that the simulator keeps for this node.

use crate::errno::Errno;
use crate::paths::{self, Kind};
use crate::protocol::REFRESH;
use crate::session;
use libc::c_char;
use std::ffi::CStr;

const ROOM: usize = libc::PATH_MAX as usize;

/// A path of the simulated node, translated.
pub struct Place {
    /// What it is.
    pub kind: Kind,
    path: [u8; ROOM],
    /// Where the part below the simulator's folder begins, and the whole ends.
    below: usize,
    end: usize,
}

impl Place {
    /// The real path, for a call of the C library.
    pub fn as_ptr(&self) -> *const c_char {
        self.path.as_ptr().cast()
    }

    /// The part below the simulator's folder.
    pub fn below(&self) -> &[u8] {
        self.path.get(self.below..self.end).unwrap_or_default()
    }
}

/// Where a path of the simulated node really is, up to date. `None`: the path is none of those.
///
/// # Safety
/// `path` is null or ends with NUL.
pub unsafe fn find(path: *const c_char) -> Option<Result<Place, Errno>> {
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let kind = paths::kind(path)?;
    if !session::is_wanted() {
        return None;
    }
    Some(translate(kind, path))
}

fn translate(kind: Kind, path: &[u8]) -> Result<Place, Errno> {
    let session = session::current()?;
    let folder = session.folder();
    let end = folder.len() + path.len();
    let mut place = Place { kind, path: [0; ROOM], below: folder.len() + 1, end };
    // One byte is left for NUL.
    let room = place.path.get_mut(..end).filter(|_| end < ROOM);
    let (head, tail) = room.ok_or(Errno(libc::ENAMETOOLONG))?.split_at_mut(folder.len());
    head.copy_from_slice(folder);
    tail.copy_from_slice(path);
    if kind == Kind::Folder {
        session.request(REFRESH, &[place.below()], &mut Vec::new())?;
    }
    Ok(place)
}
