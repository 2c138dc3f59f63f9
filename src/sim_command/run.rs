//! `torus-sm sim`: the daemon on a simulated fabric in the same process.
//!
//! The fabric is generated or read from a file; the daemon is the one that runs on real ports,
//! attached to the first host. Unless the command line says otherwise it routes a generated
//! torus with torus-2QoS and QoS (VLs weighted as that engine uses them), by a configuration file
//! that names the seed and lives as long as the process, and a fabric from a file with minhop. The
//! machine's own configuration, LID cache and log stay out of it: options come from the command
//! line (or from `-F`), LIDs are remembered only in an OSM_CACHE_DIR, the log is that of `-f`,
//! else warnings and errors on standard error. [`super::console_progress`] tells on standard output what happens.

use super::console_progress::ConsoleProgress;
use super::ctl;
use super::host;
use crate::cli::{DaemonArgs, ExitCode, SimArgs};
use crate::config::options::Options;
use crate::daemon::launch::{self, Failure};
use crate::daemon::process::background;
use crate::daemon::process::logging::{LogConfig, flags};
use crate::daemon::process::operator_log;
use crate::daemon::process::signals;
use crate::daemon::sm_loop::context::Configuration;
use crate::daemon::sm_loop::files::StateFiles;
use crate::daemon::sm_loop::manager::Exit;
use crate::daemon::start::{Daemon, ServerThreads, Setup};
use crate::fabric::ibnet;
use crate::fabric::synthetic::Hardware;
use crate::fabric::topology::Topology;
use crate::ids::{Guid, PortNum};
use crate::sim::console::script;
use crate::sim::{SimFabric, SimPort};
use crate::transport::MadPort;
use crate::transport::demux::MadDemux;
use crate::transport::traced::TracedPort;
use crate::wire::attr::NodeKind;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// Runs the daemon on the simulated fabric that `args` describe, until it is interrupted or,
/// with `-o`, the subnet is up.
///
/// # Errors
/// Why it could not start.
pub fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    let fabric = Fabric::from_args(args)?;
    let lines = Script::of(args)?;
    let scratch = Scratch::new()?;
    let daemon_args = with_defaults(args, &fabric, &scratch)?;
    let configured = launch::configure(&daemon_args)?;
    let options = configured.options;
    let (partitions, notes) = launch::read_partitions(&options)?;
    let place = fabric.place(&daemon_args, &options)?;
    if options.daemon && !background::is_here() {
        return launch::in_background();
    }
    let log = launch::open_log(&log_config(&options))?;
    let _pidfile = launch::PidFile::write(&daemon_args)?;
    configured.notes.iter().chain(&notes).for_each(operator_log::note);
    let (threads, servers) = launch::start_threads()?;
    let simulated = SimFabric::new(&fabric.topology, Hardware::default(), 1);
    println!("{}", fabric.describe());
    let server = {
        let _runtime = threads.main().enter();
        host::serve(args, &simulated, place, &scratch.0)?
    };
    if args.no_sm {
        println!("no subnet manager; up until interrupted");
        launch::settle_in_background()?;
        threads.main().block_on(lines.run(&simulated))?;
        host::until_interrupted()?;
        drop(server);
        return Ok(ExitCode::Ok);
    }
    let configuration = Configuration { options, partitions: Arc::new(partitions) };
    let name = fabric.node_name(place.0);
    let scene = Scene { simulated, place, name, lines };
    let run = serve(&daemon_args, configuration, scene, servers, log.clone());
    let exit = threads.main().block_on(run)?;
    drop(server);
    threads.shut_down();
    log.flush();
    Ok(launch::exit_code(&exit))
}

/// What the operator asked for.
struct Fabric {
    topology: Topology,
    /// In a few words: `6x5x1 torus`, or the file.
    name: String,
    torus_conf: Option<String>,
}

/// A port for the daemon: node and port number.
type Place = (Guid, PortNum);

impl Fabric {
    fn from_args(args: &SimArgs) -> Result<Self, Failure> {
        if let Some(file) = &args.fabric.file {
            let wrong = |error: &dyn std::fmt::Display| Failure::new(ExitCode::Config, error);
            let text = fs::read_to_string(file)
                .map_err(|error| wrong(&format_args!("{}: {error}", file.display())))?;
            let topology = ibnet::parse(file, &text).map_err(|error| wrong(&error))?;
            return Ok(Self { topology, name: file.display().to_string(), torus_conf: None });
        }
        let shape = args.fabric.generated().map_err(|text| Failure::new(ExitCode::Usage, text))?;
        let Some(shape) = shape else {
            return Err(Failure::new(ExitCode::Usage, "neither a shape nor a file is given"));
        };
        let topology = shape.build().map_err(|error| Failure::new(ExitCode::Usage, error))?;
        let closed = shape.radix.iter().zip(shape.looped).any(|(&radix, loops)| radix > 2 && loops);
        let word = if closed { "torus" } else { "mesh" };
        let text = args.fabric.shape.as_ref().map(ToString::to_string).unwrap_or_default();
        Ok(Self { topology, name: format!("{text} {word}"), torus_conf: Some(shape.torus_conf()) })
    }

