//! Finds the running daemon.

use crate::cli::manage::SelectArgs;
use crate::cli::{CommandFailure, ExitCode};
use crate::manage::socket::{self, Instance};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A daemon that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Selected {
    pub(super) socket: PathBuf,
    /// Which daemon it is, where that is not plain: on a simulated fabric, or one of several.
    pub(super) notice: Option<String>,
}

/// The daemon that the arguments select, or the only one.
///
/// # Errors
/// There is none, or there are several: the text lists them.
pub(super) fn find(args: &SelectArgs) -> Result<Selected, CommandFailure> {
    if let Some(path) = &args.socket {
        return Ok(Selected { socket: path.clone(), notice: None });
    }
    let running: Vec<Instance> = socket::instances().into_iter().filter(is_running).collect();
    select(running, args.guid.as_deref())
}

/// False for a socket that a daemon left behind.
fn is_running(instance: &Instance) -> bool {
    match UnixStream::connect(&instance.path) {
        Ok(_) => true,
        // The daemon of another user; the request reports that.
        Err(error) => error.kind() == ErrorKind::PermissionDenied,
    }
}

fn select(running: Vec<Instance>, guid: Option<&str>) -> Result<Selected, CommandFailure> {
    let selected: Vec<&Instance> = running
        .iter()
        .filter(|instance| {
            guid.is_none_or(|guid| digits(guid) == digits(&instance.port.to_string()))
        })
        .collect();
    match (selected.as_slice(), guid) {
        ([only], _) => {
            let is_plain = running.len() == 1 && !only.is_simulated();
            let notice = format!("the subnet manager on port {}{}", only.port, fabric(only));
            Ok(Selected { socket: only.path.clone(), notice: (!is_plain).then_some(notice) })
        }
        ([], Some(guid)) => {
            let text = format!("no torus-sm runs on the port GUID {guid}{}", list(&running));
            Err(CommandFailure::new(ExitCode::NoPort, text))
        }
        ([], None) => {
            let folder = socket::folder();
            let text = format!(
                "no torus-sm is running on this host (no socket in {}); --socket PATH names the socket \
                 of a daemon with another management_dir",
                folder.display()
            );
            Err(CommandFailure::new(ExitCode::NoPort, text))
        }
        _ => {
            let text = "several torus-sm are running: choose one with --guid or --socket";
            Err(CommandFailure::new(ExitCode::Usage, format!("{text}{}", list(&running))))
        }
    }
}

fn digits(text: &str) -> String {
    text.trim_start_matches("0x").trim_start_matches('0').to_lowercase()
}

/// The running daemons, one on each line.
fn list(running: &[Instance]) -> String {
    running
        .iter()
        .map(|instance| {
            let port = instance.port;
            let path = instance.path.display();
            format!("\n  --guid {port}  --socket {path}{}", fabric(instance))
        })
        .collect()
}

/// The kind of a daemon's fabric, unless it is a real one.
fn fabric(instance: &Instance) -> &'static str {
    if instance.is_simulated() { " (simulated fabric)" } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Guid;

    #[test]
    fn the_only_daemon_is_selected_and_several_are_listed() {
        let socket = |result: Result<Selected, CommandFailure>| {
            let Selected { socket, notice } = result.expect("one");
            (socket.display().to_string(), notice.unwrap_or_default())
        };
        assert_eq!(socket(found(&[7], None)), ("/run/7".to_owned(), String::new()));
        let (path, notice) = socket(found(&[7, 0xAB], Some("0x00AB")));
        assert_eq!(path, "/run/171");
        assert_eq!(notice, "the subnet manager on port 0x00000000000000ab");
        assert!(text(found(&[], None)).contains("no torus-sm is running"));
        let several = text(found(&[7, 8], None));
        assert!(several.contains("--guid 0x0000000000000007  --socket /run/7"), "{several}");
        assert!(text(found(&[7], Some("9"))).contains("port GUID 9\n  --guid 0x0000000000000007"));
        // A simulator is never chosen beside a real fabric, and named when it is the only one.
        let simulated = Instance { path: "/run/sim.d/sm.sock".into(), port: Guid(9) };
        let (_, notice) = socket(select(vec![simulated.clone()], None));
        assert_eq!(notice, "the subnet manager on port 0x0000000000000009 (simulated fabric)");
        let several = text(select(vec![of(7), simulated], None));
        assert!(several.contains("/run/sim.d/sm.sock (simulated fabric)"), "{several}");
    }

    fn text(result: Result<Selected, CommandFailure>) -> String {
        result.expect_err("none").text
    }

    fn found(ports: &[u64], guid: Option<&str>) -> Result<Selected, CommandFailure> {
        select(ports.iter().map(|&port| of(port)).collect(), guid)
    }

    fn of(port: u64) -> Instance {
        Instance { path: format!("/run/{port}").into(), port: Guid(port) }
    }
}
