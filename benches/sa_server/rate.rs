//! PathRecord Gets: the maximum rate, and latency at a given rate.

use super::server::{BenchServer, identity};
use super::spread;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};
use testkit::sa_client::path_query;
use testkit::snapshot::{pairs, torus};
use tokio::sync::mpsc;
use torus_sm::ids::{Guid, Sl};
use torus_sm::publish::Subnet;
use torus_sm::transport::client::SmpClient;
use torus_sm::transport::demux::{Inbound, MadDemux};
use torus_sm::transport::transactions::SmpLimits;
use torus_sm::transport::{
    Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError,
};
use torus_sm::wire::mad::Header;

/// Number of different requests.
const REQUESTS: usize = 4096;

/// Capacity of the queue between port and server, as in the daemon.
const QUEUE_CAPACITY: usize = 4096;

/// Duration of each case.
const TIME: Duration = Duration::from_secs(3);

/// Half of the rate that one core should reach, in requests per second.
const HALF_RATE: u64 = 200_000;

/// The clients of one reader, which count their replies.
#[repr(align(128))]
struct Clients {
    answered: AtomicU64,
    /// The count of replies at which the reader has to be woken.
    awaited: AtomicU64,
    reader: OnceLock<Thread>,
}

/// The clients of each reader.
struct ReaderClients {
    identity: PortIdentity,
    clients: Vec<Clients>,
}

impl MadPort for ReaderClients {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let header = Header::read(out.mad);
        assert_eq!(header.status(), 0);
        let clients = &self.clients[(header.tid() >> 48) as usize];
        let answered = clients.answered.fetch_add(1, Ordering::SeqCst) + 1;
        if answered == clients.awaited.load(Ordering::SeqCst) {
            clients.reader.get().expect("it is reading").unpark();
        }
        Ok(())
    }
}

fn inbound(from: Address, mad: Vec<u8>) -> Inbound {
    Inbound { agent: Agent::Sa, from, mad, arrived: tokio::time::Instant::now() }
}

/// `REQUESTS` path requests between hosts from all over the fabric.
fn requests(subnet: &Subnet) -> Vec<(Address, Vec<u8>)> {
    pairs(subnet, REQUESTS)
        .into_iter()
        .map(|ends| {
            let guids: [Guid; 2] = ends.map(|port| subnet.fabric.port(port).guid);
            let lid = subnet.plan.lids.base(ends[0]).expect("a LID");
            let mad = path_query(subnet.options.subnet_prefix, guids);
            (Address::gsi(lid, Sl(0)), mad.0.to_vec())
        })
        .collect()
}

/// The maximum rate: with all threads and one reader on one core, then with a reader for each core.
pub(crate) fn rate() {
    let subnet = Arc::new(torus([8; 3], 2));
    let requests = requests(&subnet);
    let all = sched_getaffinity(None).expect("a thread has cores");
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).expect("one at least");
    let mut one = CpuSet::new();
    one.set(first);
    for window in [64, 512, 4096] {
        let [alone, shared] = [one, all].map(|cores| {
            // Threads started from now on inherit the affinity.
            sched_setaffinity(None, &cores).expect("they are ours");
            rate_of(&subnet, &requests, window, cores.count() as usize)
        });
        let cores = all.count();
        let gain = shared / alone;
        println!(
            "{window} under way: {alone:.0} PathRecords/s on one core, {shared:.0} on {cores} ({gain:.2})"
        );
    }
}

fn rate_of(
    subnet: &Arc<Subnet>,
    requests: &[(Address, Vec<u8>)],
    window: u64,
    readers: usize,
) -> f64 {
    let crowd = Arc::new(ReaderClients {
        identity: identity(),
        clients: (0..readers)
            .map(|_| Clients {
                answered: AtomicU64::new(0),
                awaited: AtomicU64::new(0),
                reader: OnceLock::new(),
            })
            .collect(),
    });
    let port: Arc<dyn MadPort> = crowd.clone();
    let (demux, unsolicited) = MadDemux::new(QUEUE_CAPACITY);
    let _client = SmpClient::new(port.clone(), &demux, SmpLimits::default());
    let server = BenchServer::open(subnet.clone(), port, unsolicited.sa, 0);
    demux.set_inline_responder(server.shared_responder.clone());
    let start = Instant::now();
    let read_all = |number| {
        let window = window / readers as u64;
        let reader = Reader { number, clients: &crowd.clients[number], demux: &demux, window };
        reader.read_all(requests, start + TIME)
    };
    let answered: u64 = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..readers)
            .map(|number| {
                scope.spawn({
                    let read_all = &read_all;
                    move || read_all(number)
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("no panic")).sum()
    });
    let rate = answered as f64 / start.elapsed().as_secs_f64();
    demux.closed("the time is over");
    server.close();
    rate
}

