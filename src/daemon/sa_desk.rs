//! The desk for SA requests: answers come from the published snapshot and never wait for a
//! sweep. It owns the registry; the manager asks it for the multicast groups and hears when
//! membership changed.

use super::agenda::Event;
use crate::fabric::Fabric;
use crate::plan::multicast::GroupMembers;
use crate::publish::Subnet;
use crate::sa::Responder;
use crate::transport::intake::Inbound;
use crate::transport::{Agent, MadPort, Outgoing};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{debug, warn};

/// The manager's question for the groups, as ports of this fabric.
pub struct GroupsQuery {
    /// The fabric the answer is to be in terms of.
    pub fabric: Arc<Fabric>,
    /// Where the answer goes.
    pub reply: oneshot::Sender<Vec<GroupMembers>>,
}

/// The desk.
pub struct SaDesk {
    port: Arc<dyn MadPort>,
    responder: Responder,
    subnet: watch::Receiver<Option<Arc<Subnet>>>,
    events: mpsc::UnboundedSender<Event>,
    membership: u64,
}

impl SaDesk {
    /// A desk that answers through `port`.
    pub fn new(
        port: Arc<dyn MadPort>,
        responder: Responder,
        subnet: watch::Receiver<Option<Arc<Subnet>>>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let membership = responder.registry().generation();
        Self { port, responder, subnet, events, membership }
    }

    /// Serves until the port is gone.
    pub async fn serve(
        mut self,
        mut inbox: mpsc::Receiver<Inbound>,
        mut queries: mpsc::Receiver<GroupsQuery>,
    ) {
        loop {
            tokio::select! {
                query = queries.recv() => match query {
                    Some(query) => {
                        let groups = self.responder.registry().groups(&query.fabric);
                        let _ = query.reply.send(groups);
                    }
                    None => return,
                },
                inbound = inbox.recv() => match inbound {
                    Some(inbound) => self.receive(&inbound),
                    None => return,
                },
            }
        }
    }

    fn receive(&mut self, inbound: &Inbound) {
        let subnet = self.subnet.borrow().clone();
        let Some(subnet) = subnet else {
            debug!("SA request from LID {} before the subnet is up", inbound.from.lid);
            return;
        };
        let now = Instant::now().into_std();
        let Some(reply) = self.responder.handle(&subnet, &inbound.from, &inbound.mad, now) else {
            return;
        };
        let out =
            Outgoing { agent: Agent::Sa, to: reply.to, timeout: None, retries: 0, mad: &reply.mad };
        if let Err(error) = self.port.post(&out) {
            warn!("answering LID {}: {error}", inbound.from.lid);
        }
        let membership = self.responder.registry().generation();
        if membership != self.membership {
            self.membership = membership;
            let _ = self.events.send(Event::Membership);
        }
    }
}
