//! A fabric simulated by torus-sm in a process of its own, and unmodified programs on it.

use crate::process::{PATIENCE, Running, tool, torus_sm, wait_for};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The preloaded library, which is built if need be: cargo builds what a test links, no more.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
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
    /// Its output, and the files of programs on it.
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
        wait_for(&dir.path().join("sim.out"), "until interrupted", PATIENCE);
        Self { dir, process: Running(child) }
    }

    /// What the simulator has printed so far.
    pub fn output(&self) -> String {
        fs::read_to_string(self.dir.path().join("sim.out")).unwrap_or_default()
    }

    /// The simulator's process.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// A program attached at the node `at`; where the SM is if that is empty. In its working
    /// directory it may leave what it likes.
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

    /// What a tool that succeeds prints.
    pub fn ask(&self, program: &str, args: &[&str]) -> String {
        let output = self.run("", program, args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {args:?}: {}\n{text}{errors}", output.status);
        text
    }

    /// Starts Debian's opensm at a node; its log is in a file of this name.
    pub fn opensm(&self, at: &str, log: &str, args: &[&str]) -> Running {
        let cache = self.dir.path().join(format!("{log}.cache"));
        fs::create_dir_all(&cache).expect("a folder");
        let path = self.dir.path().join(log);
        let quiet = || Stdio::null();
        let child = self
            .command(at, &tool("opensm").expect("checked before"))
            .args(["-d", "2", "-f"])
            .arg(&path)
            .args(args)
            .env("OSM_CACHE_DIR", cache)
            .stdout(quiet())
            .stderr(quiet())
            .spawn()
            .expect("opensm starts");
        Running(child)
    }
}
