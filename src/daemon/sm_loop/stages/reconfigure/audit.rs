//! The audit of the devices' tables: after a takeover that trusted what was read as standby, and
//! after cables between switches were moved.

use crate::apply::Acknowledged;
use crate::apply::inherited::find_difference;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::transport::client::SmpClient;
use tokio::task::{JoinError, JoinHandle};

/// Requests in flight of an audit.
const WINDOW: usize = 4;

/// Requests per second of an audit.
const RATE: u32 = 20_000;

/// The first block that is not as expected, in words, and the number of blocks that were read.
pub(super) type Finding = (Option<String>, usize);

/// The task that compares all tables with what this SM believes the devices to hold. It ends when
/// this is dropped.
pub(super) struct Audit(JoinHandle<Finding>);

impl Audit {
    /// Must be called in a runtime.
    pub(super) fn start(
        client: &SmpClient,
        observation: &Observation,
        acknowledged: Acknowledged,
        keys: &MKeys,
    ) -> Self {
        let client = client.paced(WINDOW, RATE);
        let keys = keys.clone();
        let observation = observation.clone();
        Self(tokio::spawn(async move {
            let found = find_difference(&client, &observation, &acknowledged, &keys).await;
            (found.0.map(|set| set.describe(&observation.fabric)), found.1)
        }))
    }

    /// Waits for the result. Cancel safe.
    pub(super) async fn result(&mut self) -> Result<Finding, JoinError> {
        (&mut self.0).await
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.0.abort();
    }
}
