//! The channels, files and functions that connect the SM loop with the rest of the daemon.

use crate::config::config_files::ConfigFiles;
use crate::config::options::Options;
use crate::config::partitions::PartitionsConfig;
use crate::daemon::activity::ActivityReport;
use crate::daemon::messages::{FirstSweep, SaCommand};
use crate::daemon::process::recordings::Recordings;
use crate::daemon::sm_loop::files::StateFiles;
use crate::daemon::sm_loop::vendor_gate::AdaptiveGate;
use crate::fabric::virtual_ports::VirtualPorts;
use crate::manage::feed::Feed;
use crate::notes::Note;
use crate::observe::m_keys::MKeys;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::replication::local::ManagerLink;
use crate::sm::sm_info::SmStatus;
use crate::transport::client::SmpClient;
use arc_swap::ArcSwap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// The configuration; a reload replaces all of it or nothing.
pub struct Configuration {
    /// From opensm.conf and the command line.
    pub options: Options,
    /// The files that `options` name.
    pub files: Arc<ConfigFiles>,
    /// Findings about `options`, to be logged when they take effect.
    pub notes: Vec<Note>,
    /// The lines of opensm.conf whose values are wrong; the values in force stay.
    pub ignored_lines: Vec<String>,
    /// Called when the configuration takes effect.
    pub on_applied: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl From<Options> for Configuration {
    fn from(options: Options) -> Self {
        let files = ConfigFiles::read(&options);
        Self::new(options, Arc::new(files))
    }
}

impl Configuration {
    pub fn new(options: Options, files: Arc<ConfigFiles>) -> Self {
        Self { options, files, notes: Vec::new(), ignored_lines: Vec::new(), on_applied: None }
    }

    /// The options and the files that they name, with other partitions.
    pub fn with_partitions(options: Options, partitions: Arc<PartitionsConfig>) -> Self {
        let files = ConfigFiles::read(&options).with_partitions(partitions);
        Self::new(options, Arc::new(files))
    }
}

/// Reads the configuration again. On an error, which is logged, the old one stays in force, and so
/// it does if a named file has an error that it did not have.
pub type ReloadFn = Box<dyn FnMut() -> Result<Configuration, String> + Send + Sync>;

/// Results of the SM loop, for other tasks and threads.
pub struct PublishedByLoop {
    pub sm_status: watch::Sender<SmStatus>,
    /// The published snapshot; `None` while this SM is not master of a configured subnet.
    pub subnet: watch::Sender<Option<Arc<Subnet>>>,
    /// The fabric that is planned first; `None` while this SM is not master.
    pub first_sweep: watch::Sender<Option<Arc<FirstSweep>>>,
    /// Reason why the last reconfiguration ended without a plan; `None` while a plan is in force.
    pub refused: watch::Sender<Option<Arc<PlanRejected>>>,
}

/// Parts of the daemon that several of its tasks use.
pub struct SharedParts {
    pub feed: Feed,
    /// The vports that were discovered, for the SM loop.
    pub virtual_ports: Arc<ArcSwap<VirtualPorts>>,
    /// The M_Keys that ports hold, as of the last programmed plan, for other tasks.
    pub m_keys: Arc<ArcSwap<MKeys>>,
    pub activity: Arc<ActivityReport>,
}

pub struct ManagerContext {
    pub client: SmpClient,
    pub published: PublishedByLoop,
    pub shared: SharedParts,
    pub sa_server: mpsc::Sender<SaCommand>,
    pub files: StateFiles,
    /// The flight recorder and its files.
    pub recordings: Arc<Recordings>,
    pub reload: ReloadFn,
    /// The configuration file, if one is read.
    pub config_file: Option<PathBuf>,
    /// Holds adaptive routing while plain tables change.
    pub adaptive: AdaptiveGate,
    /// The state that this SM shares with others.
    pub replication: ManagerLink,
}
