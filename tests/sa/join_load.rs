//! More joins than the SA server can answer in time: clients retransmit, and repeat their requests
//! with new transaction IDs; still every reply answers a request that is under way.
//!
//! The clock is virtual: only packets take time at the port.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;
use testkit::sa_client::joins::{self, RetryPolicy};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, advance, sleep, sleep_until};
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SaCommand;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sa_server::db_file::SaDbFile;
use torus_sm::daemon::sa_server::table_workers::TableWorkers;
use torus_sm::daemon::sa_server::{Inboxes, SaConnections, SaServer};
use torus_sm::fabric::Fabric;
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sm::sm_info::SmStatus;
use torus_sm::transport::demux::Inbound;
use torus_sm::transport::{Address, Agent, MadPort, Outgoing, PortIdentity, SendError};
use torus_sm::wire::attr::SmState;
use torus_sm::wire::mad::{Header, Method, Status};

/// Number of groups that every host joins.
const GROUPS: usize = 100;

/// Requests under way per host.
const WINDOW: usize = 40;

/// Transmission time of a packet. All packets under way together take longer than a client's
/// timeout.
const PACKET: Duration = Duration::from_millis(2);

/// Planning time of the subnet manager.
const PASS: Duration = Duration::from_millis(300);

/// A port with a transmission time.
struct SlowPort {
    identity: PortIdentity,
    clients: Mutex<BTreeMap<Lid, mpsc::UnboundedSender<(u32, u16)>>>,
    sent: AtomicUsize,
}

impl MadPort for SlowPort {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        // The clock advances when the future is created and polled once, without waiting for it.
        let _ = pin!(advance(PACKET)).poll(&mut Context::from_waker(Waker::noop()));
        self.sent.fetch_add(1, Ordering::Relaxed);
        let header = Header::read(out.mad);
        let clients = self.clients.lock().expect("no panic");
        let client = clients.get(&out.to.lid).expect("it has asked");
        // A host that has all replies no longer listens.
        let _ = client.send((header.tid() as u32, header.status()));
        Ok(())
    }
}

/// A request under way and its retries.
struct Asked {
    group: usize,
    due: Instant,
    left: u32,
}

struct Client {
    habits: RetryPolicy,
    from: Address,
    guid: Guid,
    inbox: mpsc::Sender<Inbound>,
    answers: mpsc::UnboundedReceiver<(u32, u16)>,
    todo: VecDeque<usize>,
    /// Times at which failed groups are tried again.
    pausing: Vec<(Instant, usize)>,
    failures: BTreeMap<usize, u32>,
    under_way: BTreeMap<u32, Asked>,
    last_tid: u32,
}

impl Client {
    async fn run(mut self) {
        loop {
            // The clock may have advanced over several replies.
            while let Ok((tid, status)) = self.answers.try_recv() {
                self.hear(tid, status);
            }
            let now = Instant::now();
            let (due, later) = self.pausing.drain(..).partition(|&(due, _)| due <= now);
            self.pausing = later;
            Vec::from_iter(due).into_iter().for_each(|(_, group)| self.todo.push_front(group));
            self.ask(now);
            let times = self.under_way.values().map(|asked| asked.due);
            let next = times.chain(self.pausing.iter().map(|&(due, _)| due)).min();
            let Some(next) = next else { return };
            tokio::select! {
                biased;
                answer = self.answers.recv() => {
                    let (tid, status) = answer.expect("the port exists");
                    self.hear(tid, status);
                }
                () = sleep_until(next) => {}
            }
        }
    }

    fn hear(&mut self, tid: u32, status: u16) {
        let Some(asked) = self.under_way.remove(&tid) else { return };
        match status {
            Status::OK => {}
            Status::BUSY => self.fail(asked.group),
            status => panic!("status {status:#x}"),
        }
    }

    /// Sends new requests and those that timed out.
    fn ask(&mut self, now: Instant) {
        let late: Vec<u32> =
            self.under_way.iter().filter(|(_, asked)| asked.due <= now).map(|(&t, _)| t).collect();
        for tid in late {
            let asked = self.under_way.remove(&tid).expect("it is under way");
            if asked.left == 0 { self.fail(asked.group) } else { self.send(tid, asked) }
        }
        while self.under_way.len() < WINDOW
            && let Some(group) = self.todo.pop_front()
        {
            self.last_tid += 1;
            self.send(self.last_tid, Asked { group, due: now, left: 1 + self.habits.retries });
        }
    }

    fn send(&mut self, tid: u32, mut asked: Asked) {
        let mad = joins::request(Method::SET, self.guid, asked.group, tid).0.to_vec();
        let agent = Agent::Sa;
        let arrived = Instant::now();
        // A request that exceeds the queue is lost.
        let _ = self.inbox.try_send(Inbound { agent, from: self.from, mad, arrived });
        asked.left -= 1;
        asked.due = arrived + self.habits.timeout;
        self.under_way.insert(tid, asked);
    }

