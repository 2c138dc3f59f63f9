//! A small torus on one of the simulators, with managers at three hosts and an observer at a
//! fourth.

use super::observer::{Facts, Observer, Sample, States};
use super::{DISCOVERING, EYE, HOSTS, LIMIT, MASTER, PLACES, STANDBY, inside};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::{Ibsim, Running, Simulator, have, own_program, tool, torus_sm};
use torus_sm::fabric::ibnet;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, PortNum};
use torus_sm::sim::generate::Shape;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Program {
    Ours,
    Opensm,
}
use Program::{Opensm, Ours};

enum Simulation {
    Ibsim(Ibsim),
    Own(Simulator),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Ibsim,
    Own,
}

/// Time for which the roles must stay when nothing happens: more than the polling time.
const QUIET: Duration = Duration::from_millis(1200);

const RADIX: u16 = 4;

/// Times that a program is started to set IsSM.
const TRIES: usize = 3;

/// Number of changed LIDs, P_Key tables and path SLs that a failure shows.
const MAX_CHANGES: usize = 8;

pub(super) struct Manager {
    process: Running,
    pub program: Program,
    pub priority: u8,
}

impl Manager {
    fn signal(&self, name: &str) {
        let id = self.process.0.id().to_string();
        let status = Command::new("kill").arg(format!("-{name}")).arg(id).status();
        assert!(status.expect("kill(1) is there").success(), "{name}");
    }
}

/// A torus of 4x3 switches with a host each.
pub(super) struct Site {
    pub managers: [Option<Manager>; HOSTS],
    pub observer: Observer,
    /// Seconds between the sweeps of managers that are started from now on.
    pub sweep_interval: u32,
    kind: Kind,
    sim: Simulation,
    dir: TempDir,
    shape: Shape,
    topology: Topology,
    /// Events and the times until there was one master, for the message of a failure.
    pub log: Vec<String>,
}

