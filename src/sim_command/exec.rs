//! `torus-sm sim exec` and `torus-sm sim shell`: this process becomes the program, with the
//! library preloaded that shows it a simulated node.

use crate::cli::{AttachArgs, ExitCode, Failure};
use crate::sim::serve::address;
use crate::sim::serve::protocol::{
    FRAME_HEAD, HELLO, PLACE_VARIABLE, SOCKET_VARIABLE, VERSION, frame_head, read_frame_head,
};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library's file.
const LIBRARY: &str = "libtorus_sm_preload.so";
/// Names another file for it.
const LIBRARY_VARIABLE: &str = "TORUS_SM_PRELOAD";

/// Becomes the program `command`, whose first word it is.
///
/// # Errors
/// There is no simulator, no such node in it, no library or no such program.
pub fn exec(at: &AttachArgs, command: &[OsString]) -> Result<ExitCode, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::new(ExitCode::Usage, "no command is given"));
    };
    match become_program(at, program, arguments)? {}
}

/// Becomes the user's shell.
///
/// # Errors
/// As of [`exec`].
pub fn shell(at: &AttachArgs) -> Result<ExitCode, Failure> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    match become_program(at, &shell.unwrap_or_else(|| "/bin/sh".into()), &[])? {}
}

fn become_program(
    at: &AttachArgs,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<Infallible, Failure> {
    let socket = at.socket.clone().or_else(|| {
        std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
    });
    let socket = socket.unwrap_or_else(address::default_path);
    // The program may change its working directory.
    let socket = std::path::absolute(&socket).unwrap_or(socket);
    let place = at.at.clone().or_else(|| std::env::var(PLACE_VARIABLE).ok()).unwrap_or_default();
    ask(&socket, &place)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env(SOCKET_VARIABLE, &socket)
        .env(PLACE_VARIABLE, place)
        .env("LD_PRELOAD", preloads(&library()?));
    let error = command.exec();
    Err(Failure::new(ExitCode::System, format!("{}: {error}", program.display())))
}

/// Looks whether the simulator is there and knows the place, for an answer better than the
/// program would give.
fn ask(socket: &Path, place: &str) -> Result<(), Failure> {
    let fault = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                "; start a simulator first, such as torus-sm sim 4x4x4"
            }
            _ => "",
        };
        Failure::new(ExitCode::NoPort, format!("{}: {error}{hint}", socket.display()))
    };
    let refused = hello(socket, place).map_err(fault)?;
    refused.map_or(Ok(()), |text| Err(Failure::new(ExitCode::NoPort, text)))
}

/// What the simulator has against the place, if anything.
fn hello(socket: &Path, place: &str) -> io::Result<Option<String>> {
    let mut stream = UnixStream::connect(socket)?;
    let body = [&VERSION.to_ne_bytes(), place.as_bytes()].concat();
    stream.write_all(&frame_head(HELLO, body.len()))?;
    stream.write_all(&body)?;
    let mut head = [0; FRAME_HEAD];
    stream.read_exact(&mut head)?;
    let (errno, length) = read_frame_head(head).ok_or(io::ErrorKind::InvalidData)?;
    let mut text = vec![0; length];
    stream.read_exact(&mut text)?;
    Ok((errno != 0).then(|| String::from_utf8_lossy(&text).into_owned()))
}

/// Where the library is: named by the environment, beside this program, or installed.
fn library() -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(ExitCode::System, format!("/proc/self/exe: {error}")))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/torus-sm").join(LIBRARY)];
    let found = places.iter().find(|path| path.is_file()).cloned();
    found.ok_or_else(|| {
        let [first, second] = places.map(|path| path.display().to_string());
        let text = format!(
            "{LIBRARY} is neither {first} nor {second}; {LIBRARY_VARIABLE} may name the file"
        );
        Failure::new(ExitCode::System, text)
    })
}

/// The value of LD_PRELOAD: the library before others that are wanted anyway.
fn preloads(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    let others = std::env::var("LD_PRELOAD").unwrap_or_default();
    let others = others.split([':', ' ']).filter(|other| !other.is_empty());
    for other in others.filter(|other| !other.ends_with(LIBRARY)) {
        all.push(":");
        all.push(other);
    }
    all
}
