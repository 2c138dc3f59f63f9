//! The whole daemon on a simulated fabric, on tokio's paused clock. With TORUS_SM_LOG set, the
//! daemons log to standard error.
use crate::tamper::Silence;
use std::collections::HashMap;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use torus_sm::config::config_files::ConfigFiles;
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::process::logging::{self, LogConfig};
use torus_sm::daemon::process::recordings::Recordings;
use torus_sm::daemon::setup::{DaemonSetup, ServerThreads};
use torus_sm::daemon::sm_loop::context::ReloadFn;
use torus_sm::daemon::sm_loop::files::StateFiles;
use torus_sm::daemon::sm_loop::run::Exit;
use torus_sm::daemon::start::Daemon;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::fabric::topology::Topology;
use torus_sm::ids::{Guid, Lid, Mlid, PortNum};
use torus_sm::manage::sources::ManageSources;
use torus_sm::publish::Subnet;
use torus_sm::publish::rejected::PlanRejected;
use torus_sm::record::recorder::FlightRecorder;
use torus_sm::replication::local::Local;
use torus_sm::sim::SimFabric;
use torus_sm::sim::generate::Shape;
use torus_sm::sm::sm_info::SmStatus;
use torus_sm::transport::demux::MadDemux;
use torus_sm::transport::recorded::{RecordedPort, RecordedSink};
use torus_sm::transport::reopening::ReopeningPort;
use torus_sm::transport::rmpp;
use torus_sm::transport::traced::{TracedPort, TracedSink};
use torus_sm::transport::{MadPort, MadSink};
use torus_sm::wire::attr::tables::{LFT_NO_PATH, SlToVl};
use torus_sm::wire::attr::{AttrId, NodeKind, PortState, SmState};

/// A simulated fabric and the files that a daemon needs to route it.
pub struct SimCluster {
    pub shape: Shape,
    pub topology: Topology,
    pub fabric: SimFabric,
    dir: TempDir,
}

impl SimCluster {
    pub fn new(shape: Shape, hardware: Hardware, seed: u64) -> Self {
        let topology = shape.build().expect("a shape that can be built");
        Self::wired(shape, topology, hardware, seed)
    }

    /// A fabric of `topology`, which has the links of `shape` and may have other node names.
    pub fn wired(shape: Shape, topology: Topology, hardware: Hardware, seed: u64) -> Self {
        let fabric = SimFabric::new(&topology, hardware, seed);
        if std::env::var_os("TORUS_SM_LOG").is_some() {
            let config = LogConfig {
                announce: false,
                ..LogConfig::from(&Options {
                    log_file: "stderr".into(),
                    log_flags: 0x87,
                    ..Options::default()
                })
            };
            // The log is open already if this is not the first cluster of the process.
            let _ = logging::start(&config);
        }
        let dir = tempfile::tempdir().expect("a temporary folder");
        let conf = dir.path().join("torus-2QoS.conf");
        std::fs::write(conf, shape.torus_conf()).expect("a file");
        Self { shape, topology, fabric, dir }
    }

    /// A healthy fabric, such as `6x5x1`, with `hosts` hosts at each switch.
    pub fn healthy(shape: &str, hosts: u8) -> Self {
        let mut shape: Shape = shape.parse().expect("a shape");
        shape.hosts = hosts;
        Self::new(shape, Hardware::default(), 1)
    }

    /// The LID of the host of the switch at `at`.
    pub fn host_lid(&self, at: [u16; 3]) -> Lid {
        let info = self.fabric.port_info(self.shape.host_guid(at, 0), PortNum(1));
        info.expect("a port").lid()
    }

