//! The server for unsolicited SMPs: answers SMInfo from the present SM status, represses traps, and
//! forwards new traps and role requests to the manager. It never waits for a sweep.

use crate::daemon::messages::DeviceNotice;
use crate::daemon::messages::SmEvent;
use crate::observe::traps::{TrapEvent, TrapFilter, TrapVerdict};
use crate::sm::sm_info::{self, SmStatus};
use crate::transport::client::SmpClient;
use crate::transport::demux::Inbound;
use crate::transport::{Address, Agent};
use crate::wire::attr::{AttrId, Notice, SmState};
use crate::wire::mad::{Class, Mad, Method};
use crate::wire::smp::DATA_OFFSET;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::{debug, info, warn};

pub struct SmpServer {
    client: SmpClient,
    sm_status: watch::Receiver<SmStatus>,
    events: mpsc::UnboundedSender<SmEvent>,
    traps: TrapFilter,
    to_report: mpsc::Sender<DeviceNotice>,
}

impl SmpServer {
    /// A server that sends through `client`; traps go to `events`, their notices to `to_report`.
    pub fn new(
        client: SmpClient,
        sm_status: watch::Receiver<SmStatus>,
        events: mpsc::UnboundedSender<SmEvent>,
        to_report: mpsc::Sender<DeviceNotice>,
    ) -> Self {
        Self { client, sm_status, events, traps: TrapFilter::default(), to_report }
    }

    /// Serves until the port is closed.
    pub async fn serve(mut self, mut inbox: mpsc::Receiver<Inbound>) {
        loop {
            let due = self.traps.next_due();
            tokio::select! {
                inbound = inbox.recv() => match inbound {
                    Some(inbound) => self.receive(&inbound),
                    None => break,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    for news in self.traps.due(Instant::now()) {
                        self.forward(news);
                    }
                }
            }
        }
        let _ = self.events.send(SmEvent::PortClosed("the port was closed".into()));
    }

    fn receive(&mut self, inbound: &Inbound) {
        let mad = Mad::read(&inbound.mad);
        match (mad.method(), mad.header().attr_id()) {
            (Method::TRAP, AttrId::NOTICE) => self.trap(inbound, &mad),
            (Method::GET | Method::SET, AttrId::SM_INFO) => self.sm_info(inbound, &mad),
            _ => debug!("ignoring unsolicited MAD from LID {}: {mad:?}", inbound.from.lid),
        }
    }

    fn trap(&mut self, inbound: &Inbound, mad: &Mad) {
        let notice = Notice::read(&mad.0[DATA_OFFSET..DATA_OFFSET + 64]);
        let sm_status = *self.sm_status.borrow();
        if sm_status.state == SmState::Master {
            self.repress(inbound, mad);
        }
        if let TrapVerdict::New(news) =
            self.traps.receive(Instant::now(), mad.header().tid(), &notice)
        {
            self.forward(news);
            let notice = DeviceNotice { from: inbound.from.lid, notice };
            if self.to_report.try_send(notice).is_err() {
                debug!("notice from LID {} is not reported: the queue is full", inbound.from.lid);
            }
        }
    }

    /// Sends TrapRepress with the trap's transaction ID and notice (IBA vol. 1, 13.4.9). Its M_Key is
    /// 0, as in OpenSM's, because any host can send a trap to learn the M_Key.
    fn repress(&self, inbound: &Inbound, trap: &Mad) {
        let mut answer = *trap;
        let mut header = answer.header();
        header.set_class(Class::SUBN_LID);
        header.set_method(Method::TRAP_REPRESS.0);
        header.set_status(0);
        answer.set_header(&header);
        answer.set_m_key(0);
        let to = Address::smi(inbound.from.lid);
        if let Err(error) = self.client.post_only(Agent::SmiLid, to, &answer.0) {
            warn!("cannot send TrapRepress to LID {}: {error}", inbound.from.lid);
        }
    }

    fn forward(&self, news: TrapEvent) {
        let TrapEvent { issuer, number, subject, port, .. } = news;
        info!("Received trap {number} from LID {issuer} about LID {subject} port {port}");
        let _ = self.events.send(SmEvent::Trap(news));
    }

    fn sm_info(&self, inbound: &Inbound, mad: &Mad) {
        let mut sm_status = *self.sm_status.borrow();
        // The reply counts as an SMP, so that ActCount shows a polling SM that this one is alive.
        sm_status.act_count = self.client.sent() as u32;
        let Some((reply, event)) = sm_info::answer(&sm_status, mad) else { return };
        if let Err(error) = self.client.post_only(inbound.agent, inbound.from, &reply.0) {
            warn!("cannot answer SMInfo to LID {}: {error}", inbound.from.lid);
        }
        if let Some(event) = event {
            info!("the SM at LID {} requests {event}", inbound.from.lid);
            let _ = self.events.send(SmEvent::Role(event));
        }
    }
}
