//! Writes dump files, which programs of the site read at any time or watch.
//!
//! OpenSM truncates a dump and writes it again: a watch on the file (`inotifywait -e close_write`,
//! `tail -f`), which lies on its inode, sees every dump, but a reader may find half a file. A rename
//! alone gives readers whole files, but takes the inode away, and the watch ends without a word.
//! Here the file keeps its inode, and its name leads to a whole file at any time:
//!
//! 1. The new content goes to a temporary file.
//! 2. The two files exchange their names (RENAME_EXCHANGE of renameat2(2)).
//! 3. The new content is copied to the old inode, which has the temporary name now.
//! 4. The names are exchanged again, the old inode is closed, and the temporary file is removed.
//!    IN_CLOSE_WRITE thus comes with the name of the dump and its whole content, for watches on the
//!    file and on its directory.
//!
//! The price: each dump is written twice, and a program that opened the file before step 2 and still
//! reads it in step 3 finds old lines followed by new ones, as from OpenSM. Where the file system
//! cannot exchange names, step 3 is done in place, and a reader may see half a file meanwhile.
//!
//! Only a regular file of this user with a single link keeps its inode; one that others could read
//! loses it if its content is private. All other files are replaced by a rename, so that the content
//! goes nowhere else. If step 3 fails, for want of space for instance, the name leads to the new
//! inode.

use super::atomic_file::{self, FileWriteError, PRIVATE_MODE, PUBLIC_MODE};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, RenameFlags, renameat2};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Mode bits that let other users read or write a file.
const MODE_OF_OTHERS: u32 = 0o077;

/// Ends dumps that are being written, which for large fabrics takes minutes: those that are not complete
/// keep their old content.
#[derive(Clone, Default, Debug)]
pub struct StopWriting(Arc<AtomicBool>);

impl StopWriting {
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// It was requested.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.is_requested() { Err(io::Error::other("the writing was stopped")) } else { Ok(()) }
    }
}

/// Writes a world-readable dump.
///
/// # Errors
/// The first failing system call, with the path of the file, which has its old content.
pub fn write(path: &Path, text: &str) -> Result<(), FileWriteError> {
    write_by(path, |file| file.write_all(text.as_bytes()))
}

/// Writes a dump that only the owner may read. With `sync`, fsync(2) is called before the file
/// gets its name.
///
/// # Errors
/// As [`write()`].
pub fn write_private(path: &Path, text: &str, sync: bool) -> Result<(), FileWriteError> {
    atomic_file::through_temporary(
        path,
        sync,
        PRIVATE_MODE,
        |file: &mut dyn io::Write| file.write_all(text.as_bytes()),
        |new, temporary| put(new, temporary, path, PRIVATE_MODE),
    )
}

/// Writes a world-readable dump with the content that `fill` writes.
pub(super) fn write_by(
    path: &Path,
    fill: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
) -> Result<(), FileWriteError> {
    atomic_file::through_temporary(path, false, PUBLIC_MODE, fill, |new, temporary| {
        put(new, temporary, path, PUBLIC_MODE)
    })
}

/// Gives the content of `new`, whose name is `temporary`, to `path`. `new` is closed after a rename:
/// IN_CLOSE_WRITE has the name of the dump.
fn put(mut new: File, temporary: &Path, path: &Path, mode: u32) -> io::Result<()> {
    let Some(mut old) = open_to_keep(path, mode) else { return fs::rename(temporary, path) };
    match exchange(temporary, path) {
        Ok(()) => {
            // In both cases the name leads to the whole content.
            if copy(&mut new, &mut old).is_ok() {
                let _ = exchange(temporary, path);
            }
            fs::remove_file(temporary)
        }
        Err(Errno::ENOENT) => fs::rename(temporary, path),
        Err(_) => match copy(&mut new, &mut old) {
            Ok(()) => fs::remove_file(temporary),
            Err(_) => fs::rename(temporary, path),
        },
    }
}

/// Opens the file whose inode is to be kept, without truncating it. `None`: there is none, or it
/// must be replaced.
fn open_to_keep(path: &Path, mode: u32) -> Option<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().write(true).custom_flags(flags.bits()).open(path).ok()?;
    let status = file.metadata().ok()?;
    let is_own = status.uid() == nix::unistd::geteuid().as_raw();
    let is_seen_by_others = status.mode() & MODE_OF_OTHERS != 0;
    let is_kept = status.is_file()
        && status.nlink() == 1
        && is_own
        && !(mode == PRIVATE_MODE && is_seen_by_others);
    is_kept.then_some(file)
}

fn exchange(one: &Path, other: &Path) -> nix::Result<()> {
    renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE)
}

/// Overwrites `to` with the content of `from`. It is shortened last, so that a program that is
/// reading it finds no end too early.
fn copy(from: &mut File, to: &mut File) -> io::Result<()> {
    from.rewind()?;
    let length = io::copy(from, to)?;
    to.set_len(length)
}

#[cfg(test)]
mod tests;
