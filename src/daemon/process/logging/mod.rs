//! The log file, in OpenSM's line format, which people and scripts search:
//!
//! ```text
//! Nov 21 01:34:05 123456 [5F3A] 0x02 -> sweep: 30 switches, 30 channel adapters
//! ```
//!
//! Each line has the local time with microseconds, the thread, the flags, the module and the
//! message. Modules log with [`tracing`]; [`layer`] formats its events, [`sink`] owns the
//! file, [`json`] is its other format, and [`syslog`] sends major events. OpenSM's flags (`-D`) enable these events:
//!
//! | flag | `tracing` |
//! |---|---|
//! | 0x01 [`flags::ERROR`] | `error!`; `warn!`, whose messages start with WARNING |
//! | 0x02 [`flags::INFO`] | `info!` |
//! | 0x04 [`flags::VERBOSE`] | `debug!` |
//! | 0x08 [`flags::DEBUG`] | `trace!` |
//! | 0x20 [`flags::FRAMES`] | `trace!` with a target in [`frames::TARGET`](crate::transport::frames) |
//! | 0x10, 0x40 | [`log_with_flags!`](crate::log_with_flags) with the flag |
//! | 0x80 [`flags::SYS`] | [`log_major!`](crate::log_major): also to syslog and standard output; always enabled if [`LogConfig::announce`] is set |
//!
//! Lines are buffered, as in OpenSM, and flushed at intervals ([`LogHandle::flush`]). Errors and
//! major events are written at once, and with `-d 2` all lines.

mod event;
mod json;
mod layer;
mod sink;
mod syslog;

pub use layer::LogLayer;
pub use sink::LogDestination;

use crate::config::log_modules::ModuleFlags;
use crate::config::options::{LogFormat, Options};
use arc_swap::ArcSwap;
use sink::LogSink;
use std::io;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing_subscriber::layer::SubscriberExt as _;

/// OpenSM's log flags.
pub mod flags {
    /// Errors and warnings.
    pub const ERROR: u8 = 0x01;
    /// Basic messages.
    pub const INFO: u8 = 0x02;
    /// Detailed messages.
    pub const VERBOSE: u8 = 0x04;
    /// Messages for debugging.
    pub const DEBUG: u8 = 0x08;
    /// Entry to and exit from functions.
    pub const FUNCS: u8 = 0x10;
    /// Every MAD.
    pub const FRAMES: u8 = 0x20;
    /// Routing; also enables dump files of the routes.
    pub const ROUTING: u8 = 0x40;
    /// Major events, also sent to syslog.
    pub const SYS: u8 = 0x80;
}

/// Logs a major event: a message without module name, with flag 0x80, which also goes to syslog
/// and standard output. Used for lines that OpenSM prints as well: "SUBNET UP" after the first
/// sweep as master, "Entering MASTER state", "Errors during initialization", "SM port is down",
/// "Exiting SM" …
#[macro_export]
macro_rules! log_major {
    (event = $event:literal, $($message:tt)+) => {
        ::tracing::info!(
            target: "torus_sm::major",
            flags = 0x80_u64,
            bare = true,
            event = $event,
            "{}",
            format_args!($($message)+)
        )
    };
    ($($message:tt)+) => {
        ::tracing::info!(target: "torus_sm::major", flags = 0x80_u64, bare = true, "{}", format_args!($($message)+))
    };
}

/// Logs a message without module name, with flag 0x02, such as "SUBNET UP" after later sweeps.
#[macro_export]
macro_rules! log_plain {
    ($($message:tt)+) => {
        ::tracing::info!(bare = true, "{}", format_args!($($message)+))
    };
}

/// Logs with [`flags`] that no `tracing` level corresponds to:
/// `log_with_flags!(flags::ROUTING, "…")`.
#[macro_export]
macro_rules! log_with_flags {
    ($flags:expr, $($message:tt)+) => {
        ::tracing::info!(flags = u64::from($flags), "{}", format_args!($($message)+))
    };
}

