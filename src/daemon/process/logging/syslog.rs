//! Major events to the journal or syslog. Failures are ignored, and nothing blocks.

use super::event::LogEvent;
use std::io;
use std::os::unix::net::UnixDatagram;

/// Facility user, severity info (RFC 3164), as OpenSM's.
const PRIORITY: u8 = 1 << 3 | INFO;
/// Severity info.
const INFO: u8 = 6;
const SYSLOG_SOCKET: &str = "/dev/log";
/// Socket of systemd-journald for its native protocol.
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
/// Environment variable that systemd sets for services whose output goes to the journal.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";

/// Sends an event to the journal if systemd started this process, else to syslog.
pub(super) fn send(identity: &str, event: &LogEvent<'_>, body: &str) {
    let has_journal = std::env::var_os(JOURNAL_STREAM).is_some();
    if !has_journal || send_to(JOURNAL_SOCKET, &journal_entry(identity, event, body)).is_err() {
        let _ = send_to(SYSLOG_SOCKET, packet(identity, event, body).as_bytes());
    }
}

/// True if standard output leads to the journal, which [`send`] reaches by itself.
pub(super) fn stdout_is_journal() -> bool {
    let stream = std::env::var(JOURNAL_STREAM).ok();
    let stdout = nix::sys::stat::fstat(io::stdout()).ok();
    stream.zip(stdout).is_some_and(|(stream, stdout)| {
        // Device and inode, see systemd.exec(5).
        stream == format!("{}:{}", stdout.st_dev, stdout.st_ino)
    })
}

fn send_to(path: &str, bytes: &[u8]) -> io::Result<()> {
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(bytes, path).map(drop)
}

/// A packet of syslog (RFC 3164).
fn packet(identity: &str, event: &LogEvent<'_>, body: &str) -> String {
    let time = event.now.format("%b %e %H:%M:%S");
    format!("<{PRIORITY}>{time} {identity}[{}]: {body}", std::process::id())
}

/// An entry in the native protocol of systemd-journald (systemd.journal-fields(7)): each field as
/// its name, a line feed, the length as a little-endian number of 64 bits, the value and a line
/// feed, so that values may have several lines.
fn journal_entry(identity: &str, event: &LogEvent<'_>, body: &str) -> Vec<u8> {
    let priority = INFO.to_string();
    let fields = [
        ("MESSAGE", Some(body)),
        ("PRIORITY", Some(&*priority)),
        ("SYSLOG_IDENTIFIER", Some(identity)),
        ("TORUS_SM_EVENT", event.name),
    ];
    let mut entry = Vec::new();
    for (name, value) in fields.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        entry.extend_from_slice(name.as_bytes());
        entry.push(b'\n');
        entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        entry.extend_from_slice(value.as_bytes());
        entry.push(b'\n');
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::Local;

    #[test]
    fn entries_have_the_formats_of_journal_and_syslog() {
        let event = LogEvent {
            now: Local::now(),
            flags: 0x80,
            is_warning: false,
            place: None,
            name: Some("subnet_up"),
            message: "SUBNET UP",
        };
        let entry = journal_entry("OpenSM", &event, "a\nb");
        assert!(entry.starts_with(b"MESSAGE\n\x03\0\0\0\0\0\0\0a\nb\nPRIORITY\n"));
        assert!(entry.ends_with(b"TORUS_SM_EVENT\n\x09\0\0\0\0\0\0\0subnet_up\n"));
        let packet = packet("OpenSM", &event, "SUBNET UP");
        let tail = format!(" OpenSM[{}]: SUBNET UP", std::process::id());
        assert!(packet.starts_with("<14>") && packet.ends_with(&tail), "{packet}");
    }
}