impl Site {
    /// `None` if a program is not installed.
    pub(super) fn new(kind: Kind) -> Option<Self> {
        if !have(&["ibsim", "opensm"]) {
            return None;
        }
        let shape = Shape::torus([RADIX, 3, 1]);
        let topology = shape.build().expect("a shape that can be built");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text);
        write("torus-2QoS.conf", &shape.torus_conf()).expect("a file");
        write("partitions.conf", "Default=0x7fff: ALL=full;\na=0x11: ALL=full;\nb=0x12: ALL;\n")
            .expect("a file");
        write("fabric.net", &ibnet::write(&topology)).expect("a file");
        let fabric = dir.path().join("fabric.net");
        let sim = match kind {
            Kind::Ibsim => Simulation::Ibsim(Ibsim::start(&fabric)),
            Kind::Own => {
                let file = fabric.to_str().expect("a path in UTF-8");
                Simulation::Own(Simulator::start(&["--no-sm", "--file", file]))
            }
        };
        let observer = Observer::start(observer(&sim, &shape, &fabric, EYE));
        let managers = [const { None }; HOSTS];
        let sweep_interval = 1;
        let log = Vec::new();
        Some(Self { managers, observer, sweep_interval, kind, sim, dir, shape, topology, log })
    }

    /// An observer at another host.
    pub(super) fn observer_at(&self, at: [u16; 3]) -> Observer {
        let fabric = self.dir.path().join("fabric.net");
        let mut observer = Observer::start(observer(&self.sim, &self.shape, &fabric, at));
        for host in self.running() {
            observer.set_asked(host, true);
        }
        observer
    }

    pub(super) fn running(&self) -> Vec<usize> {
        (0..HOSTS).filter(|&host| self.managers[host].is_some()).collect()
    }

    fn guid(&self, host: usize) -> Guid {
        self.shape.host_guid(PLACES[host], 0)
    }

    fn dir(&self, host: usize) -> PathBuf {
        self.dir.path().join(format!("manager-{host}"))
    }

    fn manager(&self, host: usize) -> &Manager {
        self.managers[host].as_ref().expect("a running manager")
    }

    /// Starts a manager with fast polls and sweeps.
    pub(super) fn start(&mut self, program: Program, host: usize, priority: u8) {
        if (self.kind, program) != (Kind::Ibsim, Opensm) {
            return self.spawn(program, host, priority);
        }
        self.undisturbed(|site| {
            site.spawn(program, host, priority);
            let from = site.observer.fence();
            let answer = site.observer.wait_for(from, LIMIT, |states| states[host].is_some());
            if answer.is_none() {
                site.fail(&format!("no SMInfo from {host}"), from);
            }
        });
    }

    fn spawn(&mut self, program: Program, host: usize, priority: u8) {
        let dir = self.dir(host);
        fs::create_dir_all(&dir).expect("a folder");
        let conf = dir.join("opensm.conf");
        let text = format!(
            "sm_priority {priority}\nsminfo_polling_timeout 100\npolling_retry_number 4\n\
             sweep_interval {}\nhonor_guid2lid_file FALSE\n",
            self.sweep_interval
        );
        fs::write(&conf, text).expect("a file");
        let path = match program {
            Ours => torus_sm(),
            Opensm => tool("opensm").expect("checked before"),
        };
        let mut command = attached(&self.sim, self.guid(host), &path);
        command.env("OSM_TMP_DIR", &dir).env("OSM_CACHE_DIR", &dir);
        command.env("TORUS_SM_RUNTIME_DIR", &dir);
        command.args(["-d2", "-n", "64", "-R", "torus-2QoS", "-Q", "--torus_config"]);
        command.arg(self.dir.path().join("torus-2QoS.conf"));
        command.arg("-P").arg(self.dir.path().join("partitions.conf"));
        command.arg("-F").arg(conf).arg("-f").arg(dir.join("log"));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = Running(child.expect("the manager starts"));
        self.managers[host] = Some(Manager { process, program, priority });
        self.observer.set_asked(host, true);
    }

    /// The priority with which a running manager was started.
    pub(super) fn priority(&self, host: usize) -> u8 {
        self.manager(host).priority
    }

    /// The manager that the election demands among these: the highest priority, then the lowest
    /// GUID.
    pub(super) fn elected(&self, among: &[usize]) -> Option<usize> {
        let rank = |&host: &usize| (self.manager(host).priority, std::cmp::Reverse(host));
        among.iter().copied().max_by_key(rank)
    }

    /// Does `event` while ibsim delivers no MAD to or from opensm, which would wait for lost ones
    /// for ever. Real fabrics lose them too, but there umad reports a timeout.
    fn undisturbed(&mut self, event: impl FnOnce(&mut Self)) {
        let stopped = match self.kind {
            Kind::Own => Vec::new(),
            Kind::Ibsim => {
                let is_opensm = |host: &usize| self.manager(*host).program == Opensm;
                self.running().into_iter().filter(is_opensm).collect()
            }
        };
        for &host in &stopped {
            self.observer.set_asked(host, false);
        }
        // Their answers are on the way before they stop, the others' afterwards.
        self.observer.fence();
        stopped.iter().for_each(|&host| self.manager(host).signal("STOP"));
        for _ in 0..2 {
            let from = self.observer.fence();
            self.observer.wait_for(from, LIMIT, |_| true).expect("a round");
        }
        event(self);
        for host in stopped {
            if let Some(manager) = &self.managers[host] {
                manager.signal("CONT");
                self.observer.set_asked(host, true);
            }
        }
    }

    /// Kills a manager by SIGKILL.
    pub(super) fn kill(&mut self, host: usize) {
        self.undisturbed(|site| {
            site.managers[host] = None;
            // The first MAD that ibsim cannot deliver tells it of the end.
            site.observer.set_asked(host, true);
            let from = site.observer.fence();
            site.observer.wait_for(from, LIMIT, |states| states[host].is_none()).expect("a round");
            site.observer.set_asked(host, false);
        });
    }

    /// Ends a manager by SIGTERM and returns the time it took.
    pub(super) fn end(&mut self, host: usize) -> Duration {
        let mut manager = self.managers[host].take().expect("a running manager");
        let start = Instant::now();
        manager.signal("TERM");
        while manager.process.0.try_wait().expect("a child").is_none() {
            if start.elapsed() > LIMIT {
                self.fail(&format!("the manager at {host} does not end"), 0);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let took = start.elapsed();
        self.observer.set_asked(host, false);
        took
    }

    /// Freezes a manager. ibsim would stand still if the observer asked it for long.
    pub(super) fn freeze(&mut self, host: usize) {
        if self.kind == Kind::Ibsim {
            self.observer.set_asked(host, false);
            self.observer.fence();
        }
        self.manager(host).signal("STOP");
    }

    pub(super) fn thaw(&mut self, host: usize) {
        self.manager(host).signal("CONT");
        self.observer.set_asked(host, true);
    }

    /// Unplugs the cable of a host.
    pub(super) fn unplug(&mut self, host: usize) {
        let guid = self.guid(host);
        self.undisturbed(|site| site.set_cable((guid, PortNum(1)), false));
    }

    /// Plugs it in again.
    pub(super) fn plug_in(&mut self, host: usize) {
        let guid = self.guid(host);
        self.undisturbed(|site| {
            site.set_cable((guid, PortNum(1)), true);
            if site.kind == Kind::Ibsim {
                site.set_is_sm(guid);
            }
        });
    }

    /// Sets IsSM of a port. It is tried again, because on a busy machine a program with ibsim's library
    /// ended without a message.
    fn set_is_sm(&self, guid: Guid) {
        let mut found = Vec::new();
        while found.len() < TRIES {
            let mut command = attached(&self.sim, guid, &own_program());
            inside::prepare_is_sm(&mut command);
            let output = command.output().expect("the test program starts");
            if String::from_utf8_lossy(&output.stdout).contains("IsSM is set") {
                return;
            }
            found.push(output);
        }
        panic!("IsSM cannot be set: {found:?}");
    }

    /// Cuts the torus into halves, or joins them again: switches 0 and 1 of the first axis, and
    /// switches 2 and 3.
    pub(super) fn set_halves(&mut self, is_joined: bool) {
        let half = |guid| {
            let at = positions().find(|&at| self.shape.switch_guid(at) == guid);
            at.map(|at| at[0] / (RADIX / 2))
        };
        let node = |index: usize| self.topology.nodes[index].guid;
        let cables = self.topology.cables.iter().filter_map(|&[(a, port), (b, _)]| {
            let here = half(node(a))?;
            let there = half(node(b))?;
            (here != there).then_some((node(a), port))
        });
        let cables: Vec<_> = cables.collect();
        assert_eq!(cables.len(), 6);
        self.undisturbed(|site| {
            cables.iter().for_each(|&cable| site.set_cable(cable, is_joined));
        });
    }

    fn set_cable(&mut self, (guid, port): (Guid, PortNum), is_up: bool) {
        match &mut self.sim {
            Simulation::Own(sim) => {
                let command = if is_up { "relink" } else { "unlink" };
                sim.control(&[command, &format!("{guid}[{port}]")]);
            }
            Simulation::Ibsim(sim) => {
                let is_switch = positions().any(|at| self.shape.switch_guid(at) == guid);
                let kind = if is_switch { 'S' } else { 'H' };
                let command = if is_up { "ReLink" } else { "Unlink" };
                sim.type_line(&format!("{command} \"{kind}-{:016x}\"[{port}]", guid.0));
                // The console has no reply.
                self.observer.fence();
                let from = self.observer.fence();
                self.observer.wait_for(from, LIMIT, |_| true).expect("a round");
            }
        }
    }

    /// Waits until the states fit, and returns the time it took.
    #[track_caller]
    pub(super) fn expect(&mut self, what: &str, fits: impl Fn(&States) -> bool) -> Duration {
        let start = Instant::now();
        let from = self.observer.fence();
        let found = self.observer.wait_for(from, LIMIT, fits);
        let Some(Sample { at, .. }) = found else {
            self.fail(&format!("{what}: not within {LIMIT:?}"), from);
        };
        at - start
    }

    /// Waits until exactly this one of the connected managers is master.
    #[track_caller]
    pub(super) fn expect_master(&mut self, what: &str, master: usize) -> Duration {
        let took =
            self.expect(&format!("{what}: master {master}"), |states| is_only(states, master));
        self.log.push(format!("{what}: {master} is the only master after {took:?}"));
        took
    }

    /// As [`Self::expect_master`], and this one stays the only master for more than the polling
    /// time. The others may look for another SM.
    #[track_caller]
    pub(super) fn settle(&mut self, what: &str, master: usize) -> Duration {
        let took = self.expect_master(what, master);
        self.stay(what, master);
        took
    }

    #[track_caller]
    pub(super) fn stay(&mut self, what: &str, master: usize) {
        let from = self.observer.fence();
        std::thread::sleep(QUIET);
        self.observer.fence();
        let samples = self.observer.samples(from);
        // A reply can be late on a busy machine.
        let is_wrong = |sample: &&Sample| {
            let mut states = sample.states;
            states[master].get_or_insert(MASTER);
            !is_only(&states, master)
        };
        for host in 0..HOSTS {
            let mut states = samples.iter().filter_map(|sample| sample.states[host]);
            let left =
                states.any(|state| state == STANDBY) && states.any(|state| state == DISCOVERING);
            if left {
                let program = self.managers[host].as_ref().map(|manager| manager.program);
                self.log
                    .push(format!("{what}: {program:?} at {host} left STANDBY for DISCOVERING"));
            }
        }
        let has_answered = samples.iter().any(|sample| is_only(&sample.states, master));
        if !has_answered || samples.iter().any(|sample| is_wrong(&sample)) {
            self.fail(&format!("{what}, a while later: master {master} is not alone"), from);
        }
    }

    /// Waits until LIDs, P_Key tables and path SLs are these.
    #[track_caller]
    pub(super) fn expect_facts(&mut self, what: &str, expected: &Facts) {
        let start = Instant::now();
        loop {
            let facts = self.observer.facts();
            if facts == *expected {
                return;
            }
            let change = |(name, value): (&String, &String)| {
                let now = facts.get(name).filter(|now| *now != value)?;
                Some(format!("{name}: {value}, then {now}"))
            };
            let changes: Vec<String> = expected.iter().filter_map(change).collect();
            // Devices and paths may be unknown for a moment, but no LID may change.
            let is_moved = |change: &String| {
                change.starts_with("lid") && !change.ends_with(" -") && !change.ends_with(" 0")
            };
            if start.elapsed() > LIMIT || changes.iter().any(is_moved) {
                let shown = &changes[..changes.len().min(MAX_CHANGES)];
                let count = changes.len();
                self.fail(&format!("{what}: {count} changes:\n{}", shown.join("\n")), 0);
            }
        }
    }

    /// LIDs, P_Key tables and path SLs, as soon as all have been assigned.
    #[track_caller]
    pub(super) fn first_facts(&mut self) -> Facts {
        let start = Instant::now();
        loop {
            let facts = self.observer.facts();
            let is_known = |value: &String| value != "-" && value != "0000" && !value.contains(' ');
            let hosts = positions().count();
            let is_complete = facts.len() == 3 * hosts + hosts * hosts
                && facts.values().all(is_known)
                && facts.iter().all(|(name, lid)| !name.starts_with("lid") || lid != "0");
            if is_complete {
                return facts;
            }
            if start.elapsed() > LIMIT {
                self.fail(&format!("the first master left: {facts:#?}"), 0);
            }
        }
    }

    /// Fails with the story, the states from sample `from` on, and the logs.
    #[track_caller]
    pub(super) fn fail(&self, what: &str, from: usize) -> ! {
        let history = self.observer.history(from);
        let logs = (0..HOSTS).map(|host| {
            let log = fs::read_to_string(self.dir(host).join("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(60)..];
            format!("--- manager {host}:\n{}", tail.join("\n"))
        });
        let logs: Vec<String> = logs.collect();
        panic!(
            "{}\n{what}\nstates of {:?}:\n{history}{}",
            self.log.join("\n"),
            ["A", "B", "C"],
            logs.join("\n")
        );
    }
}

fn positions() -> impl Iterator<Item = [u16; 3]> {
    (0..RADIX).flat_map(|x| (0..3).map(move |y| [x, y, 0]))
}

/// True if this manager is master and no other.
pub(super) fn is_only(states: &States, master: usize) -> bool {
    let masters = states.iter().filter(|state| **state == Some(MASTER)).count();
    masters == 1 && states[master] == Some(MASTER)
}

/// A command attached at a host.
fn attached(sim: &Simulation, host: Guid, program: &Path) -> Command {
    match sim {
        Simulation::Ibsim(sim) => sim.command(&format!("H-{:016x}", host.0), program),
        Simulation::Own(sim) => sim.command(&host.to_string(), program),
    }
}

fn observer(sim: &Simulation, shape: &Shape, fabric: &Path, at: [u16; 3]) -> Command {
    let own = shape.host_guid(at, 0);
    let mut command = attached(sim, own, &own_program());
    inside::prepare(&mut command, fabric, own, PLACES.map(|at| shape.host_guid(at, 0)));
    command
}
