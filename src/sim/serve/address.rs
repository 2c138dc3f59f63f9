//! Where the socket is: the default path, and taking it.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, umask};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Name of the socket in the runtime folder.
const NAME: &str = "sim.sock";

/// The socket's path if nobody names one: `torus-sm/sim.sock` below `$XDG_RUNTIME_DIR`, else
/// `/run/torus-sm/sim.sock` for root, else `/tmp/torus-sm-UID/sim.sock`.
pub fn default_path() -> PathBuf {
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        return PathBuf::from(runtime).join("torus-sm").join(NAME);
    }
    let user = nix::unistd::geteuid();
    if user.is_root() && Path::new("/run").is_dir() {
        return Path::new("/run/torus-sm").join(NAME);
    }
    PathBuf::from(format!("/tmp/torus-sm-{user}")).join(NAME)
}

/// A socket could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another simulator serves there.
    #[error("{}: another simulator serves there", .0.display())]
    InUse(PathBuf),
    /// The folder belongs to somebody else, or others may write to it.
    #[error("{}: the folder is not this user's alone", .0.display())]
    Foreign(PathBuf),
    /// What the system said.
    #[error("{}: {source}", .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
}

/// A listening socket that only this user may connect to. The socket and its lock file are
/// removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    pub(super) socket: UnixListener,
    path: PathBuf,
    /// Held as long as somebody serves at the path: a socket without it is left over.
    _lock: Flock<File>,
}

impl Listener {
    /// Takes the socket at `path`. Its folder is made if there is none (for this user alone).
    ///
    /// # Errors
    /// [`ListenError::InUse`] if it is taken; [`ListenError::Foreign`]; what the system says.
    pub fn bind(path: &Path) -> Result<Self, ListenError> {
        let fault = |source| ListenError::Io { path: path.to_owned(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private_folder(folder)?;
        }
        let lock_path = lock_path(path);
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&lock_path);
        let lock = lock.map_err(|source| ListenError::Io { path: lock_path, source })?;
        let lock =
            Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(
                |(_, errno)| match errno {
                    Errno::EWOULDBLOCK => ListenError::InUse(path.to_owned()),
                    errno => fault(errno.into()),
                },
            )?;
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(fault(source)),
            _ => {}
        }
        // Nobody else may connect, not even between making the socket and setting its mode.
        let old = umask(Mode::from_bits_truncate(0o177));
        let bound = UnixListener::bind(path);
        umask(old);
        let socket = bound.map_err(fault)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).map_err(fault)?;
        socket.set_nonblocking(true).map_err(fault)?;
        Ok(Self { socket, path: path.to_owned(), _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The lock file goes first: whoever waits for the path makes both anew.
        let _ = fs::remove_file(lock_path(&self.path));
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Makes a folder, or looks whether the one that is there can be trusted. Folders that a person
/// names may be anybody's, as long as not everybody may exchange what is in them.
fn private_folder(folder: &Path) -> Result<(), ListenError> {
    use std::os::unix::fs::MetadataExt as _;
    let fault = |source| ListenError::Io { path: folder.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(fault)?;
    let facts = fs::symlink_metadata(folder).map_err(fault)?;
    let user = nix::unistd::geteuid().as_raw();
    let sticky = facts.mode() & 0o1000 != 0;
    let owner_is_trusted = [user, 0].contains(&facts.uid());
    if facts.is_dir() && (!owner_is_trusted || (facts.mode() & 0o022 != 0 && !sticky)) {
        return Err(ListenError::Foreign(folder.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_simulator_at_a_time_and_nothing_left_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deeper").join("sim.sock");
        let first = Listener::bind(&path).expect("a socket");
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert_eq!(mode(&folder.path().join("deeper")) & 0o777, 0o700);
        assert!(matches!(Listener::bind(&path), Err(ListenError::InUse(_))));
        drop(first);
        assert_eq!(fs::read_dir(folder.path().join("deeper")).expect("a folder").count(), 0);
        Listener::bind(&path).expect("free again");
    }

    #[test]
    fn a_socket_left_over_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sim.sock");
        drop(UnixListener::bind(&path).expect("a socket"));
        Listener::bind(&path).expect("taken over");
    }

    #[test]
    fn folders_of_everybody_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let open = folder.path().join("open");
        fs::create_dir(&open).expect("a folder");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("a mode");
        let bound = Listener::bind(&open.join("sim.sock"));
        assert!(matches!(bound, Err(ListenError::Foreign(_))), "{bound:?}");
    }
}
