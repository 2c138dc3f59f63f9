//! PathRecord Gets, as many as can be and at a given pace.

use super::office::{Office, identity};
use super::spread;
use super::support::{path_query, torus};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use torus_sm::ids::{Guid, Sl};
use torus_sm::publish::Subnet;
use torus_sm::transport::client::SmpClient;
use torus_sm::transport::intake::{Inbound, Intake};
use torus_sm::transport::transactions::SmpLimits;
use torus_sm::transport::{
    Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError,
};
use torus_sm::wire::mad::Header;

/// Different requests.
const REQUESTS: usize = 4096;

/// Requests that the port holds for the desk, as the daemon's does.
const ROOM: usize = 4096;

/// How long each case runs.
const TIME: Duration = Duration::from_secs(3);

/// Half of what one core is to do, in requests a second.
const HALF: u64 = 200_000;

/// Clients that count what they get.
struct Clients {
    identity: PortIdentity,
    answered: AtomicU64,
    /// When so many are answered, the reader has something to read again.
    awaited: AtomicU64,
    reader: OnceLock<Thread>,
}

impl MadPort for Clients {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        assert_eq!(Header::read(out.mad).status(), 0);
        let answered = self.answered.fetch_add(1, Ordering::SeqCst) + 1;
        if answered == self.awaited.load(Ordering::SeqCst) {
            self.reader.get().expect("it is reading").unpark();
        }
        Ok(())
    }
}

fn inbound(from: Address, mad: Vec<u8>) -> Inbound {
    Inbound { agent: Agent::Sa, from, mad, arrived: tokio::time::Instant::now() }
}

/// Requests from all hosts about all others.
fn requests(subnet: &Subnet) -> Vec<(Address, Vec<u8>)> {
    let fabric = &subnet.fabric;
    let is_host = |&port: &_| !fabric.node_of(port).is_switch();
    let hosts: Vec<_> = fabric.end_ports().filter(is_host).collect();
    let pick = |n: usize| hosts[n.wrapping_mul(0x9E37_79B1) % hosts.len()];
    let request = |n: usize| {
        let (from, to) = (pick(n), pick(n + 7 * REQUESTS));
        let guids: [Guid; 2] = [from, to].map(|port| fabric.port(port).guid);
        let lid = subnet.plan.lids.base(from).expect("a LID");
        let mad = path_query(subnet.options.subnet_prefix, guids);
        (Address::gsi(lid, Sl(0)), mad.0.to_vec())
    };
    (0..REQUESTS).map(request).collect()
}

/// As many as can be: with all threads on one core, then on all cores.
pub fn rate() {
    let subnet = Arc::new(torus([8; 3], 2));
    let requests = requests(&subnet);
    let all = sched_getaffinity(None).expect("a thread has cores");
    let first = (0..CpuSet::MAX_CPU).find(|&cpu| all.is_set(cpu)).expect("one at least");
    let mut one = CpuSet::new();
    one.set(first);
    for window in [64, 512, 4096] {
        let [alone, shared] = [one, all].map(|cores| {
            // Threads that are started from now on have the same.
            sched_setaffinity(None, &cores).expect("they are ours");
            rate_of(&subnet, &requests, window)
        });
        let (cores, gain) = (all.count(), shared / alone);
        println!(
            "{window} under way: {alone:.0} PathRecords/s on one core, {shared:.0} on {cores} ({gain:.2})"
        );
    }
}

fn rate_of(subnet: &Arc<Subnet>, requests: &[(Address, Vec<u8>)], window: u64) -> f64 {
    let clients = Arc::new(Clients {
        identity: identity(),
        answered: AtomicU64::new(0),
        awaited: AtomicU64::new(0),
        reader: OnceLock::new(),
    });
    let port: Arc<dyn MadPort> = clients.clone();
    let (intake, unsolicited) = Intake::new(ROOM);
    let _client = SmpClient::new(port.clone(), &intake, SmpLimits::default());
    let office = Office::open(subnet.clone(), port, unsolicited.sa, 0);
    intake.attend(office.hatch.clone());
    let start = Instant::now();
    let reader = Reader { clients, intake: intake.clone(), window };
    let reading =
        std::thread::scope(|scope| scope.spawn(|| reader.read_all(requests, start + TIME)).join());
    let answered = reading.expect("no panic in here");
    let rate = answered as f64 / start.elapsed().as_secs_f64();
    intake.closed("the time is over");
    office.close();
    rate
}

