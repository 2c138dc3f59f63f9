//! Writes log lines to a file, standard output or standard error, and major events to syslog. Lines
//! that the file does not take go to standard error, which is the journal under systemd.

use super::event::LogEvent;
use super::{LogConfig, flags, json, layer, syslog};
use crate::cli::output::complain;
use crate::config::options::LogFormat;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

/// The destination of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogDestination {
    Stdout,
    Stderr,
    File(PathBuf),
}

impl From<&str> for LogDestination {
    fn from(name: &str) -> Self {
        match name {
            "stdout" | "-" => Self::Stdout,
            "stderr" => Self::Stderr,
            file => Self::File(file.into()),
        }
    }
}

/// The open destination of the log.
pub(super) struct LogSink {
    config: LogConfig,
    out: Out,
    /// Size of the file in bytes.
    size: u64,
    /// The last write failed, and the failure has been reported.
    is_failing: bool,
}

enum Out {
    Stdout(io::Stdout),
    Stderr(io::Stderr),
    File(BufWriter<File>),
}

impl Out {
    fn writer(&mut self) -> &mut dyn io::Write {
        match self {
            Self::Stdout(out) => out,
            Self::Stderr(out) => out,
            Self::File(out) => out,
        }
    }
}

impl LogSink {
    pub(super) fn open(config: &LogConfig) -> io::Result<Self> {
        let (out, size) = open_out(&config.destination, config.append)?;
        Ok(Self { config: config.clone(), out, size, is_failing: false })
    }

    pub(super) fn reopen(&mut self) -> io::Result<()> {
        self.flush();
        (self.out, self.size) = open_out(&self.config.destination, true)?;
        Ok(())
    }

    pub(super) fn reconfigure(&mut self, config: &LogConfig) {
        let destination = self.config.destination.clone();
        let announce = self.config.announce;
        self.config = LogConfig { destination, announce, ..config.clone() };
    }

    pub(super) fn set_force_flush(&mut self, is_forced: bool) {
        self.config.force_flush = is_forced;
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        let outcome = self.out.writer().flush();
        self.report(outcome);
    }

    /// Writes one line.
    pub(super) fn write(&mut self, event: &LogEvent<'_>) {
        let body = self.body(event);
        let is_major = event.flags & flags::SYS != 0;
        if is_major && self.config.announce {
            self.announce(event, &body);
        }
        let thread = nix::unistd::gettid().as_raw();
        let line = match self.config.format {
            LogFormat::Text => format!("{}{body}\n", layer::head(&event.now, thread, event.flags)),
            LogFormat::Json => {
                format!("{}\n", json::line(event, thread, self.config.prefix.as_deref()))
            }
        };
        self.write_line(&line);
        if self.config.force_flush || is_major || event.flags & flags::ERROR != 0 {
            self.flush();
        }
    }

    /// Writes an event of the management interface, if the log is in JSON.
    pub(super) fn write_event(&mut self, json: &str) {
        if self.config.format != LogFormat::Json {
            return;
        }
        if let Some(line) = json::event_line(json) {
            self.write_line(&line);
            if self.config.force_flush {
                self.flush();
            }
        }
    }

    /// The text after the head of a line: prefix, module and message.
    fn body(&self, event: &LogEvent<'_>) -> String {
        let mut body = String::with_capacity(event.message.len() + 64);
        for part in [self.config.prefix.as_deref(), event.place].into_iter().flatten() {
            body.push_str(part);
            body.push_str(": ");
        }
        if event.is_warning {
            body.push_str("WARNING: ");
        }
        body.push_str(event.message);
        body
    }

    fn write_line(&mut self, line: &str) {
        if self.config.max_size > 0 && self.size > self.config.max_size {
            complain(&format!(
                "the log exceeds {} bytes (log_max_size) and is truncated",
                self.config.max_size
            ));
            self.truncate();
        }
        let mut outcome = self.write_bytes(line.as_bytes());
        if self.config.max_size > 0 && outcome.as_ref().is_err_and(full) {
            self.truncate();
            outcome = self.write_bytes(line.as_bytes());
        }
        if outcome.is_ok() {
            self.size += line.len() as u64;
        }
        let is_lost = outcome.is_err();
        self.report(outcome);
        if is_lost {
            self.divert(line.as_bytes());
        }
    }

    /// Writes to the buffer. While the file cannot be written, each line is tried at once, so that
    /// none stays in the buffer.
    fn write_bytes(&mut self, line: &[u8]) -> io::Result<()> {
        let is_failing = self.is_failing;
        let Out::File(out) = &mut self.out else { return self.out.writer().write_all(line) };
        if !is_failing {
            return out.write_all(line);
        }
        out.get_mut().write_all(line)
    }

    /// Writes lines that the file did not take to standard error, the last resort.
    fn divert(&self, lines: &[u8]) {
        if let Out::File(_) = self.out {
            let _ = io::stderr().write_all(lines);
        }
    }

    /// The lines in the buffer, which the file did not take.
    fn take_buffered(&mut self) -> Vec<u8> {
        let Out::File(out) = &mut self.out else { return Vec::new() };
        let Ok(file) = out.get_ref().try_clone() else { return Vec::new() };
        let (_, buffered) = std::mem::replace(out, BufWriter::new(file)).into_parts();
        buffered.unwrap_or_default()
    }

    /// Truncates the file. It is opened for appending, so that further lines go to its start.
    fn truncate(&mut self) {
        let outcome = match &mut self.out {
            Out::File(out) => out.flush().and_then(|()| out.get_ref().set_len(0)),
            Out::Stdout(_) | Out::Stderr(_) => Ok(()),
        };
        self.size = 0;
        self.report(outcome);
    }

    /// Reports the first of consecutive failures on standard error.
    fn report(&mut self, outcome: io::Result<()>) {
        let Err(error) = &outcome else {
            self.is_failing = false;
            return;
        };
        if !std::mem::replace(&mut self.is_failing, true) {
            complain(&format!("cannot write the log, its lines follow here: {error}"));
        }
        let buffered = self.take_buffered();
        self.divert(&buffered);
    }

    /// Sends a major event to the journal or syslog, and prints it unless standard output is the log or
    /// the journal. Failures are ignored, and nothing blocks.
    fn announce(&self, event: &LogEvent<'_>, body: &str) {
        if !matches!(self.out, Out::Stdout(_)) && !syslog::stdout_is_journal() {
            let _ = writeln!(io::stdout(), "{body}");
        }
        syslog::send(&self.config.syslog_identity, event, body);
    }
}

fn full(e: &io::Error) -> bool {
    e.kind() == io::ErrorKind::StorageFull
}

impl Drop for LogSink {
    fn drop(&mut self) {
        self.flush();
    }
}

fn open_out(destination: &LogDestination, append: bool) -> io::Result<(Out, u64)> {
    let path = match destination {
        LogDestination::Stdout => return Ok((Out::Stdout(io::stdout()), 0)),
        LogDestination::Stderr => return Ok((Out::Stderr(io::stderr()), 0)),
        LogDestination::File(path) => path,
    };
    let file = OpenOptions::new().create(true).append(true).open(path)?;
    if !append {
        // Devices such as /dev/null cannot be truncated.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
    }
    let size = file.metadata()?.len();
    Ok((Out::File(BufWriter::new(file)), size))
}