    /// The path of a file in the daemon's folder.
    pub fn file(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// The options of most tests: torus-2QoS with QoS.
    pub fn options(&self) -> Options {
        let conf = self.dir.path().join("torus-2QoS.conf");
        Options {
            routing_engine: Some("torus-2QoS".into()),
            qos: true,
            torus_config: conf.display().to_string(),
            ..Options::default()
        }
    }

    /// The folder of the daemon's dump files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// OSM_CACHE_DIR of the daemons at the host of the switch at `at`. They store nothing unless
    /// the folder exists when they start.
    pub fn cache_dir(&self, at: [u16; 3]) -> PathBuf {
        self.dir.path().join(format!("cache-{}-{}-{}", at[0], at[1], at[2]))
    }

    /// Starts a daemon at the host of the switch at `at`.
    pub fn start(&self, at: [u16; 3], options: Options) -> Sm {
        let reload = same_again(&options);
        self.start_with(at, options, reload)
    }

    /// Starts a daemon that reads its options by `reload` on a SIGHUP.
    pub fn start_with(&self, at: [u16; 3], options: Options, reload: ReloadFn) -> Sm {
        self.start_behind(at, options, reload, |port| port)
    }

    /// Starts a daemon on the host's port as wrapped by `wrap`.
    pub fn start_behind(
        &self,
        at: [u16; 3],
        options: Options,
        reload: ReloadFn,
        wrap: impl FnOnce(Arc<dyn MadPort>) -> Arc<dyn MadPort>,
    ) -> Sm {
        let start = SmStart { reload, ..SmStart::new(at, options) };
        self.open(start, |demux, recorder| wrap(self.attach(at, demux, recorder)))
    }

    /// Starts a daemon on a kernel that divides messages itself, and does not report
    /// acknowledgements.
    pub fn start_on_old_kernel(&self, at: [u16; 3], options: Options) -> Sm {
        let place = self.shape.host_guid(at, 0);
        self.open(SmStart::new(at, options), |demux, recorder| {
            let sink = Arc::new(RecordedSink::new(demux.clone(), recorder.clone()));
            let port = rmpp::open(sink, demux.transfer_observer(), |sink| {
                let port = self.fabric.attach(place, PortNum(1), sink, true);
                Ok::<Arc<dyn MadPort>, Infallible>(Arc::new(port.expect("the host exists")))
            });
            port.expect("the host exists")
        })
    }

    /// Starts a daemon that may fall silent.
    pub fn start_that_may_hang(&self, at: [u16; 3], options: Options) -> (Sm, Silence) {
        let silence = Silence::default();
        let reload = same_again(&options);
        (self.start_behind(at, options, reload, |port| silence.wrap(port)), silence)
    }

    /// Starts a daemon on a port whose device may be lost and come back.
    pub fn start_on_losable_port(&self, at: [u16; 3], options: Options) -> (Sm, LosablePort) {
        let losable = LosablePort::default();
        let state = losable.0.clone();
        let fabric = self.fabric.clone();
        let place = self.shape.host_guid(at, 0);
        let port = |demux: &Arc<MadDemux>, recorder: &Arc<FlightRecorder>| -> Arc<dyn MadPort> {
            let recorder = recorder.clone();
            let observer = demux.transfer_observer();
            let open = move |sink: Arc<dyn MadSink>| -> Result<Arc<dyn MadPort>, String> {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                if state.is_gone {
                    return Err("there is no such device".to_owned());
                }
                let sink: Arc<dyn MadSink> = Arc::new(RecordedSink::new(sink, recorder.clone()));
                state.sink = Some(sink.clone());
                rmpp::open(sink, observer.clone(), |sink| {
                    let port = fabric.attach_manager(place, PortNum(1), sink);
                    Ok::<Arc<dyn MadPort>, String>(Arc::new(port.expect("the host exists")))
                })
            };
            Arc::new(ReopeningPort::new(demux, open).expect("the port is there"))
        };
        (self.open(SmStart::new(at, options), port), losable)
    }

    fn attach(
        &self,
        at: [u16; 3],
        demux: &Arc<MadDemux>,
        recorder: &Arc<FlightRecorder>,
    ) -> Arc<dyn MadPort> {
        let place = self.shape.host_guid(at, 0);
        let sink = Arc::new(RecordedSink::new(demux.clone(), recorder.clone()));
        let sink = Arc::new(TracedSink::new(sink));
        let port = rmpp::open(sink, demux.transfer_observer(), |sink| {
            let port = self.fabric.attach_manager(place, PortNum(1), sink);
            Ok::<Arc<dyn MadPort>, Infallible>(Arc::new(port.expect("the host exists")))
        });
        Arc::new(TracedPort::new(port.expect("the host exists")))
    }

    /// Starts a daemon on the runtime `main`, with its servers as `servers` specifies. The fabric
    /// is simulated on the caller's runtime.
    pub fn start_on(
        &self,
        at: [u16; 3],
        options: Options,
        main: tokio::runtime::Handle,
        servers: ServerThreads,
    ) -> Sm {
        let reload = same_again(&options);
        let start = SmStart { at, options, reload, main, servers };
        self.open(start, |demux, recorder| self.attach(at, demux, recorder))
    }

    fn open(
        &self,
        start: SmStart,
        port: impl FnOnce(&Arc<MadDemux>, &Arc<FlightRecorder>) -> Arc<dyn MadPort>,
    ) -> Sm {
        let SmStart { at, options, reload, main, servers } = start;
        let (demux, unsolicited) = MadDemux::new(4096);
        let place = self.shape.host_guid(at, 0);
        let recordings = Recordings::new(&options, self.dir.path(), format!("node {place} port 1"));
        let recorder = recordings.recorder().clone();
        let port = port(&demux, &recorder);
        let port = Arc::new(RecordedPort::new(port, recorder));
        let cache_dir = self.cache_dir(at);
        let cache_dir = Some(cache_dir).filter(|dir| dir.is_dir());
        let files = StateFiles { cache_dir, dump_dir: self.dir.path().into() };
        let config_files = Arc::new(ConfigFiles::read(&options));
        let once = false;
        let config_file = None;
        let recorded = recordings.clone();
        let setup = DaemonSetup {
            options,
            config_files,
            ignored_lines: Vec::new(),
            once,
            files,
            recordings,
            reload,
            config_file,
            servers,
        };
        let mut daemon = Daemon::new(port, &demux, unsolicited, setup);
        let shutdown = watch::Sender::new(false);
        Sm {
            management: daemon.management(None, shutdown.clone()),
            events: daemon.events(),
            recordings: recorded,
            subnet: daemon.subnet(),
            refused: daemon.refused(),
            sharing: daemon.replication(),
            portrait: daemon.sm_status(),
            exit: main.spawn(daemon.run(shutdown.subscribe())),
            shutdown,
        }
    }

    /// Both ends of all links.
    fn cable_ends(&self) -> impl Iterator<Item = (Guid, PortNum)> + '_ {
        let ends = self.topology.cables.iter().flatten();
        ends.map(|&(node, num)| (self.topology.nodes[node].guid, num))
    }

