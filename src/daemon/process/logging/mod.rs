//! The log, in the shape of OpenSM's, since people and scripts grep for it:
//!
//! ```text
//! Nov 21 01:34:05 123456 [5F3A] 0x02 -> sweep: 30 switches, 30 channel adapters
//! ```
//!
//! Local time with microseconds, thread, flags, the place in the program, the message. The
//! stages log with [`tracing`]; [`layer`] turns its events into such lines, [`sink`] owns the
//! file. What OpenSM's flags (`-D`) enable:
//!
//! | flag | `tracing` |
//! |---|---|
//! | 0x01 [`flags::ERROR`] | `error!`; `warn!`, whose messages start with WARNING |
//! | 0x02 [`flags::INFO`] | `info!` |
//! | 0x04 [`flags::VERBOSE`] | `debug!` |
//! | 0x08 [`flags::DEBUG`] | `trace!` |
//! | 0x10, 0x20, 0x40 | [`log_as!`](crate::log_as) with the flag |
//! | 0x80 [`flags::SYS`] | [`major!`](crate::major): syslog and standard output too; always enabled where events are announced |
//!
//! Lines are buffered, as OpenSM's are; errors and major events reach the file at once, and so
//! does everything with `-d 2`. The daemon calls [`LogHandle::flush`] when it has nothing to do.

mod layer;
mod sink;

pub use layer::LogLayer;
pub use sink::Destination;

use crate::config::options::Options;
use sink::Sink;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing_subscriber::layer::SubscriberExt as _;

/// OpenSM's log flags.
pub mod flags {
    /// Errors and warnings.
    pub const ERROR: u8 = 0x01;
    /// Few and basic messages.
    pub const INFO: u8 = 0x02;
    /// What is of interest.
    pub const VERBOSE: u8 = 0x04;
    /// For diagnosis.
    pub const DEBUG: u8 = 0x08;
    /// Entry to and exit from functions.
    pub const FUNCS: u8 = 0x10;
    /// Every MAD.
    pub const FRAMES: u8 = 0x20;
    /// Routing; dump files are written too.
    pub const ROUTING: u8 = 0x40;
    /// Major events, to syslog too.
    pub const SYS: u8 = 0x80;
}

/// Logs a major event: a bare message without place, with flag 0x80, which also goes to syslog
/// and standard output. For the lines that OpenSM has too: "SUBNET UP" after the first sweep as
/// master, "Entering MASTER state", "Errors during initialization", "SM port is down",
/// "Exiting SM" …
#[macro_export]
macro_rules! major {
    ($($message:tt)+) => {
        ::tracing::info!(target: "torus_sm::major", flags = 0x80_u64, bare = true, "{}", format_args!($($message)+))
    };
}

/// Logs a bare message without place with flag 0x02, such as "SUBNET UP" after later sweeps.
#[macro_export]
macro_rules! plain {
    ($($message:tt)+) => {
        ::tracing::info!(bare = true, "{}", format_args!($($message)+))
    };
}

/// Logs with one of the [`flags`] that `tracing`'s levels do not
/// have: `log_as!(flags::ROUTING, "…")`.
#[macro_export]
macro_rules! log_as {
    ($flags:expr, $($message:tt)+) => {
        ::tracing::info!(flags = u64::from($flags), "{}", format_args!($($message)+))
    };
}

/// How to log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// Where to.
    pub destination: Destination,
    /// Enabled [`flags`].
    pub flags: u8,
    /// Flush after every line.
    pub force_flush: bool,
    /// Append to what is there; false empties the file when it is opened first.
    pub append: bool,
    /// Size in bytes at which the file starts again; 0 is no limit.
    pub max_size: u64,
    /// Prefix of every message.
    pub prefix: Option<String>,
    /// Send major events to syslog and print them; without it, a major event is a line like
    /// others, which [`flags::SYS`] enables. This is settled when the log is opened.
    pub announce: bool,
}

impl From<&Options> for LogConfig {
    fn from(options: &Options) -> Self {
        Self {
            destination: Destination::from(options.log_file.as_str()),
            flags: options.log_flags,
            force_flush: options.force_log_flush,
            append: options.accum_log_file,
            max_size: u64::from(options.log_max_size) << 20,
            prefix: options.log_prefix.clone(),
            announce: true,
        }
    }
}

/// The log while it is open, for the one who owns the daemon.
#[derive(Clone)]
pub struct LogHandle(Arc<Shared>);

struct Shared {
    flags: AtomicU8,
    /// Flags that are enabled whatever `flags` says.
    always: u8,
    sink: Mutex<Sink>,
}

impl Shared {
    fn enabled(&self, wanted: u8) -> bool {
        wanted & (self.flags.load(Ordering::Relaxed) | self.always) != 0
    }

    /// A thread that panicked while it wrote leaves at worst half a line.
    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the log and makes it the one that `tracing` writes to in the whole process.
///
/// # Errors
/// The file cannot be opened, or there is a log already.
pub fn start(config: &LogConfig) -> io::Result<LogHandle> {
    let (layer, handle) = open(config)?;
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))
        .map_err(io::Error::other)?;
    Ok(handle)
}

/// Opens the log without installing it.
///
/// # Errors
/// The file cannot be opened.
pub fn open(config: &LogConfig) -> io::Result<(LogLayer, LogHandle)> {
    let sink = Sink::open(config)?;
    let always = if config.announce { flags::SYS } else { 0 };
    let flags = AtomicU8::new(config.flags);
    let shared = Arc::new(Shared { flags, always, sink: Mutex::new(sink) });
    Ok((LogLayer::new(Arc::clone(&shared)), LogHandle(shared)))
}

impl LogHandle {
    /// Enables other [`flags`].
    pub fn set_flags(&self, flags: u8) {
        self.0.flags.store(flags, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    /// The enabled [`flags`].
    pub fn flags(&self) -> u8 {
        self.0.flags.load(Ordering::Relaxed)
    }

    /// Takes over what may change while the log is open: flags, flushing, size, prefix.
    pub fn reconfigure(&self, config: &LogConfig) {
        self.set_flags(config.flags);
        self.0.sink().reconfigure(config);
    }

    /// Closes the file and opens it anew by its name, for log rotation.
    ///
    /// # Errors
    /// The file cannot be opened; the log goes on in the old one then.
    pub fn reopen(&self) -> io::Result<()> {
        self.0.sink().reopen()
    }

    /// Writes what is buffered.
    pub fn flush(&self) {
        self.0.sink().flush();
    }
}

#[cfg(test)]
mod tests;
