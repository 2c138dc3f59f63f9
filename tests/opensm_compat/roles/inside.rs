//! The observer inside the fabric: this test program, started once more at a host. It asks for the
//! SMInfo of the managers' ports all the time and prints a line for each round.
//!
//! Commands come from standard input: `ask N` and `skip N` (a port), `mark N` (is printed
//! before the next round), `facts` (prints LIDs, P_Key tables and path SLs).

use super::HOSTS;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::fs;
use std::io::{BufRead, Write};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use testkit::sa_client::{DEFAULT_PREFIX, is_inside, path_query, with_tid};
use testkit::{directed_route, test_name};
use torus_sm::fabric::ibnet;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Lid, MKey, PortNum, Sl};
use torus_sm::transport::sysfs::Sysfs;
use torus_sm::transport::umad::UmadPort;
use torus_sm::transport::{Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing};
use torus_sm::wire::attr::{AttrId, NodeKind, PortInfo, SmInfo};
use torus_sm::wire::bits::Field;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{PathRecord, Record};
use torus_sm::wire::sa::DATA_OFFSET;
use torus_sm::wire::smp::{DirectedRoute, SmpFields, SmpRoute, request};

/// The variable with the fabric file and the node GUIDs of the observer and of the managers.
const VARIABLE: &str = "TORUS_SM_OBSERVED";

/// Time in which a manager must answer.
const TIMEOUT: Duration = Duration::from_millis(100);
/// The same for the subnet administrator, which may be busy.
const SA_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause between rounds.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of requests in flight.
const WINDOW: usize = 8;

/// Lets `command` run the observer of this fabric.
pub(super) fn prepare(command: &mut Command, fabric: &Path, own: Guid, managers: [Guid; HOSTS]) {
    let guids: Vec<String> =
        [own].iter().chain(&managers).map(|guid| format!("{:x}", guid.0)).collect();
    command.env(VARIABLE, format!("{} {}", guids.join(" "), fabric.display()));
    run_only(command, "observe");
}

/// Lets `command` set IsSM of its port, as a real port has it as long as an SM runs.
pub(super) fn prepare_is_sm(command: &mut Command) {
    run_only(command, "set_is_sm");
}

fn run_only(command: &mut Command, name: &str) {
    command.args(["--ignored", "--exact", "--nocapture", "--test-threads=1"]);
    command.arg(test_name(module_path!(), name));
}

/// A delivered MAD: a reply, or a request without one.
type Arrival = (Outcome, Vec<u8>);

struct Replies(Mutex<mpsc::Sender<Arrival>>);

impl MadSink for Replies {
    fn deliver(&self, delivery: Delivery<'_>) {
        if let Ok(replies) = self.0.lock() {
            let _ = replies.send((delivery.outcome, delivery.mad.to_vec()));
        }
    }
    fn idle(&self) {}
    fn closed(&self, _: &str) {}
}

struct Client {
    port: UmadPort,
    arrivals: mpsc::Receiver<Arrival>,
    tid: u32,
}

impl Client {
    fn open() -> Self {
        let ports = Sysfs::default().ports().expect("the preloaded library shows a port");
        let local = ports.first_usable().expect("a port").clone();
        let (sender, arrivals) = mpsc::channel();
        let port = UmadPort::open(&local, Arc::new(Replies(Mutex::new(sender))));
        Self { port: port.expect("the port opens"), arrivals, tid: 0 }
    }

    /// Sends requests and waits for the replies, `WINDOW` at a time.
    fn call(
        &mut self,
        (agent, to): (Agent, Address),
        mads: &[Mad],
        limit: Duration,
    ) -> Vec<Option<Mad>> {
        let windows = mads.chunks(WINDOW);
        windows.flat_map(|mads| self.call_at_once((agent, to), mads, limit)).collect()
    }

