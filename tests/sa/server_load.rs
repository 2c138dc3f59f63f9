//! The SA server with more requests than it can answer at once.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::sa_client::request;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance, sleep};
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sa_server::db_file::SaDbFile;
use torus_sm::daemon::sa_server::shared_responder::SharedResponder;
use torus_sm::daemon::sa_server::table_workers::TableWorkers;
use torus_sm::daemon::sa_server::{Inboxes, SaConnections, SaServer};
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::{Responder, is_read_only};
use torus_sm::sim::generate::Shape;
use torus_sm::sm::sm_info::SmStatus;
use torus_sm::transport::demux::{Inbound, InlineOutcome, InlineResponder, SaOutcome};
use torus_sm::transport::rmpp::{self, ObserverSlot};
use torus_sm::transport::{
    Address, Agent, Delivery, MadPort, MadSink, Outgoing, PortIdentity, SendError,
};
use torus_sm::wire::attr::SmState;
use torus_sm::wire::attr::tables::GuidBlock;
use torus_sm::wire::mad::{Header, Method, Status};
use torus_sm::wire::record::tables::GuidInfoRecord;
use torus_sm::wire::record::{ClassPortInfo, NodeRecord, PathRecord};
use torus_sm::wire::sa::SaAttr;

/// A port that keeps LID and status of every reply.
struct Port {
    identity: PortIdentity,
    sent: Mutex<Vec<(Lid, u16)>>,
    /// The replies in full.
    mads: Mutex<Vec<Vec<u8>>>,
}

impl Port {
    fn new() -> Self {
        let device = "fake0".into();
        let guid = Guid(0x1000_0002);
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
        self.sent.lock().expect("no panic").push((out.to.lid, status));
        self.mads.lock().expect("no panic").push(out.mad.to_vec());
        Ok(())
    }
}

/// A sink of a port that receives nothing.
struct Deaf;

