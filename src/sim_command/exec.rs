//! `torus-sm sim exec` and `torus-sm sim shell`: replaces this process with a program, with the
//! library preloaded that attaches it to a simulated node.

use super::client::socket_path;
use super::starting;
use crate::cli::{AttachArgs, CommandFailure, ExitCode};
use crate::manage::socket::{FOLDER_VARIABLE, simulator_folder};
use crate::sim::serve::protocol::{ATTACH, NODE_VARIABLE, SOCKET_VARIABLE, VERSION};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// File name of the preloaded library.
const LIBRARY: &str = "libtorus_sm_preload.so";
/// Environment variable with the path of the library.
const LIBRARY_VARIABLE: &str = "TORUS_SM_PRELOAD";

/// Replaces this process with `command`, a program and its arguments.
///
/// # Errors
/// There is no simulator, no such node in it, no library or no such program.
pub fn exec(attach: &AttachArgs, command: &[OsString]) -> Result<ExitCode, CommandFailure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(CommandFailure::new(ExitCode::Usage, "a command is required"));
    };
    match exec_attached(attach, program, arguments)? {}
}

/// Replaces this process with `$SHELL`, or /bin/sh.
///
/// # Errors
/// The same as of [`exec`].
pub fn shell(attach: &AttachArgs) -> Result<ExitCode, CommandFailure> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    match exec_attached(attach, &shell.unwrap_or_else(|| "/bin/sh".into()), &[])? {}
}

fn exec_attached(
    attach: &AttachArgs,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<Infallible, CommandFailure> {
    let socket = socket_path(attach.socket.as_deref());
    // The program may change its working directory.
    let socket = std::path::absolute(&socket).unwrap_or(socket);
    let node = attach.at.clone().or_else(|| std::env::var(NODE_VARIABLE).ok()).unwrap_or_default();
    check_node(&socket, &node, Duration::from_secs(attach.wait.into()))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env(SOCKET_VARIABLE, &socket)
        .env(NODE_VARIABLE, node)
        .env(FOLDER_VARIABLE, simulator_folder(&socket))
        .env("LD_PRELOAD", ld_preload(&library()?));
    let error = command.exec();
    Err(CommandFailure::new(ExitCode::System, format!("{}: {error}", program.display())))
}

/// Checks that there is a simulator with this node, for a better message than the program would
/// print. Waits up to `limit` for one that is starting, and as long again for its subnet.
fn check_node(socket: &Path, node: &str, limit: Duration) -> Result<(), CommandFailure> {
    let mut client = starting::connect(socket, limit)?;
    let body = [&VERSION.to_ne_bytes(), node.as_bytes()].concat();
    match client.request(ATTACH, &body)? {
        (0, directory) => {
            starting::wait_for_subnet(Path::new(OsStr::from_bytes(&directory)), limit);
            Ok(())
        }
        (_, text) => Err(CommandFailure::new(ExitCode::NoPort, String::from_utf8_lossy(&text))),
    }
}

/// Path of the library: from the environment, beside this program, or where it is installed.
fn library() -> Result<PathBuf, CommandFailure> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let program = std::env::current_exe().map_err(|error| {
        CommandFailure::new(ExitCode::System, format!("/proc/self/exe: {error}"))
    })?;
    let directory = program.parent().unwrap_or(Path::new("/"));
    let candidates = [directory.join(LIBRARY), directory.join("../lib/torus-sm").join(LIBRARY)];
    let found = candidates.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| {
        let [first, second] = candidates.map(|path| path.display().to_string());
        let text = format!(
            "cannot find {LIBRARY}, neither as {first} nor as {second}; set {LIBRARY_VARIABLE} to \
             its path"
        );
        CommandFailure::new(ExitCode::System, text)
    })
}

/// Value of LD_PRELOAD: the library, followed by the libraries that it has already.
fn ld_preload(library: &Path) -> OsString {
    let mut value = library.as_os_str().to_owned();
    let others = std::env::var("LD_PRELOAD").unwrap_or_default();
    let others = others.split([':', ' ']).filter(|other| !other.is_empty());
    for other in others.filter(|other| !other.ends_with(LIBRARY)) {
        value.push(":");
        value.push(other);
    }
    value
}
