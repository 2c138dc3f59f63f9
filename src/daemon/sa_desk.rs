//! The desk for SA requests: answers come from the published snapshot and never wait for a
//! sweep. It owns the registry; the manager asks it for the multicast groups, tells it what sweeps
//! met, and hears when membership changed.
//!
//! A subnet manager that is not master, or has not finished its first sweep as master, does not
//! answer at all (IBA vol. 1, C15-0.1.3): clients repeat their requests, and a refusal would be
//! taken for the subnet's last word.

use super::agenda::Event;
use crate::fabric::Fabric;
use crate::ids::Mlid;
use crate::plan::multicast::GroupMembers;
use crate::publish::Subnet;
use crate::sa::Responder;
use crate::sa::registry::GroupSpec;
use crate::sm::desk::SelfPortrait;
use crate::transport::intake::Inbound;
use crate::transport::{Agent, MadPort, Outgoing};
use crate::wire::attr::{SmInfo, SmState};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;
use tracing::{debug, warn};

/// What the manager wants from the desk. Errands are run in the order in which they were sent.
#[derive(Debug)]
pub enum Errand {
    /// The multicast groups, as ports of this fabric.
    Groups {
        /// The fabric the answer is to be in terms of.
        fabric: Arc<Fabric>,
        /// Where the answer goes.
        reply: oneshot::Sender<Vec<GroupMembers>>,
    },
    /// The multicast groups of the configuration.
    PermanentGroups(Vec<GroupSpec>),
    /// A sweep ended.
    Swept {
        /// The other subnet managers that it met.
        managers: Vec<SmInfo>,
        /// What it found, if it looked everywhere: ports that are not there have left.
        whole: Option<Arc<Fabric>>,
    },
}

/// The desk.
pub struct SaDesk {
    port: Arc<dyn MadPort>,
    responder: Responder,
    subnet: watch::Receiver<Option<Arc<Subnet>>>,
    portrait: watch::Receiver<SelfPortrait>,
    events: mpsc::UnboundedSender<Event>,
    membership: u64,
    /// Subnet managers that sweeps met beside this one.
    others: Vec<SmInfo>,
    /// Requests that came while the subnet was not up or not ours.
    untimely: u64,
}

impl SaDesk {
    /// A desk that answers through `port` while `portrait` shows a master.
    pub fn new(
        port: Arc<dyn MadPort>,
        responder: Responder,
        subnet: watch::Receiver<Option<Arc<Subnet>>>,
        mut portrait: watch::Receiver<SelfPortrait>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        let membership = responder.registry().generation();
        portrait.mark_changed();
        let (others, untimely) = (Vec::new(), 0);
        Self { port, responder, subnet, portrait, events, membership, others, untimely }
    }

    /// Serves until the port or the manager is gone, and tells what it did.
    pub async fn serve(
        mut self,
        mut inbox: mpsc::Receiver<Inbound>,
        mut errands: mpsc::Receiver<Errand>,
    ) {
        loop {
            tokio::select! {
                errand = errands.recv() => match errand {
                    Some(errand) => self.run(errand),
                    None => break,
                },
                inbound = inbox.recv() => match inbound {
                    Some(inbound) => self.receive(&inbound),
                    None => break,
                },
            }
        }
        self.tell_counters();
    }

    fn run(&mut self, errand: Errand) {
        match errand {
            Errand::Groups { fabric, reply } => {
                let _ = reply.send(self.responder.registry().groups(&fabric));
            }
            Errand::PermanentGroups(specs) => {
                let registry = self.responder.registry_mut();
                if let Err(without) = registry.set_permanent(&specs, Mlid::LAST) {
                    let names: Vec<String> = without.iter().map(ToString::to_string).collect();
                    warn!("no MLID is left for the groups {}", names.join(", "));
                }
                // The pass under way asks for the groups anyway.
                self.membership = registry.generation();
            }
            Errand::Swept { managers, whole } => {
                self.others = managers;
                self.portrait.mark_changed();
                if let Some(fabric) = whole {
                    let registry = self.responder.registry_mut();
                    registry.forget_absent(&fabric);
                    // The pass that follows the sweep asks for the groups anyway.
                    self.membership = registry.generation();
                }
            }
        }
    }

    fn receive(&mut self, inbound: &Inbound) {
        let subnet = self.subnet.borrow().clone();
        let is_master = self.portrait.borrow().state == SmState::Master;
        let Some(subnet) = subnet.filter(|_| is_master) else {
            debug!("SA request from LID {} before the subnet is up", inbound.from.lid);
            self.untimely += 1;
            return;
        };
        self.refresh_managers();
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

    /// Tells the responder which subnet managers there are if that changed.
    fn refresh_managers(&mut self) {
        if !self.portrait.has_changed().unwrap_or(false) {
            return;
        }
        let own = self.portrait.borrow_and_update().sm_info();
        let others = self.others.iter().filter(|other| other.guid() != own.guid());
        let managers = std::iter::once(own).chain(others.copied());
        self.responder.set_managers(managers.collect());
    }

    fn tell_counters(&self) {
        let counters = self.responder.counters();
        let (total, records) = (counters.total(), counters.records());
        debug!("SA: {total} replies with {records} records; {} requests untimely", self.untimely);
        counters.lines().for_each(|line| debug!("SA: {line}"));
    }
}