    /// The port of `-g`, else the first port of the first host, else port 0 of the first switch.
    fn place(&self, args: &DaemonArgs, options: &Options) -> Result<Place, Failure> {
        if args.ask_for_port {
            let text = "-g 0 lists the ports of this machine, which a simulation has no use for";
            return Err(Failure::new(ExitCode::Usage, text));
        }
        let mut wanted = self.places().filter(|(_, guid)| [Guid(0), *guid].contains(&options.guid));
        let found = wanted.find(|(place, _)| place.1 == PortNum::ZERO || self.is_cabled(*place));
        found.map(|(place, _)| place).ok_or_else(|| {
            let text = match options.guid.0 {
                0 => "the fabric has neither a host nor a switch".to_owned(),
                _ => format!("the fabric has no port with GUID {}", options.guid),
            };
            Failure::new(ExitCode::NoPort, text)
        })
    }

    /// Ports that a daemon can sit at, with their GUIDs: those of hosts first.
    fn places(&self) -> impl Iterator<Item = (Place, Guid)> {
        let of_kind = |kind| self.topology.nodes.iter().filter(move |node| node.kind == kind);
        let hosts = of_kind(NodeKind::Ca)
            .flat_map(|node| (1..=node.num_ports).map(move |num| (node, PortNum(num))));
        let switches = of_kind(NodeKind::Switch).map(|node| (node, PortNum::ZERO));
        hosts.chain(switches).map(|(node, num)| ((node.guid, num), node.port_guid(num)))
    }

    fn is_cabled(&self, (guid, num): Place) -> bool {
        let is_here = |&(node, at): &(usize, PortNum)| {
            at == num && self.topology.nodes.get(node).is_some_and(|node| node.guid == guid)
        };
        self.topology.cables.iter().flatten().any(is_here)
    }

    /// `6x5x1 torus: 30 switches, 30 hosts, 90 cables`.
    fn describe(&self) -> String {
        let count = |kind| self.topology.nodes.iter().filter(|node| node.kind == kind).count();
        let (switches, hosts) = (count(NodeKind::Switch), count(NodeKind::Ca));
        let cables = self.topology.cables.len();
        let routers = match count(NodeKind::Router) {
            0 => String::new(),
            routers => format!("{routers} routers, "),
        };
        format!("{}: {switches} switches, {hosts} hosts, {routers}{cables} cables", self.name)
    }

    fn node_name(&self, guid: Guid) -> &str {
        let node = self.topology.nodes.iter().find(|node| node.guid == guid);
        node.map_or("?", |node| &node.description)
    }
}

/// The engine for tori, which needs QoS.
const TORUS: &str = "torus-2QoS";

/// VL arbitration that suits torus-2QoS: between switches the same weight for VLs 0-3 and for
/// VLs 4-7, at hosts VLs 0 and 1 alone.
const VL_ARBITRATION: [(&str, &str); 5] = [
    ("qos_vlarb_high", "0:0"),
    ("qos_vlarb_low", "0:64,1:64"),
    ("qos_swe_vlarb_low", "0:64,1:64,2:64,3:64,4:64,5:64,6:64,7:64"),
    ("qos_max_vls", "8"),
    ("qos_high_limit", "0"),
];

