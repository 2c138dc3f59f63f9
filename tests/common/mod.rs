//! What the tests with real tools share: a private ibsim, programs attached to it, and the dump
//! files they write.
#![allow(dead_code)]

pub(crate) mod simulator;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Where Debian puts the shim.
const SHIM: &str = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so";

/// The full path of a program, or a line that says why the test is skipped.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let dirs = ["/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/bin"];
    let found = dirs.iter().map(|dir| Path::new(dir).join(name)).find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED: {name} is not installed");
    }
    found
}

/// True if all of these programs and the shim are there.
pub(crate) fn have(names: &[&str]) -> bool {
    let shim = Path::new(SHIM).is_file();
    if !shim {
        println!("SKIPPED: {SHIM} (ibsim-utils) is not installed");
    }
    names.iter().all(|name| tool(name).is_some()) && shim
}

static SERIAL: AtomicU32 = AtomicU32::new(0);

/// A simulated fabric in a process of its own.
pub(crate) struct Ibsim {
    dir: TempDir,
    child: Child,
    console: ChildStdin,
    socket: String,
}

impl Ibsim {
    /// Starts ibsim on a fabric file.
    pub(crate) fn start(fabric: &Path) -> Self {
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
        let is_bound = || {
            let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
            sockets.contains(&self.socket)
        };
        while !is_bound() {
            assert!(Instant::now() < deadline, "ibsim did not open its socket");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The folder of this fabric: dump files, caches and logs.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A command that will be attached to the fabric, at `host` if that is not empty. Each has a
    /// folder of its own for what the shim leaves behind.
    pub(crate) fn command(&self, host: &str, program: &Path) -> Command {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let work = self.dir().join(format!("client-{serial}"));
        fs::create_dir_all(&work).expect("a folder");
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", SHIM)
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("OSM_TMP_DIR", self.dir())
            .env("OSM_CACHE_DIR", self.dir())
            .current_dir(work)
            .stdin(Stdio::null());
        if !host.is_empty() {
            command.env("SIM_HOST", host);
        }
        command
    }

    /// Runs a tool to its end.
    pub(crate) fn run(&self, host: &str, program: &str, args: &[&str]) -> Output {
        let path = tool(program).expect("checked before");
        let output = self.command(host, &path).args(args).output();
        output.unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    /// Types a line at the console.
    pub(crate) fn type_line(&mut self, line: &str) {
        writeln!(self.console, "{line}").expect("ibsim reads its console");
        self.console.flush().expect("ibsim reads its console");
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that runs beside the test and is killed with it.
pub(crate) struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program under test.
pub(crate) fn torus_sm() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_torus-sm"))
}

/// Waits until a file contains `text`; returns how long that took.
pub(crate) fn wait_for(file: &Path, text: &str, limit: Duration) -> Duration {
    let start = Instant::now();
    loop {
        let content = fs::read_to_string(file).unwrap_or_default();
        if content.contains(text) {
            return start.elapsed();
        }
        assert!(
            start.elapsed() < limit,
            "{} does not say '{text}' after {limit:?}; it says:\n{content}",
            file.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Output port by (switch GUID, destination port GUID).
pub(crate) type Lfts = BTreeMap<(u64, u64), u8>;

/// Reads `opensm-lfts.dump`.
pub(crate) fn read_lfts(file: &Path) -> Lfts {
    let lfts = lfts(&read(file));
    assert!(!lfts.is_empty(), "{} has no entries", file.display());
    lfts
}

/// The entries in the text of `opensm-lfts.dump`, or in what dump_fts prints.
pub(crate) fn lfts(text: &str) -> Lfts {
    let mut lfts = Lfts::new();
    let mut switch = 0;
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once(" guid 0x") {
            switch = hex(rest);
        } else if let Some((left, right)) = line.split_once(" portguid 0x") {
            let port = left.split_whitespace().nth(1).and_then(|port| port.parse().ok());
            lfts.insert((switch, hex(right)), port.expect("a port number"));
        }
    }
    lfts
}

/// VLs of SL 0..=15 by (port owner's GUID, input port, output port).
pub(crate) type SlToVls = BTreeMap<(u64, u8, u8), Vec<u8>>;

/// Reads `opensm-sl2vl.dump`.
pub(crate) fn read_sl_to_vls(file: &Path) -> SlToVls {
    let text = read(file);
    let mut tables = SlToVls::new();
    let mut owner = 0;
    for line in text.lines() {
        if let Some((head, _)) = line.split_once(", base LID") {
            owner = hex(head.split_once("0x").expect("a GUID").1);
        } else if let Some((ports, vls)) = line.split_once(':')
            && !line.starts_with('#')
        {
            let numbers = |text: &str| -> Vec<u8> {
                text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
            };
            if let [input, output] = numbers(ports)[..] {
                tables.insert((owner, input, output), numbers(vls));
            }
        }
    }
    assert!(!tables.is_empty(), "{} has no entries", file.display());
    tables
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn hex(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(&digits, 16).expect("a hexadecimal number")
}

/// Describes the first differences between two tables; empty if there are none.
pub(crate) fn differences<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    ours: &BTreeMap<K, V>,
    theirs: &BTreeMap<K, V>,
) -> String {
    let mut text = String::new();
    let keys = ours.keys().chain(theirs.keys().filter(|key| !ours.contains_key(key)));
    let differing = keys.filter(|key| ours.get(key) != theirs.get(key));
    for key in differing.take(10) {
        let (our, their) = (ours.get(key), theirs.get(key));
        text.push_str(&format!("{key:x?}: ours {our:?}, theirs {their:?}\n"));
    }
    text
}
