//! A port that answers queries for the devices of a recording.

use super::devices::{RecordedAnswer, RecordedDevices};
use crate::ids::{Guid, PortNum};
use crate::transport::{
    Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError,
};
use crate::wire::mad::{Mad, Method};
use std::sync::Arc;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

/// The port. Requests other than SubnGet by directed route are unanswered.
pub struct ReplayPort {
    identity: PortIdentity,
    devices: Arc<RecordedDevices>,
    deliveries: UnboundedSender<(Outcome, Address, Mad)>,
}

impl ReplayPort {
    /// A port that delivers to `sink`, by a task of the present runtime.
    pub fn open(devices: Arc<RecordedDevices>, sink: Arc<dyn MadSink>) -> Self {
        let (deliveries, queue) = mpsc::unbounded_channel();
        tokio::spawn(deliver(queue, sink));
        let (guid, port) = devices.local().unwrap_or((Guid::default(), PortNum::ZERO));
        let identity = PortIdentity { device: "replay".into(), port, guid };
        Self { identity, devices, deliveries }
    }

    fn response(&self, request: &Mad) -> Option<Mad> {
        let header = request.header();
        if request.method() != Method::GET {
            return None;
        }
        let route = request.smp().route()?;
        let mut response = *request;
        match self.devices.answer(&route, header.attr_id(), header.attr_mod()) {
            RecordedAnswer::None => return None,
            RecordedAnswer::Data(data) => *response.smp_data_mut() = data,
            RecordedAnswer::Status(status) => {
                let mut smp = response.smp();
                smp.set_status(status);
                response = Mad(smp.0);
            }
        }
        let mut header = response.header();
        header.set_method(Method::GET_RESP.0);
        response.set_header(&header);
        Some(response)
    }
}

impl MadPort for ReplayPort {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        if out.timeout.is_none() {
            return Ok(());
        }
        let request = Mad::read(out.mad);
        let response = self.response(&request).filter(|_| out.agent == Agent::SmiDirected);
        let delivery = match response {
            Some(response) => (Outcome::Arrived, out.to, response),
            None => (Outcome::Unanswered, out.to, request),
        };
        let PortIdentity { device, port, .. } = &self.identity;
        self.deliveries
            .send(delivery)
            .map_err(|_| SendError::Closed { device: device.clone(), port: *port })
    }
}

async fn deliver(mut queue: UnboundedReceiver<(Outcome, Address, Mad)>, sink: Arc<dyn MadSink>) {
    while let Some((outcome, from, mad)) = queue.recv().await {
        sink.deliver(Delivery { agent: Agent::SmiDirected, from, outcome, mad: &mad.0 });
        if queue.is_empty() {
            sink.idle();
        }
    }
}
