//! A port of which only Gets leave.

use crate::config::options::Options;
use crate::daemon::sm_loop::reload::limits;
use crate::transport::client::SmpClient;
use crate::transport::demux::MadDemux;
use crate::transport::gsi::GsiClient;
use crate::transport::rehearsal::{self, Rehearsal};
use crate::transport::{MadPort, MadSink};
use std::sync::Arc;

/// Capacity of the queues of unsolicited MADs, of which this port gets none.
const NO_QUEUE: usize = 1;

/// Clients on a port of which only Gets leave.
pub struct ShadowPort {
    pub client: SmpClient,
    /// Sends requests to the SA of the subnet manager.
    pub sa_client: GsiClient,
    pub rehearsal: Arc<Rehearsal>,
}

impl ShadowPort {
    /// Opens a port by `open`.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open<E>(
        options: &Options,
        open: impl FnOnce(Arc<dyn MadSink>) -> Result<Arc<dyn MadPort>, E>,
    ) -> Result<Self, E> {
        let (demux, _) = MadDemux::new(NO_QUEUE);
        let (port, rehearsal) = rehearsal::open(demux.clone(), open)?;
        let port: Arc<dyn MadPort> = Arc::new(port);
        let client = SmpClient::new(port.clone(), &demux, limits(options));
        Ok(Self { client, sa_client: GsiClient::new(port, &demux), rehearsal })
    }
}