    fn fail(&mut self, group: usize) {
        let failures = self.failures.entry(group).or_default();
        let pause = self.habits.pause(*failures, self.from.lid.0.into(), group);
        *failures += 1;
        self.pausing.push((Instant::now() + pause, group));
    }
}

fn subnet() -> Subnet {
    testkit::snapshot::torus([4, 4, 2], 2)
}

/// Plans the groups whenever they have changed.
async fn manage(
    fabric: Arc<Fabric>,
    commands: mpsc::Sender<SaCommand>,
    mut events: mpsc::UnboundedReceiver<SmEvent>,
) {
    let mut since = 0;
    while let Some(event) = events.recv().await {
        assert!(matches!(event, SmEvent::MembershipChanged), "{event:?}");
        let (reply, answer) = oneshot::channel();
        let command = SaCommand::GetGroupChanges { since, fabric: fabric.clone(), reply };
        // The server ends when its queue is closed.
        let (true, Ok(asked)) = (commands.send(command).await.is_ok(), answer.await) else {
            return;
        };
        since = asked.0;
        sleep(PASS).await;
        let _ = commands.send(SaCommand::GroupsProgrammed).await;
    }
}

/// All hosts join all groups with this retry policy: number of joins, number of packets that the
/// server sends, and the time it takes.
async fn flood(habits: RetryPolicy) -> (usize, usize, Duration) {
    let subnet = Arc::new(subnet());
    let identity = PortIdentity { device: "slow0".into(), port: PortNum(1), guid: Guid(2) };
    let (clients, sent) = Default::default();
    let port = Arc::new(SlowPort { identity, clients, sent });
    let (_published, mut snapshots) = watch::channel(Some(subnet.clone()));
    snapshots.mark_changed();
    let state = SmState::Master;
    let sm_status = SmStatus::new(Guid(2), &Options::default(), state);
    let (_shown, sm_status) = watch::channel(sm_status);
    let (events, news) = mpsc::unbounded_channel();
    let folder = tempfile::tempdir().expect("a folder");
    let responder = Responder::default();
    let archive = SaDbFile::new(folder.path().to_owned(), responder.registry());
    let (inbox, requests) = mpsc::channel(4096);
    let (command, commands) = mpsc::channel(1);
    let (_outcomes, sa_outcomes) = mpsc::channel(1);
    let (_notice, notices) = mpsc::channel(1);
    let workers = TableWorkers::default();
    let connections = SaConnections { port: port.clone(), published: snapshots, sm_status, events };
    let server = SaServer::new(connections, responder, archive, workers);
    let server = tokio::spawn(server.serve(Inboxes { requests, commands, sa_outcomes, notices }));
    let manager = tokio::spawn(manage(subnet.fabric.clone(), command, news));
    let start = Instant::now();
    let mut hosts = JoinSet::new();
    let fabric = &subnet.fabric;
    for host in fabric.end_ports().filter(|&host| !fabric.node_of(host).is_switch()) {
        let lid = subnet.plan.lids.base(host).expect("a LID");
        let (recorder, answers) = mpsc::unbounded_channel();
        port.clients.lock().expect("no panic").insert(lid, recorder);
        let first = usize::from(lid.0) * 37;
        let client = Client {
            habits,
            from: Address::gsi(lid, Sl(0)),
            guid: fabric.port(host).guid,
            inbox: inbox.clone(),
            answers,
            todo: (0..GROUPS).map(|group| (first + group) % GROUPS).collect(),
            pausing: Vec::new(),
            failures: BTreeMap::new(),
            under_way: BTreeMap::new(),
            last_tid: 0,
        };
        hosts.spawn(client.run());
    }
    let count = hosts.len();
    tokio::time::timeout(Duration::from_secs(600), hosts.join_all()).await.expect("all are joined");
    let took = start.elapsed();
    drop(inbox);
    server.await.expect("the server ends when its queue is closed");
    manager.await.expect("the manager ends with the server");
    (count * GROUPS, port.sent.load(Ordering::Relaxed), took)
}

#[tokio::test(start_paused = true)]
async fn eager_retries_do_not_block_the_server() {
    let (joins, sent, took) = flood(RetryPolicy::EAGER).await;
    assert!(joins * PACKET.as_millis() as usize > 10_000, "{joins} take longer than clients wait");
    println!("{joins} joins, {sent} packets, {took:?}");
    assert!(sent < joins * 2, "{sent} packets for {joins} joins");
    assert!(took < 2 * PACKET * joins as u32, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn all_linux_clients_join() {
    let (joins, sent, took) = flood(RetryPolicy::LINUX).await;
    println!("{joins} joins, {sent} packets, {took:?}");
    // Many clients give up before their turn, and return after their pause.
    assert!(sent < joins * 3, "{sent} packets for {joins} joins");
    assert!(took < 3 * PACKET * joins as u32 + Duration::from_secs(30), "{took:?}");
}
