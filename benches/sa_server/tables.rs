//! Large tables to many clients at once.

use super::server::{BenchServer, identity};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use testkit::sa_client::request;
use testkit::snapshot::torus;
use tokio::sync::mpsc;
use torus_sm::ids::{Lid, Sl};
use torus_sm::publish::Subnet;
use torus_sm::transport::demux::Inbound;
use torus_sm::transport::{Address, Agent, MadPort, Outgoing, PortIdentity, SendError};
use torus_sm::wire::mad::Method;
use torus_sm::wire::record::NodeRecord;
use torus_sm::wire::sa::SaAttr;

const CLIENTS: u16 = 20;

/// A port that counts the bytes it is given.
struct Sink {
    identity: PortIdentity,
    bytes: AtomicUsize,
    answers: AtomicUsize,
}

impl MadPort for Sink {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        self.bytes.fetch_add(out.mad.len(), Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Tables of all nodes.
pub(crate) fn tables() {
    let subnet = Arc::new(torus([22, 27, 21], 3));
    for workers in [0, 1] {
        tables_by(&subnet, workers);
    }
}

fn tables_by(subnet: &Arc<Subnet>, workers: usize) {
    let lids: Vec<Lid> = subnet.plan.lids.iter().map(|(lid, _)| lid).collect();
    let nodes = subnet.fabric.node_ids().count();
    let (inbox, queue) = mpsc::channel(CLIENTS.into());
    let [bytes, answers] = Default::default();
    let sink = Arc::new(Sink { identity: identity(), bytes, answers });
    let server = BenchServer::open(subnet.clone(), sink.clone(), queue, workers);
    let mad = request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &NodeRecord::default()).0;
    // Resets the peak of resident memory.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    let before = peak();
    let start = Instant::now();
    for lid in lids.into_iter().take(CLIENTS.into()) {
        let from = Address::gsi(lid, Sl(0));
        let arrived = tokio::time::Instant::now();
        let inbound = Inbound { agent: Agent::Sa, from, mad: mad.to_vec(), arrived };
        inbox.try_send(inbound).expect("a free slot");
    }
    // The server ends when its queue is closed.
    while sink.answers.load(Ordering::Relaxed) < usize::from(CLIENTS) {
        std::thread::sleep(Duration::from_micros(100));
    }
    drop(inbox);
    server.close();
    let took = start.elapsed();
    let more = peak() - before;
    let bytes = sink.bytes.load(Ordering::Relaxed) as f64 / f64::from(1 << 20);
    println!(
        "{workers} workers, {nodes} NodeRecords to {CLIENTS} clients: {bytes:.0} MiB in {took:?}"
    );
    println!("the peak of memory was {:.1} MiB higher", more as f64 / 1024.0);
}

/// The peak of resident memory since the last reset, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}
