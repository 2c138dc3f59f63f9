//! OpenSM's console: a line-based session on the terminal (`console local`) or on a TCP port
//! (`console loopback`, `console socket`).
//!
//! * [`commands`]: the commands, and their help
//! * [`status`], [`ports`], [`balance`], [`perf`]: the texts that they print
//! * [`peer`]: the user of a TCP connection from this host
//!
//! Commands are clients of the actions and snapshots that the HTTP interface has, and wait for no
//! sweep. Each session has a thread of its own with lowered priority. Lines have at most
//! [`MAX_LINE`] bytes, and there are at most [`MAX_SESSIONS`] sessions.

mod balance;
mod commands;
mod peer;
mod perf;
mod ports;
mod session;
mod status;

use super::action::{Control, OperatorAction};
use super::loop_status::LoopStatus;
use super::sources::SaQueryFn;
use crate::config::options::{Console as Kind, Options};
use crate::perfmgr::status::PerfStatus;
use arc_swap::ArcSwap;
use session::ConsoleSession;
use std::io::{self, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use tracing::{error, info, warn};

/// Longest line of a session in bytes.
const MAX_LINE: u64 = 1024;

/// Maximum number of TCP sessions at a time.
const MAX_SESSIONS: usize = 4;

/// Interval at which the listener looks whether the daemon ends.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(100);

/// Time that a client has to take a reply.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

/// Minimum length of the token of `console socket`.
const MIN_TOKEN_LENGTH: usize = 16;

/// The inputs of the console, from the daemon.
#[derive(Clone)]
pub struct ConsoleSources {
    pub status: Arc<ArcSwap<LoopStatus>>,
    pub perf: Arc<ArcSwap<PerfStatus>>,
    pub control: Arc<dyn Control>,
    pub query_sa: Arc<SaQueryFn>,
    /// Called on each thread, to lower its priority.
    pub on_thread_start: fn(),
}

impl ConsoleSources {
    /// Starts an action. Returns the reason if it is not possible.
    fn act(&self, action: &OperatorAction) -> String {
        match self.control.start(action) {
            Ok(_) => String::new(),
            Err(problem) => format!("{problem}\n"),
        }
    }
}

/// A running console; dropping it ends the TCP sessions.
#[derive(Debug)]
pub struct RunningConsole {
    closing: Arc<AtomicBool>,
    address: Option<SocketAddr>,
}

impl RunningConsole {
    /// Starts the console of the options. Without one, or if it cannot start, which is logged,
    /// there is none.
    pub fn start(options: &Options, sources: ConsoleSources) -> Option<Self> {
        let started = match options.console {
            Kind::Off => return None,
            Kind::Local => Self::on_terminal(sources),
            Kind::Loopback => {
                Self::on_tcp(Ipv4Addr::LOCALHOST, options.console_port, None, sources)
            }
            Kind::Socket => token(options).map_err(io::Error::other).and_then(|token| {
                let any = Ipv4Addr::UNSPECIFIED;
                Self::on_tcp(any, options.console_port, Some(token), sources)
            }),
        };
        started.inspect_err(|problem| error!("there is no console: {problem}")).ok()
    }

    /// The TCP address, if there is one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    fn on_terminal(sources: ConsoleSources) -> io::Result<Self> {
        let closing = Arc::new(AtomicBool::new(false));
        thread::Builder::new().name("console".into()).spawn(move || {
            (sources.on_thread_start)();
            let mut session = ConsoleSession::new(&sources, session::ConsoleClientPlace::Terminal);
            let input = BufReader::new(io::stdin());
            if let Err(problem) = session.run(input, &mut io::stdout(), &|| false) {
                warn!("the console on the terminal has ended: {problem}");
            }
        })?;
        Ok(Self { closing, address: None })
    }

    fn on_tcp(
        address: Ipv4Addr,
        port: u16,
        token: Option<String>,
        sources: ConsoleSources,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((address, port))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        info!("Console listening on port {}", address.port());
        let closing = Arc::new(AtomicBool::new(false));
        let asked = closing.clone();
        thread::Builder::new().name("console".into()).spawn(move || {
            (sources.on_thread_start)();
            accept(&listener, &sources, token.as_deref(), &asked);
        })?;
        Ok(Self { closing, address: Some(address) })
    }
}

impl Drop for RunningConsole {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
    }
}

/// The token that clients of `console socket` must have.
fn token(options: &Options) -> Result<String, String> {
    let Some(file) = &options.management_token_file else {
        return Err("console socket needs management_token_file".to_owned());
    };
    let text =
        std::fs::read_to_string(Path::new(file)).map_err(|error| format!("{file}: {error}"))?;
    let token = text.trim();
    match token.len() {
        0..MIN_TOKEN_LENGTH => {
            Err(format!("{file}: the token has less than {MIN_TOKEN_LENGTH} characters"))
        }
        _ => Ok(token.to_owned()),
    }
}

fn accept(
    listener: &TcpListener,
    sources: &ConsoleSources,
    token: Option<&str>,
    closing: &Arc<AtomicBool>,
) {
    let sessions = Sessions { sources, token, closing, count: Arc::default() };
    while !closing.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, from)) => sessions.admit(stream, from),
            // No connection, or one that is gone already.
            Err(_) => thread::park_timeout(ACCEPT_INTERVAL),
        }
    }
}

/// The sessions of a listener.
struct Sessions<'a> {
    sources: &'a ConsoleSources,
    token: Option<&'a str>,
    closing: &'a Arc<AtomicBool>,
    /// Number of open sessions.
    count: Arc<AtomicUsize>,
}

impl Sessions<'_> {
    /// Starts a session for a client that may have one.
    fn admit(&self, mut stream: TcpStream, from: SocketAddr) {
        if self.token.is_none() && !peer::may_use_console(&stream) {
            error!("ERR 4B05: Console connection denied: {from}: only root may use it");
            return;
        }
        if self.count.load(Ordering::Relaxed) >= MAX_SESSIONS {
            let _ = writeln!(stream, "OpenSM Console connection already in use");
            return;
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let sources = self.sources.clone();
        let token = self.token.map(str::to_owned);
        let count = self.count.clone();
        let closing = self.closing.clone();
        let started = thread::Builder::new().name("console".into()).spawn(move || {
            (sources.on_thread_start)();
            info!("Console connection accepted: {from}");
            // A client that leaves within a reply is no fault.
            let _ = serve(stream, &sources, token.as_deref(), &closing);
            info!("Console connection closed: {from}");
            count.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(problem) = started {
            self.count.fetch_sub(1, Ordering::Relaxed);
            error!("no thread for a console session: {problem}");
        }
    }
}

fn serve(
    stream: TcpStream,
    sources: &ConsoleSources,
    token: Option<&str>,
    closing: &AtomicBool,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(WRITE_TIMEOUT))?;
    stream.set_read_timeout(Some(session::TICK))?;
    let mut output = stream.try_clone()?;
    let place = match token {
        Some(token) => session::ConsoleClientPlace::Network(token.to_owned()),
        None => session::ConsoleClientPlace::Loopback,
    };
    ConsoleSession::new(sources, place)
        .run(BufReader::new(stream), &mut output, &|| closing.load(Ordering::Relaxed))
}
