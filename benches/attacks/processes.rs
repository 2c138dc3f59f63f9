//! Attacks on a subnet manager in a process of its own, on Debian's ibsim or on the embedded
//! simulator. The clients are processes, too (`clients`): this program, started inside the fabric.
//!
//! ibsim knows no RMPP: of the attacks by RMPP packets, there are none here, and of a table it delivers
//! the first segment only.

use super::clients::ROLE;
use super::floods::Attack;
use super::verdict::{Cost, Report};
use super::{IDLE, LOST, REROUTES, RETURN_TIME, Settings, median};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use testkit::{Ibsim, Running, Simulator, have, own_program, tool, torus_sm, wait_for};
use torus_sm::fabric::ibnet;
use torus_sm::ids::Guid;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::attr::NodeKind;

/// Time limit for the first sweep.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time for attackers to start before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// Interval of readings of the memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(20);

/// A flight recorder of 1 MiB. One of the default size would keep up to 32 MiB of the attack's MADs,
/// by design, which would hide what else stays.
const SMALL_RECORDER: &str = "recorder_size 1\n";

/// Simulator and subnet manager.
pub(super) struct Site {
    is_ibsim: bool,
    is_opensm: bool,
}

impl Site {
    /// The site by `--over` and `--sm`; `None` if the daemon runs in this process.
    pub(super) fn of_arguments() -> Option<Self> {
        let is_ibsim = match value("--over=")?.as_str() {
            "ibsim" => true,
            "embedded" => false,
            other => panic!("--over={other}: ibsim or embedded"),
        };
        let is_opensm = match value("--sm=").as_deref() {
            Some("opensm") => true,
            Some("torus-sm") | None => false,
            Some(other) => panic!("--sm={other}: opensm or torus-sm"),
        };
        Some(Self { is_ibsim, is_opensm })
    }

    /// Runs an attack; true if the limits were kept, `None` if it is not possible here. An SM that
    /// does not answer the quiet client at all has not kept them.
    pub(super) fn run(&self, attack: Attack, settings: &Settings) -> Option<bool> {
        let parts = attack.parts();
        let parts: Vec<Attack> =
            parts.into_iter().filter(|part| !part.needs_raw_packets()).collect();
        let is_possible =
            (!self.is_ibsim || have(&["ibsim"])) && (!self.is_opensm || tool("opensm").is_some());
        if parts.is_empty() || !is_possible {
            return None;
        }
        let manager = if self.is_opensm { "opensm" } else { "torus-sm" };
        let name = format!("{attack:?}, {manager}");
        let mut run = Run::start(self, settings);
        let Some([calm, aside, attacked]) = run.costs(&parts, settings) else {
            println!("{name}:\n  EXCEEDED: the SM does not answer the quiet client");
            return Some(false);
        };
        for number in 0..parts.len() {
            let attacker = run.attacker(number);
            run.fabric.set_link(&attacker, 1, false);
        }
        sleep(RETURN_TIME);
        let left = resident_memory(run.sm.0.id()).saturating_sub(calm.memory);
        Some(Report { name, calm, aside, attacked, left }.print())
    }
}

fn value(name: &str) -> Option<String> {
    std::env::args().find_map(|word| Some(word.strip_prefix(name)?.to_owned()))
}

/// A simulated fabric.
enum AttackedFabric {
    Ibsim(Ibsim),
    Embedded(Simulator),
}

impl AttackedFabric {
    fn start(is_ibsim: bool, shape: &Shape, folder: &Path) -> Self {
        let topology = shape.build().expect("a shape that can be built");
        let file = folder.join("fabric.net");
        fs::write(&file, ibnet::write(&topology)).expect("a file");
        if is_ibsim {
            Self::Ibsim(Ibsim::start(&file))
        } else {
            Self::Embedded(Simulator::start(&["--no-sm", "--file", file.to_str().expect("text")]))
        }
    }

    /// A command attached to the fabric at a node.
    fn command(&self, at: &str, program: &Path) -> Command {
        match self {
            Self::Ibsim(ibsim) => ibsim.command(at, program),
            Self::Embedded(simulator) => simulator.command(at, program),
        }
    }

    /// Unplugs the cable at a port, or plugs it in again.
    fn set_link(&mut self, node: &str, port: u8, is_up: bool) {
        match self {
            Self::Ibsim(ibsim) => {
                let command = if is_up { "ReLink" } else { "Unlink" };
                ibsim.type_line(&format!("{command} \"{node}\"[{port}]"));
            }
            Self::Embedded(simulator) => {
                let command = if is_up { "relink" } else { "unlink" };
                simulator.control(&[command, &format!("{node}[{port}]")]);
            }
        }
    }
}

/// A subnet manager on a fabric.
struct Run {
    fabric: AttackedFabric,
    shape: Shape,
    /// Names of the hosts.
    hosts: Vec<String>,
    sm: Running,
    _folder: tempfile::TempDir,
}

