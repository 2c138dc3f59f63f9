//! The parameters of a daemon.

use crate::config::config_files::ConfigFiles;
use crate::config::options::Options;
use crate::daemon::process::recordings::Recordings;
use crate::daemon::sa_server::table_workers::TableWorkers;
use crate::daemon::sm_loop::context::ReloadFn;
use crate::daemon::sm_loop::files::StateFiles;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::Handle;

/// The parameters of a daemon.
pub struct DaemonSetup {
    pub options: Options,
    /// The files that the options name.
    pub config_files: Arc<ConfigFiles>,
    /// The lines of opensm.conf whose values are wrong.
    pub ignored_lines: Vec<String>,
    /// End after the subnet is configured once (`-o`).
    pub once: bool,
    pub files: StateFiles,
    /// The flight recorder. MADs are recorded by wrappers of the port.
    pub recordings: Arc<Recordings>,
    /// Reads the configuration again on SIGHUP.
    pub reload: ReloadFn,
    /// The configuration file, if one is read.
    pub config_file: Option<PathBuf>,
    pub servers: ServerThreads,
}

/// Threads of the SMP and SA servers.
#[derive(Debug, Default)]
pub struct ServerThreads {
    /// Their runtime; `None` runs them on the SM loop's.
    pub handle: Option<Handle>,
    /// The runtime of the performance manager, of congestion control and of vendor-specific
    /// attributes; `None` runs it on the SM loop's.
    pub background: Option<Handle>,
    pub table_workers: TableWorkers,
}

impl ServerThreads {
    /// Runs the servers on `handle`, with a table worker for each further core.
    ///
    /// # Errors
    /// The kernel refuses to create a thread.
    pub fn new(handle: Handle) -> Result<Self, rayon::ThreadPoolBuildError> {
        let table_workers = TableWorkers::new()?;
        Ok(Self { handle: Some(handle), background: None, table_workers })
    }

    /// Answers all SA requests on one thread if `is_single` (`single_thread`).
    #[must_use]
    pub fn with_single_thread(self, is_single: bool) -> Self {
        let table_workers = if is_single { TableWorkers::default() } else { self.table_workers };
        Self { table_workers, ..self }
    }

    /// Runs the performance manager and congestion control on `background`.
    #[must_use]
    pub fn with_background(self, background: Handle) -> Self {
        Self { background: Some(background), ..self }
    }
}
