//! The private directory of a simulation, in the runtime folder.
//!
//! A simulator holds a lock on its directory as long as it runs. One that was killed leaves its
//! directory behind without a lock, and the next simulator removes it.

use crate::cli::{CommandFailure, ExitCode};
use crate::local_socket;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Start of the names of the directories; a `-` and six characters follow.
const PREFIX: &str = "sim-";

/// A private directory; dropping it removes the directory.
pub(super) struct ScratchDirectory {
    path: PathBuf,
    _lock: Flock<File>,
}

impl ScratchDirectory {
    /// Creates a directory in the runtime folder, and removes those of simulators that were killed.
    ///
    /// # Errors
    /// The runtime folder cannot be created or written.
    pub(super) fn new() -> Result<Self, CommandFailure> {
        let folder = local_socket::runtime_folder();
        local_socket::check_directory(&folder)
            .map_err(|error| CommandFailure::new(ExitCode::System, error))?;
        Self::create(&folder).map_err(|error| {
            CommandFailure::new(ExitCode::System, format!("{}: {error}", folder.display()))
        })
    }

    fn create(folder: &Path) -> io::Result<Self> {
        // The lock of the folder prevents another simulator from removing a directory between its
        // creation and its lock.
        let _turn = lock(folder, FlockArg::LockExclusive)?;
        remove_abandoned(folder)?;
        let path = nix::unistd::mkdtemp(&folder.join(format!("{PREFIX}XXXXXX")))?;
        let lock = lock(&path, FlockArg::LockExclusiveNonblock)?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        // The next simulator removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn lock(directory: &Path, how: FlockArg) -> io::Result<Flock<File>> {
    Flock::lock(File::open(directory)?, how).map_err(|(_, errno)| errno.into())
}

/// Removes the directories of simulators that no longer run.
fn remove_abandoned(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_scratch = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if !is_scratch || !entry.file_type()?.is_dir() {
            continue;
        }
        match lock(&entry.path(), FlockArg::LockExclusiveNonblock) {
            Ok(_lock) => fs::remove_dir_all(entry.path())?,
            Err(error) if error.raw_os_error() == Some(Errno::EWOULDBLOCK as i32) => {}
            // Its owner has just removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    }

    #[test]
    fn directories_of_running_simulators_stay_and_others_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let abandoned = folder.join("sim-killed");
        fs::create_dir(&abandoned).expect("a folder");
        fs::write(abandoned.join("torus-2QoS.conf"), "torus 3 3 3\n").expect("a file");
        fs::create_dir(folder.join("sim.d")).expect("a folder of another kind");
        let first = ScratchDirectory::create(folder).expect("a folder");
        let second = ScratchDirectory::create(folder).expect("a folder");
        assert!(!abandoned.exists());
        assert!(first.path().is_dir() && second.path().is_dir());
        drop((first, second));
        assert_eq!(names(folder), [folder.join("sim.d")]);
    }
}