impl Run {
    fn start(site: &Site, settings: &Settings) -> Self {
        let shape: Shape = settings.shape.parse().expect("a shape");
        let shape = Shape { hosts: settings.hosts, ..shape };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let fabric = AttackedFabric::start(site.is_ibsim, &shape, folder.path());
        let nodes = shape.build().expect("a shape that can be built").nodes;
        let hosts = nodes.iter().filter(|node| node.kind == NodeKind::Ca);
        let hosts: Vec<String> = hosts.map(|node| host_name(node.guid)).collect();
        let conf = folder.path().join("torus-2QoS.conf");
        fs::write(&conf, shape.torus_conf()).expect("a file");
        let log = folder.path().join("sm.log");
        let program: PathBuf =
            if site.is_opensm { tool("opensm").expect("checked before") } else { torus_sm() };
        let options = folder.path().join("sm.conf");
        fs::write(&options, if site.is_opensm { "" } else { SMALL_RECORDER }).expect("a file");
        let first = host_name(shape.host_guid([0; 3], 0));
        let sm = fabric
            .command(&first, &program)
            .arg("-F")
            .arg(&options)
            .args(["-d2", "-n", "64", "-s", "10", "-R", "torus-2QoS", "-Q", "--torus_config"])
            .arg(&conf)
            .arg("-f")
            .arg(&log)
            .env("OSM_CACHE_DIR", folder.path())
            .env("OSM_TMP_DIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let sm = Running(sm.expect("the subnet manager starts"));
        wait_for(&log, "SUBNET UP", START_LIMIT);
        sleep(IDLE);
        Self { fabric, shape, hosts, sm, _folder: folder }
    }

    /// The name of an attacking host.
    fn attacker(&self, number: usize) -> String {
        self.hosts[self.hosts.len() - 1 - number].clone()
    }

    /// Starts a client at a host.
    fn client(&self, at: &str, role: &str) -> (Running, BufReader<ChildStdout>) {
        let mut command = self.fabric.command(at, &own_program());
        command.env(ROLE, role).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child: Child = command.spawn().expect("the client starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        (Running(child), output)
    }

    /// The figures in the calm, beside a flood aimed at a host, and beside one aimed at the SM.
    fn costs(&mut self, parts: &[Attack], settings: &Settings) -> Option<[Cost; 3]> {
        let calm = self.measure(&[], settings)?;
        let aside = self.under(parts, "host", settings)?;
        Some([calm, aside, self.under(parts, "sm", settings)?])
    }

    /// [`Self::measure`] while each attacker floods the SM (`sm`) or a host (`host`).
    fn under(&mut self, parts: &[Attack], to: &str, settings: &Settings) -> Option<Cost> {
        let to = if to == "sm" { "sm".to_owned() } else { format!("{}", self.victim().0) };
        let attackers: Vec<_> = (parts.iter().zip(settings.seed..).enumerate())
            .map(|(number, (part, seed))| {
                let role = format!("attack {part:?} {} {seed} {to}", settings.rate);
                self.client(&self.attacker(number), &role)
            })
            .collect();
        self.measure(&attackers, settings)
    }

    /// Port GUID of the host that is flooded beside the SM.
    fn victim(&self) -> Guid {
        Guid(self.shape.host_guid([0, 1, 0], 0).0 + 1)
    }

    /// The latency of a quiet client, then the reroutes; `None` if the client failed.
    fn measure(
        &mut self,
        attackers: &[(Running, BufReader<ChildStdout>)],
        settings: &Settings,
    ) -> Option<Cost> {
        if !attackers.is_empty() {
            sleep(WARM_UP);
        }
        let memory = MemoryWatch::start(self.sm.0.id());
        let middle = self.shape.switch_guid(self.shape.radix.map(|radix| radix / 2));
        let at = host_name(self.shape.host_guid([1, 1, 0], 0));
        let ports = self.hosts.len() + self.hosts.len() / usize::from(settings.hosts.max(1));
        let role = format!("quiet {} {} {}", settings.seconds, middle.0, ports / 64 + 1);
        let (_quiet, mut output) = self.client(&at, &role);
        let mut cost = parse_latency(&line(&mut output)?)?;
        let switch = format!("S-{:016x}", middle.0);
        let reroutes = (1..=REROUTES).map(|num| {
            let [lost, _] =
                [false, true].map(|is_up| self.reroute(&mut output, &switch, num, is_up));
            lost.unwrap_or(LOST)
        });
        cost.reroute = median(reroutes.collect());
        sleep(IDLE);
        cost.memory = memory.stop();
        Some(cost)
    }

    /// The time from a change of a link to the last change of a forwarding table, as the quiet client
    /// finds it; `None` if it finds none.
    fn reroute(
        &mut self,
        output: &mut BufReader<ChildStdout>,
        switch: &str,
        num: u8,
        is_up: bool,
    ) -> Option<Duration> {
        let is_ready = line(output).is_some();
        let start = unix_time();
        self.fabric.set_link(switch, num, is_up);
        let last: u64 = line(output).filter(|_| is_ready)?.parse().ok()?;
        Some(Duration::from_micros(last).saturating_sub(start))
    }
}

fn host_name(guid: Guid) -> String {
    format!("H-{:016x}", guid.0)
}

fn line(output: &mut BufReader<ChildStdout>) -> Option<String> {
    let mut line = String::new();
    output.read_line(&mut line).ok().filter(|&length| length > 0)?;
    Some(line.trim().to_owned())
}

/// Replies, requests and 99th percentile in microseconds.
fn parse_latency(line: &str) -> Option<Cost> {
    let mut numbers = line.split(' ').map_while(|word| word.parse::<u64>().ok());
    let [replies, sent] = [numbers.next()? as usize, numbers.next()? as usize];
    let p99 = Duration::from_micros(numbers.next()?);
    Some(Cost { replies, sent, p99, reroute: LOST, memory: 0 })
}

/// Time since 1970.
pub(super) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is set")
}

/// Resident memory of a process in KiB.
fn resident_memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Reads the memory of a process until it is stopped.
struct MemoryWatch {
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<u64>,
}

impl MemoryWatch {
    fn start(pid: u32) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let same = is_over.clone();
        let thread = thread::spawn(move || {
            let mut most = 0;
            let start = Instant::now();
            while !same.load(Ordering::Relaxed) && start.elapsed() < Duration::from_secs(600) {
                most = most.max(resident_memory(pid));
                sleep(MEMORY_INTERVAL);
            }
            most
        });
        Self { is_over, thread }
    }

    /// The maximum in KiB.
    fn stop(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the thread does not panic")
    }
}
