//! Runtimes of the process: two worker threads for the SM loop, one for the SMP and SA
//! servers, so that they answer while the loop compares the tables of thousands of switches, and
//! one below planning for the performance manager. Planning uses all cores at a lower priority
//! ([`crate::daemon::process::priority`]).

use crate::daemon::process::{memory, priority};
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// Time given to the tasks of each runtime to end; those still running then are abandoned. The daemon
/// has written its files before. What is left has the lowest priority, and on a busy machine the end of
/// the process must not wait for it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

/// Worker threads of the SM loop.
const LOOP_THREADS: usize = 2;

/// Worker threads of the servers.
const SERVER_THREADS: usize = 1;

/// The runtimes of the process.
pub struct Threads {
    main: Runtime,
    servers: Runtime,
    background: Runtime,
}

impl Threads {
    /// Starts all threads.
    ///
    /// # Errors
    /// The kernel refuses to create a thread.
    pub fn start() -> io::Result<Self> {
        memory::limit_arenas();
        priority::start_planner_threads();
        Ok(Self {
            main: start_runtime("loop", LOOP_THREADS)?,
            servers: start_runtime("servers", SERVER_THREADS)?,
            background: start_background()?,
        })
    }

    /// The runtime of the SM loop.
    pub fn main(&self) -> &Runtime {
        &self.main
    }

    /// The runtime of the SMP and SA servers.
    pub fn servers(&self) -> Handle {
        self.servers.handle().clone()
    }

    /// The runtime of work that nothing waits for.
    pub fn background(&self) -> Handle {
        self.background.handle().clone()
    }

    /// Ends all threads; tasks that exceed [`SHUTDOWN_TIMEOUT`] are abandoned.
    pub fn shut_down(self) {
        self.background.shutdown_timeout(SHUTDOWN_TIMEOUT);
        self.servers.shutdown_timeout(SHUTDOWN_TIMEOUT);
        self.main.shutdown_timeout(SHUTDOWN_TIMEOUT);
    }
}

fn start_runtime(name: &str, count: usize) -> io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(count).thread_name(name).enable_time().build()
}

fn start_background() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("background")
        .on_thread_start(priority::lower_to_background)
        .enable_time()
        .build()
}
