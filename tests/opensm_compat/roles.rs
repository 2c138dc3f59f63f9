//! torus-sm and Debian's opensm as managers of one fabric, on ibsim and on torus-sm's own
//! simulator: there is always exactly one master, which a third port observes by `sminfo`.
//!
//! ibsim's preloaded library has no timeouts, so that opensm waits for the reply of a frozen or
//! starting SM for ever, and ibsim clears IsSM of a port whose link goes down. Tests with frozen
//! SMs and lost links therefore run on torus-sm's simulator only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::{Ibsim, Running, Simulator, directed_route, have, tool, torus_sm};
use torus_sm::fabric::ibnet;
use torus_sm::fabric::topology::Topology;
use torus_sm::sim::generate::Shape;

/// The hosts of managers, and the observer.
const A: u16 = 0;
const B: u16 = 1;
const C: u16 = 2;
const EYE: u16 = 3;

const STANDBY: u8 = 2;
const MASTER: u8 = 3;

/// Time limit of a start, a sweep or a takeover. The polling time is half a second.
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Program {
    Ours,
    Opensm,
}
use Program::{Opensm, Ours};

enum Simulation {
    Ibsim(Ibsim),
    Own(Simulator),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Ibsim,
    Own,
}

/// A ring of four switches with a host each.
struct Site {
    sim: Simulation,
    dir: TempDir,
    shape: Shape,
    topology: Topology,
}

impl Site {
    fn new(kind: Kind) -> Option<Self> {
        if !have(&["ibsim", "opensm", "sminfo"]) {
            return None;
        }
        let shape = Shape::torus([4, 1, 1]);
        let topology = shape.build().expect("a shape that can be built");
        let dir = tempfile::tempdir().expect("a temporary folder");
        let fabric = dir.path().join("fabric.net");
        fs::write(&fabric, ibnet::write(&topology)).expect("a file");
        let sim = match kind {
            Kind::Ibsim => Simulation::Ibsim(Ibsim::start(&fabric)),
            Kind::Own => {
                let file = fabric.to_str().expect("a path in UTF-8");
                Simulation::Own(Simulator::start(&["--no-sm", "--file", file]))
            }
        };
        Some(Self { sim, dir, shape, topology })
    }

    /// A command attached at a host.
    fn command(&self, at: u16, program: &Path) -> Command {
        let guid = self.shape.host_guid([at, 0, 0], 0);
        match &self.sim {
            Simulation::Ibsim(sim) => sim.command(&format!("H-{:016x}", guid.0), program),
            Simulation::Own(sim) => sim.command(&guid.to_string(), program),
        }
    }

    fn dir(&self, at: u16) -> PathBuf {
        self.dir.path().join(format!("manager-{at}"))
    }

