//! A client of the subnet administrator at a host of a simulated fabric.
use crate::cluster::SimCluster;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use torus_sm::ids::{Gid, Guid, Lid, Pkey, PortNum, Sl};
use torus_sm::sim::SimPort;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::attr::Notice;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{PathRecord, Record};
use torus_sm::wire::sa::{CLASS_VERSION, DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};

/// A request to the subnet administrator.
pub fn request<R: Record>(attribute: u16, method: Method, mask: u64, record: &R) -> Mad {
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(3);
    header.set_class_version(CLASS_VERSION);
    header.set_method(method.0);
    header.set_tid(0x5A);
    header.set_attr_id(attribute);
    let mut mad = Mad::default();
    mad.set_header(&header);
    let mut sa = SaHeader::default();
    sa.set_component_mask(mask);
    sa.write(&mut mad.0[SA_OFFSET..]);
    mad.0[DATA_OFFSET..DATA_OFFSET + R::STRIDE].copy_from_slice(record.bytes());
    mad
}

/// As rdma_cm asks for the path between two ports.
pub fn path_query(prefix: u64, [from, to]: [Guid; 2]) -> Mad {
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(prefix, from));
    wanted.set_dgid(Gid::new(prefix, to));
    wanted.set_reversible(true);
    wanted.set_numb_path(1);
    wanted.set_pkey(Pkey::DEFAULT_FULL);
    let mask = PathRecord::SGID
        | PathRecord::DGID
        | PathRecord::REVERSIBLE
        | PathRecord::NUMB_PATH
        | PathRecord::PKEY;
    request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted)
}

/// A client at a host: asks, hears reports and answers them if it is told to.
pub struct Client {
    pub port: Arc<SimPort>,
    pub ear: Arc<Ear>,
    pub guid: Guid,
    /// Where the subnet administrator is.
    pub to: Address,
}

/// What a client hears.
#[derive(Default)]
pub struct Ear {
    pub answers: AtomicBool,
    pub reports: Mutex<Vec<Mad>>,
    pub replies: Mutex<Vec<Vec<u8>>>,
    pub rung: Notify,
    port: OnceLock<Weak<SimPort>>,
}

impl MadSink for Ear {
    fn deliver(&self, delivery: Delivery<'_>) {
        let mut mad = Mad::read(delivery.mad);
        if mad.method() != Method::REPORT {
            let arrived = delivery.outcome == Outcome::Arrived;
            let reply = if arrived { delivery.mad.to_vec() } else { Vec::new() };
            self.replies.lock().unwrap().push(reply);
            return self.rung.notify_one();
        }
        self.reports.lock().unwrap().push(mad);
        let port = self.port.get().and_then(Weak::upgrade);
        if let Some(port) = port.filter(|_| self.answers.load(Ordering::Relaxed)) {
            let mut header = mad.header();
            header.set_method(Method::REPORT_RESP.0);
            mad.set_header(&header);
            post(&port, delivery.from, &mad, None);
        }
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

/// Sends a MAD.
pub fn post(port: &SimPort, to: Address, mad: &Mad, timeout: Option<Duration>) {
    let out = Outgoing { agent: Agent::Sa, to, timeout, retries: 0, mad: &mad.0 };
    port.post(&out).expect("the port takes it");
}

impl Client {
    pub fn at(cluster: &SimCluster, at: [u16; 3], answers: bool) -> Self {
        let node = cluster.shape.host_guid(at, 0);
        let ear = Arc::new(Ear { answers: answers.into(), ..Ear::default() });
        let port = cluster.fabric.attach(node, PortNum(1), ear.clone(), false);
        let port = Arc::new(port.expect("the host is there"));
        let _ = ear.port.set(Arc::downgrade(&port));
        let info = cluster.fabric.port_info(node, PortNum(1)).expect("a port");
        let to = Address::gsi(info.master_sm_lid(), Sl(0));
        Self { guid: port.identity().guid, port, ear, to }
    }

    /// The LID of its port.
    pub fn lid(&self, cluster: &SimCluster, at: [u16; 3]) -> Lid {
        let info = cluster.fabric.port_info(cluster.shape.host_guid(at, 0), PortNum(1));
        info.expect("a port").lid()
    }

    /// Asks, and waits for the answer.
    pub async fn call(&self, mad: &Mad) -> Vec<u8> {
        self.ear.replies.lock().unwrap().clear();
        post(&self.port, self.to, mad, Some(Duration::from_secs(3)));
        while self.ear.replies.lock().unwrap().is_empty() {
            self.ear.rung.notified().await;
        }
        let reply = self.ear.replies.lock().unwrap().remove(0);
        assert!(!reply.is_empty(), "no answer");
        reply
    }

    /// What it heard since the last call: trap number and the GID it is about.
    pub fn heard(&self) -> Vec<(u16, Gid)> {
        let reports = std::mem::take(&mut *self.ear.reports.lock().unwrap());
        let notices = reports.iter().map(|mad| Notice::read(&mad.0[DATA_OFFSET..]));
        notices.map(|notice| (notice.trap_number(), notice.subject_gid())).collect()
    }
}