/// The configuration of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    pub destination: LogDestination,
    /// Enabled [`flags`].
    pub flags: u8,
    /// Flush after every line.
    pub force_flush: bool,
    /// Append to an existing file; otherwise the file is truncated when the log is started.
    pub append: bool,
    /// Size in bytes at which the file is truncated; 0 for no limit.
    pub max_size: u64,
    /// Prefix of every message.
    pub prefix: Option<String>,
    pub format: LogFormat,
    /// Name of this program in syslog and the journal.
    pub syslog_identity: String,
    /// Send major events to syslog and standard output. Otherwise they are log lines only, enabled
    /// by [`flags::SYS`]. A reload does not change this.
    pub announce: bool,
}

impl From<&Options> for LogConfig {
    fn from(options: &Options) -> Self {
        Self {
            destination: LogDestination::from(options.log_file.as_str()),
            flags: options.log_flags,
            force_flush: options.force_log_flush,
            append: options.accum_log_file,
            max_size: u64::from(options.log_max_size) << 20,
            prefix: options.log_prefix.clone(),
            format: options.log_format,
            syslog_identity: options.syslog_identity.clone(),
            announce: true,
        }
    }
}

/// Controls the open log.
#[derive(Clone)]
pub struct LogHandle(Arc<LogShared>);

struct LogShared {
    flags: AtomicU8,
    /// Flags that are always enabled.
    always: u8,
    /// Flags of single modules, in addition to the others.
    modules: ArcSwap<Vec<ModuleFlags>>,
    sink: Mutex<LogSink>,
}

impl LogShared {
    fn enabled(&self, wanted: u8) -> bool {
        wanted & (self.flags.load(Ordering::Relaxed) | self.always) != 0
    }

    /// True if a flag is enabled for all modules or for the module `place`.
    fn enabled_in(&self, wanted: u8, place: &str) -> bool {
        self.enabled(wanted) || wanted & self.module_flags(|flags| flags.contains(place)) != 0
    }

    /// The flags of the modules that `applies` selects.
    fn module_flags(&self, applies: impl Fn(&ModuleFlags) -> bool) -> u8 {
        let modules = self.modules.load();
        modules.iter().filter(|flags| applies(flags)).fold(0, |sum, flags| sum | flags.flags)
    }

    /// Locks the sink, even if a panic poisoned it: the log then has at worst an incomplete line.
    fn sink(&self) -> MutexGuard<'_, LogSink> {
        self.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the log and installs it as the global `tracing` subscriber.
///
/// # Errors
/// The file cannot be opened, or a subscriber is installed already.
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
    let sink = LogSink::open(config)?;
    let always = if config.announce { flags::SYS } else { 0 };
    let flags = AtomicU8::new(config.flags);
    let modules = ArcSwap::default();
    let shared = Arc::new(LogShared { flags, always, modules, sink: Mutex::new(sink) });
    Ok((LogLayer::new(Arc::clone(&shared)), LogHandle(shared)))
}

impl LogHandle {
    pub fn set_flags(&self, flags: u8) {
        self.0.flags.store(flags, Ordering::Relaxed);
        tracing::callsite::rebuild_interest_cache();
    }

    /// Replaces the flags of single modules (`per_module_logging_file`).
    pub fn set_module_flags(&self, modules: Vec<ModuleFlags>) {
        self.0.modules.store(Arc::new(modules));
        tracing::callsite::rebuild_interest_cache();
    }

    /// Writes every line at once, or buffers lines.
    pub fn set_force_flush(&self, is_forced: bool) {
        self.0.sink().set_force_flush(is_forced);
    }

    pub fn flags(&self) -> u8 {
        self.0.flags.load(Ordering::Relaxed)
    }

    /// Applies the settings that may change while the log is open: flags, flushing, size, prefix.
    pub fn reconfigure(&self, config: &LogConfig) {
        self.set_flags(config.flags);
        self.0.sink().reconfigure(config);
    }

    /// Closes the file and opens it again by its name, for log rotation.
    ///
    /// # Errors
    /// The file cannot be opened; logging continues in the old file.
    pub fn reopen(&self) -> io::Result<()> {
        self.0.sink().reopen()
    }

    /// Writes an event of the management interface, a JSON object, to a log in JSON: its fields and
    /// those of a line with [`flags::INFO`].
    pub fn write_event(&self, json: &str) {
        if self.0.enabled(flags::INFO) {
            self.0.sink().write_event(json);
        }
    }

    /// Writes buffered lines to the file.
    pub fn flush(&self) {
        self.0.sink().flush();
    }
}

#[cfg(test)]
mod tests;
