//! PathRecord Gets and tables per second from a subnet administrator on the other side of a umad
//! device. `scripts/race-sa` and `scripts/race-tables` start simulated fabrics, subnet managers and
//! this program, attached by a preloaded library, and print the figures side by side.
//!
//! ```text
//! sa_race ask SHAPE HOSTS gid|lid WINDOW SECONDS
//! sa_race echo SECONDS
//! sa_race table RECORDS SECONDS
//! ```
//!
//! `ask` requests paths between random hosts of a torus, as rdma_cm does, with WINDOW requests
//! under way, and checks every reply. `echo` replaces the administrator by the simplest responder:
//! it returns each request as its own reply. The rate of `ask` against `echo` is the capacity of
//! the relay between them. `table` asks for all paths from its own port, one table after the other,
//! and checks that each has RECORDS records.

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant};
use torus_sm::ids::{Gid, Guid, Lid, Pkey, Sl};
use torus_sm::sim::generate::Shape;
use torus_sm::transport::sysfs::{LocalPort, Sysfs};
use torus_sm::transport::umad::UmadPort;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{PathRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// A request without a reply after this time counts as lost.
const LOST: Duration = Duration::from_secs(2);

const PREFIX: u64 = 0xfe80_0000_0000_0000;

fn main() {
    // Cargo passes --bench.
    let words: Vec<String> = std::env::args().skip(1).filter(|w| !w.starts_with("--")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["ask", shape, hosts, by, window, seconds] => {
            let shape: Shape = shape.parse().expect("a shape such as 8x8x8");
            let hosts = hosts_of(&Shape { hosts: number(hosts) as u8, ..shape });
            let by = if by == "lid" { By::Lid } else { By::Gid };
            ask(hosts, by, number(window) as usize, Duration::from_secs(number(seconds).into()));
        }
        ["table", records, seconds] => {
            table(number(records) as usize, Duration::from_secs(number(seconds).into()));
        }
        ["echo", seconds] => echo(Duration::from_secs(number(seconds).into())),
        _ => println!("this needs a simulated fabric around it: scripts/race-sa"),
    }
}

fn number(word: &str) -> u32 {
    word.parse::<u32>().expect("a number")
}

/// The first usable port of this machine.
fn local() -> LocalPort {
    let ports = Sysfs::default().ports().expect("there are ports");
    ports.first_usable().expect("a port with a link").clone()
}

/// GIDs of the hosts' ports.
fn hosts_of(shape: &Shape) -> Vec<Gid> {
    let [x, y, z] = shape.radix;
    let at = (0..x).flat_map(|x| (0..y).flat_map(move |y| (0..z).map(move |z| [x, y, z])));
    let all = at.flat_map(|at| (0..shape.hosts).map(move |host| (at, host)));
    all.map(|(at, host)| Gid::new(PREFIX, Guid(shape.host_guid(at, host).0 + 1))).collect()
}

/// Kind of address by which a request names the ends of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Gid,
    Lid,
}

/// A slot of the window and its request under way.
#[derive(Clone, Copy)]
struct Place {
    /// Number of requests that used the slot: upper bits of the transaction ID.
    round: u32,
    since: Instant,
    from: usize,
    to: usize,
}

/// Results of all requests.
#[derive(Default)]
struct Tally {
    /// Latencies in microseconds.
    waits: Vec<u32>,
    /// Number of replies by error status.
    refused: HashMap<u16, u64>,
    /// Replies about other ends than those of the request.
    wrong: u64,
    /// Requests that timed out.
    unanswered: u64,
    /// Requests without a reply or a timeout.
    lost: u64,
}

struct Asking {
    by: By,
    hosts: Vec<Gid>,
    /// LIDs by host, as learned from replies.
    lids: Vec<Lid>,
    /// The hosts whose LIDs are not known yet; one request for each learns its LID.
    unknown: std::ops::Range<usize>,
    random: u64,
    window: Vec<Place>,
    tally: Tally,
    /// True once no more requests are sent.
    over: bool,
}

