//! Notifications to the service manager, by the protocol of sd_notify(3): READY=1 once the port is
//! bound, RELOADING=1 while the configuration is read again, STATUS= with the role and the last
//! sweep, WATCHDOG=1 while the daemon works, and STOPPING=1.
//!
//! Without `$NOTIFY_SOCKET`, which systemd sets for units of `Type=notify`, nothing is sent.
//! Notifications never block: one that the service manager does not take is lost.

use crate::manage::loop_status::{Activity, LoopStatus, SweepRecord, SweepResult};
use crate::notes::counted;
use arc_swap::ArcSwap;
use chrono::Local;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// Environment variables of sd_notify(3) and sd_watchdog_enabled(3).
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";
const WATCHDOG_PROCESS_VARIABLE: &str = "WATCHDOG_PID";

/// Interval at which a changed status is sent.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// A sweep or reconfiguration that takes longer counts as hung. The largest fabrics with thousands
/// of silent nodes take minutes.
const MAX_PASS_TIME: Duration = Duration::from_secs(20 * 60);

/// The connection with the service manager, if there is one.
#[derive(Debug, Default)]
pub struct ServiceManager {
    connection: Option<(UnixDatagram, SocketAddr)>,
    /// The service manager kills the daemon that does not report for so long.
    watchdog: Option<Duration>,
}

/// Whether a service manager waits for the notification that the daemon is ready.
pub fn is_present() -> bool {
    std::env::var_os(SOCKET_VARIABLE).is_some_and(|path| !path.is_empty())
}

impl ServiceManager {
    /// The service manager that started this process.
    pub fn from_environment() -> Self {
        let Some(path) = std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()) else {
            return Self::default();
        };
        match connect(&path) {
            Ok(connection) => Self { connection: Some(connection), watchdog: watchdog() },
            Err(error) => {
                tracing::warn!("no notifications to {SOCKET_VARIABLE} {}: {error}", path.display());
                Self::default()
            }
        }
    }

    /// The port is bound.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    /// The daemon ends.
    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    /// Reads the configuration by `read`, with notifications before and after it.
    pub fn while_reloading<T>(&self, read: impl FnOnce() -> T) -> T {
        let now = clock_gettime(ClockId::Monotonic);
        let microseconds = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={microseconds}"));
        let result = read();
        self.ready();
        result
    }

    /// Reports changes of the status, and that the daemon works: this task and `servers` run, and
    /// no pass of the SM loop takes longer than [`MAX_PASS_TIME`]. Ends after `shutdown`.
    pub async fn report(
        self: Arc<Self>,
        status: Arc<ArcSwap<LoopStatus>>,
        servers: Handle,
        mut shutdown: watch::Receiver<bool>,
    ) {
        if self.connection.is_none() {
            return;
        }
        let reports = async {
            let mut progress = ServiceProgress::default();
            let mut last = String::new();
            loop {
                let status = status.load_full();
                let text = status_text(&status);
                if text != last {
                    self.send(&format!("STATUS={text}"));
                    last = text;
                }
                let are_servers_running = servers.spawn(async {}).await.is_ok();
                if are_servers_running && self.watchdog.is_some() && progress.is_made(&status) {
                    self.send("WATCHDOG=1");
                }
                sleep(self.interval()).await;
            }
        };
        tokio::select! {
            _ = shutdown.wait_for(|&requested| requested) => self.stopping(),
            () = reports => {}
        }
    }

    /// Half of the watchdog's time, as sd_watchdog_enabled(3) recommends, if that is shorter than
    /// [`STATUS_INTERVAL`].
    fn interval(&self) -> Duration {
        self.watchdog.map_or(STATUS_INTERVAL, |limit| (limit / 2).min(STATUS_INTERVAL))
    }

    fn send(&self, text: &str) {
        if let Some((socket, address)) = &self.connection {
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// A socket that sends to `path`, or to the abstract socket that `@` begins.
fn connect(path: &OsStr) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match path.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(path)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

/// Time after which the service manager takes this process for dead.
fn watchdog() -> Option<Duration> {
    if variable_number(WATCHDOG_PROCESS_VARIABLE).is_some_and(is_other_process) {
        return None;
    }
    variable_number(WATCHDOG_VARIABLE).filter(|&limit| limit > 0).map(Duration::from_micros)
}

fn is_other_process(process: u64) -> bool {
    process != u64::from(std::process::id())
}

fn variable_number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse::<u64>().ok()
}

/// Finds out whether the SM loop hangs.
#[derive(Default)]
struct ServiceProgress {
    /// The last status, and when it was seen first.
    last: Option<(Arc<LoopStatus>, Instant)>,
}

impl ServiceProgress {
    /// False if the loop has done the same work for longer than [`MAX_PASS_TIME`].
    fn is_made(&mut self, status: &Arc<LoopStatus>) -> bool {
        match &self.last {
            Some((last, since)) if Arc::ptr_eq(last, status) => {
                status.work.activity == Activity::Idle || since.elapsed() < MAX_PASS_TIME
            }
            _ => {
                self.last = Some((status.clone(), Instant::now()));
                true
            }
        }
    }
}

/// One line for `systemctl status`.
fn status_text(status: &LoopStatus) -> String {
    let mut parts = vec![status.managers.own.state.to_string()];
    if let Some(fabric) = &status.fabric {
        parts.push(counted(fabric.switches().len(), "switch", "switches"));
    }
    if status.rejected.is_some() {
        parts.push("the routes were refused, the last ones stay".into());
    }
    if let Some(problem) = &status.config.error {
        parts.push(format!("configuration not read: {problem}"));
    }
    parts.push(match status.work.activity {
        Activity::Sweeping(kind) => format!("{} sweep in progress", kind.name()),
        Activity::Reconfiguring => "configuration of the fabric in progress".into(),
        Activity::Idle if !status.work.is_sweeping_enabled => "sweeps are inhibited".into(),
        Activity::Idle => status.history.sweeps.back().map_or("no sweep yet".into(), last_sweep),
    });
    parts.join("; ").replace(['\n', '\r'], " ")
}

fn last_sweep(sweep: &SweepRecord) -> String {
    let SweepRecord { kind, ended, duration, result, .. } = sweep;
    let kind = kind.name();
    let time = ended.with_timezone(&Local).format("%H:%M:%S");
    match result {
        SweepResult::Done => format!("{kind} sweep ended at {time} after {duration:.1?}"),
        SweepResult::Interrupted => format!("{kind} sweep interrupted at {time}"),
        SweepResult::Failed(problem) => format!("{kind} sweep failed at {time}: {problem}"),
    }
}