    fn call_at_once(
        &mut self,
        (agent, to): (Agent, Address),
        mads: &[Mad],
        limit: Duration,
    ) -> Vec<Option<Mad>> {
        let first = self.tid + 1;
        let mut waiting = vec![false; mads.len()];
        for (mad, waiting) in mads.iter().zip(&mut waiting) {
            self.tid += 1;
            let mad = with_tid(*mad, self.tid.into());
            let out = Outgoing { agent, to, timeout: Some(limit), retries: 0, mad: &mad.0 };
            *waiting = self.port.post(&out).is_ok();
        }
        let mut replies = vec![None; mads.len()];
        // ibsim's library has no timeouts.
        let deadline = Instant::now() + limit + limit / 2;
        while waiting.contains(&true) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((outcome, bytes)) = self.arrivals.recv_timeout(left) else { break };
            let index = (Header::read(&bytes).tid() as u32).wrapping_sub(first) as usize;
            if !waiting.get(index).copied().unwrap_or(false) {
                continue;
            }
            waiting[index] = false;
            if outcome == Outcome::Arrived {
                let mut mad = Mad::default();
                let length = bytes.len().min(mad.0.len());
                mad.0[..length].copy_from_slice(&bytes[..length]);
                replies[index] = Some(mad);
            }
        }
        replies
    }

    fn get(&mut self, routes: &[SmpRoute], attribute: u16) -> Vec<Option<Mad>> {
        let get = |route| {
            request(
                route,
                SmpFields {
                    method: Method::GET,
                    attr_id: attribute,
                    attr_mod: 0,
                    m_key: MKey::NONE,
                    tid: 0,
                },
                &[0; 64],
            )
        };
        let mads: Vec<Mad> = routes.iter().map(get).collect();
        self.call((Agent::SmiDirected, Address::smi(Lid::PERMISSIVE)), &mads, TIMEOUT)
    }

    /// LIDs and P_Key tables of all nodes, and the SLs of the paths between all hosts.
    fn facts(&mut self, topology: &Topology, own: Guid) -> Vec<String> {
        let nodes: Vec<_> = topology.nodes.iter().collect();
        let route = |guid| SmpRoute::Directed(directed_route(topology, own, guid));
        let routes: Vec<SmpRoute> = nodes.iter().map(|node| route(node.guid)).collect();
        let lids = self.get(&routes, AttrId::PORT_INFO);
        let keys = self.get(&routes, AttrId::PKEY_TABLE);
        let mut lines = Vec::new();
        for ((node, lid), keys) in nodes.iter().zip(lids).zip(keys) {
            let lid = lid.map(|mad| PortInfo::read(mad.smp_data()).lid().0);
            lines.push(format!("lid {} = {}", node.guid, shown(lid)));
            if node.kind == NodeKind::Ca {
                let keys = keys.map(|mad| hexadecimal(&mad.smp_data()[..24]));
                lines.push(format!("P_Keys {} = {}", node.guid, shown(keys)));
            }
        }
        lines.extend(self.path_sls(topology));
        lines
    }

    fn path_sls(&mut self, topology: &Topology) -> Vec<String> {
        let local = [SmpRoute::Directed(DirectedRoute::LOCAL)];
        let own = self.get(&local, AttrId::PORT_INFO).remove(0);
        let Some(own) = own.map(|mad| PortInfo::read(mad.smp_data())) else { return Vec::new() };
        let hosts = topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
        let ports: Vec<Guid> = hosts.map(|node| node.port_guid(PortNum(1))).collect();
        let pairs: Vec<[Guid; 2]> =
            ports.iter().flat_map(|&from| ports.iter().map(move |&to| [from, to])).collect();
        let queries: Vec<Mad> =
            pairs.iter().map(|&pair| path_query(DEFAULT_PREFIX, pair)).collect();
        let sa = (Agent::Sa, Address::gsi(own.master_sm_lid(), Sl(0)));
        let replies = self.call(sa, &queries, SA_TIMEOUT);
        let lines = pairs.iter().zip(replies).map(|([from, to], reply)| {
            let sl = reply.map(|mad| match mad.header().status() {
                0 => PathRecord::parse(&mad.0[DATA_OFFSET..]).sl().to_string(),
                status => format!("status 0x{status:x}"),
            });
            format!("SL {from} {to} = {}", shown(sl))
        });
        lines.collect()
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// The fabric and the routes to the managers.
struct Task {
    topology: Topology,
    own: Guid,
    routes: Vec<SmpRoute>,
}

impl Task {
    fn from_environment() -> Self {
        let text = std::env::var(VARIABLE).expect("set by `prepare`");
        let words: Vec<&str> = text.splitn(HOSTS + 2, ' ').collect();
        let [guids @ .., file] = words.as_slice() else { panic!("{text}") };
        let guids: Vec<Guid> =
            guids.iter().map(|word| Guid(u64::from_str_radix(word, 16).expect("a GUID"))).collect();
        let text = fs::read_to_string(file).expect("the fabric file");
        let topology = ibnet::parse(Path::new(file), &text)
            .expect("a fabric file that was written by this test");
        let route = |&to: &Guid| SmpRoute::Directed(directed_route(&topology, guids[0], to));
        let routes = guids[1..].iter().map(route).collect();
        Self { own: guids[0], routes, topology }
    }
}

/// Lines of standard input; their end ends the program.
fn commands() -> mpsc::Receiver<String> {
    let (sender, commands) = mpsc::channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
        std::process::exit(0);
    });
    commands
}

#[test]
#[ignore = "runs inside a fabric"]
fn observe() {
    if !is_inside() {
        return;
    }
    let task = Task::from_environment();
    let commands = commands();
    let mut client = Client::open();
    let mut is_asked = [false; HOSTS];
    // The test harness has begun a line.
    println!();
    loop {
        for command in commands.try_iter() {
            match command.split_once(' ') {
                Some(("ask", host)) => is_asked[host.parse::<usize>().expect("a host")] = true,
                Some(("skip", host)) => is_asked[host.parse::<usize>().expect("a host")] = false,
                Some(("mark", _)) => println!("{command}"),
                _ => {
                    let facts = client.facts(&task.topology, task.own);
                    println!("{}\nfacts end", facts.join("\n"));
                }
            }
        }
        let hosts = (0..HOSTS).filter(|&host| is_asked[host]).collect::<Vec<_>>();
        let routes: Vec<SmpRoute> = hosts.iter().map(|&host| task.routes[host]).collect();
        let mut states = [None; HOSTS];
        for (&host, reply) in hosts.iter().zip(client.get(&routes, AttrId::SM_INFO)) {
            let reply = reply.filter(|mad| mad.header().status() & 0x7FFF == 0);
            states[host] = reply.map(|mad| SmInfo::read(mad.smp_data()).state().to_bits());
        }
        println!("states {}", states.map(shown).join(" "));
        std::io::stdout().flush().expect("the test reads");
        std::thread::sleep(PAUSE);
    }
}

#[test]
#[ignore = "runs inside a fabric"]
fn set_is_sm() {
    if !is_inside() {
        return;
    }
    // ibsim's library is ready when its sysfs has been read.
    Sysfs::default().ports().expect("the preloaded library shows a port");
    // ibsim's library replaces open(2), but not open64(2), which std calls.
    let file = open("/dev/infiniband/issm0", OFlag::O_RDWR, Mode::empty());
    // Not closed, since that clears IsSM.
    std::mem::forget(file.expect("the device opens"));
    println!("IsSM is set");
    std::process::exit(0);
}
