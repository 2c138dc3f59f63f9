//! Time until all hosts of a torus have joined many multicast groups at once and the switches hold
//! all trees, and the number of multicast forwarding table blocks that are written for it.
//!
//! ```text
//! cargo bench --bench joins [-- ours|program|opensm [SHAPE [HOSTS [GROUPS [WINDOW [CLIENTS]]]]]]
//! ```
//!
//! `ours` is the daemon in this process, `program` the same in a process of its own, and `opensm`
//! Debian's, both attached by the preloaded library. SHAPE is as for `torus-sm sim`, with HOSTS at
//! each switch, each of which keeps WINDOW requests under way. The result is verified: the tables
//! read back from the switches deliver every group to all hosts and to no other.
//!
//! CLIENTS are `eager` or `linux`. A Linux host repeats a join every 300 ms for 3.3 s; after BUSY
//! or a timeout it tries again 2 s later, then 4 s, up to 16 s. Eager clients repeat a request
//! every second, four times, and start again 20 ms after a failure, so that no client backs off and
//! the subnet administrator has to work through the whole load.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::multicast::MulticastTrees;
use testkit::sa_client::joins::{self, JoinStats, RetryPolicy};
use testkit::{Running, tool, torus_sm};
use testkit::{SimCluster, Sm};
use tokio::time::{Instant, sleep};
use torus_sm::ids::{Guid, Mlid};
use torus_sm::local_socket::{Clients, Listener};
use torus_sm::sim::SimFabric;
use torus_sm::sim::serve::{AttachPoint, Server};
use torus_sm::wire::attr::AttrId;
use torus_sm::wire::mad::Method;

/// Time without a write after which the tables are complete.
const QUIET: Duration = Duration::from_secs(3);

/// Time limit for the subnet to come up.
const BRING_UP_TIMEOUT: Duration = Duration::from_secs(60);

struct Case {
    who: String,
    shape: String,
    hosts: u8,
    groups: usize,
    window: usize,
    clients: RetryPolicy,
}

impl Case {
    fn from_arguments() -> Self {
        // Cargo passes --bench.
        let words: Vec<String> =
            std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
        Self {
            who: word(&words, 0, "ours"),
            shape: word(&words, 1, "8x8x8"),
            hosts: number(&words, 2, "2") as u8,
            groups: number(&words, 3, "200"),
            window: number(&words, 4, "8"),
            clients: match &word(&words, 5, "eager")[..] {
                "linux" => RetryPolicy::LINUX,
                "eager" => RetryPolicy::EAGER,
                other => panic!("there are no clients {other}"),
            },
        }
    }
}

fn number(words: &[String], index: usize, default: &str) -> usize {
    word(words, index, default).parse().expect("a number")
}

fn word(words: &[String], index: usize, default: &str) -> String {
    words.get(index).map_or_else(|| default.to_owned(), Clone::clone)
}

fn main() {
    let case = Case::from_arguments();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("a runtime").block_on(run(case));
}

async fn run(case: Case) {
    let cluster = SimCluster::healthy(&case.shape, case.hosts);
    match &case.who[..] {
        "ours" => {
            let sm = bring_up(&cluster).await;
            measure(&case, &cluster).await;
            sm.stop().await;
        }
        _ => {
            let mut program = Program::start(&case, &cluster);
            for attempt in 1.. {
                if program.is_up().await {
                    break;
                }
                assert!(attempt < 3, "{} does not bring the subnet up", case.who);
                drop(program);
                program = Program::start(&case, &cluster);
            }
            measure(&case, &cluster).await;
        }
    }
}

async fn bring_up(cluster: &SimCluster) -> Sm {
    let mut sm = cluster.start([0, 0, 0], cluster.options());
    let is_up = sm.subnet.wait_for(Option::is_some).await.is_ok();
    assert!(is_up, "the subnet comes up");
    sm
}

/// A subnet manager in a process of its own.
struct Program {
    log: std::path::PathBuf,
    _process: Running,
    _server: Server,
}

