//! Runs the daemon as a process: configuration, log, port, signals and exit code.

use crate::cli::configuration::{self, Configured};
use crate::cli::output::{complain, print_or_end};
use crate::cli::{DaemonArgs, ExitCode};
use crate::daemon::activity::ActivityReport;
use crate::daemon::management;
use crate::daemon::process::background;
use crate::daemon::process::core_dumps;
use crate::daemon::process::logging::{self, LogConfig, LogDestination, LogHandle};
use crate::daemon::process::memory;
use crate::daemon::process::operator_log;
use crate::daemon::process::recordings::{Recordings, record_panics};
use crate::daemon::process::service_manager::{self, ServiceManager};
use crate::daemon::process::signals;
use crate::daemon::process::threads::Threads;
use crate::daemon::replication;
use crate::daemon::setup::{DaemonSetup, ServerThreads};
use crate::daemon::sm_loop::context::{Configuration, ReloadFn};
use crate::daemon::sm_loop::files::StateFiles;
use crate::daemon::sm_loop::run::Exit;
use crate::daemon::start::Daemon;

pub use crate::cli::exit::CommandFailure;
use crate::config::config_files::ConfigFiles;
use crate::config::options::Options;
use crate::manage::socket;
use crate::record::recorder::FlightRecorder;
use crate::transport::demux::MadDemux;
use crate::transport::frames::{FramePort, FrameSink};
use crate::transport::recorded::{MadRecorder, RecordedPort, RecordedSink};
use crate::transport::reopening::ReopeningPort;
use crate::transport::rmpp::{self, ObserverSlot, Segmentation};
use crate::transport::sysfs::{LocalPort, LocalPorts, PortError, Sysfs};
use crate::transport::traced::TracedPort;
use crate::transport::umad::{OpenError, UmadPort};
use crate::transport::{MadPort, MadSink};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tracing::{error, info};

/// Capacity of each queue of unsolicited MADs.
pub(crate) const MAX_QUEUED_MADS: usize = 4096;

/// Interval at which buffered log lines are written.
const FLUSH_INTERVAL: Duration = Duration::from_millis(250);

/// Runs the daemon on a port of this host until it ends.
///
/// # Errors
/// The daemon cannot start.
pub fn daemon(args: &DaemonArgs) -> Result<ExitCode, CommandFailure> {
    let mut configured = configure(args)?;
    if !configured.options.core_dump_memory {
        configured.notes.extend(core_dumps::leave_out_memory());
    }
    // The service manager follows the process that it started.
    let may_detach = !background::is_here() && !service_manager::is_present();
    if configured.options.daemon && may_detach {
        return in_background();
    }
    configured.mistakes.iter().for_each(|text| complain(text));
    let files = read_files(&configured.options)?;
    let Some(local) = choose_port(args, &configured.options)? else { return Ok(ExitCode::Ok) };
    let log = open_log(&LogConfig::from(&configured.options))?;
    let _pidfile = PidFile::write(args)?;
    operator_log::version();
    log.set_module_flags(files.module_flags.clone());
    configured.notes.iter().chain(&files.findings.notes).for_each(operator_log::note);
    info!("binding to port GUID {} ({} port {})", local.guid, local.device, local.port);
    let (threads, servers) = start_threads(&configured.options)?;
    let configuration = Configuration {
        ignored_lines: configured.mistakes,
        ..Configuration::new(configured.options, files)
    };
    let run = serve(args, configuration, &local, servers, log.clone());
    let outcome = threads.main().block_on(run);
    threads.shut_down();
    if let Err(failure) = &outcome {
        error!("{}", failure.text);
    }
    let code = outcome.map(|exit| exit_code(&exit));
    log.flush();
    code
}

/// Writes the configuration as a file with help for every key (`-c FILE`).
///
/// # Errors
/// The configuration cannot be read, or the file exists (without `--force`) or cannot be written.
pub fn create_config(path: &Path, args: &DaemonArgs) -> Result<ExitCode, CommandFailure> {
    let configured = configure(args)?;
    configured.mistakes.iter().for_each(|text| complain(text));
    let opened = if args.force { File::create(path) } else { File::create_new(path) };
    let written =
        opened.and_then(|mut file| file.write_all(configured.options.to_text().as_bytes()));
    written.map_err(|error| {
        let is_there = error.kind() == ErrorKind::AlreadyExists;
        let remedy = if is_there { "; --force replaces it" } else { "" };
        CommandFailure::new(ExitCode::System, format!("{}: {error}{remedy}", path.display()))
    })?;
    Ok(ExitCode::Ok)
}

pub(crate) fn configure(args: &DaemonArgs) -> Result<Configured, CommandFailure> {
    configuration::read(args).map_err(CommandFailure::config)
}

