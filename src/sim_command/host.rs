//! Serving a simulated fabric to programs beside this one, with or without a daemon in it.

use crate::cli::{ExitCode, Failure, SimArgs};
use crate::ids::{Guid, PortNum};
use crate::sim::SimFabric;
use crate::sim::serve::address::{self, ListenError, Listener};
use crate::sim::serve::{Place, Server};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::path::Path;

/// Serves `fabric` on the socket that `args` name, or the default one, if anybody can want that:
/// a run that ends by itself serves only a socket that was named. `at` is where programs are
/// that do not say it, `scratch` a folder for what they see. Says on standard output how to
/// attach. Needs a running tokio runtime.
///
/// # Errors
/// The socket that was named cannot be taken, or there are no resources.
pub fn serve(
    args: &SimArgs,
    fabric: &SimFabric,
    (node, num): (Guid, PortNum),
    scratch: &Path,
) -> Result<Option<Server>, Failure> {
    if args.socket.is_none() && args.daemon.once {
        return Ok(None);
    }
    let system = |error: &dyn std::fmt::Display| Failure::new(ExitCode::System, error);
    let path = args.socket.clone().unwrap_or_else(address::default_path);
    let listener = match Listener::bind(&path) {
        Ok(listener) => listener,
        Err(error) if args.socket.is_none() && !args.no_sm => {
            tell_why_not(&error);
            return Ok(None);
        }
        Err(error) => return Err(system(&error)),
    };
    // An adapter's first port is what programs choose by themselves.
    let port = (num > PortNum(1)).then_some(num);
    let server = Server::start(fabric.clone(), Place { node, port }, listener, scratch.to_owned());
    let server = server.map_err(|error: io::Error| system(&error))?;
    let option = match &args.socket {
        Some(path) => format!(" --socket {}", path.display()),
        None => String::new(),
    };
    println!("programs: torus-sm sim exec{option} -- COMMAND (or: torus-sm sim shell{option})");
    Ok(Some(server))
}

/// The default socket is a convenience: without it the fabric comes up all the same.
fn tell_why_not(error: &ListenError) {
    println!("programs: none can attach ({error}); --socket PATH names another socket");
}

/// Waits until the process is interrupted or told to end.
///
/// # Errors
/// The kernel refuses the handlers.
pub fn until_interrupted() -> Result<(), Failure> {
    let signals = Signals::new([SIGHUP, SIGINT, SIGTERM]);
    let mut signals =
        signals.map_err(|error| Failure::new(ExitCode::System, format!("signals: {error}")))?;
    // There is nothing to read again.
    let _ = signals.forever().find(|&signal| signal != SIGHUP);
    Ok(())
}