    /// Starts a manager with fast polls and sweeps.
    fn start(&self, program: Program, at: u16, priority: u8) -> Manager {
        let dir = self.dir(at);
        fs::create_dir_all(&dir).expect("a folder");
        let conf = dir.join("opensm.conf");
        let text = format!(
            "sm_priority {priority}\nsminfo_polling_timeout 100\npolling_retry_number 4\n\
             sweep_interval 1\nhonor_guid2lid_file FALSE\n"
        );
        fs::write(&conf, text).expect("a file");
        let path = match program {
            Ours => torus_sm(),
            Opensm => tool("opensm").expect("checked before"),
        };
        let mut command = self.command(at, &path);
        command.env("OSM_TMP_DIR", &dir).env("OSM_CACHE_DIR", &dir);
        command.arg("-F").arg(conf).arg("-f").arg(dir.join("log")).args(["-d2", "-n", "64"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Manager(Running(child.expect("the manager starts")))
    }

    /// The state of the manager at a host; `None` without an answer.
    fn state(&self, at: u16) -> Option<u8> {
        let guid = |at| self.shape.host_guid([at, 0, 0], 0);
        let route = directed_route(&self.topology, guid(EYE), guid(at)).to_string();
        let mut command = self.command(EYE, &tool("sminfo").expect("checked before"));
        let output = command.args(["-t", "50", "-D", &route]).output().expect("sminfo starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let state = text.split_once(" state ")?.1;
        state.split(' ').next()?.parse().ok()
    }

    /// Waits until the managers have these states; returns the time it took.
    #[track_caller]
    fn expect(&self, what: &str, expected: &[(u16, Option<u8>)]) -> Duration {
        let start = Instant::now();
        loop {
            let found: Vec<_> = expected.iter().map(|&(at, _)| (at, self.state(at))).collect();
            if found == expected {
                return start.elapsed();
            }
            if start.elapsed() > LIMIT {
                let logs = expected.iter().map(|&(at, _)| {
                    let log = fs::read_to_string(self.dir(at).join("log")).unwrap_or_default();
                    format!("--- manager {at}:\n{log}")
                });
                let logs: Vec<String> = logs.collect();
                panic!("{what}: {found:?} instead of {expected:?}\n{}", logs.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// As [`Self::expect`], and the states stay for more than the polling time.
    #[track_caller]
    fn settle(&self, what: &str, expected: &[(u16, Option<u8>)]) -> Duration {
        let took = self.expect(what, expected);
        std::thread::sleep(Duration::from_millis(1500));
        self.expect(&format!("{what}, a while later"), expected);
        took
    }

    /// Unplugs the cable of a host, or plugs it in again.
    fn set_link(&self, at: u16, is_up: bool) {
        let Simulation::Own(sim) = &self.sim else { panic!("ibsim clears IsSM") };
        let guid = self.shape.host_guid([at, 0, 0], 0).to_string();
        let command = if is_up { "relink" } else { "unlink" };
        sim.control(&[command, &guid]);
    }
}

struct Manager(Running);

impl Manager {
    fn signal(&self, name: &str) {
        let id = self.0.0.id().to_string();
        let status = Command::new("kill").arg(format!("-{name}")).arg(id).status();
        assert!(status.expect("kill(1) is there").success(), "{name}");
    }

    /// Sends SIGTERM and waits for the end.
    fn end(mut self) -> Duration {
        let start = Instant::now();
        self.signal("TERM");
        self.0.0.wait().expect("the manager ends");
        start.elapsed()
    }

    fn kill(self) {
        drop(self.0);
    }
}

/// Two managers start one after the other, the better one is killed, frozen and ended.
fn a_pair_has_one_master(better: Program, worse: Program) {
    // On ibsim, opensm would wait for a killed SM for ever, as sminfo would.
    let first = if worse == Opensm { Kind::Own } else { Kind::Ibsim };
    for (kind, better_first) in [(first, true), (Kind::Own, false)] {
        let Some(site) = Site::new(kind) else { return };
        let (high, low) = match better_first {
            true => {
                let high = site.start(better, A, 9);
                site.expect("first start", &[(A, Some(MASTER))]);
                (high, site.start(worse, B, 5))
            }
            false => {
                let low = site.start(worse, B, 5);
                site.expect("first start", &[(B, Some(MASTER))]);
                (site.start(better, A, 9), low)
            }
        };
        let as_elected = [(A, Some(MASTER)), (B, Some(STANDBY))];
        site.settle("second start", &as_elected);
        if kind == Kind::Own {
            high.signal("STOP");
            site.expect("freeze", &[(B, Some(MASTER))]);
            high.signal("CONT");
            site.settle("thaw", &as_elected);
        }
        if better_first {
            high.kill();
            let took = site.expect("kill", &[(B, Some(MASTER))]);
            println!("{worse:?} is master {took:?} after {better:?} was killed");
        } else {
            let took = high.end();
            if better == Ours {
                assert!(took < Duration::from_secs(1), "the end took {took:?}");
                let after = site.expect("end", &[(B, Some(MASTER))]);
                assert!(after < Duration::from_millis(300), "the successor took {after:?}");
            }
        }
        site.settle("one left", &[(B, Some(MASTER))]);
        low.kill();
    }
}

#[test]
fn torus_sm_above_opensm() {
    a_pair_has_one_master(Ours, Opensm);
}

#[test]
fn opensm_above_torus_sm() {
    a_pair_has_one_master(Opensm, Ours);
}

#[test]
fn torus_sm_above_torus_sm() {
    a_pair_has_one_master(Ours, Ours);
}

#[test]
fn three_managers_of_any_mixture_have_one_master() {
    for (kind, programs) in [
        (Kind::Ibsim, [Ours, Ours, Ours]),
        (Kind::Own, [Opensm, Ours, Opensm]),
        (Kind::Own, [Ours, Opensm, Ours]),
    ] {
        let Some(site) = Site::new(kind) else { return };
        let standby = Some(STANDBY);
        // One after the other: opensm does not answer SMInfo before its first sweep, and the other
        // ones would wait for it.
        let first = site.start(programs[0], A, 9);
        site.expect("first start", &[(A, Some(MASTER))]);
        let second = site.start(programs[1], B, 7);
        site.expect("second start", &[(A, Some(MASTER)), (B, standby)]);
        let _third = site.start(programs[2], C, 5);
        site.settle("third start", &[(A, Some(MASTER)), (B, standby), (C, standby)]);
        first.kill();
        site.settle("kill", &[(B, Some(MASTER)), (C, standby)]);
        second.kill();
        site.settle("second kill", &[(C, Some(MASTER))]);
    }
}

#[test]
fn a_master_whose_link_was_down_is_not_a_second_one() {
    for (better, worse) in [(Ours, Opensm), (Opensm, Ours), (Ours, Ours)] {
        let Some(site) = Site::new(Kind::Own) else { return };
        let _better = site.start(better, A, 9);
        site.expect("first start", &[(A, Some(MASTER))]);
        let _worse = site.start(worse, B, 5);
        let as_elected = [(A, Some(MASTER)), (B, Some(STANDBY))];
        site.settle("second start", &as_elected);
        site.set_link(A, false);
        site.expect("link down", &[(B, Some(MASTER))]);
        site.set_link(A, true);
        site.settle("link up", &as_elected);
    }
}