    /// Node GUIDs of all hosts.
    pub fn hosts(&self) -> impl Iterator<Item = Guid> + '_ {
        let hosts = self.topology.nodes.iter().filter(|node| node.kind == NodeKind::Ca);
        hosts.map(|node| node.guid)
    }

    /// All forwarding and SL to VL tables as the devices hold them.
    pub fn tables(&self) -> Vec<(Guid, Vec<u8>, Vec<Option<SlToVl>>)> {
        let switches = self.topology.nodes.iter().filter(|node| node.kind == NodeKind::Switch);
        switches.map(|node| read(&self.fabric, node.guid, node.num_ports)).collect()
    }

    /// Differences between the plan and the devices' state, and pairs of hosts that do not reach
    /// each other; empty if there are none.
    pub fn faults(&self, sm: &Sm) -> Vec<String> {
        let mut faults = Vec::new();
        let Some(subnet) = sm.subnet.borrow().clone() else { return vec!["no SUBNET UP".into()] };
        if subnet.failed_sets > 0 {
            faults.push(format!("{} Sets failed", subnet.failed_sets));
        }
        let switches = subnet.fabric.switches().len();
        let expected = self.topology.nodes.iter().filter(|n| n.kind == NodeKind::Switch).count();
        if switches != expected {
            faults.push(format!("{switches} of {expected} switches are known"));
        }
        self.compare_tables(&subnet, &mut faults);
        self.check_states(&mut faults);
        self.check_pairs(&mut faults);
        faults
    }

    /// The faults while one switch does not respond: all others must be known and hold the plan. The
    /// switch itself is not known, or known as unresponsive.
    pub fn faults_beside(&self, sm: &Sm, silent: Guid) -> Vec<String> {
        let mut faults = Vec::new();
        let Some(subnet) = sm.subnet.borrow().clone() else { return vec!["no SUBNET UP".into()] };
        let known = subnet.fabric.node_by_guid(silent);
        let is_kept = known.is_some_and(|node| subnet.fabric.unresponsive().any(|it| it == node));
        if known.is_some() && !is_kept {
            faults.push(format!("the silent switch {silent} is taken for alive"));
        }
        // Sets to the kept switch wait until it answers.
        if subnet.failed_sets > 0 && !is_kept {
            faults.push(format!("{} Sets failed", subnet.failed_sets));
        }
        let switches = subnet.fabric.switches().len() + usize::from(known.is_none());
        let expected = self.topology.nodes.iter().filter(|n| n.kind == NodeKind::Switch).count();
        if switches != expected {
            faults.push(format!("{switches} of {expected} switches are known or silent"));
        }
        let mut others = Vec::new();
        self.compare_tables(&subnet, &mut others);
        // Hosts behind it are unresponsive, too: directed routes do not pass it.
        let unresponsive = subnet.fabric.unresponsive().map(|node| subnet.fabric.node(node).guid());
        let unresponsive: Vec<String> = unresponsive.map(|guid| guid.to_string()).collect();
        faults.extend(
            others
                .into_iter()
                .filter(|fault| !unresponsive.iter().any(|guid| fault.contains(guid))),
        );
        faults
    }

    /// Adds the multicast forwarding tables of switches that are not as planned to `faults`. Only
    /// ports below 16 are supported.
    pub fn compare_multicast_tables(&self, subnet: &Subnet, faults: &mut Vec<String>) {
        for switch in subnet.fabric.switch_ids() {
            let guid = subnet.fabric.switch(switch).guid();
            let planned = subnet.plan.multicast.by_switch.get(switch.index());
            let planned: HashMap<Mlid, u16> = planned
                .into_iter()
                .flatten()
                .map(|(mlid, ports)| (*mlid, ports.position(0)))
                .collect();
            let held = self.fabric.mft(guid, 0).expect("the simulator has the switch");
            for (mlid, has) in (Mlid::FIRST.0..).map(Mlid).zip(held) {
                let wanted = planned.get(&mlid).copied().unwrap_or(0);
                if has != wanted {
                    faults.push(format!(
                        "{guid} sends {mlid} to ports 0x{has:x}, planned were 0x{wanted:x}"
                    ));
                }
            }
        }
    }

    /// Adds the forwarding and SL to VL tables of switches that are not as planned to `faults`.
    pub fn compare_tables(&self, subnet: &Subnet, faults: &mut Vec<String>) {
        let fabric = &subnet.fabric;
        let plan = &subnet.plan;
        for switch in fabric.switch_ids() {
            let guid = fabric.switch(switch).guid();
            let Some(device) = self.fabric.lft(guid) else {
                faults.push(format!("{guid} is no switch of the fabric"));
                continue;
            };
            let planned = plan.routing.lft(switch);
            for lid in 1..=plan.lids.max().0 {
                let has = device.get(usize::from(lid)).copied().unwrap_or(LFT_NO_PATH);
                let wanted = planned.out(Lid(lid)).unwrap_or(LFT_NO_PATH);
                if has != wanted {
                    faults.push(format!("{guid} sends LID {lid} to {has}, planned was {wanted}"));
                }
            }
        }
        for node in fabric.node_ids() {
            let guid = fabric.node(node).guid();
            let rows = plan.qos.sl_to_vl_of(node);
            for &(input, output, wanted) in rows {
                let has = self.fabric.sl2vl(guid, PortNum(input), PortNum(output));
                if has != Some(wanted) {
                    faults.push(format!("SL to VL of {guid} {input}>{output} is not as planned"));
                }
            }
        }
    }

    /// Every port with a link must be ACTIVE.
    fn check_states(&self, faults: &mut Vec<String>) {
        for (guid, num) in self.cable_ends() {
            let state = self.fabric.port_info(guid, num).expect("a port").port_state();
            if state != PortState::Active && state != PortState::Down {
                faults.push(format!("port {num} of {guid} is {state}"));
            }
        }
    }

    /// Every host must reach every host.
    fn check_pairs(&self, faults: &mut Vec<String>) {
        let hosts: Vec<(Guid, PortNum)> = self.hosts().map(|guid| (guid, PortNum(1))).collect();
        for &(to, _) in &hosts {
            let lid = self.fabric.port_info(to, PortNum(1)).expect("a port").lid();
            let cut_off = self.fabric.cut_off(&hosts, lid, true).into_iter();
            faults.extend(
                cut_off.map(|(from, _)| format!("nothing from {from} reaches {to} (LID {lid})")),
            );
        }
    }

    /// The number of heavy sweeps since the counters were reset: the average number of
    /// NodeDescription Gets per node.
    pub fn sweeps(&self) -> u64 {
        let [gets, _] = self.fabric.requests(AttrId::NODE_DESCRIPTION);
        gets / self.topology.nodes.len() as u64
    }

    /// The number of Sets sent by a heavy sweep of an unchanged fabric.
    pub async fn sets_of_another_sweep(&self, sm: &Sm) -> u64 {
        self.fabric.reset_counters();
        sm.tell(SmEvent::Reload);
        settle().await;
        let [gets, _] = self.fabric.requests(AttrId::NODE_INFO);
        assert!(gets >= self.topology.nodes.len() as u64, "only {gets} NodeInfos were read");
        self.fabric.sets()
    }
}