/// Reads the files that the options name.
pub(crate) fn read_files(options: &Options) -> Result<Arc<ConfigFiles>, CommandFailure> {
    let files = ConfigFiles::read(options);
    match files.partitions_error {
        Some(text) => {
            let text = format!("{text}\ntorus-sm does not start with an invalid partitions.conf");
            Err(CommandFailure::config(text))
        }
        None => Ok(Arc::new(files)),
    }
}

pub(crate) fn start_threads(options: &Options) -> Result<(Threads, ServerThreads), CommandFailure> {
    let threads = Threads::start().map_err(|error| no_threads(&error))?;
    threads.background().spawn(memory::return_unused());
    let servers = ServerThreads::new(threads.servers()).map_err(|error| no_threads(&error))?;
    let servers = servers.with_single_thread(options.single_thread);
    let servers = servers.with_background(threads.background());
    Ok((threads, servers))
}

fn no_threads(error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::new(ExitCode::System, format!("cannot start the daemon's threads: {error}"))
}

/// Opens the log; on standard error if its file cannot be opened.
pub(crate) fn open_log(config: &LogConfig) -> Result<LogHandle, CommandFailure> {
    let opened = logging::start(config).or_else(|error| {
        let LogDestination::File(path) = &config.destination else { return Err(error) };
        let path = path.display();
        complain(&format!("cannot open log_file {path}, the log goes to standard error: {error}"));
        logging::start(&LogConfig { destination: LogDestination::Stderr, ..config.clone() })
    });
    opened.map_err(|error| {
        CommandFailure::new(ExitCode::System, format!("cannot start logging: {error}"))
    })
}

async fn serve(
    args: &DaemonArgs,
    configuration: Configuration,
    local: &LocalPort,
    servers: ServerThreads,
    log: LogHandle,
) -> Result<Exit, CommandFailure> {
    let Configuration { options, files: config_files, ignored_lines, .. } = configuration;
    let (demux, unsolicited) = MadDemux::new(MAX_QUEUED_MADS);
    let files = StateFiles::from_environment(&options);
    let place = format!("{} port {}, port GUID {}", local.device, local.port, local.guid);
    let recordings = recordings(&options, &files, place);
    let management_dir = options.management_dir.as_ref().map_or_else(socket::folder, PathBuf::from);
    let port = manager_port(local, &demux, recordings.recorder(), &management_dir)?;
    let port = if args.trace_port { Arc::new(TracedPort::new(port)) } else { port };
    let service = Arc::new(ServiceManager::from_environment());
    let reload = announced(service.clone(), reload(args, &options, &log));
    let server_threads = servers.handle.clone().unwrap_or_else(Handle::current);
    let manage_options = (!args.once).then(|| options.clone());
    let setup = DaemonSetup {
        reload,
        options,
        config_files,
        ignored_lines,
        once: args.once,
        files,
        config_file: config_file(args),
        recordings: recordings.clone(),
        servers,
    };
    tokio::spawn(flush_regularly(log.clone()));
    let mut daemon = Daemon::new(port, &demux, unsolicited, setup);
    let shutdown = watch::Sender::new(false);
    let asked = shutdown.subscribe();
    let _replication = manage_options
        .as_ref()
        .and_then(|options| replication::start(daemon.replication(), options));
    let _console = manage_options
        .as_ref()
        .and_then(|options| management::console(&daemon, options, log.clone(), shutdown.clone()));
    let _management = manage_options.and_then(|options| {
        management::start(&mut daemon, &options, management_dir, log.clone(), shutdown.clone())
    });
    let reopen = reopen(log, daemon.activity());
    signals::install(daemon.events(), shutdown, reopen, recordings).map_err(|error| {
        CommandFailure::new(ExitCode::System, format!("cannot handle signals: {error}"))
    })?;
    settle_in_background()?;
    service.ready();
    tokio::spawn(service.report(daemon.loop_status(), server_threads, asked.clone()));
    Ok(daemon.run(asked).await)
}

/// The local port, which is opened again when it is lost, with the wrappers that record and log MADs.
fn manager_port(
    local: &LocalPort,
    demux: &Arc<MadDemux>,
    recorder: &Arc<FlightRecorder>,
    management_dir: &Path,
) -> Result<Arc<dyn MadPort>, CommandFailure> {
    let open = open_port(local, recorder.clone(), demux.transfer_observer());
    let port = ReopeningPort::new(demux, open).map_err(|error| {
        // Its management interface tells which process it is where /proc does not.
        let error = error.with_user(|| socket::owner(management_dir, local.guid));
        CommandFailure::new(ExitCode::NoPort, error)
    })?;
    let port = Arc::new(RecordedPort::new(Arc::new(port), recorder.clone()));
    Ok(Arc::new(FramePort::new(port)))
}

/// Tells the service manager about each reload.
fn announced(service: Arc<ServiceManager>, mut reload: ReloadFn) -> ReloadFn {
    Box::new(move || service.while_reloading(&mut reload))
}

