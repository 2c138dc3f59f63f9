//! A fabric simulated by Debian's ibsim in a process of its own, and programs attached to it.

use crate::process::tool;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The path at which Debian installs ibsim's preloaded library.
const SHIM: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";

/// True if all these programs and ibsim's preloaded library are installed; else prints SKIPPED.
pub fn have(names: &[&str]) -> bool {
    let shim = Path::new(SHIM).is_file();
    if !shim {
        println!("SKIPPED: {SHIM} (ibsim-utils) is not installed");
    }
    names.iter().all(|name| tool(name).is_some()) && shim
}

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A running ibsim.
pub struct Ibsim {
    dir: TempDir,
    child: Child,
    console: ChildStdin,
    socket: String,
}

impl Ibsim {
    /// Starts ibsim on a fabric file.
    pub fn start(fabric: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let socket = format!("torus-sm-{}-{serial}", std::process::id());
        let log = fs::File::create(dir.path().join("ibsim.out")).expect("a log file");
        let mut child = Command::new(tool("ibsim").expect("ibsim"))
            .args(["-s", "-N", "20000", "-S", "6000", "-P", "200000", "-L", "49152", "-M", "1024"])
            .arg(fabric)
            .env("IBSIM_SOCKNAME", &socket)
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("ibsim starts");
        let console = child.stdin.take().expect("a pipe");
        let sim = Self { dir, child, console, socket };
        sim.wait_until_bound();
        sim
    }

    fn wait_until_bound(&self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_bound(&self.socket) {
            assert!(Instant::now() < deadline, "ibsim did not open its socket");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The folder of this fabric: dump files, caches and logs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command attached to the fabric, at the node `host` unless that is empty. Each has a folder
    /// of its own for the files that the preloaded library leaves behind.
    pub fn command(&self, host: &str, program: &Path) -> Command {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let work = self.dir().join(format!("client-{serial}"));
        fs::create_dir_all(&work).expect("a folder");
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", SHIM)
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("OSM_TMP_DIR", self.dir())
            .env("OSM_CACHE_DIR", self.dir())
            .env("TORUS_SM_RUNTIME_DIR", self.dir())
            .current_dir(work)
            .stdin(Stdio::null());
        if !host.is_empty() {
            command.env("SIM_HOST", host);
        }
        command
    }

    /// Runs a tool to its end.
    pub fn run(&self, host: &str, program: &str, args: &[&str]) -> Output {
        let path = tool(program).expect("checked before");
        let output = self.command(host, &path).args(args).output();
        output.unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    /// Enters a command at the console.
    pub fn type_line(&mut self, line: &str) {
        writeln!(self.console, "{line}").expect("ibsim reads its console");
        self.console.flush().expect("ibsim reads its console");
    }
}

fn is_bound(socket: &str) -> bool {
    let sockets = fs::read_to_string("/proc/net/unix").expect("/proc is mounted");
    sockets.contains(socket)
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
