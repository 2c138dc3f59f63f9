//! The simulated fabric as a kernel would show it to other processes of this machine.
//!
//! A [`Server`] listens on a Unix socket for programs that have the preloaded library (the
//! workspace member `preload`), each attached at a node of its choice. What they see of `/sys`
//! is a folder per node, kept current here; what they open, write and read is
//! [`super::kernel`]'s.
//!
//! ```text
//! program ── libibumad ── libtorus_sm_preload.so ══ socket ══ hub ── kernel::OpenUmad ── fabric
//!                             reads /sys from folders of ──── nodes
//! ```
//!
//! * [`protocol`]: the bytes on the socket; [`address`]: where the socket is, and taking it
//! * `hub`: the one thread that serves everybody; `client`: a connection; `device`: an open file
//! * `place`: names of nodes; `nodes`, `sysfs`: folders of nodes and what is in them
//!
//! The server has one thread, outside the runtime: every wait is one poll(2) over all
//! descriptors. A fabric rings its bell when MADs wait for an open file.

pub mod address;
pub mod protocol;

mod bell;
mod client;
mod device;
mod hub;
mod nodes;
mod place;
mod sysfs;

pub use place::{Place, PlaceError};

use super::SimFabric;
use address::Listener;
use bell::Bell;
use hub::Hub;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Serves a fabric until it is dropped.
pub struct Server {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Serves `fabric` on `listener`. Programs that do not say where they are attached are at
    /// `default`. Folders of nodes are made in `folder`, which must exist and be the caller's
    /// alone. Needs a running tokio runtime.
    ///
    /// # Errors
    /// If there are no descriptors or no thread to be had.
    pub fn start(
        fabric: SimFabric,
        default: Place,
        listener: Listener,
        folder: PathBuf,
    ) -> io::Result<Self> {
        let (bell, ear) = Bell::new()?;
        let bell = Arc::new(bell);
        let runtime = tokio::runtime::Handle::current();
        let hub = Hub::new(fabric, default, listener, folder, Arc::clone(&bell), ear)?;
        let thread =
            std::thread::Builder::new().name("sim-server".to_owned()).spawn(move || {
                // The clock of a fabric runs in the runtime.
                let _runtime = runtime.enter();
                hub.run();
            })?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.bell.end();
        if let Some(thread) = self.thread.take() {
            // A panic in there was told when it happened.
            let _ = thread.join();
        }
    }
}