/// A thread that delivers requests, like the reader thread of a port.
struct Reader<'a> {
    number: usize,
    clients: &'a Clients,
    demux: &'a MadDemux,
    window: u64,
}

impl Reader<'_> {
    /// Delivers requests for [`TIME`]; returns the number of replies.
    fn read_all(&self, requests: &[(Address, Vec<u8>)], end: Instant) -> u64 {
        let _ = self.clients.reader.set(std::thread::current());
        let mut mads: Vec<Vec<u8>> = requests.iter().map(|(_, mad)| mad.clone()).collect();
        let mut asked = 0;
        while Instant::now() < end {
            while asked < self.answered() + self.window {
                let number = asked as usize % requests.len();
                let mad = &mut mads[number];
                // The same transaction ID would make it a retransmission.
                let tid = (self.number as u64) << 48 | asked;
                mad[8..16].copy_from_slice(&tid.to_be_bytes());
                self.bring(requests[number].0, mad);
                asked += 1;
                if asked.is_multiple_of(1 << 16) && Instant::now() >= end {
                    break;
                }
            }
            self.demux.idle();
            self.wait_for(asked - self.window / 2);
        }
        self.answered()
    }

    fn answered(&self) -> u64 {
        self.clients.answered.load(Ordering::SeqCst)
    }

    fn bring(&self, from: Address, mad: &[u8]) {
        self.demux.deliver(Delivery { agent: Agent::Sa, from, outcome: Outcome::Arrived, mad });
    }

    /// Sleeps until the number of replies has reached `awaited`.
    fn wait_for(&self, awaited: u64) {
        self.clients.awaited.store(awaited, Ordering::SeqCst);
        while self.answered() < awaited {
            std::thread::park();
        }
    }
}

/// Records the latency of each reply.
struct LatencyRecorder {
    identity: PortIdentity,
    start: Instant,
    /// The time at which each request was due, in nanoseconds after the start, by transaction.
    due: Vec<AtomicU64>,
    took: Mutex<Vec<Duration>>,
    /// Number of BUSY replies.
    busy: AtomicU64,
}

impl MadPort for LatencyRecorder {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let header = Header::read(out.mad);
        if header.status() != 0 {
            self.busy.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let due = self.due[header.tid() as usize % self.due.len()].load(Ordering::Relaxed);
        let took = self.start.elapsed().saturating_sub(Duration::from_nanos(due));
        self.took.lock().expect("no panic").push(took);
        Ok(())
    }
}

/// Latency at a fixed rate: the requests of each millisecond arrive in twenty evenly spaced lots.
pub(crate) fn pace() {
    const LOTS_PER_MILLISECOND: u64 = 20;
    let subnet = Arc::new(torus([8; 3], 2));
    let mut requests = requests(&subnet);
    let (inbox, queue) = mpsc::channel(1 << 16);
    let watch = Arc::new(LatencyRecorder {
        identity: identity(),
        start: Instant::now(),
        due: (0..1 << 16).map(|_| AtomicU64::new(0)).collect(),
        took: Mutex::default(),
        busy: AtomicU64::new(0),
    });
    let server = BenchServer::open(subnet, watch.clone(), queue, 0);
    let lot = HALF_RATE / 1000 / LOTS_PER_MILLISECOND;
    let gap = Duration::from_millis(1) / LOTS_PER_MILLISECOND as u32;
    let mut tid = 0;
    for number in 0..TIME.as_millis() as u64 * LOTS_PER_MILLISECOND {
        let due = gap * number as u32;
        std::thread::sleep(due.saturating_sub(watch.start.elapsed()));
        for _ in 0..lot {
            let (from, mad) = &mut requests[tid % REQUESTS];
            mad[8..16].copy_from_slice(&(tid as u64).to_be_bytes());
            watch.due[tid % watch.due.len()].store(due.as_nanos() as u64, Ordering::Relaxed);
            inbox.try_send(inbound(*from, mad.clone())).expect("the server keeps up");
            tid += 1;
        }
    }
    drop(inbox);
    server.close();
    let took = std::mem::take(&mut *watch.took.lock().expect("no panic"));
    let busy = watch.busy.load(Ordering::Relaxed);
    println!("{HALF_RATE} a second: {}; {busy} BUSY", spread(took));
}