/// The configuration file, if one is read.
pub(crate) fn config_file(args: &DaemonArgs) -> Option<PathBuf> {
    args.file_to_read().map(|(path, _)| path.to_owned())
}

/// The flight recorder of this process, which also records panics.
pub(crate) fn recordings(options: &Options, files: &StateFiles, port: String) -> Arc<Recordings> {
    let recordings = Recordings::new(options, &files.dump_dir, port);
    record_panics(&recordings);
    recordings
}

/// Opens `local` with IsSM set; later, when the device was lost, the port with the same GUID, which
/// may have another device. Received MADs are recorded.
fn open_port(
    local: &LocalPort,
    recorder: Arc<dyn MadRecorder>,
    observer: Arc<ObserverSlot>,
) -> impl Fn(Arc<dyn MadSink>) -> Result<Arc<dyn MadPort>, OpenError> + Send + Sync + 'static {
    let first = Mutex::new(Some(local.clone()));
    let guid = local.guid;
    move |sink| {
        let first = first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let local = match first {
            Some(local) => local,
            None => Sysfs::default().ports()?.by_guid(guid)?.clone(),
        };
        let sink = Arc::new(RecordedSink::new(sink, recorder.clone()));
        let sink = Arc::new(FrameSink::new(sink));
        rmpp::open(sink, observer.clone(), |sink| {
            let port = UmadPort::open_for_segments(&local, sink)?;
            port.set_is_sm(true)?;
            if port.segmentation() == Segmentation::Device {
                info!(
                    "this kernel divides SA tables itself, as Linux before 3.17 does, and does not \
                     tell when a client has them: those that ask for many at once get BUSY"
                );
            }
            Ok(Arc::new(port) as Arc<dyn MadPort>)
        })
    }
}

/// Writes buffered log lines at intervals.
pub(crate) async fn flush_regularly(log: LogHandle) {
    loop {
        tokio::time::sleep(FLUSH_INTERVAL).await;
        log.flush();
    }
}

/// The action of SIGUSR1: reopens the log and the activity report.
pub(crate) fn reopen(log: LogHandle, activity: Arc<ActivityReport>) -> impl Fn() + Send + 'static {
    move || {
        activity.reopen();
        if let Err(problem) = log.reopen() {
            error!("cannot reopen the log, logging continues in the old file: {problem}");
        }
    }
}

/// Reads the configuration again, on SIGHUP and when its files changed.
pub(crate) fn reload(args: &DaemonArgs, options: &Options, log: &LogHandle) -> ReloadFn {
    let args = args.clone();
    let log = log.clone();
    let in_force = Arc::new(Mutex::new(options.clone()));
    let mut was_there = config_file(&args).is_some_and(|path| path.exists());
    Box::new(move || {
        if let Some(path) = config_file(&args) {
            let is_there = path.exists();
            if was_there && !is_there {
                return Err(format!("{} does not exist any more", path.display()));
            }
            was_there = is_there;
        }
        let running = in_force.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let read = configuration::read_again(&args, &running)?;
        let (options, restarts) = running.reloaded(&read.options);
        let files = Arc::new(ConfigFiles::read(&options));
        let mut notes = read.notes;
        notes.extend(restarts);
        let applied_options = options.clone();
        let module_flags = files.module_flags.clone();
        let log = log.clone();
        let in_force = in_force.clone();
        Ok(Configuration {
            options,
            files,
            notes,
            ignored_lines: read.mistakes,
            on_applied: Some(Box::new(move || {
                log.reconfigure(&LogConfig::from(&applied_options));
                log.set_module_flags(module_flags);
                let changes = running.changes(&applied_options);
                if !changes.is_empty() {
                    info!("these keys took effect: {changes}");
                }
                *in_force.lock().unwrap_or_else(PoisonError::into_inner) = applied_options;
            })),
        })
    })
}

/// The port to run on: that of `-g GUID`, the operator's choice (`-g 0`), or the first usable one.
/// `None` if the operator chose to exit.
pub(crate) fn choose_port(
    args: &DaemonArgs,
    options: &Options,
) -> Result<Option<LocalPort>, CommandFailure> {
    let found = Sysfs::default().ports().map_err(no_port)?;
    if args.ask_for_port {
        return ask_for_port(&found);
    }
    let port = match options.guid.0 {
        0 => found.first_usable(),
        _ => found.by_guid(options.guid),
    };
    Ok(Some(port.map_err(no_port)?.clone()))
}

fn no_port(error: PortError) -> CommandFailure {
    let hint = match error {
        PortError::NoAdapter(_) => "; 'torus-sm sim 4x4x4' runs it on a simulated fabric",
        _ => "",
    };
    CommandFailure::new(ExitCode::NoPort, format!("{error}{hint}"))
}