impl Asking {
    /// A pseudo-random number below `end` (SplitMix64).
    fn pick(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ z >> 31) % end as u64) as usize
    }

    /// The next request for a slot of the window.
    fn next(&mut self, place: usize) -> Option<Mad> {
        if self.over {
            return None;
        }
        let (from, to) = match self.unknown.next() {
            Some(host) => (host, host),
            None => (self.pick(self.hosts.len()), self.pick(self.hosts.len())),
        };
        let mut wanted = PathRecord::default();
        wanted.set_reversible(true);
        wanted.set_numb_path(1);
        wanted.set_pkey(Pkey::DEFAULT_FULL);
        let mut mask = PathRecord::REVERSIBLE | PathRecord::NUMB_PATH | PathRecord::PKEY;
        let unknown = [from, to].iter().any(|&host| self.lids[host] == Lid(0));
        if self.by == By::Gid || unknown {
            wanted.set_sgid(self.hosts[from]);
            wanted.set_dgid(self.hosts[to]);
            mask |= PathRecord::SGID | PathRecord::DGID;
        } else {
            wanted.set_slid(self.lids[from]);
            wanted.set_dlid(self.lids[to]);
            mask |= PathRecord::SLID | PathRecord::DLID;
        }
        let mut mad = testkit::sa_client::request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted);
        let slot = &mut self.window[place];
        *slot =
            Place { round: slot.round.wrapping_add(1) & 0xFFFF, since: Instant::now(), from, to };
        let mut header = mad.header();
        header.set_tid(u64::from(slot.round << 16) | place as u64);
        mad.set_header(&header);
        Some(mad)
    }

    /// Counts a reply; returns the slot that is free now, if any.
    fn take(&mut self, delivery: &Delivery<'_>) -> Option<usize> {
        let header = Header::read(delivery.mad);
        let place = (header.tid() & 0xFFFF) as usize;
        let round = header.tid() as u32 >> 16;
        let slot = *self.window.get(place).filter(|slot| slot.round == round)?;
        if delivery.outcome == Outcome::Unanswered {
            self.tally.unanswered += 1;
        } else if header.status() != 0 {
            *self.tally.refused.entry(header.status()).or_default() += 1;
        } else {
            self.look_at(slot, &PathRecord::parse(delivery.mad.get(DATA_OFFSET..)?));
        }
        // A second reply to the same request does not count.
        self.window[place].round = round.wrapping_add(1) & 0xFFFF;
        Some(place)
    }

    fn look_at(&mut self, slot: Place, path: &PathRecord) {
        let Place { from, to, since, .. } = slot;
        if self.lids[to] == Lid(0) {
            self.lids[to] = path.dlid();
        }
        let ends = [path.sgid(), path.dgid()] == [self.hosts[from], self.hosts[to]];
        let known = self.lids[from] == Lid(0) || path.slid() == self.lids[from];
        let right = ends && known && path.dlid() == self.lids[to];
        self.tally.wrong += u64::from(!right);
        self.tally.waits.push(since.elapsed().as_micros() as u32);
    }
}

/// The requesting side: a reply frees a slot for the next request, in the reader's thread.
struct Asker {
    state: Mutex<Asking>,
    to: Address,
    port: OnceLock<Weak<UmadPort>>,
}

impl Asker {
    fn state(&self) -> MutexGuard<'_, Asking> {
        self.state.lock().expect("no thread failed")
    }

    fn fill(&self, port: &UmadPort, place: usize) {
        let mad = self.state().next(place);
        if let Some(mad) = mad {
            let timeout = Some(LOST / 2);
            let out = Outgoing { agent: Agent::Sa, to: self.to, timeout, retries: 0, mad: &mad.0 };
            port.post(&out).expect("the port accepts the MAD");
        }
    }

    /// Frees the slots of lost requests.
    fn give_up(&self, port: &UmadPort) {
        let overdue: Vec<usize> = {
            let mut state = self.state();
            let places = state.window.iter().enumerate();
            let late = places.filter(|(_, slot)| slot.since.elapsed() > LOST).map(|(at, _)| at);
            let late: Vec<usize> = late.collect();
            state.tally.lost += late.len() as u64;
            late
        };
        overdue.into_iter().for_each(|place| self.fill(port, place));
    }
}

