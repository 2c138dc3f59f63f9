//! The whole daemon under load while its fabric changes. The fabric is simulated on the thread of
//! the clients, as a real one works beside the daemon.

use super::spread;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use testkit::sa_client::path_query;
use testkit::{SimCluster, Sm};
use tokio::runtime::{Builder, Runtime};
use torus_sm::daemon::process::threads::Threads;
use torus_sm::daemon::setup::ServerThreads;
use torus_sm::ids::{Guid, PortNum, Sl};
use torus_sm::sim::SimPort;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::mad::Header;

/// Number of links that fail and come back, one after the other.
const CABLES: usize = 10;

/// Requests per millisecond.
const LOT: usize = 16;

/// Number of requests under way whose send time is kept.
const SLOTS: usize = 1 << 16;

/// Records the latency of each reply.
struct LatencyRecorder {
    asked: Mutex<Vec<Instant>>,
    took: Mutex<Vec<Duration>>,
    lost: Mutex<usize>,
}

impl MadSink for LatencyRecorder {
    fn deliver(&self, delivery: Delivery<'_>) {
        let header = Header::read(delivery.mad);
        if delivery.outcome == Outcome::Unanswered || header.status() != 0 {
            *self.lost.lock().expect("no panic") += 1;
            return;
        }
        // The upper half belongs to the port.
        let asked = self.asked.lock().expect("no panic")[header.tid() as u32 as usize % SLOTS];
        self.took.lock().expect("no panic").push(asked.elapsed());
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

struct Client {
    port: SimPort,
    recorder: Arc<LatencyRecorder>,
    to: Address,
    hosts: Vec<Guid>,
    prefix: u64,
}

impl Client {
    /// Sends requests at an even rate until `end`.
    async fn ask(&self, end: impl Fn() -> bool) {
        let mut ticks = tokio::time::interval(Duration::from_millis(1));
        let mut tid = 0_usize;
        while !end() {
            ticks.tick().await;
            for _ in 0..LOT {
                self.ask_once(tid);
                tid += 1;
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }

    fn ask_once(&self, tid: usize) {
        // The GUID of a host's port is that of its node plus one.
        let ends = [self.port.identity().guid, Guid(pick(&self.hosts, tid).0 + 1)];
        let mut mad = path_query(self.prefix, ends);
        let mut header = mad.header();
        header.set_tid(tid as u64);
        mad.set_header(&header);
        let timeout = Some(Duration::from_secs(2));
        let out = Outgoing { agent: Agent::Sa, to: self.to, timeout, retries: 0, mad: &mad.0 };
        self.recorder.asked.lock().expect("no panic")[tid % SLOTS] = Instant::now();
        self.port.post(&out).expect("the port accepts the MAD");
    }

    fn report(&self, when: &str) {
        let took = std::mem::take(&mut *self.recorder.took.lock().expect("no panic"));
        let lost = std::mem::take(&mut *self.recorder.lost.lock().expect("no panic"));
        println!("{when}: {}; {lost} without", spread(took));
    }
}

fn pick(hosts: &[Guid], n: usize) -> Guid {
    hosts[n.wrapping_mul(0x9E37_79B1) % hosts.len()]
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a thread")
}

/// Latency in an unchanged fabric, and while links fail and come back.
pub(crate) fn reroute() {
    let threads = Threads::start().expect("threads");
    let at_desks = ServerThreads::new(threads.servers()).expect("threads");
    let main = threads.main();
    let clients = runtime();
    let cluster = SimCluster::healthy("16x16x16", 2);
    let mut sm = {
        let _clients = clients.enter();
        cluster.start_on([0; 3], cluster.options(), main.handle().clone(), at_desks)
    };
    main.block_on(async { sm.subnet.wait_for(Option::is_some).await.map(drop) }).expect("it is up");
    let client = {
        let _clients = clients.enter();
        client(&cluster)
    };
    let client = Arc::new(client);
    let quiet = Instant::now();
    clients.block_on(client.ask(|| quiet.elapsed() > Duration::from_secs(5)));
    client.report("quiet");
    let over = Arc::new(());
    let asking = client.clone();
    let watched = Arc::downgrade(&over);
    let asking = clients.spawn(async move { asking.ask(|| watched.strong_count() == 0).await });
    let took = main.block_on(cables(&cluster, &mut sm));
    drop(over);
    clients.block_on(asking).expect("no panic");
    client.report("rerouting");
    println!("a cable more or less was in force after: {}", spread(took));
    main.block_on(sm.stop());
    clients.shutdown_background();
    threads.shut_down();
}

fn client(cluster: &SimCluster) -> Client {
    let node = cluster.shape.host_guid([8; 3], 0);
    let recorder = Arc::new(LatencyRecorder {
        asked: Mutex::new(vec![Instant::now(); SLOTS]),
        took: Mutex::default(),
        lost: Mutex::default(),
    });
    let port = cluster.fabric.attach(node, PortNum(1), recorder.clone(), false).expect("a host");
    let info = cluster.fabric.port_info(node, PortNum(1)).expect("a port");
    let to = Address::gsi(info.master_sm_lid(), Sl(0));
    let prefix = cluster.options().subnet_prefix;
    Client { port, recorder, to, hosts: cluster.hosts().collect(), prefix }
}

/// Links of all dimensions fail and come back. Returns the time from each change to the snapshot
/// that has it.
async fn cables(cluster: &SimCluster, sm: &mut Sm) -> Vec<Duration> {
    let mut took = Vec::new();
    for number in 0..CABLES {
        let at = [number as u16, 3 * number as u16 % 16, 5];
        let switch = cluster.shape.switch_guid(at);
        let port = PortNum(1 + number as u8 % 6);
        for fails in [true, false] {
            let start = Instant::now();
            let before = sm.generation();
            let done = if fails {
                cluster.fabric.unlink(switch, port)
            } else {
                cluster.fabric.relink(switch, port)
            };
            assert!(done, "port {port} of {switch} has no cable");
            let waited = tokio::time::timeout(
                Duration::from_secs(60),
                sm.subnet.wait_for(|subnet| generation(subnet) > before),
            );
            assert!(waited.await.is_ok(), "nothing was published");
            took.push(start.elapsed());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
    took
}

fn generation(subnet: &Option<Arc<torus_sm::publish::Subnet>>) -> u64 {
    subnet.as_ref().map_or(0, |subnet| subnet.generation)
}