/// A private folder, removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, Failure> {
        let template = std::env::temp_dir().join("torus-sm-sim-XXXXXX");
        let made = nix::unistd::mkdtemp(&template);
        made.map(Self).map_err(|error| {
            Failure::new(ExitCode::System, format!("{}: {error}", template.display()))
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the folder for temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command line with the simulation's own defaults.
fn with_defaults(
    args: &SimArgs,
    fabric: &Fabric,
    scratch: &Scratch,
) -> Result<DaemonArgs, Failure> {
    let mut daemon = args.daemon.clone();
    let conf = scratch.0.join("torus-2QoS.conf");
    let conf_name = conf.display().to_string();
    let mut defaults = Vec::new();
    if daemon.given("log_file").is_none() {
        defaults.extend([("log_file", "stderr"), ("log_flags", "0x01")]);
    }
    if let Some(text) = &fabric.torus_conf {
        fs::write(&conf, text)
            .map_err(|error| Failure::new(ExitCode::System, format!("{conf_name}: {error}")))?;
        defaults.extend([("torus_config", conf_name.as_str()), ("routing_engine", TORUS)]);
        let engines = daemon.given("routing_engine").unwrap_or(TORUS);
        if engines.contains(TORUS) {
            defaults.push(("qos", "TRUE"));
            defaults.extend(VL_ARBITRATION);
        }
    }
    daemon.set_defaults(&defaults).map_err(|text| Failure::new(ExitCode::System, text))?;
    Ok(daemon)
}

/// The narrator tells the major events, so the log does not announce them.
fn log_config(options: &Options) -> LogConfig {
    let config = LogConfig::from(options);
    let to_terminal = options.log_file == "stderr" && config.flags == flags::ERROR;
    let majors = if to_terminal { 0 } else { flags::SYS };
    LogConfig { flags: config.flags | majors, announce: false, ..config }
}

/// Where the daemon plays its part.
struct Scene<'a> {
    simulated: SimFabric,
    place: Place,
    /// The node of that place.
    name: &'a str,
    lines: Script,
}

async fn serve(
    args: &DaemonArgs,
    configuration: Configuration,
    scene: Scene<'_>,
    servers: ServerThreads,
    log: crate::daemon::process::logging::LogHandle,
) -> Result<Exit, Failure> {
    let Scene { simulated, place: (guid, num), name, lines } = scene;
    let Configuration { options, partitions } = configuration;
    let (demux, unsolicited) = MadDemux::new(launch::INBOX);
    let port = simulated.attach(guid, num, demux.clone(), true).ok_or_else(|| {
        Failure::new(ExitCode::NoPort, format!("no daemon can sit at port {num} of {guid}"))
    })?;
    let engines = options.routing_engine.clone().unwrap_or_else(|| "minhop".into());
    println!(
        "daemon at \"{name}\" port {num}; routing engine {engines}{}",
        if options.qos { " with QoS" } else { "" }
    );
    let setup = Setup {
        files: files(&options),
        reload: launch::reload(args, &options, &log),
        options,
        partitions,
        once: args.once,
        servers,
    };
    let daemon = Daemon::new(traced(port, args), &demux, unsolicited, setup);
    let shutdown = watch::Sender::new(false);
    let asked = shutdown.subscribe();
    signals::install(daemon.events(), shutdown, launch::reopen(log))
        .map_err(|error| Failure::new(ExitCode::System, format!("signals: {error}")))?;
    launch::settle_in_background()?;
    let mut subnet = daemon.subnet();
    let narrator = ConsoleProgress::new(&daemon, args.once);
    let script = async {
        // Without a subnet there is nothing to come, and the daemon's end is the end.
        if subnet.wait_for(Option::is_some).await.is_ok() {
            lines.run(&simulated).await?;
        }
        std::future::pending::<Result<Exit, Failure>>().await
    };
    tokio::select! {
        exit = narrator.follow(daemon.run(asked)) => Ok(exit),
        failed = script => failed,
    }
}

/// Lines for the console.
struct Script(Option<(String, String)>);

impl Script {
    fn of(args: &SimArgs) -> Result<Self, Failure> {
        if args.script.is_some() && args.daemon.once {
            let text = "--script begins when the subnet is up, where -o ends";
            return Err(Failure::new(ExitCode::Usage, text));
        }
        Ok(Self(args.script.as_deref().map(ctl::read).transpose()?))
    }

    /// Runs the lines, telling of each.
    async fn run(&self, fabric: &SimFabric) -> Result<(), Failure> {
        let Some((name, text)) = &self.0 else { return Ok(()) };
        let tell = |number: usize, line: &str, answer: &str| {
            println!("{name}:{number}: {line}");
            print!("{answer}");
        };
        let done = script::run(fabric, name, text, tell).await;
        done.map_err(|error| Failure::new(ExitCode::Fatal, error))?;
        println!("{name}: all lines are carried out");
        Ok(())
    }
}

fn traced(port: SimPort, args: &DaemonArgs) -> Arc<dyn MadPort> {
    let port: Arc<dyn MadPort> = Arc::new(port);
    if args.trace_port { Arc::new(TracedPort::new(port)) } else { port }
}

/// LIDs are remembered only where the environment says so.
fn files(options: &Options) -> StateFiles {
    let cache_dir = std::env::var_os("OSM_CACHE_DIR").map(PathBuf::from);
    StateFiles { cache_dir, ..StateFiles::from_environment(options) }
}
