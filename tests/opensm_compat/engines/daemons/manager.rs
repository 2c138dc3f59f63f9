//! Either subnet manager at work on a fabric that ibsim simulates.

use super::super::EngineCase;
use super::super::theirs::{self, Tables};
use super::state::{Questions, State};
use crate::sa_queries;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};
use testkit::dumps::{self, LidLfts};
use testkit::{Ibsim, Running};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::plan::routing::chain::OPENSM_ENGINES;

/// Time limit for a sweep, which usually takes half a second.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(120);

const UP: &str = "SUBNET UP";
const REFUSED: &str = "No routing engine able";
const REJECTED: &str = "was not applied";
const IN_FORCE: &str = " tables configured on all switches";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    OpenSm,
    TorusSm,
}

/// A running subnet manager, which has swept.
pub(super) struct Manager {
    sim: Ibsim,
    process: Running,
    program: Program,
    /// The node at which it runs, as ibsim names it.
    host: String,
    /// Length of the log before the last sweep.
    before: usize,
}

impl Manager {
    /// Starts a manager and waits until its first sweep ends. `is_alone`: without the fallback to
    /// minhop. `lids`: guid2lid of an earlier run.
    ///
    /// # Errors
    /// The manager ended.
    pub(super) fn start(
        program: Program,
        case: &EngineCase,
        is_alone: bool,
        lids: &str,
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().expect("a folder");
        case.write(folder.path());
        let sim = Ibsim::start(&folder.path().join("fabric.net"));
        let folder = sim.dir().join("configuration");
        fs::create_dir(&folder).expect("a folder");
        case.write(&folder);
        let conf = folder.join("opensm.conf");
        let mut text = fs::read_to_string(&conf).expect("a file");
        // All cut cables are seen at once, since what is kept of tables depends on the sweeps before.
        text += "force_log_flush TRUE\nsweep_interval 0\nsweep_on_trap FALSE\n";
        fs::write(&conf, text).expect("a file");
        fs::write(sim.dir().join("guid2lid"), lids).expect("a file");
        let path = match program {
            Program::OpenSm => testkit::tool("opensm").expect("checked before"),
            Program::TorusSm => testkit::torus_sm(),
        };
        let fallback = if is_alone { ",no_fallback" } else { "" };
        let child = sim
            .command(&case.sm_host(), &path)
            .args(["-D", "0x43", "-R", &format!("{}{fallback}", case.engine)])
            .arg("-F")
            .arg(&conf)
            .arg("--dump_files_dir")
            .arg(sim.dir())
            .arg("-f")
            .arg(sim.dir().join("sm.log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the subnet manager starts");
        let host = case.sm_host();
        let mut manager = Self { sim, process: Running(child), program, host, before: 0 };
        manager.wait_for_sweeps(1)?;
        if program == Program::TorusSm {
            // OpenSM writes its dump files before it is up.
            manager.command("dump");
        }
        Ok(manager)
    }

    /// Cuts cables, each named by one of its ends.
    pub(super) fn cut(&mut self, cables: &[(char, Guid, PortNum)]) {
        for (kind, guid, port) in cables {
            self.sim.type_line(&format!("Unlink \"{kind}-{:016x}\"[{}]", guid.0, port.0));
        }
    }

    /// Has the manager sweep, and waits until it has.
    ///
    /// # Errors
    /// The manager ended.
    pub(super) fn sweep(&mut self) -> Result<(), String> {
        self.before = self.log().len();
        if self.program == Program::TorusSm {
            self.command("resweep");
            self.command("dump");
            return Ok(());
        }
        let wanted = self.sweeps() + 1;
        let pid = Pid::from_raw(self.process.0.id() as i32);
        kill(pid, Signal::SIGHUP).expect("a child of ours");
        self.wait_for_sweeps(wanted)
    }

    /// The number of sweeps that have ended.
    fn sweeps(&self) -> usize {
        let log = self.log();
        log.lines()
            .filter(|line| [UP, REFUSED, REJECTED].iter().any(|end| line.contains(end)))
            .count()
    }

    fn wait_for_sweeps(&mut self, wanted: usize) -> Result<(), String> {
        let start = Instant::now();
        while self.sweeps() < wanted {
            if let Some(status) = self.process.0.try_wait().expect("a child of ours") {
                return Err(format!("{status}\n{}", self.log()));
            }
            if start.elapsed() > SWEEP_TIMEOUT {
                return Err(format!("the sweep does not end:\n{}", self.log()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Runs a command of torus-sm at its daemon.
    fn command(&self, name: &str) {
        let path = testkit::torus_sm();
        self.sim.command(&self.host, &path).arg(name).output().expect("it starts");
    }

    /// True if requests to devices of our manager got no reply, as on a loaded machine. It keeps
    /// what it knew of these devices until it has asked again.
    pub(super) fn has_timeouts(&self) -> bool {
        let log = self.log();
        let mut counts =
            log.lines().filter_map(|line| line.split_once(" timed out")?.0.rsplit(' ').next());
        counts.next_back().is_some_and(|count| count != "0")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.sim.dir().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn log(&self) -> String {
        let bytes = fs::read(self.path("sm.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The engine whose tables are configured; `None` if the last plan was refused. torus-sm logs a
    /// refusal once.
    pub(super) fn engine(&self) -> Option<&'static str> {
        let log = self.log();
        let ends = |line: &&str| [IN_FORCE, REFUSED, REJECTED].iter().any(|end| line.contains(end));
        let (before, _) = log.lines().rfind(ends)?.split_once(IN_FORCE)?;
        let name = before.rsplit(' ').next()?;
        OPENSM_ENGINES.into_iter().find(|engine| *engine == name)
    }

    /// The text of guid2lid.
    pub(super) fn lids(&self) -> String {
        self.text("guid2lid")
    }

    /// The errors and warnings of the last sweep.
    pub(super) fn errors(&self) -> String {
        let log = self.log();
        let lines = log[self.before..].lines();
        let is_error = |line: &&str| {
            ["0x01 ->", IN_FORCE].iter().any(|part| line.contains(part))
                && !line.contains("log_trap_info")
        };
        lines.filter(is_error).take(12).collect::<Vec<_>>().join("\n")
    }

    /// The forwarding tables after the last sweep; none if no plan was ever configured.
    pub(super) fn lfts(&self) -> LidLfts {
        let file = self.path("opensm-lfts.dump");
        if file.is_file() { dumps::read_lid_lfts(&file) } else { LidLfts::default() }
    }

    /// OpenSM's tables after the last sweep.
    pub(super) fn tables(&self) -> Tables {
        theirs::tables(self.sim.dir(), &self.log()[self.before..])
    }

    /// The tables, and the replies to path queries.
    pub(super) fn state(&self, questions: &Questions) -> State {
        State {
            lfts: self.lfts(),
            mfts: dumps::mfts(&self.text("opensm.mcfdbs")),
            sl_to_vls: dumps::sl_to_vls(&self.text("opensm-sl2vl.dump")),
            replies: sa_queries::ask(&self.sim, &self.host, &questions.0),
        }
    }
}
