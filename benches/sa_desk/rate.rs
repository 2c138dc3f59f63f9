//! PathRecord Gets, as many as can be and at a given pace.

use super::office::{Office, identity};
use super::spread;
use super::support::{path_query, torus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use torus_sm::ids::{Guid, Sl};
use torus_sm::publish::Subnet;
use torus_sm::transport::intake::Inbound;
use torus_sm::transport::{Address, Agent, MadPort, Outgoing, PortIdentity, SendError};
use torus_sm::wire::mad::Header;

/// Different requests.
const REQUESTS: usize = 4096;

/// How long each case runs.
const TIME: Duration = Duration::from_secs(3);

/// Half of what one core is to do, in requests a second.
const HALF: u64 = 200_000;

/// Clients whose next request comes with the answer to the last.
struct Clients {
    identity: PortIdentity,
    requests: Vec<(Address, Vec<u8>)>,
    /// `None` when time is over.
    inbox: Mutex<Option<mpsc::Sender<Inbound>>>,
    answered: AtomicU64,
}

impl Clients {
    fn ask(&self, number: u64) -> Option<()> {
        let inbox = self.inbox.lock().expect("no panic in here").clone()?;
        let (from, mad) = &self.requests[number as usize % REQUESTS];
        let mut mad = mad.clone();
        // Else it would be taken for a repetition.
        mad[8..16].copy_from_slice(&number.to_be_bytes());
        inbox.try_send(inbound(*from, mad)).ok()
    }
}

impl MadPort for Clients {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        assert_eq!(Header::read(out.mad).status(), 0);
        let number = self.answered.fetch_add(1, Ordering::Relaxed);
        let _ = self.ask(number);
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

/// As many as can be.
pub fn rate() {
    let subnet = Arc::new(torus([8; 3], 2));
    for window in [64, 512, 4096] {
        let rate = rate_of(&subnet, window);
        println!("{window} under way: {rate:.0} PathRecords/s");
    }
}

fn rate_of(subnet: &Arc<Subnet>, window: u64) -> f64 {
    let (inbox, queue) = mpsc::channel(window as usize);
    let clients = Arc::new(Clients {
        identity: identity(),
        requests: requests(subnet),
        inbox: Mutex::new(Some(inbox)),
        answered: AtomicU64::new(0),
    });
    let office = Office::open(subnet.clone(), clients.clone(), queue, 0);
    let start = Instant::now();
    (0..window).for_each(|number| clients.ask(number).expect("there is room"));
    std::thread::sleep(TIME);
    let answered = clients.answered.load(Ordering::Relaxed);
    let rate = answered as f64 / start.elapsed().as_secs_f64();
    *clients.inbox.lock().expect("no panic in here") = None;
    office.close();
    rate
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
