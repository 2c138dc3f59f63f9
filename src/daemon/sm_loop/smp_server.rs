//! The desk for SMPs that nobody asked for: SMInfo is answered from what the manager last said
//! of itself, traps are repressed at once, and the manager hears what is news. It never waits
//! for a sweep.

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

/// The desk.
pub struct SmpServer {
    client: SmpClient,
    sm_status: watch::Receiver<SmStatus>,
    events: mpsc::UnboundedSender<SmEvent>,
    traps: TrapFilter,
    to_report: mpsc::Sender<DeviceNotice>,
    m_key: u64,
}

impl SmpServer {
    /// A desk that sends through `client`, tells `events` what is news, and passes notices on to
    /// be reported.
    pub fn new(
        client: SmpClient,
        sm_status: watch::Receiver<SmStatus>,
        events: mpsc::UnboundedSender<SmEvent>,
        to_report: mpsc::Sender<DeviceNotice>,
        m_key: u64,
    ) -> Self {
        Self { client, sm_status, events, traps: TrapFilter::default(), to_report, m_key }
    }

    /// Serves until the port is gone.
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
                        self.tell(news);
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
            self.tell(news);
            let told = DeviceNotice { from: inbound.from.lid, notice };
            if self.to_report.try_send(told).is_err() {
                debug!("a notice from LID {} is not reported: too many wait", inbound.from.lid);
            }
        }
    }

    /// TrapRepress with the trap's transaction and notice (IBA vol. 1, 13.4.9).
    fn repress(&self, inbound: &Inbound, trap: &Mad) {
        let mut answer = *trap;
        let mut header = answer.header();
        header.set_class(Class::SUBN_LID);
        header.set_method(Method::TRAP_REPRESS.0);
        header.set_status(0);
        answer.set_header(&header);
        answer.0[24..32].copy_from_slice(&self.m_key.to_be_bytes());
        let to = Address::smi(inbound.from.lid);
        if let Err(error) = self.client.post_only(Agent::SmiLid, to, &answer.0) {
            warn!("TrapRepress to LID {}: {error}", inbound.from.lid);
        }
    }

    fn tell(&self, news: TrapEvent) {
        let TrapEvent { issuer, number, subject, port } = news;
        info!("Received trap {number} from LID {issuer} about LID {subject} port {port}");
        let _ = self.events.send(SmEvent::Trap(news));
    }

    fn sm_info(&self, inbound: &Inbound, mad: &Mad) {
        let mut sm_status = *self.sm_status.borrow();
        // Every answer is one SMP more: who polls this SM sees that it lives.
        sm_status.act_count = self.client.sent() as u32;
        let Some((reply, event)) = sm_info::answer(&sm_status, mad) else { return };
        if let Err(error) = self.client.post_only(inbound.agent, inbound.from, &reply.0) {
            warn!("answering SMInfo to LID {}: {error}", inbound.from.lid);
        }
        if let Some(event) = event {
            info!("the SM at LID {} asks for {event:?}", inbound.from.lid);
            let _ = self.events.send(SmEvent::Role(event));
        }
    }
}
