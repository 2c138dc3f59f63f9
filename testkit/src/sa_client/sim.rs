//! A client at a host of a simulated fabric in this process.

use super::DEFAULT_PREFIX;
use crate::cluster::SimCluster;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use torus_sm::ids::{Gid, Guid, MKey, PortNum, Sl};
use torus_sm::sim::{SimFabric, SimPort};
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::attr::{AttrId, Notice};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::sa::DATA_OFFSET;
use torus_sm::wire::smp::{self, DATA_SIZE, SmpRoute};

/// Timeout of [`Client::call`], which does not retry.
const CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// A client at the first port of a host: sends requests, collects replies and reports.
pub struct Client {
    pub port: Arc<SimPort>,
    /// The port's GUID.
    pub guid: Guid,
    /// Address of the subnet administrator.
    pub sa: Address,
    inbox: Arc<Inbox>,
}

/// A reply by its transaction ID; `None` if the request timed out.
type Reply = (u32, Option<Vec<u8>>);

#[derive(Default)]
struct Inbox {
    answers_reports: AtomicBool,
    reports: Mutex<Vec<Mad>>,
    replies: Mutex<VecDeque<Reply>>,
    reply_arrived: Notify,
    port: OnceLock<Weak<SimPort>>,
}

impl MadSink for Inbox {
    fn deliver(&self, delivery: Delivery<'_>) {
        let header = Header::read(delivery.mad);
        if Method(header.method()) == Method::REPORT {
            return self.take_report(&delivery);
        }
        let reply = (delivery.outcome == Outcome::Arrived).then(|| delivery.mad.to_vec());
        self.replies.lock().expect("no panic").push_back((header.tid() as u32, reply));
        self.reply_arrived.notify_one();
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

impl Inbox {
    fn take_report(&self, delivery: &Delivery<'_>) {
        let mut mad = Mad::read(delivery.mad);
        self.reports.lock().expect("no panic").push(mad);
        let port = self.port.get().and_then(Weak::upgrade);
        if let Some(port) = port.filter(|_| self.answers_reports.load(Ordering::Relaxed)) {
            let mut header = mad.header();
            header.set_method(Method::REPORT_RESP.0);
            mad.set_header(&header);
            post(&port, delivery.from, &mad, None, 0);
        }
    }
}

fn post(port: &SimPort, to: Address, mad: &Mad, timeout: Option<Duration>, retries: u32) {
    let out = Outgoing { agent: Agent::Sa, to, timeout, retries, mad: &mad.0 };
    port.post(&out).expect("the port accepts the MAD");
}

impl Client {
    /// A client at the host of the switch at `at`, which acknowledges reports if `answers_reports`.
    pub fn at(cluster: &SimCluster, at: [u16; 3], answers_reports: bool) -> Self {
        let client = Self::attach(&cluster.fabric, cluster.shape.host_guid(at, 0));
        client.answer_reports(answers_reports);
        client
    }

    /// A client at the host `node` that does not acknowledge reports.
    pub fn attach(fabric: &SimFabric, node: Guid) -> Self {
        let inbox = Arc::<Inbox>::default();
        let port = fabric.attach(node, PortNum(1), inbox.clone(), false);
        let port = Arc::new(port.expect("the host exists"));
        let _ = inbox.port.set(Arc::downgrade(&port));
        let info = fabric.port_info(node, PortNum(1)).expect("the host has a port");
        let sa = Address::gsi(info.master_sm_lid(), Sl(0));
        Self { guid: port.identity().guid, port, sa, inbox }
    }

    /// Whether to acknowledge reports from now on.
    pub fn answer_reports(&self, answer: bool) {
        self.inbox.answers_reports.store(answer, Ordering::Relaxed);
    }

    /// Sends a generic trap of a channel adapter, changed by `change`, to the subnet manager.
    pub fn trap(&self, tid: u64, change: impl Fn(&mut Notice)) {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_producer_type(1);
        change(&mut notice);
        let mut data = [0; DATA_SIZE];
        data.copy_from_slice(&notice.0[..DATA_SIZE]);
        let route = SmpRoute::Lid(self.sa.lid);
        let mad = smp::request(
            &route,
            smp::SmpFields {
                method: Method::TRAP,
                attr_id: AttrId::NOTICE,
                attr_mod: 0,
                m_key: MKey::NONE,
                tid,
            },
            &data,
        );
        let agent = Agent::SmiLid;
        let to = Address::smi(self.sa.lid);
        let out = Outgoing { agent, to, timeout: None, retries: 0, mad: &mad.0 };
        self.port.post(&out).expect("the port accepts the MAD");
    }

    pub fn gid(&self) -> Gid {
        Gid::new(DEFAULT_PREFIX, self.guid)
    }

    /// Sends a request, whose reply [`Self::reply`] returns.
    pub fn send(&self, mad: &Mad, timeout: Duration, retries: u32) {
        post(&self.port, self.sa, mad, Some(timeout), retries);
    }

    /// The next reply: its transaction ID, and the MAD unless the request timed out.
    pub async fn reply(&self) -> Reply {
        loop {
            if let Some(reply) = self.inbox.replies.lock().expect("no panic").pop_front() {
                return reply;
            }
            self.inbox.reply_arrived.notified().await;
        }
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Panics
    /// The request times out.
    pub async fn call(&self, mad: &Mad) -> Vec<u8> {
        self.inbox.replies.lock().expect("no panic").clear();
        self.send(mad, CALL_TIMEOUT, 0);
        self.reply().await.1.expect("a reply before the timeout")
    }

    /// The reports that arrived since the last call: trap number, and the GID that it concerns.
    pub fn reports(&self) -> Vec<(u16, Gid)> {
        let reports = std::mem::take(&mut *self.inbox.reports.lock().expect("no panic"));
        let notices = reports.iter().map(|mad| Notice::read(&mad.0[DATA_OFFSET..]));
        notices.map(|notice| (notice.trap_number(), notice.subject_gid())).collect()
    }

    /// The transaction IDs of the reports that [`Self::reports`] would return.
    pub fn report_tids(&self) -> Vec<u64> {
        let reports = self.inbox.reports.lock().expect("no panic");
        reports.iter().map(|mad| mad.header().tid()).collect()
    }
}