fn read(fabric: &SimFabric, guid: Guid, ports: u8) -> (Guid, Vec<u8>, Vec<Option<SlToVl>>) {
    let pairs = (0..=ports).flat_map(|input| (1..=ports).map(move |out| (input, out)));
    let rows = pairs.map(|(i, o)| fabric.sl2vl(guid, PortNum(i), PortNum(o)));
    (guid, fabric.lft(guid).expect("a switch"), rows.collect())
}

/// What a daemon starts with.
struct SmStart {
    at: [u16; 3],
    options: Options,
    reload: ReloadFn,
    /// The runtime of the daemon.
    main: tokio::runtime::Handle,
    servers: ServerThreads,
}

impl SmStart {
    /// A daemon on the caller's runtime whose options stay as they are.
    fn new(at: [u16; 3], options: Options) -> Self {
        let reload = same_again(&options);
        let main = tokio::runtime::Handle::current();
        Self { at, options, reload, main, servers: ServerThreads::default() }
    }
}

fn same_again(options: &Options) -> ReloadFn {
    let options = options.clone();
    Box::new(move || Ok(options.clone().into()))
}

/// A port whose device may be lost and come back.
#[derive(Default)]
pub struct LosablePort(Arc<Mutex<LosableState>>);

#[derive(Default)]
struct LosableState {
    is_gone: bool,
    /// The receiver of the open port's MADs.
    sink: Option<Arc<dyn MadSink>>,
}