impl MadSink for Deaf {
    fn deliver(&self, _: Delivery<'_>) {}
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

fn subnet(options: Options) -> Subnet {
    let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
    let topology = shape.build().expect("a torus");
    let fabric =
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0 exists");
    let options = Options { qos: true, ..options };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    testkit::snapshot::subnet(fabric, options, &config, &partitions)
}

fn ask(lid: u16, tid: u64) -> Inbound {
    let info = ClassPortInfo::default();
    let mut mad = request(SaAttr::CLASS_PORT_INFO, Method::GET, 0, &info);
    let mut header = mad.header();
    header.set_tid(tid);
    mad.set_header(&header);
    let mad = mad.0.to_vec();
    let from = Address::gsi(Lid(lid), Sl(0));
    Inbound { agent: Agent::Sa, from, mad, arrived: Instant::now() }
}

/// A running SA server.
struct TestServer {
    port: Arc<Port>,
    shared_responder: Arc<SharedResponder>,
    sm_status: watch::Sender<SmStatus>,
    inbox: mpsc::Sender<Inbound>,
    outcomes: mpsc::Sender<SaOutcome>,
    server: JoinHandle<()>,
    events: mpsc::UnboundedReceiver<SmEvent>,
    /// Channels and folder that the server needs; it ends when they are dropped.
    _rest: Box<dyn std::any::Any>,
}

fn sm_status(state: SmState) -> SmStatus {
    SmStatus::new(Guid(2), &Options::default(), state)
}

impl TestServer {
    /// Starts the server of a subnet manager in `state`, with `requests` in its queue.
    fn open(options: Options, state: SmState, requests: Vec<Inbound>) -> Self {
        let port = Arc::new(Port::new());
        let (published, mut snapshots) = watch::channel(Some(Arc::new(subnet(options))));
        // The snapshot is new to the server, as it is when a subnet comes up.
        snapshots.mark_changed();
        let (sm_status, shown) = watch::channel(sm_status(state));
        let (sm_events, events) = mpsc::unbounded_channel();
        let folder = tempfile::tempdir().expect("a folder");
        let responder = Responder::default();
        let archive = SaDbFile::new(folder.path().to_owned(), responder.registry());
        let (inbox, queue) = mpsc::channel(requests.len().max(1));
        for request in requests {
            inbox.try_send(request).expect("a free slot");
        }
        let (command, commands) = mpsc::channel(1);
        let (outcomes, sa_outcomes) = mpsc::channel(8);
        let (notice, notices) = mpsc::channel(1);
        let workers = TableWorkers::default();
        // As on a kernel that does not report acknowledgements.
        let observer = Arc::<ObserverSlot>::default();
        let _ = observer.set(workers.open_replies().clone());
        let inner: Arc<dyn MadPort> = port.clone();
        let outer = rmpp::open(Arc::new(Deaf), observer, |_| Ok::<_, Infallible>(inner));
        let outer = outer.expect("it opens");
        let connections = SaConnections {
            port: outer,
            published: snapshots,
            sm_status: shown,
            events: sm_events,
        };
        let server = SaServer::new(connections, responder, archive, workers);
        let shared_responder = server.shared_responder();
        let server =
            tokio::spawn(server.serve(Inboxes { requests: queue, commands, sa_outcomes, notices }));
        let rest = Box::new((published, command, notice, folder));
        Self { port, shared_responder, sm_status, inbox, outcomes, server, events, _rest: rest }
    }

    /// Lets the server finish its work: the paused clock advances only when all tasks are idle.
    async fn settle() {
        sleep(Duration::from_millis(1)).await;
    }

    async fn close(self) -> Arc<Port> {
        drop((self.inbox, self.outcomes));
        self.server.await.expect("the server ends when its queue is closed");
        self.port
    }
}

/// The replies of the server of a subnet manager in `state` to `requests` that arrived `age` ago.
async fn answers(
    options: Options,
    state: SmState,
    requests: Vec<Inbound>,
    age: Duration,
) -> Vec<(Lid, u16)> {
    advance(age).await;
    let server = TestServer::open(options, state, requests);
    TestServer::settle().await;
    let port = server.close().await;
    let sent = port.sent.lock().expect("no panic");
    sent.clone()
}

#[tokio::test(start_paused = true)]
async fn reader_threads_answer_single_records_while_the_server_sleeps() {
    let server = TestServer::open(Options::default(), SmState::Master, Vec::new());
    let [table, single, path] = [0, 1, 3].map(numbered);
    let serve =
        |request: &Inbound| server.shared_responder.serve(&request.from, &request.mad, false);
    assert_eq!(serve(&path), InlineOutcome::Declined, "the server has not begun");
    TestServer::settle().await;
    assert_eq!(serve(&path), InlineOutcome::Declined, "the SM status is new to the server");
    for request in [&path, &single] {
        server.inbox.send(request.clone()).await.expect("the server is running");
    }
    TestServer::settle().await;
    let by_server = server.port.mads.lock().expect("no panic").clone();
    assert_eq!(by_server.len(), 2);
    for (request, mad) in [&path, &single].into_iter().zip(by_server) {
        assert_eq!(serve(request), InlineOutcome::Reply(request.from, mad));
    }
    let in_crowd =
        || server.shared_responder.serve(&path.from, &path.mad, true) != InlineOutcome::Declined;
    let answered = (0..100).filter(|_| in_crowd()).count();
    assert!((1..50).contains(&answered), "{answered}: others are in the crowd, too");
    assert_ne!(serve(&path), InlineOutcome::Declined, "it is over");
    assert_eq!(serve(&table), InlineOutcome::Declined);
    let mut service = path.clone();
    service.mad[16..18].copy_from_slice(&SaAttr::SERVICE_RECORD.to_be_bytes());
    assert_eq!(serve(&service), InlineOutcome::Declined, "its lease may be over");
    let mut join = path.clone();
    join.mad[3] = Method::SET.0;
    assert_eq!(serve(&join), InlineOutcome::Declined);
    server.sm_status.send_replace(sm_status(SmState::Standby));
    assert_eq!(serve(&path), InlineOutcome::Declined, "it may be another's subnet now");
    server.inbox.send(path.clone()).await.expect("the server is running");
    TestServer::settle().await;
    assert_eq!(serve(&path), InlineOutcome::Declined, "it is");
    server.close().await;
}

/// The responder is shared again before the end of a batch that contained a write.
#[tokio::test(start_paused = true)]
async fn alias_changes_reach_the_manager_whatever_is_read_after() {
    let mut wanted = GuidInfoRecord::default();
    let mut guids = GuidBlock::default();
    guids.0[1] = Guid(0xABC);
    let subnet = subnet(Options::default());
    let is_host = |&port: &PortId| !subnet.fabric.node_of(port).is_switch();
    let host = subnet.fabric.end_ports().find(is_host).expect("a host");
    let lid = subnet.plan.lids.base(host).expect("a LID");
    wanted.set_lid(lid);
    wanted.set_guids(&guids);
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK | GuidInfoRecord::GID0 << 1;
    let mut alias = ask(lid.0, 1);
    alias.mad = request(SaAttr::GUID_INFO_RECORD, Method::SET, mask, &wanted).0.to_vec();
    let requests = vec![ask(lid.0, 0), alias, ask(lid.0, 2), ask(lid.0, 3)];
    let mut server = TestServer::open(Options::default(), SmState::Master, requests);
    TestServer::settle().await;
    let sent = server.port.sent.lock().expect("no panic").clone();
    assert_eq!(sent, [(lid, Status::OK); 4]);
    let events = std::iter::from_fn(|| server.events.try_recv().ok());
    assert_eq!(events.filter(|event| matches!(event, SmEvent::AliasesChanged)).count(), 1);
    server.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_flooding_port_does_not_starve_others() {
    let mut requests: Vec<_> = (0..10_000).map(|tid| ask(10, tid)).collect();
    requests.extend((0..20).flat_map(|tid| [ask(11, tid), ask(12, tid)]));
    let sent = answers(Options::default(), SmState::Master, requests, Duration::ZERO).await;
    let busy: Vec<_> = sent.iter().filter(|(_, status)| *status == Status::BUSY).collect();
    assert!(!busy.is_empty() && busy.len() < 200, "{}: time is for answers", busy.len());
    assert!(busy.iter().all(|(lid, _)| *lid == Lid(10)), "the others had room");
    let good: Vec<_> = sent.iter().filter(|(_, status)| *status == Status::OK).collect();
    assert!(good.len() > 8000, "{}: all there is room for are answered", good.len());
    let others = good.iter().filter(|(lid, _)| *lid != Lid(10)).count();
    assert_eq!(others, 40, "every waiting client gets an answer");
    let last = good.iter().rposition(|(lid, _)| *lid != Lid(10)).expect("replies");
    assert!(last < 1000, "the last of the others was number {last}");
}

#[tokio::test(start_paused = true)]
async fn busy_replies_alternate_with_answers() {
    let requests: Vec<_> = (0..40_000).map(|tid| ask(10 + (tid % 8) as u16, tid)).collect();
    let sent = answers(Options::default(), SmState::Master, requests, Duration::ZERO).await;
    let runs = sent.chunk_by(|one, two| one.1 == two.1);
    let refused = runs.filter(|run| run[0].1 == Status::BUSY).map(<[_]>::len);
    let longest = refused.max().expect("the table is too small for all");
    assert!(longest < 200, "{longest} were refused before one was answered");
}

#[tokio::test(start_paused = true)]
async fn expired_requests_are_not_answered() {
    for (limit, expected) in [(100, 0), (0, 5), (1000, 5)] {
        let options = Options { max_msg_fifo_timeout: limit, ..Options::default() };
        let requests = (0..5).map(|tid| ask(10, tid)).collect();
        let age = Duration::from_millis(200);
        let sent = answers(options, SmState::Master, requests, age).await;
        assert_eq!(sent.len(), expected, "limit {limit} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_answers_nothing_under_load() {
    let requests = (0..10_000).map(|tid| ask(10, tid)).collect();
    let sent = answers(Options::default(), SmState::Standby, requests, Duration::ZERO).await;
    assert!(sent.is_empty());
}

/// A request with its number as transaction ID: a path, a table, or one that gets an error.
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
fn table_workers_give_the_same_answers() {
    let subnet = subnet(Options::default());
    let requests: Vec<Inbound> = (0..2000).map(numbered).collect();
    let now = Instant::now().into_std();
    let mut responder = Responder::default();
    responder.prepare(&subnet, now);
    let by = |count: usize| {
        let port = Port::new();
        let workers = TableWorkers::with(count).expect("threads");
        let counted = workers.answer(&responder, &subnet, &port, &requests, now);
        let mut mads = port.mads.into_inner().expect("no panic");
        mads.sort_unstable_by_key(|mad| Header::read(mad).tid());
        (mads, counted.lines().collect::<Vec<_>>())
    };
    let (mads, counted) = by(0);
    let silent = requests.iter().filter(|r| Header::read(&r.mad).method() == Method::REPORT.0);
    assert_eq!(mads.len(), requests.len() - silent.count(), "one reply to each but reports");
    assert_eq!(counted.len(), 4, "{counted:?}");
    for count in [1, 3] {
        assert_eq!(by(count), (mads.clone(), counted.clone()), "{count} workers");
    }
}

#[test]
fn read_only_requests_are_recognised_by_method() {
    for method in 0..=u8::MAX {
        let mut mad = [0; 256];
        mad[3] = method;
        let writes = [Method::SET, Method::DELETE].contains(&Method(method));
        assert_eq!(is_read_only(&mad), !writes, "method {method:#04x}");
    }
    assert!(is_read_only(&[]));
}

/// On a kernel that does not report acknowledgements, a port that lets its tables time out gets few
/// others at a time, and other ports get theirs.
#[tokio::test(start_paused = true)]
async fn a_port_that_acknowledges_no_tables_gets_busy() {
    const REQUESTS: u64 = 400;
    let all_nodes = |lid, tid| {
        let mut mad = request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &NodeRecord::default());
        let mut header = mad.header();
        header.set_tid(tid);
        mad.set_header(&header);
        Inbound { mad: mad.0.to_vec(), ..ask(lid, tid) }
    };
    let first = (0..4).map(|tid| all_nodes(7, tid)).collect();
    let server = TestServer::open(Options::default(), SmState::Master, first);
    TestServer::settle().await;
    for _ in 0..4 {
        server.outcomes.try_send(SaOutcome::Unacknowledged(Lid(7))).expect("a free slot");
    }
    TestServer::settle().await;
    for tid in 100..100 + REQUESTS {
        server.inbox.send(all_nodes(7, tid)).await.expect("the server runs");
    }
    server.inbox.send(all_nodes(8, 1)).await.expect("the server runs");
    TestServer::settle().await;
    let port = server.close().await;
    let sent = port.sent.lock().expect("no panic");
    let replies = |lid, status| sent.iter().filter(|&&reply| reply == (Lid(lid), status)).count();
    let length = port.mads.lock().expect("no panic")[0].len();
    // The last ones are admitted together.
    let most = (256 << 10) / length + 1 + 2;
    assert!((4..=most).contains(&replies(7, Status::OK)), "{} of {most}", replies(7, Status::OK));
    assert!(replies(7, Status::BUSY) > 100, "{}", replies(7, Status::BUSY));
    assert_eq!(replies(8, Status::OK), 1);
}