/// The thread that brings requests, as that of a port does.
struct Reader {
    clients: Arc<Clients>,
    intake: Arc<Intake>,
    window: u64,
}

impl Reader {
    /// Requests for so long; returns how many were answered.
    fn read_all(&self, requests: &[(Address, Vec<u8>)], end: Instant) -> u64 {
        let _ = self.clients.reader.set(std::thread::current());
        let mut mads: Vec<Vec<u8>> = requests.iter().map(|(_, mad)| mad.clone()).collect();
        let mut asked = 0;
        while Instant::now() < end {
            while asked < self.answered() + self.window {
                let number = asked as usize % requests.len();
                let mad = &mut mads[number];
                // Else it would be taken for a repetition.
                mad[8..16].copy_from_slice(&asked.to_be_bytes());
                self.bring(requests[number].0, mad);
                asked += 1;
                if asked.is_multiple_of(1 << 16) && Instant::now() >= end {
                    break;
                }
            }
            self.intake.idle();
            self.wait_for(asked - self.window / 2);
        }
        self.answered()
    }

    fn answered(&self) -> u64 {
        self.clients.answered.load(Ordering::SeqCst)
    }

    fn bring(&self, from: Address, mad: &[u8]) {
        self.intake.deliver(Delivery { agent: Agent::Sa, from, outcome: Outcome::Arrived, mad });
    }

    /// Sleeps, as a reader does, until so many were answered.
    fn wait_for(&self, awaited: u64) {
        self.clients.awaited.store(awaited, Ordering::SeqCst);
        while self.answered() < awaited {
            std::thread::park();
        }
    }
}

/// Notes how long each answer took.
struct Watch {
    identity: PortIdentity,
    start: Instant,
    /// When each request was due, in nanoseconds after the start; by transaction.
    due: Vec<AtomicU64>,
    took: Mutex<Vec<Duration>>,
    /// Answers that there is no room.
    busy: AtomicU64,
}

impl MadPort for Watch {
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
        self.took.lock().expect("no panic in here").push(took);
        Ok(())
    }
}

/// So many in every millisecond, evenly in twenty lots.
pub fn pace() {
    const LOTS: u64 = 20;
    let subnet = Arc::new(torus([8; 3], 2));
    let mut requests = requests(&subnet);
    let (inbox, queue) = mpsc::channel(1 << 16);
    let watch = Arc::new(Watch {
        identity: identity(),
        start: Instant::now(),
        due: (0..1 << 16).map(|_| AtomicU64::new(0)).collect(),
        took: Mutex::default(),
        busy: AtomicU64::new(0),
    });
    let office = Office::open(subnet, watch.clone(), queue, 0);
    let (lot, gap) = (HALF / 1000 / LOTS, Duration::from_millis(1) / LOTS as u32);
    let mut tid = 0;
    for number in 0..TIME.as_millis() as u64 * LOTS {
        let due = gap * number as u32;
        std::thread::sleep(due.saturating_sub(watch.start.elapsed()));
        for _ in 0..lot {
            let (from, mad) = &mut requests[tid % REQUESTS];
            mad[8..16].copy_from_slice(&(tid as u64).to_be_bytes());
            watch.due[tid % watch.due.len()].store(due.as_nanos() as u64, Ordering::Relaxed);
            inbox.try_send(inbound(*from, mad.clone())).expect("the desk keeps up");
            tid += 1;
        }
    }
    drop(inbox);
    office.close();
    let took = std::mem::take(&mut *watch.took.lock().expect("no panic in here"));
    let busy = watch.busy.load(Ordering::Relaxed);
    println!("{HALF} a second: {}; {busy} BUSY", spread(took));
}
