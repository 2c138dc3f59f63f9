//! A daemon with its management interface, on the threads that the process has.

use std::sync::Arc;
use std::time::{Duration, Instant};
use testkit::{SimCluster, Sm};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use torus_sm::daemon::management;
use torus_sm::daemon::process::threads::Threads;
use torus_sm::daemon::setup::ServerThreads;
use torus_sm::manage::server::{ManageServer, ServerConfig};
use torus_sm::perfmgr::status::{PerfStatus, PerfSweep};
use torus_sm::publish::Subnet;

use crate::loads::request;

/// Time for anything that is waited for.
const LIMIT: Duration = Duration::from_secs(120);

/// A daemon at the first host of a simulated torus, with the performance manager enabled.
pub(crate) struct BenchDaemon {
    pub(crate) cluster: SimCluster,
    pub(crate) subnet: watch::Receiver<Option<Arc<Subnet>>>,
    /// The runtime of the simulator and of clients of the SA.
    pub(crate) clients: Runtime,
    perf: Box<dyn Fn() -> Arc<PerfStatus>>,
    sm: Sm,
    server: ManageServer,
    threads: Threads,
}

impl BenchDaemon {
    pub(crate) fn start(shape: &str, hosts: u8) -> Self {
        let threads = Threads::start().expect("threads");
        let servers = ServerThreads::new(threads.servers()).expect("threads");
        let servers = servers.with_background(threads.background());
        let clients = Builder::new_multi_thread().worker_threads(1).enable_time().build();
        let clients = clients.expect("a thread");
        let cluster = SimCluster::healthy(shape, hosts);
        let mut options = cluster.options();
        // Sweeps are started by the benchmark.
        (options.perfmgr, options.perfmgr_sweep_time_s) = (true, u16::MAX);
        let mut sm = {
            let _clients = clients.enter();
            cluster.start_on([0; 3], options, threads.main().handle().clone(), servers)
        };
        let sources = sm.management.take().expect("nobody has taken it");
        let perf = sources.live.perf.clone();
        let config = ServerConfig {
            folder: cluster.dir().join("run"),
            group: None,
            read_all: false,
            network: None,
            event_file: None,
            on_thread_start: management::ON_THREAD_START,
            program: env!("CARGO_BIN_EXE_torus-sm").into(),
        };
        let server = ManageServer::start(sources, &config).expect("a socket");
        let mut subnet = sm.subnet.clone();
        threads
            .main()
            .block_on(async { subnet.wait_for(Option::is_some).await.map(drop) })
            .expect("it is up");
        let perf = Box::new(move || perf.load_full());
        Self { cluster, subnet, clients, perf, sm, server, threads }
    }

    /// Path of the socket of the management interface.
    pub(crate) fn socket(&self) -> &std::path::Path {
        self.server.path()
    }

    /// Reads the counters of all ports once.
    pub(crate) fn sweep_counters(&self) -> PerfSweep {
        let before = (self.perf)().sweeps;
        request_sweep(self.socket());
        let start = Instant::now();
        loop {
            let status = (self.perf)();
            if status.sweeps > before {
                return status.last_sweep.expect("it has ended");
            }
            assert!(start.elapsed() < LIMIT, "the counters are not read");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn stop(self) {
        drop(self.server);
        self.threads.main().block_on(self.sm.stop());
        self.clients.shutdown_background();
        self.threads.shut_down();
    }
}

/// Requests a sweep of the port counters.
pub(crate) fn request_sweep(socket: &std::path::Path) {
    let body = "{\"command\":\"sweep\"}";
    let text = format!(
        "POST /v1/actions/perfmgr HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // Without a reply the sweep is missed by the caller.
    let _ = request(socket, text.as_bytes());
}
