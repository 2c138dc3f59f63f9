//! The inputs of a resource.

use super::error::ApiError;
use crate::congestion::status::CongestionStatus;
use crate::fabric::Fabric;
use crate::incidents::book::IncidentList;
use crate::manage::loop_status::LoopStatus;
use crate::manage::missing::MissingParts;
use crate::manage::sa_query::SaQuery;
use crate::manage::sources::SaQueryFn;
use crate::perfmgr::status::PerfStatus;
use crate::publish::Subnet;
use crate::vendor::status::VendorStatus;
use crate::vendor::virtual_ports::VirtualStatus;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Time that the SA server has for a query.
const SA_TIMEOUT: Duration = Duration::from_secs(2);

/// The inputs of a resource.
pub struct ApiContext<'a> {
    pub status: Arc<LoopStatus>,
    /// The port counters.
    pub perf: Arc<PerfStatus>,
    pub congestion: CongestionStatus,
    /// Vendor-specific capabilities of the nodes.
    pub vendor: Arc<VendorStatus>,
    /// Vports of adapter ports.
    pub virtual_ports: Arc<VirtualStatus>,
    pub incidents: Arc<IncidentList>,
    /// Nodes and links that are not found any more.
    pub missing: Arc<MissingParts>,
    pub query_sa: &'a SaQueryFn,
    /// The runtime of the server, for queries.
    pub runtime: Handle,
    /// The header Accept of the request.
    pub accept: &'a str,
    pub server: ServerFigures,
}

/// The state of the server itself.
#[derive(Clone, Copy, Debug)]
pub struct ServerFigures {
    /// The enabled log flags; `None` if the log is not that of the daemon.
    pub log_flags: Option<u8>,
    /// Number of the last event.
    pub last_event: u64,
    /// Open connections.
    pub connections: usize,
    /// Requests so far.
    pub requests: u64,
}

impl ApiContext<'_> {
    /// The last observed fabric.
    ///
    /// # Errors
    /// There was no sweep yet.
    pub fn fabric(&self) -> Result<&Arc<Fabric>, ApiError> {
        let fabric = self.status.fabric.as_ref();
        fabric.ok_or_else(|| ApiError::new(503, "the fabric has not been swept yet"))
    }

    /// The published subnet.
    ///
    /// # Errors
    /// This SM is not master of a configured subnet.
    pub fn subnet(&self) -> Result<&Arc<Subnet>, ApiError> {
        self.status.subnet.as_ref().ok_or_else(|| {
            let state = self.status.managers.own.state;
            ApiError::new(503, format!("this SM ({state}) is not master of a configured subnet"))
        })
    }

    /// Queries the SA server. Waits, so it must not be called on a thread of the server's runtime
    /// that serves connections.
    ///
    /// # Errors
    /// The SA server has ended or does not answer in time.
    pub fn ask_sa<T>(
        &self,
        query: impl FnOnce(oneshot::Sender<T>) -> SaQuery,
    ) -> Result<T, ApiError> {
        let (sender, reply) = oneshot::channel();
        if !(self.query_sa)(query(sender)) {
            return Err(busy_error());
        }
        let reply = self.runtime.block_on(async { timeout(SA_TIMEOUT, reply).await });
        reply.ok().and_then(Result::ok).ok_or_else(busy_error)
    }
}

fn busy_error() -> ApiError {
    ApiError::new(503, "the SA server is busy or has ended")
}
