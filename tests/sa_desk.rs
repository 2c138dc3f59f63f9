//! The SA desk with more requests than it can answer at once.

#[path = "support/sa.rs"]
mod support;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::request;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, advance};
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::daemon::archive::Archive;
use torus_sm::daemon::sa_desk::{Inboxes, SaDesk};
use torus_sm::fabric::Fabric;
use torus_sm::fabric::picture::View;
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sim::generate::Shape;
use torus_sm::sm::desk::SelfPortrait;
use torus_sm::transport::intake::Inbound;
use torus_sm::transport::{Address, Agent, MadPort, Outgoing, PortIdentity, SendError};
use torus_sm::wire::attr::SmState;
use torus_sm::wire::mad::{Header, Method, Status};
use torus_sm::wire::record::ClassPortInfo;
use torus_sm::wire::sa::SaAttr;

/// Keeps LID and status of what is sent.
struct Port {
    identity: PortIdentity,
    sent: Mutex<Vec<(Lid, u16)>>,
}

impl MadPort for Port {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let status = Header::read(out.mad).status();
        self.sent.lock().expect("no panic in here").push((out.to.lid, status));
        Ok(())
    }
}

fn subnet(options: Options) -> Subnet {
    let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
    let topology = shape.build().expect("a torus");
    let fabric = Fabric::from_topology(&topology, 0, &View::default()).expect("node 0 exists");
    let options = Options { qos: true, ..options };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    support::subnet(fabric, options, &config, &partitions)
}

fn ask(lid: u16) -> Inbound {
    let info = ClassPortInfo::default();
    let mad = request(SaAttr::CLASS_PORT_INFO, Method::GET, 0, &info).0.to_vec();
    let from = Address::gsi(Lid(lid), Sl(0));
    Inbound { agent: Agent::Sa, from, mad, arrived: Instant::now() }
}

/// What the desk of a subnet manager in this `state` sends for these requests, `age` after they
/// came.
async fn answers(
    options: Options,
    state: SmState,
    requests: Vec<Inbound>,
    age: Duration,
) -> Vec<(Lid, u16)> {
    let identity =
        PortIdentity { device: "fake0".into(), port: PortNum(1), guid: Guid(0x1000_0002) };
    let port = Arc::new(Port { identity, sent: Mutex::default() });
    let (_published, subnet) = watch::channel(Some(Arc::new(subnet(options))));
    let portrait = SelfPortrait { guid: Guid(2), sm_key: 1, priority: 0, state, act_count: 0 };
    let (_shown, portrait) = watch::channel(portrait);
    let (events, _membership) = mpsc::unbounded_channel();
    let folder = tempfile::tempdir().expect("a folder");
    let responder = Responder::default();
    let archive = Archive::new(folder.path().to_owned(), responder.registry());
    let (inbox, queue) = mpsc::channel(requests.len());
    for request in requests {
        inbox.try_send(request).expect("there is room");
    }
    let (_errands, errands) = mpsc::channel(1);
    let (_reports, reports) = mpsc::channel(1);
    let (_notices, notices) = mpsc::channel(1);
    // The snapshot is news to the desk, as it is when a subnet comes up.
    let mut subnet = subnet;
    subnet.mark_changed();
    advance(age).await;
    let desk = SaDesk::new(port.clone(), responder, subnet, portrait, events, archive);
    let inboxes = Inboxes { requests: queue, errands, reports, notices };
    let desk = tokio::spawn(desk.serve(inboxes));
    while inbox.capacity() < inbox.max_capacity() || waits(&port).await {
        tokio::task::yield_now().await;
    }
    drop(inbox);
    desk.await.expect("the desk ends with its inbox");
    let sent = port.sent.lock().expect("no panic in here");
    sent.clone()
}

/// True while the desk still sends.
async fn waits(port: &Port) -> bool {
    let sent = || port.sent.lock().expect("no panic in here").len();
    let before = sent();
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
    sent() != before
}

#[tokio::test(start_paused = true)]
async fn a_port_that_floods_does_not_starve_the_others() {
    let mut requests: Vec<_> = (0..10_000).map(|_| ask(10)).collect();
    requests.extend((0..20).flat_map(|_| [ask(11), ask(12)]));
    let sent = answers(Options::default(), SmState::Master, requests, Duration::ZERO).await;
    assert_eq!(sent.len(), 10_040, "nobody waits for nothing");
    let busy: Vec<_> = sent.iter().filter(|(_, status)| *status == Status::BUSY).collect();
    assert!(!busy.is_empty() && busy.len() < 3000, "{}", busy.len());
    assert!(busy.iter().all(|(lid, _)| *lid == Lid(10)), "the others had room");
    let good: Vec<_> = sent.iter().filter(|(_, status)| *status == Status::OK).collect();
    let last = good.iter().rposition(|(lid, _)| *lid != Lid(10)).expect("they are answered");
    assert!(last < 1000, "the last of the others was number {last}");
}

#[tokio::test(start_paused = true)]
async fn what_waited_too_long_is_not_answered() {
    for (limit, expected) in [(100, 0), (0, 5), (1000, 5)] {
        let options = Options { max_msg_fifo_timeout: limit, ..Options::default() };
        let requests = (0..5).map(|_| ask(10)).collect();
        let age = Duration::from_millis(200);
        let sent = answers(options, SmState::Master, requests, age).await;
        assert_eq!(sent.len(), expected, "limit {limit} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_master_is_silent_however_much_is_asked() {
    let requests = (0..10_000).map(|_| ask(10)).collect();
    let sent = answers(Options::default(), SmState::Standby, requests, Duration::ZERO).await;
    assert!(sent.is_empty());
}
