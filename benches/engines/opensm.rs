//! OpenSM's routing times on the fabrics of the benchmark.
//!
//! Debian's opensm runs on the simulated fabric in a process of its own and repeats heavy sweeps.
//! Time stamps of its log enclose each computation of the routes: from "building routing with" to
//! "tables configured on all switches". Sweeps after the first one write no tables, so nothing but
//! the routing thread works between these lines.

use crate::BenchFabric;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Running, tool, torus_sm};
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::local_socket::{Clients, Listener};
use torus_sm::sim::SimFabric;
use torus_sm::sim::serve::{AttachPoint, Server};
use torus_sm::wire::attr::NodeKind;

/// Computations per case, of which the shortest counts.
const RUNS: usize = 5;

/// The text in the log when an engine refuses a fabric; opensm falls back to minhop then.
const REFUSAL: &str = "cannot build";

/// Time limit for all computations of a case; those that are finished by then count.
const TIMEOUT: Duration = Duration::from_secs(180);

/// The shortest time in which opensm routes a fabric.
///
/// # Errors
/// Returns why there is no time: opensm is not installed, refuses the fabric, or takes too long.
pub(crate) fn routing_time(fabric: &BenchFabric, engine: &str) -> Result<Duration, String> {
    let program = tool("opensm").ok_or("opensm is not installed")?;
    testkit::simulator::library();
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let _entered = runtime.enter();
    let _server = serve(fabric, folder.path()).map_err(|error| error.to_string())?;
    let process = start(&program, fabric, engine, folder.path());
    let _process = Running(process.map_err(|error| error.to_string())?);
    let log = folder.path().join("log");
    let start = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let text = fs::read_to_string(&log).unwrap_or_default();
        // In its first sweep the links may have one VL, which is too few for some engines.
        if text.matches(REFUSAL).count() >= RUNS {
            let reason = text.lines().find(|line| line.contains("ERR")).unwrap_or("no reason");
            return Err(format!("opensm refuses the fabric: {reason}"));
        }
        let times = computations(&text, engine);
        if times.len() >= RUNS || start.elapsed() >= TIMEOUT {
            let least = times.into_iter().min();
            return least.ok_or_else(|| format!("no second computation in {TIMEOUT:?}"));
        }
    }
}

/// Offers the simulated fabric on a socket in `folder`.
fn serve(fabric: &BenchFabric, folder: &Path) -> std::io::Result<Server> {
    let hardware = Hardware { vl_cap: fabric.vl_cap, ..Hardware::default() };
    let simulated = SimFabric::new(&fabric.topology, hardware, 1);
    let mut hosts = fabric.topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
    let node = hosts.next().expect("a host").guid;
    let listener = Listener::bind(&folder.join("sim.sock"), Clients::Owner)
        .map_err(|error| std::io::Error::other(error.to_string()))?;
    let nodes = folder.join("nodes");
    fs::create_dir_all(&nodes)?;
    Server::start(simulated, AttachPoint { node, port: None, vport: None }, listener, nodes)
}

fn start(
    program: &Path,
    fabric: &BenchFabric,
    engine: &str,
    folder: &Path,
) -> std::io::Result<std::process::Child> {
    let modules = folder.join("modules");
    fs::write(&modules, "osm_ucast_mgr.c 0x07\nosm_ucast_lash.c 0x01\nosm_ucast_dfsssp.c 0x01\n")?;
    // With a limit of SMPs in flight opensm sometimes hangs.
    let mut options = format!(
        "routing_engine {engine}\nqos TRUE\nmax_wire_smps 0\nsweep_interval 1\n\
         force_heavy_sweep TRUE\nper_module_logging_file {}\n",
        modules.display()
    );
    if let Some(root) = fabric.root {
        let roots = folder.join("roots");
        fs::write(&roots, format!("{root}\n"))?;
        let _ = writeln!(options, "root_guid_file {}", roots.display());
    }
    let configuration = folder.join("opensm.conf");
    fs::write(&configuration, options)?;
    Command::new(torus_sm())
        .args(["sim", "exec", "--socket"])
        .arg(folder.join("sim.sock"))
        .arg("--")
        .arg(program)
        .args(["-d", "2", "-F"])
        .arg(configuration)
        .arg("-f")
        .arg(folder.join("log"))
        .env("OSM_TMP_DIR", folder)
        .env("OSM_CACHE_DIR", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// The durations of all finished computations in a log but the first, whose end waits for Sets.
fn computations(log: &str, engine: &str) -> Vec<Duration> {
    let begins = format!("building routing with '{engine}'");
    let mut begin = None;
    let mut times = Vec::new();
    for line in log.lines() {
        if line.contains(&begins) {
            begin = time_of_day(line);
        } else if line.contains(REFUSAL) {
            begin = None;
        } else if line.contains("tables configured on all switches")
            && let (Some(begin), Some(end)) = (begin.take(), time_of_day(line))
        {
            const DAY: u64 = 24 * 3600 * 1_000_000;
            times.push(Duration::from_micros((end + DAY - begin) % DAY));
        }
    }
    times.into_iter().skip(1).collect()
}

/// The microseconds since midnight at the beginning of a line, such as `Nov 25 02:50:13 123456`.
fn time_of_day(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip(2);
    let clock = words.next()?.split(':').map(str::parse::<u64>);
    let seconds = clock.collect::<Result<Vec<_>, _>>().ok()?;
    let seconds = seconds.into_iter().fold(0, |sum, part| 60 * sum + part);
    Some(seconds * 1_000_000 + words.next()?.parse::<u64>().ok()?)
}
