//! Listening Unix sockets of this program, and the folder they are in by default.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::Gid;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The runtime folder: `torus-sm` below `$XDG_RUNTIME_DIR`, else `/run/torus-sm` for root, else
/// `/tmp/torus-sm-UID`.
pub fn runtime_folder() -> PathBuf {
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        return PathBuf::from(runtime).join("torus-sm");
    }
    let user = nix::unistd::geteuid();
    if user.is_root() && Path::new("/run").is_dir() {
        return PathBuf::from(SYSTEM_FOLDER);
    }
    PathBuf::from(format!("/tmp/torus-sm-{user}"))
}

/// The runtime folder of root, if `$XDG_RUNTIME_DIR` is not set.
pub const SYSTEM_FOLDER: &str = "/run/torus-sm";

/// A socket that cannot be listened on.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("{}: another process uses this socket", .0.display())]
    InUse(PathBuf),
    /// The directory belongs to another user, or others may write to it.
    #[error("{}: this directory belongs to another user or is writable by others", .0.display())]
    UntrustedDirectory(PathBuf),
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// Users who may connect to a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clients {
    /// This user and root.
    Owner,
    /// These and a group.
    Group(Gid),
    All,
}

impl Clients {
    /// Mode of the socket. To connect takes permission to write.
    fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Group(_) => 0o660,
            Self::All => 0o666,
        }
    }
}

/// A listening socket. Dropping it removes the socket and its lock file.
#[derive(Debug)]
pub struct Listener {
    pub socket: UnixListener,
    path: PathBuf,
    /// Held while the socket is in use; a socket file without a lock is stale.
    _lock: Flock<File>,
}

impl Listener {
    /// Listens on the socket `path`. Its directory is created, with mode 0700, if it does not
    /// exist; other `clients` may list it if it belongs to this user.
    ///
    /// # Errors
    /// Another process uses the socket, its directory is not trusted, or an I/O error.
    pub fn bind(path: &Path, clients: Clients) -> Result<Self, ListenError> {
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            check_directory(parent)?;
            if clients != Clients::Owner {
                open_directory(parent).map_err(|source| error(path, source))?;
            }
        }
        let lock_path = lock_path(path);
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&lock_path);
        let lock = lock.map_err(|source| ListenError::Io { path: lock_path, source })?;
        let lock =
            Flock::lock(lock, FlockArg::LockExclusiveNonblock).map_err(
                |(_, errno)| match errno {
                    Errno::EWOULDBLOCK => ListenError::InUse(path.to_owned()),
                    errno => error(path, errno.into()),
                },
            )?;
        match fs::remove_file(path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(error(path, source));
            }
            _ => {}
        }
        let socket = bind_private(path).map_err(|source| error(path, source))?;
        if let Clients::Group(group) = clients {
            nix::unistd::chown(path, None, Some(group))
                .map_err(|errno| error(path, errno.into()))?;
        }
        fs::set_permissions(path, fs::Permissions::from_mode(clients.mode()))
            .map_err(|source| error(path, source))?;
        socket.set_nonblocking(true).map_err(|source| error(path, source))?;
        Ok(Self { socket, path: path.to_owned(), _lock: lock })
    }
}

fn error(path: &Path, source: io::Error) -> ListenError {
    ListenError::Io { path: path.to_owned(), source }
}

/// A listening socket that only this user and root may connect to. The file of a socket takes the
/// mode that the socket has when it is bound (unix_bind_bsd in the kernel's net/unix/af_unix.c), so
/// there is no moment at which others may connect. A umask(2) for the time of the call would hold for
/// the files that other threads create meanwhile, too, and for good if two threads set it at once.
fn bind_private(path: &Path) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    listen(&socket, Backlog::MAXCONN)?;
    Ok(UnixListener::from(socket))
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The lock file is removed first: a new listener then creates both files.
        let _ = fs::remove_file(lock_path(&self.path));
        let _ = fs::remove_file(&self.path);
    }
}

