//! A client of the subnet administrator at a host of a simulated fabric.
#![allow(dead_code)]

use crate::house::House;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use torus_sm::ids::{Gid, Guid, Lid, PortNum, Sl};
use torus_sm::sim::SimPort;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::attr::Notice;
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::sa::DATA_OFFSET;

/// A client at a host: asks, hears reports and answers them if it is told to.
pub(crate) struct Client {
    pub port: Arc<SimPort>,
    pub ear: Arc<Ear>,
    pub guid: Guid,
    /// Where the subnet administrator is.
    pub to: Address,
}

/// What a client hears.
#[derive(Default)]
pub(crate) struct Ear {
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
pub(crate) fn post(port: &SimPort, to: Address, mad: &Mad, timeout: Option<Duration>) {
    let out = Outgoing { agent: Agent::Sa, to, timeout, retries: 0, mad: &mad.0 };
    port.post(&out).expect("the port takes it");
}

impl Client {
    pub(crate) fn at(house: &House, at: [u16; 3], answers: bool) -> Self {
        let node = house.shape.host_guid(at, 0);
        let ear = Arc::new(Ear { answers: answers.into(), ..Ear::default() });
        let port = house.fabric.attach(node, PortNum(1), ear.clone(), false);
        let port = Arc::new(port.expect("the host is there"));
        let _ = ear.port.set(Arc::downgrade(&port));
        let info = house.fabric.port_info(node, PortNum(1)).expect("a port");
        let to = Address::gsi(info.master_sm_lid(), Sl(0));
        Self { guid: port.identity().guid, port, ear, to }
    }

    /// The LID of its port.
    pub(crate) fn lid(&self, house: &House, at: [u16; 3]) -> Lid {
        let info = house.fabric.port_info(house.shape.host_guid(at, 0), PortNum(1));
        info.expect("a port").lid()
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn call(&self, mad: &Mad) -> Vec<u8> {
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
    pub(crate) fn heard(&self) -> Vec<(u16, Gid)> {
        let reports = std::mem::take(&mut *self.ear.reports.lock().unwrap());
        let notices = reports.iter().map(|mad| Notice::read(&mad.0[DATA_OFFSET..]));
        notices.map(|notice| (notice.trap_number(), notice.subject_gid())).collect()
    }
}
