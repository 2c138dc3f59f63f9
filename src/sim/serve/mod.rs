//! The simulated fabric for programs in other processes of this machine.
//!
//! A [`Server`] listens on a Unix socket for programs with the preloaded library (the workspace
//! member `preload`), each attached to a node of its choice. Such a program sees a directory, which
//! the server keeps up to date, as `/sys/class/infiniband*` and `/dev/infiniband`, and opens the
//! devices of [`super::umad`].
//!
//! ```text
//! program ── libibumad ── libtorus_sm_preload.so ══ socket ══ event_loop ── OpenUmad ── fabric
//!                           reads /sys from the directories of ──── directories
//! ```
//!
//! * [`protocol`]: messages on the socket
//! * `event_loop`: the server's thread; `connection`: one program; `open_file`: one open device
//! * `attach_point`: nodes that programs attach to; `directories`, `sysfs`: directories of nodes
//!   and their contents
//!
//! The server has one thread outside of the tokio runtime, which waits for all descriptors with
//! poll(2). The fabric wakes it up (`wakeup`) when MADs arrive for an open file. It handles the timed events of a fabric
//! that [leaves them to it](super::TimedEvents::ServerThread), too.

pub mod protocol;

mod attach_point;
mod connection;
mod directories;
mod event_loop;
mod open_file;
mod sysfs;
mod wakeup;

pub use attach_point::{AttachError, AttachPoint};

use super::SimFabric;
use crate::local_socket::Listener;
use event_loop::EventLoop;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use wakeup::Wakeup;

/// Serves a fabric until it is dropped.
pub struct Server {
    wakeup: Arc<Wakeup>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `fabric` on `listener`. Programs that name no node are attached to `default`.
    /// Directories of nodes are created in `directory`, which must exist and be private to the
    /// user. Requires a running tokio runtime.
    ///
    /// # Errors
    /// The process has too many descriptors or threads.
    pub fn start(
        fabric: SimFabric,
        default: AttachPoint,
        listener: Listener,
        directory: PathBuf,
    ) -> io::Result<Self> {
        let (wakeup, receiver) = Wakeup::new()?;
        let wakeup = Arc::new(wakeup);
        let runtime = tokio::runtime::Handle::current();
        let event_loop =
            EventLoop::new(fabric, default, listener, directory, Arc::clone(&wakeup), receiver)?;
        let thread =
            std::thread::Builder::new().name("sim-server".to_owned()).spawn(move || {
                // Opening a device may start the event task of the fabric.
                let _runtime = runtime.enter();
                event_loop.run();
            })?;
        Ok(Self { wakeup, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.wakeup.stop();
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic of the thread.
            let _ = thread.join();
        }
    }
}
