//! The SA desk with more requests than it can answer at once.

#[path = "support/sa.rs"]
mod support;

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::request;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, advance, sleep};
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::daemon::archive::Archive;
use torus_sm::daemon::clerks::Clerks;
use torus_sm::daemon::sa_desk::{Inboxes, SaDesk};
use torus_sm::fabric::Fabric;
use torus_sm::fabric::picture::View;
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::{Responder, only_reads};
use torus_sm::sim::generate::Shape;
use torus_sm::sm::desk::SelfPortrait;
use torus_sm::transport::intake::Inbound;
use torus_sm::transport::{Address, Agent, MadPort, Outgoing, PortIdentity, SendError};
use torus_sm::wire::attr::SmState;
use torus_sm::wire::mad::{Header, Method, Status};
use torus_sm::wire::record::{ClassPortInfo, NodeRecord, PathRecord};
use torus_sm::wire::sa::SaAttr;

/// Keeps LID and status of what is sent.
struct Port {
    identity: PortIdentity,
    sent: Mutex<Vec<(Lid, u16)>>,
    /// And all of it.
    mads: Mutex<Vec<Vec<u8>>>,
}

impl Port {
    fn new() -> Self {
        let (device, guid) = ("fake0".into(), Guid(0x1000_0002));
        let identity = PortIdentity { device, port: PortNum(1), guid };
        Self { identity, sent: Mutex::default(), mads: Mutex::default() }
    }
}

impl MadPort for Port {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let status = Header::read(out.mad).status();
        self.sent.lock().expect("no panic in here").push((out.to.lid, status));
        self.mads.lock().expect("no panic in here").push(out.mad.to_vec());
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
    let port = Arc::new(Port::new());
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
    let clerks = Clerks::default();
    let desk = SaDesk::new(port.clone(), responder, subnet, portrait, events, archive, clerks);
    let inboxes = Inboxes { requests: queue, errands, reports, notices };
    let desk = tokio::spawn(desk.serve(inboxes));
    // The paused clock moves on when nobody has work left.
    sleep(Duration::from_millis(1)).await;
    drop(inbox);
    desk.await.expect("the desk ends with its inbox");
    let sent = port.sent.lock().expect("no panic in here");
    sent.clone()
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

/// A request with its number as transaction: a path, a table, or one that is refused.
fn numbered(number: u16) -> Inbound {
    let lid = 1 + number % 18;
    let mut wanted = PathRecord::default();
    wanted.set_slid(Lid(lid));
    wanted.set_dlid(Lid(1 + number % 17));
    let both = PathRecord::SLID | PathRecord::DLID;
    let mut mad = match number % 7 {
        0 => request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &NodeRecord::default()),
        1 => request(SaAttr::NODE_RECORD, Method::GET, 0, &NodeRecord::default()),
        2 => request(SaAttr::NODE_RECORD, Method::REPORT, 0, &NodeRecord::default()),
        _ => request(SaAttr::PATH_RECORD, Method::GET, both, &wanted),
    };
    let mut header = mad.header();
    header.set_tid(number.into());
    mad.set_header(&header);
    let from = Address::gsi(Lid(lid), Sl(0));
    Inbound { agent: Agent::Sa, from, mad: mad.0.to_vec(), arrived: Instant::now() }
}

#[test]
fn many_hands_answer_what_one_does() {
    let subnet = subnet(Options::default());
    let requests: Vec<Inbound> = (0..2000).map(numbered).collect();
    let now = Instant::now().into_std();
    let mut responder = Responder::default();
    responder.prepare(&subnet, now);
    let by = |count: usize| {
        let (port, clerks) = (Port::new(), Clerks::with(count).expect("threads"));
        let counted = clerks.answer(&responder, &subnet, &port, &requests, now);
        let mut mads = port.mads.into_inner().expect("no panic in here");
        mads.sort_unstable_by_key(|mad| Header::read(mad).tid());
        (mads, counted.lines().collect::<Vec<_>>())
    };
    let (mads, counted) = by(0);
    let silent = requests.iter().filter(|r| Header::read(&r.mad).method() == Method::REPORT.0);
    assert_eq!(mads.len(), requests.len() - silent.count(), "one reply to each but reports");
    assert_eq!(counted.len(), 4, "{counted:?}");
    for count in [1, 3] {
        assert_eq!(by(count), (mads.clone(), counted.clone()), "{count} clerks");
    }
}

#[test]
fn what_changes_nothing_is_told_by_its_method() {
    for method in 0..=u8::MAX {
        let mut mad = [0; 256];
        mad[3] = method;
        let writes = [Method::SET, Method::DELETE].contains(&Method(method));
        assert_eq!(only_reads(&mad), !writes, "method {method:#04x}");
    }
    assert!(only_reads(&[]));
}