/// Lets the operator choose a port. The only one is taken without a question.
fn ask_for_port(found: &LocalPorts) -> Result<Option<LocalPort>, CommandFailure> {
    if let [only] = &found.ports[..] {
        return Ok(Some(only.clone()));
    }
    let mut text = "Choose a local port number with which to bind:\n\n".to_owned();
    for (number, port) in found.ports.iter().enumerate() {
        let LocalPort { guid, device, port, state, .. } = port;
        text += &format!("\t{}: GUID {guid}  {device} port {port}  {state}\n", number + 1);
    }
    text += "\n\t0: Exit\n\n";
    print_or_end(&text)?;
    if !std::io::stdin().is_terminal() {
        let text =
            "-g 0 asks for the port on standard input, which is no terminal: give the port GUID";
        return Err(CommandFailure::new(ExitCode::Usage, text));
    }
    loop {
        print_or_end(&format!("Enter choice (1-{}): ", found.ports.len()))?;
        let mut line = String::new();
        let read = std::io::stdin().read_line(&mut line);
        match line.trim().parse::<usize>() {
            Ok(0) => return Ok(None),
            Ok(number) if number <= found.ports.len() => {
                return Ok(Some(found.ports[number - 1].clone()));
            }
            _ if matches!(read, Ok(0) | Err(_)) => return Ok(None),
            _ => print_or_end(&format!("'{}' is not one of the choices\n", line.trim()))?,
        }
    }
}

/// Starts the daemon in the background (`-B`). The exit code is 0 once the daemon is ready, else
/// that of the daemon.
pub(crate) fn in_background() -> Result<ExitCode, CommandFailure> {
    let started = background::start().map_err(|error| {
        CommandFailure::new(ExitCode::System, format!("cannot run in the background: {error}"))
    })?;
    let Some(status) = started else { return Ok(ExitCode::Ok) };
    let codes = ExitCode::ALL.iter().map(|(code, _)| *code);
    let code = codes.into_iter().find(|&code| status.code() == Some(code as i32));
    // The daemon printed the reason on standard error.
    Ok(code.unwrap_or(ExitCode::System))
}

/// With `-B`: detaches from the terminal and lets the starting command end.
pub(crate) fn settle_in_background() -> Result<(), CommandFailure> {
    if !background::is_here() {
        return Ok(());
    }
    background::enter().and_then(|()| background::ready()).map_err(|error| {
        CommandFailure::new(ExitCode::System, format!("cannot run in the background: {error}"))
    })
}

/// The pidfile, removed when the daemon ends.
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    pub(crate) fn write(args: &DaemonArgs) -> Result<Option<Self>, CommandFailure> {
        let Some(path) = &args.pidfile else { return Ok(None) };
        std::fs::write(path, format!("{}\n", std::process::id())).map_err(|error| {
            CommandFailure::new(ExitCode::System, format!("{}: {error}", path.display()))
        })?;
        Ok(Some(Self(path.clone())))
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // A stale pidfile names a process that no longer exists, which readers must expect.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Logs and prints how the daemon ended; returns the exit code.
pub(crate) fn exit_code(exit: &Exit) -> ExitCode {
    let (code, text) = match exit {
        Exit::Clean => return ExitCode::Ok,
        Exit::SubnetDown(text) | Exit::Fatal(text) => (ExitCode::Fatal, text),
        Exit::PortLost(text) => (ExitCode::NoPort, text),
    };
    error!("{text}");
    complain(text);
    code
}

impl StateFiles {
    /// The directory for dumps as configured, and that for caches from OpenSM's environment variable.
    pub fn from_environment(options: &Options) -> Self {
        let cache_dir = std::env::var_os("OSM_CACHE_DIR").map(PathBuf::from);
        Self {
            cache_dir: Some(cache_dir.unwrap_or("/var/cache/opensm".into())),
            dump_dir: PathBuf::from(&options.dump_files_dir),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Guid, Lid, PortNum};
    use crate::transport::sysfs::LinkState;

    fn port(guid: u64) -> LocalPort {
        LocalPort {
            device: "mlx5_0".into(),
            port: PortNum(1),
            node_guid: Guid(guid - 1),
            guid: Guid(guid),
            lid: Lid(0),
            sm_lid: Lid(0),
            state: LinkState::Active,
            phys_state: 5,
            is_sm_disabled: false,
            umad: Some(0),
        }
    }

    /// `-g 0` in a script or unit: there is nothing to ask if there is one port.
    #[test]
    fn the_only_port_is_taken_without_a_question() {
        let found = LocalPorts { ports: vec![port(0x11)], others: Vec::new() };
        let chosen = ask_for_port(&found).map_err(|failure| format!("{failure:?}"));
        assert_eq!(chosen.expect("no question").expect("a port").guid, Guid(0x11));
    }
}
