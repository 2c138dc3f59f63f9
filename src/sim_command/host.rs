//! Serves a simulated fabric to programs in other processes, with or without a subnet manager.

use super::client::default_path;
use super::requested_fabric::SmPort;
use crate::cli::output::print_or_end;
use crate::cli::{CommandFailure, ExitCode, SimArgs};
use crate::ids::PortNum;
use crate::local_socket::{Clients, Listener};
use crate::sim::SimFabric;

use crate::sim::serve::{AttachPoint, Server};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Serves `fabric` on the socket of `--socket` or on the default socket. With `-o`, it is served
/// only if `--socket` is given. Prints how to run programs on it.
///
/// Programs that name no node are attached to the node of `sm_port`; `scratch` is the directory for
/// the files that they see. Requires a running tokio runtime.
///
/// # Errors
/// The socket of `--socket`, or any socket with `--no-sm`, cannot be used.
pub(super) fn serve(
    args: &SimArgs,
    fabric: &SimFabric,
    (node, num): SmPort,
    scratch: &Path,
) -> Result<Option<Server>, CommandFailure> {
    if args.socket.is_none() && args.daemon.once {
        return Ok(None);
    }
    let path = socket(args);
    let listener = match Listener::bind(&path, Clients::Owner) {
        Ok(listener) => listener,
        // The default socket is optional.
        Err(error) if args.socket.is_none() && !args.no_sm => {
            let text = "choose another socket with --socket PATH";
            print_or_end(&format!("programs: not available ({error}); {text}\n"))?;
            return Ok(None);
        }
        Err(error) => return Err(system_failure(&error)),
    };
    // Programs select port 1 by themselves.
    let port = (num > PortNum(1)).then_some(num);
    let default = AttachPoint { node, port, vport: None };
    let server = Server::start(fabric.clone(), default, listener, scratch.to_owned())
        .map_err(|error| system_failure(&error))?;
    let option = match &args.socket {
        Some(path) => format!(" --socket {}", path.display()),
        None => String::new(),
    };
    print_or_end(&format!(
        "programs: torus-sm sim exec{option} -- COMMAND (or: torus-sm sim shell{option})\n\
         console:  torus-sm sim ctl{option} help\n"
    ))?;
    Ok(Some(server))
}

fn system_failure(error: &dyn Display) -> CommandFailure {
    CommandFailure::new(ExitCode::System, error)
}

/// The socket of the simulator.
pub(super) fn socket(args: &SimArgs) -> PathBuf {
    args.socket.clone().unwrap_or_else(default_path)
}

/// Waits for SIGINT or SIGTERM; ignores SIGHUP.
///
/// # Errors
/// The signal handlers cannot be installed.
pub(super) fn wait_for_interrupt() -> Result<(), CommandFailure> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])
        .map_err(|error| CommandFailure::new(ExitCode::System, format!("signals: {error}")))?;
    let _ = signals.forever().find(|&signal| signal != SIGHUP);
    Ok(())
}
