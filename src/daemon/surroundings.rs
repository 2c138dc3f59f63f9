//! What the manager is placed in: the ways out to the fabric, the desks and the files.

use super::agenda::Event;
use super::files::Files;
use super::sa_desk::Errand;
use crate::config::options::Options;
use crate::publish::Subnet;
use crate::sm::desk::SelfPortrait;
use crate::transport::client::SmpClient;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

/// Reads the options anew; the error is told, and the old options stay.
pub type Reload = Box<dyn FnMut() -> Result<Options, String> + Send + Sync>;

/// What the manager needs from its surroundings.
pub struct Surroundings {
    /// The way to the fabric.
    pub client: SmpClient,
    /// Events of all desks.
    pub events: mpsc::UnboundedReceiver<Event>,
    /// What this SM says of itself.
    pub portrait: watch::Sender<SelfPortrait>,
    /// The published snapshot.
    pub subnet: watch::Sender<Option<Arc<Subnet>>>,
    /// The SA desk: asked for the multicast groups, told what sweeps met.
    pub sa_desk: mpsc::Sender<Errand>,
    /// Files.
    pub files: Files,
    /// Reads the options anew.
    pub reload: Reload,
}
