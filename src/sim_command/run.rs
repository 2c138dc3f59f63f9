//! `torus-sm sim`: the daemon on a simulated fabric in the same process.
//!
//! The fabric is generated or read from a file. The daemon is the same as on a real port, and runs
//! on the first host. It ignores the configuration of this machine: options come from the command
//! line and from the file of `-F`, LIDs are saved only in `$OSM_CACHE_DIR`, dump files go to the
//! scratch directory, and the log to the file of `-f`, or errors to standard error. [`super::defaults`] has the default options.
//! [`super::console_progress`] reports progress.

use super::console_progress::ConsoleProgress;
use super::defaults;
use super::host;
use super::requested_fabric::{RequestedFabric, SmPort};
use super::scratch::ScratchDirectory;
use super::script::ConsoleScript;
use super::starting::StartingMark;
use crate::cli::output::print_or_end;
use crate::cli::sim::args::NodeVendor;
use crate::cli::{DaemonArgs, ExitCode, SimArgs};
use crate::config::options::Options;
use crate::daemon::launch::{self, CommandFailure};
use crate::daemon::management;
use crate::daemon::process::background;
use crate::daemon::process::logging::LogHandle;
use crate::daemon::process::operator_log;
use crate::daemon::process::signals;
use crate::daemon::setup::{DaemonSetup, ServerThreads};
use crate::daemon::sm_loop::context::Configuration;
use crate::daemon::sm_loop::run::Exit;
use crate::daemon::start::Daemon;
use crate::fabric::synthetic::Hardware;
use crate::manage::server::ManageServer;
use crate::manage::socket;
use crate::publish::Subnet;
use crate::record::recorder::FlightRecorder;
use crate::sim::{SimFabric, SmaSpeed, TimedEvents};
use crate::transport::MadPort;
use crate::transport::demux::MadDemux;
use crate::transport::frames::{FramePort, FrameSink};
use crate::transport::recorded::{RecordedPort, RecordedSink};
use crate::transport::rmpp;
use crate::transport::traced::TracedPort;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Runs the daemon on the simulated fabric that `args` describe, until it is interrupted or, with
/// `-o`, until the subnet is up.
///
/// # Errors
/// The simulation cannot start, or a line of the script failed.
pub fn run(args: &SimArgs) -> Result<ExitCode, CommandFailure> {
    let fabric = RequestedFabric::from_args(args)?;
    let script = ConsoleScript::from_args(args)?;
    let scratch = ScratchDirectory::new()?;
    let daemon_args = defaults::daemon_args(args, &fabric, &scratch)?;
    let configured = launch::configure(&daemon_args)?;
    let options = configured.options;
    let files = launch::read_files(&options)?;
    let sm_port = fabric.sm_port(&daemon_args, &options)?;
    if options.daemon && !background::is_here() {
        return launch::in_background();
    }
    let log = launch::open_log(&defaults::log_config(&options))?;
    let _pidfile = launch::PidFile::write(&daemon_args)?;
    log.set_module_flags(files.module_flags.clone());
    configured.notes.iter().chain(&files.findings.notes).for_each(operator_log::note);
    let (threads, servers) = launch::start_threads(&options)?;
    let simulated = simulate(&fabric, args)?;
    print_or_end(&format!("{}\n", fabric.summary()))?;
    let starting = if args.no_sm { None } else { Some(StartingMark::create(scratch.path())?) };
    let server = {
        let _runtime = threads.main().enter();
        host::serve(args, &simulated, sm_port, scratch.path())?
    };
    if args.no_sm {
        print_or_end("no subnet manager; up until interrupted (Ctrl-C)\n")?;
        launch::settle_in_background()?;
        threads.main().block_on(script.run(&simulated))?;
        host::wait_for_interrupt()?;
        drop(server);
        return Ok(ExitCode::Ok);
    }
    let configuration = Configuration::new(options, files);
    let node_name = fabric.node_name(sm_port.0);
    let management_dir = socket::simulator_folder(&host::socket(args));
    let runtime_dir = management_dir.clone();
    let simulation =
        Simulation { fabric: simulated, sm_port, node_name, script, starting, management_dir };
    let run = run_daemon(&daemon_args, configuration, simulation, servers, log.clone());
    let exit = threads.main().block_on(run)?;
    drop(server);
    // Not empty if another daemon on this fabric still runs.
    let _ = std::fs::remove_dir(runtime_dir);
    threads.shut_down();
    log.flush();
    Ok(launch::exit_code(&exit))
}

fn simulate(fabric: &RequestedFabric, args: &SimArgs) -> Result<SimFabric, CommandFailure> {
    let simulated = SimFabric::new(&fabric.topology, Hardware::default(), 1);
    let timed_events = if args.no_sm { TimedEvents::ServerThread } else { TimedEvents::Thread };
    simulated.set_timed_events(timed_events);
    if let Some(service_time) = args.sma_time {
        let queue = args.sma_queue.unwrap_or(SmaSpeed::UNLIMITED);
        simulated.set_sma_speed(SmaSpeed { service_time, queue });
    }
    simulated.set_smp_round_trip(args.round_trip.unwrap_or(Duration::ZERO));
    for NodeVendor { node, profile } in &args.vendor {
        match node {
            None => simulated.set_vendor_profiles(*profile),
            Some(name) => {
                let found = simulated.node_named(name);
                let guid = found.map_err(|error| CommandFailure::new(ExitCode::Usage, error))?;
                simulated.set_vendor_profile(guid, Some(*profile));
            }
        }
    }
    if let Some(count) = args.vports {
        simulated.give_all_virtual_ports(count);
    }
    Ok(simulated)
}

