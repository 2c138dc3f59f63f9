//! An SA server whose port discards its replies.

use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SaCommand;
use torus_sm::daemon::sa_server::db_file::SaDbFile;
use torus_sm::daemon::sa_server::shared_responder::SharedResponder;
use torus_sm::daemon::sa_server::table_workers::TableWorkers;
use torus_sm::daemon::sa_server::{Inboxes, SaConnections, SaServer};
use torus_sm::ids::{Guid, PortNum};
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sm::sm_info::SmStatus;
use torus_sm::transport::demux::Inbound;
use torus_sm::transport::{MadPort, PortIdentity};
use torus_sm::wire::attr::SmState;

/// A server that runs until its queue is closed.
pub(crate) struct BenchServer {
    server: JoinHandle<()>,
    /// The responder from which single records are answered while the server sleeps.
    pub shared_responder: Arc<SharedResponder>,
    runtime: Runtime,
    _commands: mpsc::Sender<SaCommand>,
    _rest: Box<dyn std::any::Any>,
    _folder: TempDir,
}

impl BenchServer {
    /// Starts the server in a thread of its own, with `workers` table workers.
    pub(crate) fn open(
        subnet: Arc<Subnet>,
        port: Arc<dyn MadPort>,
        requests: mpsc::Receiver<Inbound>,
        workers: usize,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_time().build().expect("a thread");
        let (published, mut snapshots) = watch::channel(Some(subnet));
        snapshots.mark_changed();
        let state = SmState::Master;
        let sm_status = SmStatus::new(Guid(2), &Options::default(), state);
        let (shown, sm_status) = watch::channel(sm_status);
        let (events, inbox) = mpsc::unbounded_channel();
        let responder = Responder::default();
        let archive = SaDbFile::new(folder.path().to_owned(), responder.registry());
        let (command, commands) = mpsc::channel(1);
        let (outcomes, sa_outcomes) = mpsc::channel(1);
        let (notice, notices) = mpsc::channel(1);
        let workers = TableWorkers::with(workers).expect("threads");
        let connections = SaConnections { port, published: snapshots, sm_status, events };
        let server = SaServer::new(connections, responder, archive, workers);
        let shared_responder = server.shared_responder();
        let server =
            runtime.spawn(server.serve(Inboxes { requests, commands, sa_outcomes, notices }));
        let rest = Box::new((published, shown, inbox, outcomes, notice));
        Self { server, shared_responder, runtime, _commands: command, _rest: rest, _folder: folder }
    }

    /// Closes the queue and waits for the server to end.
    pub(crate) fn close(self) {
        self.runtime.block_on(self.server).expect("the server does not panic");
    }
}

/// The identity of a fictitious port.
pub(crate) fn identity() -> PortIdentity {
    PortIdentity { device: "bench0".into(), port: PortNum(1), guid: Guid(0x1000_0002) }
}