impl MadSink for Asker {
    fn deliver(&self, delivery: Delivery<'_>) {
        let free = self.state().take(&delivery);
        if let (Some(place), Some(port)) = (free, self.port.get().and_then(Weak::upgrade)) {
            self.fill(&port, place);
        }
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

fn ask(hosts: Vec<Gid>, by: By, window: usize, time: Duration) {
    let local = local();
    let idle = Place { round: 0, since: Instant::now(), from: 0, to: 0 };
    let state = Asking {
        by,
        lids: vec![Lid(0); hosts.len()],
        unknown: 0..hosts.len(),
        hosts,
        random: 1,
        window: vec![idle; window],
        tally: Tally::default(),
        over: false,
    };
    let to = Address::gsi(local.sm_lid, Sl(0));
    let asker = Arc::new(Asker { state: Mutex::new(state), to, port: OnceLock::new() });
    let port = Arc::new(UmadPort::open(&local, asker.clone()).expect("the port opens"));
    let _ = asker.port.set(Arc::downgrade(&port));
    for place in 0..window {
        asker.fill(&port, place);
    }
    // Measuring starts when all LIDs are known.
    while !asker.state().unknown.is_empty() {
        std::thread::sleep(Duration::from_millis(10));
        asker.give_up(&port);
    }
    let refused_before = asker.state().tally.refused.clone();
    std::mem::take(&mut asker.state().tally);
    let start = Instant::now();
    while start.elapsed() < time {
        std::thread::sleep(Duration::from_millis(50));
        asker.give_up(&port);
    }
    let (took, tally) = {
        let mut state = asker.state();
        state.over = true;
        (start.elapsed(), std::mem::take(&mut state.tally))
    };
    // The last replies arrive, so that the reader is idle when the port is closed.
    std::thread::sleep(Duration::from_millis(200));
    drop(port);
    tell(tally, took, &refused_before);
}

fn tell(mut tally: Tally, took: Duration, before: &HashMap<u16, u64>) {
    tally.waits.sort_unstable();
    let count = tally.waits.len();
    println!(
        "{:.0} answers/s; waits p50 {} us, p99 {} us, longest {} us; {} wrong, {} unanswered, \
         {} lost, refused {:?} (while learning {before:?})",
        count as f64 / took.as_secs_f64(),
        wait(&tally.waits, 0.5, count),
        wait(&tally.waits, 0.99, count),
        tally.waits.last().copied().unwrap_or(0),
        tally.wrong,
        tally.unanswered,
        tally.lost,
        tally.refused,
    );
    assert_eq!((tally.wrong, tally.refused.len()), (0, 0), "every answer is right");
}

fn wait(waits: &[u32], share: f64, count: usize) -> u32 {
    waits.get((count as f64 * share) as usize).copied().unwrap_or(0)
}

/// Returns every request as its own reply.
struct Echo {
    port: OnceLock<Weak<UmadPort>>,
    closed: Mutex<mpsc::Sender<()>>,
}

impl MadSink for Echo {
    fn deliver(&self, delivery: Delivery<'_>) {
        let mut mad = Mad::read(delivery.mad);
        let Some(port) = self.port.get().and_then(Weak::upgrade) else { return };
        if delivery.agent != Agent::Sa || mad.method().is_response() {
            return;
        }
        let mut header = mad.header();
        header.set_method(mad.method().response().0);
        mad.set_header(&header);
        let out = Outgoing {
            agent: Agent::Sa,
            to: delivery.from,
            timeout: None,
            retries: 0,
            mad: &mad.0,
        };
        port.post(&out).expect("the port accepts the MAD");
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {
        let _ = self.closed.lock().expect("no thread failed").send(());
    }
}

fn echo(time: Duration) {
    let (closed, is_closed) = mpsc::channel();
    let echo = Arc::new(Echo { port: OnceLock::new(), closed: Mutex::new(closed) });
    let port = Arc::new(UmadPort::open(&local(), echo.clone()).expect("the port opens"));
    let _ = echo.port.set(Arc::downgrade(&port));
    // The simulator delivers requests to ports of subnet managers only.
    port.set_is_sm(true).expect("the port accepts the MAD");
    println!("echoing");
    let _ = is_closed.recv_timeout(time);
}

/// Passes on the bytes of replies, or nothing for a request without a reply.
struct Replies(Mutex<mpsc::Sender<Option<Vec<u8>>>>);

impl MadSink for Replies {
    fn deliver(&self, delivery: Delivery<'_>) {
        let reply = (delivery.outcome == Outcome::Arrived).then(|| delivery.mad.to_vec());
        let _ = self.0.lock().expect("no thread failed").send(reply);
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

fn table(records: usize, time: Duration) {
    let local = local();
    let (sender, replies) = mpsc::channel();
    let sink = Arc::new(Replies(Mutex::new(sender)));
    let port = UmadPort::open(&local, sink).expect("the port opens");
    let wanted = {
        let mut wanted = PathRecord::default();
        wanted.set_slid(local.lid);
        wanted
    };
    let mask = PathRecord::SLID;
    let query = testkit::sa_client::request(SaAttr::PATH_RECORD, Method::GET_TABLE, mask, &wanted);
    let to = Address::gsi(local.sm_lid, Sl(0));
    let mut waits = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time {
        let asked = Instant::now();
        let mad = testkit::sa_client::with_tid(query, waits.len() as u64 + 1);
        let timeout = Some(LOST);
        port.post(&Outgoing { agent: Agent::Sa, to, timeout, retries: 3, mad: &mad.0 })
            .expect("the port accepts the MAD");
        let reply = replies.recv_timeout(4 * LOST).expect("a reply").expect("no timeout");
        assert_eq!(Header::read(&reply).status(), 0, "the table is complete");
        assert_eq!((reply.len() - DATA_OFFSET) / PathRecord::STRIDE, records);
        waits.push(asked.elapsed());
    }
    let rate = waits.len() as f64 / start.elapsed().as_secs_f64();
    waits.sort_unstable();
    println!(
        "{rate:.1} tables/s of {records} records; median {:?}, longest {:?}",
        waits[waits.len() / 2],
        waits.last().copied().unwrap_or(Duration::ZERO)
    );
}