/// A simulated fabric with a port for the daemon.
struct Simulation<'a> {
    fabric: SimFabric,
    sm_port: SmPort,
    /// Description of the node of `sm_port`.
    node_name: &'a str,
    script: ConsoleScript,
    starting: Option<StartingMark>,
    /// Directory of the socket of the management interface.
    management_dir: PathBuf,
}

async fn run_daemon(
    args: &DaemonArgs,
    configuration: Configuration,
    simulation: Simulation<'_>,
    servers: ServerThreads,
    log: LogHandle,
) -> Result<Exit, CommandFailure> {
    let Simulation { fabric, sm_port: (guid, num), node_name, script, starting, management_dir } =
        simulation;
    let Configuration { options, files: config_files, ignored_lines, .. } = configuration;
    let (demux, unsolicited) = MadDemux::new(launch::MAX_QUEUED_MADS);
    let files = defaults::state_files(&options);
    let place = format!("simulated port {num} of \"{node_name}\", node GUID {guid}");
    let recordings = launch::recordings(&options, &files, place);
    let port = manager_port(&fabric, (guid, num), &demux, recordings.recorder())?;
    print_or_end(&first_line(&options, &format!("\"{node_name}\"[{num}]")))?;
    let manage_options = (!args.once).then(|| options.clone());
    let setup = DaemonSetup {
        config_file: launch::config_file(args),
        files,
        recordings: recordings.clone(),
        reload: launch::reload(args, &options, &log),
        options,
        config_files,
        ignored_lines,
        once: args.once,
        servers,
    };
    let mut daemon = Daemon::new(traced(port, args), &demux, unsolicited, setup);
    let shutdown = watch::Sender::new(false);
    let shutdown_requested = shutdown.subscribe();
    let _console = manage_options
        .as_ref()
        .and_then(|options| management::console(&daemon, options, log.clone(), shutdown.clone()));
    let management = manage_options.and_then(|options| {
        management::start(&mut daemon, &options, management_dir, log.clone(), shutdown.clone())
    });
    management.as_ref().map_or(Ok(()), announce)?;
    signals::install(
        daemon.events(),
        shutdown.clone(),
        launch::reopen(log, daemon.activity()),
        recordings,
    )
    .map_err(|error| CommandFailure::new(ExitCode::System, format!("signals: {error}")))?;
    launch::settle_in_background()?;
    let subnet = daemon.subnet();
    if let Some(mark) = starting {
        tokio::spawn(mark.hold(daemon.subnet(), daemon.refused(), daemon.sm_status()));
    }
    let progress = ConsoleProgress::new(&daemon, args.once, shutdown);
    tokio::select! {
        exit = progress.follow(daemon.run(shutdown_requested)) => exit,
        failure = run_when_up(script, &fabric, subnet) => failure,
    }
}

/// What the subnet manager on `port` will do.
fn first_line(options: &Options, port: &str) -> String {
    let engines = options.routing_engine.as_deref().unwrap_or("minhop");
    let qos = if options.qos { " with QoS" } else { "" };
    format!("subnet manager on {port}; routing engine {engines}{qos}\n")
}

/// Runs the script once a subnet is published. Returns only if it fails.
async fn run_when_up(
    script: ConsoleScript,
    fabric: &SimFabric,
    mut subnet: watch::Receiver<Option<Arc<Subnet>>>,
) -> Result<Exit, CommandFailure> {
    // The daemon has ended if no subnet was published; its exit then decides.
    if subnet.wait_for(Option::is_some).await.is_ok() {
        script.run(fabric).await?;
    }
    std::future::pending().await
}

/// The subnet manager's port, with the wrappers that record and log its MADs.
fn manager_port(
    fabric: &SimFabric,
    at: SmPort,
    demux: &Arc<MadDemux>,
    recorder: &Arc<FlightRecorder>,
) -> Result<RecordedPort, CommandFailure> {
    let (guid, num) = at;
    let sink = Arc::new(RecordedSink::new(demux.clone(), recorder.clone()));
    let sink = Arc::new(FrameSink::new(sink));
    let port = rmpp::open(sink, demux.transfer_observer(), |sink| {
        let port = fabric.attach_manager(guid, num, sink).ok_or_else(|| {
            let text = format!("{guid}[{num}] is not an end port");
            CommandFailure::new(ExitCode::NoPort, text)
        })?;
        Ok::<Arc<dyn MadPort>, CommandFailure>(Arc::new(port))
    })?;
    Ok(RecordedPort::new(port, recorder.clone()))
}

/// Tells where the management interface listens.
fn announce(server: &ManageServer) -> Result<(), CommandFailure> {
    let path = server.path().display();
    print_or_end(&format!("status:   torus-sm status (socket {path})\n"))?;
    match server.url() {
        Some(url) => print_or_end(&format!("page:     {url}\n")),
        None => Ok(()),
    }
}

/// The port, with tracing if `-d 5` is given.
fn traced(port: RecordedPort, args: &DaemonArgs) -> Arc<dyn MadPort> {
    let port: Arc<dyn MadPort> = Arc::new(FramePort::new(Arc::new(port)));
    if args.trace_port { Arc::new(TracedPort::new(port)) } else { port }
}