impl Program {
    fn start(case: &Case, cluster: &SimCluster) -> Self {
        let socket = cluster.file("sim.sock");
        let folder = cluster.file("nodes");
        std::fs::create_dir_all(&folder).expect("a folder");
        // An earlier run may have left its socket.
        let _ = std::fs::remove_file(&socket);
        let listener = Listener::bind(&socket, Clients::Owner).expect("a socket");
        let node = cluster.shape.host_guid([0, 0, 0], 0);
        let server = Server::start(
            cluster.fabric.clone(),
            AttachPoint { node, port: None, vport: None },
            listener,
            folder,
        );
        let ours = case.who == "program";
        let program = if ours { torus_sm() } else { tool("opensm").expect("opensm is installed") };
        testkit::simulator::library();
        let log = cluster.file("sm.log");
        let _ = std::fs::remove_file(&log);
        let mut command = Command::new(torus_sm());
        command.args(["sim", "exec", "--socket"]).arg(&socket).arg("--").arg(program);
        command.args(["-R", "torus-2QoS", "-Q", "--torus_config"]);
        command.arg(cluster.file("torus-2QoS.conf")).arg("-f").arg(&log);
        if !ours {
            // With a limit of SMPs in flight opensm sometimes hangs, when switches reply and send
            // traps faster than it counts the requests on the wire.
            command.args(["-n", "0"]);
        }
        let process = command
            .env("OSM_TMP_DIR", cluster.dir())
            .env("OSM_CACHE_DIR", cluster.dir())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = Running(process.expect("it starts"));
        Self { log, _process: process, _server: server.expect("a server") }
    }

    /// True once the subnet is up, false after the time limit.
    async fn is_up(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < BRING_UP_TIMEOUT {
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            if log.contains("SUBNET UP") {
                return true;
            }
            sleep(Duration::from_millis(100)).await;
        }
        false
    }
}

async fn measure(case: &Case, cluster: &SimCluster) {
    settled(&cluster.fabric).await;
    let hosts = joins::hosts(&cluster.topology);
    let before = cluster.fabric.requests(AttrId::MULTICAST_FT)[1];
    let start = Instant::now();
    let mut tally =
        joins::by(case.clients, &cluster.fabric, &hosts, Method::SET, case.groups, case.window)
            .await;
    let joined = start.elapsed();
    let tables = settled(&cluster.fabric).await.saturating_duration_since(start);
    let sets = cluster.fabric.requests(AttrId::MULTICAST_FT)[1] - before;
    let all: BTreeSet<Guid> = hosts.iter().map(|&(node, _)| node).collect();
    check(cluster, &tally, &all);
    let switches = cluster.shape.radix.iter().map(|&radix| usize::from(radix)).product::<usize>();
    let least = switches * case.groups.div_ceil(32);
    let [half, most] = [0.5, 0.99].map(|share| tally.wait(share));
    println!(
        "{}: {} with {} hosts, {} groups: {} joins in {joined:.2?}, tables complete after \
         {tables:.2?}; {sets} MFT Sets (at least {least}); {} BUSY, {} unanswered; waits p50 \
         {half:.1?}, p99 {most:.1?}, longest {:.1?}",
        case.who,
        case.shape,
        hosts.len(),
        case.groups,
        tally.granted,
        tally.busy,
        tally.unanswered,
        tally.longest,
    );
}

/// The time at which the last block was written.
async fn settled(fabric: &SimFabric) -> Instant {
    let mut seen = sets(fabric);
    let mut last = Instant::now();
    while last.elapsed() < QUIET {
        sleep(Duration::from_millis(10)).await;
        if sets(fabric) != seen {
            (seen, last) = (sets(fabric), Instant::now());
        }
    }
    last
}

fn sets(fabric: &SimFabric) -> u64 {
    fabric.requests(AttrId::MULTICAST_FT)[1]
}

/// Checks that every group has one MLID and a tree that reaches all hosts, and that there is no
/// other tree.
fn check(cluster: &SimCluster, tally: &JoinStats, all: &BTreeSet<Guid>) {
    assert_eq!(tally.refused, [0; 0], "all may join");
    let tables = MulticastTrees::read(&cluster.fabric, &cluster.topology);
    let mut known = BTreeSet::<Mlid>::new();
    for (group, mlids) in &tally.mlids {
        assert_eq!(mlids.len(), 1, "group {group} has {mlids:?}");
        for &mlid in mlids {
            assert!(known.insert(mlid), "{mlid} belongs to two groups");
            let members = tables.members(mlid).expect("a tree");
            assert!(members == *all, "{mlid} has {} of {} members", members.len(), all.len());
        }
    }
}