fn lock_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// Creates a directory, or checks that an existing one is trusted: owned by the user or root, and
/// not writable by others unless it is sticky.
///
/// # Errors
/// It is not trusted, or cannot be created.
pub fn check_directory(directory: &Path) -> Result<(), ListenError> {
    use std::os::unix::fs::MetadataExt as _;
    let error = |source| ListenError::Io { path: directory.to_owned(), source };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(error)?;
    let metadata = fs::symlink_metadata(directory).map_err(error)?;
    let user = nix::unistd::geteuid().as_raw();
    let sticky = metadata.mode() & 0o1000 != 0;
    let owner_is_trusted = [user, 0].contains(&metadata.uid());
    if metadata.is_dir() && (!owner_is_trusted || (metadata.mode() & 0o022 != 0 && !sticky)) {
        return Err(ListenError::UntrustedDirectory(directory.to_owned()));
    }
    Ok(())
}

/// Lets other users list a directory and reach the sockets in it.
fn open_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = fs::symlink_metadata(directory)?;
    if metadata.uid() != nix::unistd::geteuid().as_raw() || metadata.mode() & 0o055 == 0o055 {
        return Ok(());
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(metadata.mode() & 0o7777 | 0o055))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it exists").permissions().mode()
    }

    #[test]
    fn a_socket_has_one_listener_and_is_removed_with_it() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("deeper").join("sim.sock");
        let first = Listener::bind(&path, Clients::Owner).expect("a socket");
        assert_eq!(mode(&path) & 0o777, 0o600);
        assert_eq!(mode(&folder.path().join("deeper")) & 0o777, 0o700);
        assert!(matches!(Listener::bind(&path, Clients::Owner), Err(ListenError::InUse(_))));
        drop(first);
        assert_eq!(fs::read_dir(folder.path().join("deeper")).expect("a directory").count(), 0);
        Listener::bind(&path, Clients::Owner).expect("free again");
    }

    #[test]
    fn a_socket_is_private_as_soon_as_it_exists() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("sm.sock");
        let _socket = bind_private(&path).expect("a socket");
        let mode = fs::metadata(&path).expect("it exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// A shell that starts meanwhile has the umask of this process, and so have its files.
    #[test]
    fn files_of_others_keep_their_mode_while_sockets_are_bound() {
        let before = own_umask();
        let folder = tempfile::tempdir().expect("a directory");
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = folder.path().join(format!("{thread}.sock"));
                scope.spawn(move || {
                    for _ in 0..100 {
                        Listener::bind(&path, Clients::Owner).expect("a socket");
                    }
                });
            }
        });
        assert_eq!(own_umask(), before);
    }

    fn own_umask() -> Option<String> {
        let status = fs::read_to_string("/proc/self/status").expect("the state of the process");
        status.lines().find(|line| line.starts_with("Umask:")).map(str::to_owned)
    }

    #[test]
    fn a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("sim.sock");
        drop(UnixListener::bind(&path).expect("a socket"));
        Listener::bind(&path, Clients::Owner).expect("taken over");
    }

    #[test]
    fn directories_writable_by_others_are_rejected() {
        let folder = tempfile::tempdir().expect("a directory");
        let open = folder.path().join("open");
        fs::create_dir(&open).expect("a directory");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).expect("a mode");
        let bound = Listener::bind(&open.join("sim.sock"), Clients::Owner);
        assert!(matches!(bound, Err(ListenError::UntrustedDirectory(_))), "{bound:?}");
    }

    #[test]
    fn a_socket_for_all_is_in_a_directory_that_all_may_list() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("run").join("sm.sock");
        let _listener = Listener::bind(&path, Clients::All).expect("a socket");
        assert_eq!(mode(&path) & 0o777, 0o666);
        assert_eq!(mode(&folder.path().join("run")) & 0o777, 0o755);
    }
}
