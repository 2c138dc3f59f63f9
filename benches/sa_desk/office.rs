//! A desk with a port that leads nowhere.

use crate::support::{self, request};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::daemon::archive::Archive;
use torus_sm::daemon::clerks::Clerks;
use torus_sm::daemon::sa_desk::{Errand, Inboxes, SaDesk};
use torus_sm::fabric::Fabric;
use torus_sm::fabric::picture::View;
use torus_sm::ids::{Gid, Guid, Pkey, PortNum};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sim::generate::Shape;
use torus_sm::sm::desk::SelfPortrait;
use torus_sm::transport::intake::Inbound;
use torus_sm::transport::{MadPort, PortIdentity};
use torus_sm::wire::attr::SmState;
use torus_sm::wire::mad::{Mad, Method};
use torus_sm::wire::record::PathRecord;
use torus_sm::wire::sa::SaAttr;

/// A desk at work, until its inbox is dropped.
pub struct Office {
    desk: JoinHandle<()>,
    runtime: Runtime,
    _errands: mpsc::Sender<Errand>,
    _rest: Box<dyn std::any::Any>,
    _folder: TempDir,
}

impl Office {
    /// Opens it in a thread of its own, with so many clerks.
    pub fn open(
        subnet: Arc<Subnet>,
        port: Arc<dyn MadPort>,
        requests: mpsc::Receiver<Inbound>,
        clerks: usize,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_time().build().expect("a thread");
        let (published, mut snapshots) = watch::channel(Some(subnet));
        snapshots.mark_changed();
        let state = SmState::Master;
        let portrait = SelfPortrait { guid: Guid(2), sm_key: 1, priority: 0, state, act_count: 0 };
        let (shown, portrait) = watch::channel(portrait);
        let (events, inbox) = mpsc::unbounded_channel();
        let responder = Responder::default();
        let archive = Archive::new(folder.path().to_owned(), responder.registry());
        let (errand, errands) = mpsc::channel(1);
        let (report, reports) = mpsc::channel(1);
        let (notice, notices) = mpsc::channel(1);
        let clerks = Clerks::with(clerks).expect("threads");
        let desk = SaDesk::new(port, responder, snapshots, portrait, events, archive, clerks);
        let desk = runtime.spawn(desk.serve(Inboxes { requests, errands, reports, notices }));
        let rest = Box::new((published, shown, inbox, report, notice));
        Self { desk, runtime, _errands: errand, _rest: rest, _folder: folder }
    }

    /// Waits for the desk to end with its inbox.
    pub fn close(self) {
        self.runtime.block_on(self.desk).expect("the desk does not panic");
    }
}

/// Names for a port.
pub fn identity() -> PortIdentity {
    PortIdentity { device: "bench0".into(), port: PortNum(1), guid: Guid(0x1000_0002) }
}

/// A torus with so many hosts at each switch, published.
pub fn subnet(radix: [u16; 3], hosts: u8) -> Arc<Subnet> {
    let shape = Shape { hosts, ..Shape::torus(radix) };
    let topology = shape.build().expect("the shape fits a fabric");
    let fabric = Fabric::from_topology(&topology, 0, &View::default()).expect("node 0 exists");
    let options = Options { qos: true, ..Options::default() };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    Arc::new(support::subnet(fabric, options, &config, &partitions))
}

/// As rdma_cm asks for the path between two ports.
pub fn path_query(prefix: u64, [from, to]: [Guid; 2]) -> Mad {
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(prefix, from));
    wanted.set_dgid(Gid::new(prefix, to));
    wanted.set_reversible(true);
    wanted.set_numb_path(1);
    wanted.set_pkey(Pkey::DEFAULT_FULL);
    let mask = PathRecord::SGID
        | PathRecord::DGID
        | PathRecord::REVERSIBLE
        | PathRecord::NUMB_PATH
        | PathRecord::PKEY;
    request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted)
}
