//! The umad port on Debian's ibsim, through its preloaded library libumad2sim.so.
//!
//! A library is preloaded at process start only. The tests here therefore start an ibsim of their
//! own, then this test program once more with the library and the name of the ignored test to run.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use torus_sm::ids::{Lid, PortNum};
use torus_sm::transport::client::SmpClient;
use torus_sm::transport::demux::{Inbound, MadDemux, Unsolicited};
use torus_sm::transport::sysfs::{LinkState, LocalPort, Sysfs};
use torus_sm::transport::transactions::{SmpError, SmpLimits, SmpRequest, SmpResultKind};
use torus_sm::transport::umad::UmadPort;
use torus_sm::transport::{Address, Agent, MadPort};
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::smp::{DirectedRoute, SmpRoute};

const NODE_INFO: u16 = 0x0011;
const SM_INFO: u16 = 0x0020;
const SHIMS: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so",
    "/usr/lib/aarch64-linux-gnu/umad2sim/libumad2sim.so",
];

/// A running ibsim with its own socket name and folder.
struct Ibsim {
    process: Child,
    folder: tempfile::TempDir,
    socket: String,
}

impl Ibsim {
    fn start(topology: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for ibsim");
        let socket = format!("torus-sm{}", folder.path().display()).replace('/', "-");
        let file = folder.path().join("net");
        std::fs::write(&file, topology).expect("the topology is written");
        let process = Command::new("ibsim")
            .arg("-s")
            .arg(&file)
            .current_dir(folder.path())
            .env("IBSIM_SOCKNAME", &socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ibsim starts");
        let ibsim = Self { process, folder, socket };
        ibsim.wait_for_socket();
        ibsim
    }

    fn wait_for_socket(&self) {
        let control = format!("@{}:ctl", self.socket);
        let patience = Instant::now() + Duration::from_secs(10);
        while !std::fs::read_to_string("/proc/net/unix").is_ok_and(|all| all.contains(&control)) {
            assert!(Instant::now() < patience, "ibsim does not open its socket");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Runs the ignored test `name` of this program inside the fabric; its output.
    fn run(&self, shim: &Path, name: &str) -> String {
        let program = std::env::current_exe().expect("this program has a path");
        let output = Command::new(program)
            .args(["--ignored", "--exact", "--nocapture", "--test-threads=1"])
            .arg(testkit::test_name(module_path!(), name))
            .current_dir(self.folder.path())
            .env("LD_PRELOAD", shim)
            .env("IBSIM_SOCKNAME", &self.socket)
            .env("SIM_HOST", "H-0")
            .output()
            .expect("the program starts again");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name} failed:\n{text}\n{errors}");
        assert!(text.contains("1 passed"), "{name} did not run:\n{text}");
        text
    }
}

impl Drop for Ibsim {
    fn drop(&mut self) {
        if let Some(console) = &mut self.process.stdin {
            let _ = writeln!(console, "quit");
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The path of ibsim's library; prints SKIPPED if something is missing.
fn shim() -> Option<PathBuf> {
    let ibsim = std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join("ibsim").exists())
    });
    let shim = SHIMS.iter().map(PathBuf::from).find(|shim| shim.exists());
    if !ibsim || shim.is_none() {
        println!("SKIPPED: ibsim-utils is not installed");
        return None;
    }
    shim
}

/// True in a process that was started with ibsim's library. Without it the inner tests would use
/// the adapters of this machine.
fn is_inside() -> bool {
    std::env::var("LD_PRELOAD").is_ok_and(|library| library.contains("umad2sim"))
}

/// A ring of `switches` switches with one host each; port 1 is the host's, 2 and 3 the ring's.
fn ring(switches: usize) -> String {
    let mut text = String::new();
    for at in 0..switches {
        let next = (at + 1) % switches;
        let last = (at + switches - 1) % switches;
        text += &format!("Switch 8 \"S-{at}\"\n[1] \"H-{at}\"[1]\n[2] \"S-{next}\"[3]\n");
        text += &format!("[3] \"S-{last}\"[2]\n\nHca 1 \"H-{at}\"\n[1] \"S-{at}\"[1]\n\n");
    }
    text
}

#[test]
fn port_works_against_ibsim() {
    let Some(shim) = shim() else { return };
    let ibsim = Ibsim::start(&ring(6));
    print!("{}", ibsim.run(&shim, "inside_the_fabric"));
}

/// The local port and a client that uses it.
struct Attached {
    local: LocalPort,
    port: Arc<UmadPort>,
    client: SmpClient,
    unsolicited: Unsolicited,
}

fn attach(window: usize) -> Attached {
    let ports = Sysfs::default().ports().expect("the preloaded library shows a port");
    let local = ports.first_usable().expect("it has a link").clone();
    let (demux, unsolicited) = MadDemux::new(64);
    let sink = Arc::clone(&demux);
    let port = Arc::new(UmadPort::open(&local, sink).expect("the port opens"));
    port.set_is_sm(true).expect("issm opens");
    let limits = SmpLimits { window, ..SmpLimits::default() };
    let client = SmpClient::new(Arc::clone(&port) as Arc<dyn MadPort>, &demux, limits);
    Attached { local, port, client, unsolicited }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_time().build().expect("a runtime")
}

fn route(exits: &[u8]) -> SmpRoute {
    let exits: Vec<PortNum> = exits.iter().copied().map(PortNum).collect();
    SmpRoute::Directed(DirectedRoute::new(&exits).expect("a short route"))
}

#[test]
#[ignore = "needs the shim: run by port_works_against_ibsim"]
fn inside_the_fabric() {
    if !is_inside() {
        return;
    }
    runtime().block_on(async {
        let mut attached = attach(64);
        finds_itself(&attached).await;
        walks(&attached.client).await;
        learns_of_dead_ends(&attached.client).await;
        answers_itself(&mut attached).await;
        fills_the_window(&attached.client, 50_000).await;
        closes(attached).await;
    });
}

async fn finds_itself(attached: &Attached) {
    assert_eq!(attached.local.device, "ibsim0");
    assert_eq!(attached.local.port, PortNum(1));
    assert_eq!(attached.local.state, LinkState::Init);
    let reply = attached.client.call(&SmpRequest::get(route(&[]), NODE_INFO, 0)).await;
    let data = reply.expect("the own node answers").data;
    assert_eq!(data[2..4], [1, 1], "a channel adapter with one port");
    assert_eq!(data[12..20], attached.local.node_guid.0.to_be_bytes());
    assert_eq!(data[20..28], attached.local.guid.0.to_be_bytes());
}

/// Two rounds of the ring: six switches, each visited again in the second round.
async fn walks(client: &SmpClient) {
    let mut exits = vec![1];
    let mut guids = Vec::new();
    for _ in 0..12 {
        let reply = client.call(&SmpRequest::get(route(&exits), NODE_INFO, 0)).await;
        let data = reply.expect("a switch answers").data;
        assert_eq!(data[2..4], [2, 8], "a switch with 8 ports behind {exits:?}");
        guids.push(data[12..20].to_vec());
        exits.push(2);
    }
    assert_eq!(guids[..6], guids[6..]);
    guids.sort();
    guids.dedup();
    assert_eq!(guids.len(), 6);
}

async fn learns_of_dead_ends(client: &SmpClient) {
    let before = client.counters().results(SmpResultKind::Unanswered);
    let nowhere = client.call(&SmpRequest::get(route(&[1, 7]), NODE_INFO, 0)).await;
    assert_eq!(nowhere, Err(SmpError::Unanswered));
    let lid = client.call(&SmpRequest::get(SmpRoute::Lid(Lid(77)), NODE_INFO, 0)).await;
    assert_eq!(lid, Err(SmpError::Unanswered));
    assert_eq!(client.counters().results(SmpResultKind::Unanswered), before + 2);
}

/// ibsim delivers SMInfo requests to the SM at the port, which is this test.
async fn answers_itself(attached: &mut Attached) {
    let client = attached.client.clone();
    let asked =
        tokio::spawn(async move { client.call(&SmpRequest::get(route(&[]), SM_INFO, 0)).await });
    let inbound = attached.unsolicited.smp.recv().await.expect("the request arrives");
    assert_eq!(inbound.agent, Agent::SmiDirected);
    let mut answer = Mad::read(&inbound.mad);
    assert_eq!((answer.method(), answer.header().attr_id()), (Method::GET, SM_INFO));
    let mut header = answer.header();
    header.set_method(Method::GET_RESP.0);
    header.set_status(0x8000);
    answer.set_header(&header);
    answer.smp_data_mut()[..8].copy_from_slice(b"torus-sm");
    respond(&attached.client, &inbound, &answer);
    let reply = asked.await.expect("the asking task ends");
    assert_eq!(&reply.expect("the answer arrives").data[..8], b"torus-sm");
}

fn respond(client: &SmpClient, inbound: &Inbound, answer: &Mad) {
    let sent = client.post_only(inbound.agent, Address::smi(Lid::PERMISSIVE), &answer.0);
    sent.expect("the answer is sent");
}

async fn fills_the_window(client: &SmpClient, count: u64) {
    let start = Instant::now();
    let mut batch = client.batch();
    let routes = [route(&[]), route(&[1]), route(&[1, 2]), route(&[1, 2, 2]), route(&[1, 3])];
    for tag in 0..count {
        let to = routes[tag as usize % routes.len()];
        batch.submit(tag, SmpRequest::get(to, NODE_INFO, 0));
    }
    let mut seen = vec![false; count as usize];
    while let Some((tag, result)) = batch.next().await {
        let kind = result.expect("every node answers").data[2];
        assert_eq!(kind, if tag % 5 == 0 { 1 } else { 2 }, "the right node answers");
        assert!(!std::mem::replace(&mut seen[tag as usize], true), "a duplicate answer");
    }
    assert!(seen.iter().all(|&seen| seen));
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("{count} requests: {rate:.0} SMPs/s");
}

/// Closing the port ends its reader and notifies the sink.
async fn closes(attached: Attached) {
    let Attached { port, client, mut unsolicited, .. } = attached;
    drop((port, client));
    let end = tokio::time::timeout(Duration::from_secs(5), unsolicited.smp.recv()).await;
    assert!(end.expect("the reader ends").is_none());
}

/// A measurement: `cargo test --release --test sim -- --ignored throughput_against_ibsim
/// --nocapture`.
#[test]
#[ignore = "a measurement"]
fn throughput_against_ibsim() {
    let Some(shim) = shim() else { return };
    let ibsim = Ibsim::start(&ring(6));
    print!("{}", ibsim.run(&shim, "throughput_inside"));
}

#[test]
#[ignore = "needs the shim: run by throughput_against_ibsim"]
fn throughput_inside() {
    if !is_inside() {
        return;
    }
    runtime().block_on(async {
        let attached = attach(64);
        for window in [4, 16, 64, 128, 200, 64, 200] {
            attached.client.set_limits(SmpLimits { window, ..SmpLimits::default() });
            print!("window {window}: ");
            fills_the_window(&attached.client, 200_000).await;
        }
    });
}
