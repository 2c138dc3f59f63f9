//! Finds the running daemon.

use crate::cli::manage::SelectArgs;
use crate::cli::{ExitCode, Failure};
use crate::manage::socket::{self, Instance};
use std::io::ErrorKind;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The socket of the daemon that the arguments select, or of the only one.
///
/// # Errors
/// There is none, or there are several: the text lists them.
pub(super) fn find(args: &SelectArgs) -> Result<PathBuf, Failure> {
    if let Some(path) = &args.socket {
        return Ok(path.clone());
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

fn select(running: Vec<Instance>, guid: Option<&str>) -> Result<PathBuf, Failure> {
    let digits = |text: &str| text.trim_start_matches("0x").trim_start_matches('0').to_lowercase();
    let is_selected = |instance: &&Instance| {
        guid.is_none_or(|guid| digits(guid) == digits(&instance.port.to_string()))
    };
    let selected: Vec<&Instance> = running.iter().filter(is_selected).collect();
    match (selected.as_slice(), guid) {
        ([only], _) => Ok(only.path.clone()),
        ([], Some(guid)) => {
            let text = format!("no torus-sm runs on the port GUID {guid}{}", list(&running));
            Err(Failure::new(ExitCode::NoPort, text))
        }
        ([], None) => {
            let folder = socket::folder();
            let text = format!(
                "no torus-sm is running on this host (no socket in {}); --socket PATH names the socket \
                 of a daemon with another management_dir",
                folder.display()
            );
            Err(Failure::new(ExitCode::NoPort, text))
        }
        _ => {
            let text = "several torus-sm are running: choose one with --guid or --socket";
            Err(Failure::new(ExitCode::Usage, format!("{text}{}", list(&running))))
        }
    }
}

/// The running daemons, one on each line.
fn list(running: &[Instance]) -> String {
    let line = |instance: &Instance| {
        format!("\n  --guid {}  --socket {}", instance.port, instance.path.display())
    };
    running.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Guid;

    #[test]
    fn the_only_daemon_is_selected_and_several_are_listed() {
        let of = |port: u64| Instance { path: format!("/run/{port}").into(), port: Guid(port) };
        let found =
            |ports: &[u64], guid| select(ports.iter().map(|&port| of(port)).collect(), guid);
        assert_eq!(found(&[7], None), Ok("/run/7".into()));
        assert_eq!(found(&[7, 0xAB], Some("0x00AB")), Ok("/run/171".into()));
        let text = |result: Result<PathBuf, Failure>| result.expect_err("none").text;
        assert!(text(found(&[], None)).contains("no torus-sm is running"));
        let several = text(found(&[7, 8], None));
        assert!(several.contains("--guid 0x0000000000000007  --socket /run/7"), "{several}");
        assert!(text(found(&[7], Some("9"))).contains("port GUID 9\n  --guid 0x0000000000000007"));
    }
}
