//! What the manager is placed in: the ways out to the fabric, the desks and the files.

use crate::config::options::Options;
use crate::config::partitions::PartitionsConfig;
use crate::daemon::messages::SaCommand;
use crate::daemon::messages::SmEvent;
use crate::daemon::sm_loop::files::StateFiles;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use crate::sm::sm_info::SmStatus;
use crate::transport::client::SmpClient;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// What the administrator wrote: all of it is read, or nothing changes.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// opensm.conf and the command line.
    pub options: Options,
    /// partitions.conf.
    pub partitions: Arc<PartitionsConfig>,
}

impl From<Options> for Configuration {
    /// Options alone: without any other file.
    fn from(options: Options) -> Self {
        Self { options, partitions: Arc::default() }
    }
}

/// Reads the configuration anew; the error is told, and the old configuration stays.
pub type ReloadFn = Box<dyn FnMut() -> Result<Configuration, String> + Send + Sync>;

/// What the manager needs from its surroundings.
pub struct ManagerContext {
    /// The way to the fabric.
    pub client: SmpClient,
    /// Events of all desks.
    pub events: mpsc::UnboundedReceiver<SmEvent>,
    /// What this SM says of itself.
    pub sm_status: watch::Sender<SmStatus>,
    /// The published snapshot.
    pub subnet: watch::Sender<Option<Arc<Subnet>>>,
    /// Why there is nothing newer, if the last pass ended without a plan.
    pub refused: watch::Sender<Option<Arc<PlanRejected>>>,
    /// The SA desk: asked for the multicast groups, told what sweeps met.
    pub sa_server: mpsc::Sender<SaCommand>,
    /// Files.
    pub files: StateFiles,
    /// Reads the configuration anew.
    pub reload: ReloadFn,
}