impl LosablePort {
    /// The device is removed.
    pub fn lose(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.is_gone = true;
        if let Some(sink) = state.sink.take() {
            sink.closed("the device was removed");
        }
    }

    /// The device is back.
    pub fn restore(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_gone = false;
    }
}

/// A running daemon.
pub struct Sm {
    /// The flight recorder.
    pub recordings: Arc<Recordings>,
    events: mpsc::UnboundedSender<SmEvent>,
    pub subnet: watch::Receiver<Option<Arc<Subnet>>>,
    pub refused: watch::Receiver<Option<Arc<PlanRejected>>>,
    pub portrait: watch::Receiver<SmStatus>,
    /// For a server of the management interface; a test that starts one takes it.
    pub management: Option<ManageSources>,
    /// The end of the shared state that sessions with other daemons use.
    pub sharing: Local,
    exit: JoinHandle<Exit>,
    shutdown: watch::Sender<bool>,
}

impl Sm {
    pub fn tell(&self, event: SmEvent) {
        self.events.send(event).expect("the daemon is running");
    }

    pub fn state(&self) -> SmState {
        self.portrait.borrow().state
    }

    pub fn generation(&self) -> u64 {
        self.subnet.borrow().as_ref().map_or(0, |subnet| subnet.generation)
    }

    pub fn engine(&self) -> &'static str {
        self.subnet.borrow().as_ref().map_or("none", |subnet| subnet.plan.routing.engine)
    }

    /// Ends the daemon without any last action, as SIGKILL does.
    pub async fn kill(self) {
        self.exit.abort();
        let _ = self.exit.await;
    }

    /// Ends the daemon and waits until it has closed its port.
    pub async fn stop(self) -> Exit {
        self.shutdown.send_replace(true);
        self.exit.await.expect("the daemon does not panic")
    }
}

/// Lets all work under way finish: the paused clock advances only when all tasks are idle.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
