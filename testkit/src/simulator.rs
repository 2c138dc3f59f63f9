//! A fabric simulated by torus-sm in a process of its own, and unmodified programs on it.

use crate::process::{Running, START_TIMEOUT, tool, torus_sm, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The preloaded library: the one that TORUS_SM_TEST_PRELOAD names, or one that is built on demand, because
/// cargo builds only what a test links.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        if let Some(built) = std::env::var_os("TORUS_SM_TEST_PRELOAD") {
            return built.into();
        }
        let program = torus_sm();
        let folder = program.parent().expect("a folder");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "torus-sm-preload"]);
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        cargo.arg("--target-dir").arg(folder.parent().expect("the target folder"));
        let built = cargo.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).status();
        assert!(built.is_ok_and(|status| status.success()), "the library is built");
        folder.join("libtorus_sm_preload.so")
    })
}

/// A running `torus-sm sim`.
pub struct Simulator {
    /// Folder of the simulator's output and of the files of programs on it.
    pub dir: TempDir,
    process: Running,
}

impl Simulator {
    /// Starts `torus-sm sim` with these arguments and waits until it is up.
    pub fn start(args: &[&str]) -> Self {
        library();
        let dir = tempfile::tempdir().expect("a folder");
        let output = fs::File::create(dir.path().join("sim.out")).expect("a file");
        let child = Command::new(torus_sm())
            .arg("sim")
            .args(args)
            .arg("--socket")
            .arg(dir.path().join("sim.sock"))
            .env_remove("OSM_CACHE_DIR")
            .stdout(output.try_clone().expect("a second handle"))
            .stderr(output)
            .spawn()
            .expect("torus-sm starts");
        wait_for(&dir.path().join("sim.out"), "until interrupted", START_TIMEOUT);
        Self { dir, process: Running(child) }
    }

    /// The text that the simulator has printed so far.
    pub fn output(&self) -> String {
        fs::read_to_string(self.dir.path().join("sim.out")).expect("its output is a file")
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// A command attached at the node `at`, or at the host of the SM if `at` is empty. Its working
    /// directory is the simulator's folder.
    pub fn command(&self, at: &str, program: &Path) -> Command {
        let mut command = Command::new(torus_sm());
        command.args(["sim", "exec", "--socket"]).arg(self.dir.path().join("sim.sock"));
        if !at.is_empty() {
            command.args(["--at", at]);
        }
        command
            .arg("--")
            .arg(program)
            .current_dir(self.dir.path())
            .env("OSM_TMP_DIR", self.dir.path())
            .env("OSM_CACHE_DIR", self.dir.path())
            .env_remove("TORUS_SM_PRELOAD")
            .env_remove("TORUS_SM_SIM_AT")
            .stdin(Stdio::null());
        command
    }

    /// Runs a tool to its end.
    pub fn run(&self, at: &str, program: &str, args: &[&str]) -> Output {
        let path = tool(program).expect("checked before");
        let output = self.command(at, &path).args(args).output();
        output.unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    /// The standard output of a tool, which must succeed.
    pub fn ask(&self, program: &str, args: &[&str]) -> String {
        let output = self.run("", program, args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {}\n{text}{errors}", output.status);
        text
    }

    /// Runs a command of `torus-sm sim ctl`, which must succeed. Returns its output.
    pub fn control(&self, words: &[&str]) -> String {
        let mut command = Command::new(torus_sm());
        command.args(["sim", "ctl", "--socket"]).arg(self.dir.path().join("sim.sock"));
        let output = command.args(words).output().expect("torus-sm starts");
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {}\n{text}{errors}", output.status);
        text.into_owned()
    }

    /// Starts Debian's opensm at a node, with its log in the file `log`.
    pub fn opensm(&self, at: &str, log: &str, args: &[&str]) -> Running {
        let cache = self.dir.path().join(format!("{log}.cache"));
        fs::create_dir_all(&cache).expect("a folder");
        let path = self.dir.path().join(log);
        let child = self
            .command(at, &tool("opensm").expect("checked before"))
            .args(["-d", "2", "-f"])
            .arg(&path)
            .args(args)
            .env("OSM_CACHE_DIR", cache)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("opensm starts");
        Running(child)
    }
}
