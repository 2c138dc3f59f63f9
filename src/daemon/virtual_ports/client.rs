//! Sends requests to one physical port.

use crate::fabric::Fabric;
use crate::ids::{Guid, MKey};
use crate::observe::m_keys::MKeys;
use crate::transport::client::{BatchEvent, SmpClient};
use crate::transport::transactions::{SmpError, SmpRequest, SmpResult, Tag};
use crate::vendor::virtual_ports::VirtualFailure;
use crate::wire::smp::{DATA_SIZE, SmpRoute};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The client of one physical port.
#[derive(Clone)]
pub(super) struct PortClient {
    pub client: SmpClient,
    pub route: SmpRoute,
    pub m_key: MKey,
    /// Requests since the start of the daemon.
    pub requests: Arc<AtomicU64>,
}

/// Makes the clients of the physical ports of a fabric.
pub(super) struct PortClients {
    pub client: SmpClient,
    pub fabric: Arc<Fabric>,
    pub keys: Arc<MKeys>,
    /// Requests since the start of the daemon.
    pub requests: Arc<AtomicU64>,
}

impl PortClients {
    /// The client of the port with a GUID; `None` without such a port.
    pub(super) fn of_port(&self, guid: Guid) -> Option<PortClient> {
        let port = self.fabric.port_by_guid(guid)?;
        Some(PortClient {
            client: self.client.clone(),
            route: SmpRoute::Directed(self.fabric.route_to(port)),
            m_key: self.keys.of_port(&self.fabric, port),
            requests: self.requests.clone(),
        })
    }
}

/// The data of an attribute.
pub(super) type Attribute = Result<[u8; DATA_SIZE], VirtualFailure>;

impl PortClient {
    pub(super) fn get_request(&self, id: u16, modifier: u32) -> SmpRequest {
        SmpRequest::get(self.route, id, modifier).with_m_key(self.m_key)
    }

    pub(super) fn set_request(&self, id: u16, modifier: u32, data: [u8; DATA_SIZE]) -> SmpRequest {
        SmpRequest::set(self.route, id, modifier, data).with_m_key(self.m_key)
    }

    pub(super) async fn get(&self, id: u16, modifier: u32) -> Attribute {
        self.call(self.get_request(id, modifier)).await
    }

    pub(super) async fn set(&self, id: u16, modifier: u32, data: [u8; DATA_SIZE]) -> Attribute {
        self.call(self.set_request(id, modifier, data)).await
    }

    async fn call(&self, request: SmpRequest) -> Attribute {
        self.requests.fetch_add(1, Ordering::Relaxed);
        attribute(&request, self.client.call(&request).await)
    }

    /// Sends requests together. Returns their results in the same order.
    ///
    /// No request follows while an earlier one seems to be lost, and those that follow an unanswered
    /// one are given up and count as unanswered: a silent port occupies few places of the window.
    pub(super) async fn call_all(&self, requests: &[SmpRequest]) -> Vec<Attribute> {
        if requests.is_empty() {
            return Vec::new();
        }
        let mut results: Vec<Attribute> = requests
            .iter()
            .map(|request| Err(VirtualFailure::Unanswered(request.attr_id)))
            .collect();
        let mut batch = self.client.batch();
        let mut waiting: Vec<Tag> = (0..requests.len() as Tag).collect();
        let mut is_silent = false;
        loop {
            batch.submit_all(waiting.drain(..).map(|tag| (tag, requests[tag as usize])));
            // Requests that are held back while one is stalled.
            let mut held: Vec<Tag> = Vec::new();
            while let Some(event) = batch.next_event().await {
                let BatchEvent::Result(tag, result) = event else {
                    held.extend(batch.cancel_queued(|_| true));
                    continue;
                };
                self.requests.fetch_add(1, Ordering::Relaxed);
                is_silent |= result == Err(SmpError::Unanswered);
                let at = tag as usize;
                results[at] = attribute(&requests[at], result);
                if is_silent {
                    batch.cancel_queued(|_| true);
                } else if !held.is_empty() {
                    break;
                }
            }
            if is_silent || held.is_empty() && batch.outstanding() == 0 {
                return results;
            }
            held.sort_unstable();
            waiting = held;
        }
    }
}

fn attribute(request: &SmpRequest, result: SmpResult) -> Attribute {
    result.map(|reply| reply.data).map_err(|error| match error {
        SmpError::Status(status) => VirtualFailure::Refused(request.attr_id, status),
        SmpError::Unanswered | SmpError::Malformed(_) | SmpError::Send(_) => {
            VirtualFailure::Unanswered(request.attr_id)
        }
    })
}
