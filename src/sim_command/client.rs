//! Client of a simulator's socket.

use crate::cli::{CommandFailure, ExitCode};
use crate::local_socket;
use crate::sim::serve::protocol::{
    FRAME_HEADER_SIZE, SOCKET_VARIABLE, frame_header, read_frame_header,
};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// File name of the default socket.
const DEFAULT_NAME: &str = "sim.sock";

/// Default path of the socket: `sim.sock` in the runtime folder.
pub(super) fn default_path() -> PathBuf {
    local_socket::runtime_folder().join(DEFAULT_NAME)
}

/// Path of the socket: `--socket`, else the environment variable, else the default path.
pub(super) fn socket_path(option: Option<&Path>) -> PathBuf {
    option
        .map(Path::to_owned)
        .or_else(|| {
            std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
        })
        .unwrap_or_else(default_path)
}

/// A connection to a simulator.
pub(super) struct SimulatorClient {
    stream: UnixStream,
    path: PathBuf,
}

impl SimulatorClient {
    /// # Errors
    /// No simulator listens on the socket.
    pub(super) fn connect(path: PathBuf) -> Result<Self, CommandFailure> {
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Self { stream, path }),
            Err(error) => {
                let hint = match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        "; start a simulator first, such as 'torus-sm sim 4x4x4'"
                    }
                    _ => "",
                };
                let text = format!("no simulator at {}: {error}{hint}", path.display());
                Err(CommandFailure::new(ExitCode::NoPort, text))
            }
        }
    }

    /// Sends a request; returns errno and body of the reply.
    ///
    /// # Errors
    /// The connection is lost.
    pub(super) fn request(
        &mut self,
        operation: u32,
        body: &[u8],
    ) -> Result<(u32, Vec<u8>), CommandFailure> {
        self.exchange(operation, body).map_err(|error| {
            let text = format!("connection to the simulator at {}: {error}", self.path.display());
            CommandFailure::new(ExitCode::NoPort, text)
        })
    }

    fn exchange(&mut self, operation: u32, body: &[u8]) -> io::Result<(u32, Vec<u8>)> {
        self.stream.write_all(&frame_header(operation, body.len()))?;
        self.stream.write_all(body)?;
        let mut header = [0; FRAME_HEADER_SIZE];
        self.stream.read_exact(&mut header)?;
        let (errno, length) = read_frame_header(header).ok_or(io::ErrorKind::InvalidData)?;
        let mut reply = vec![0; length];
        self.stream.read_exact(&mut reply)?;
        Ok((errno, reply))
    }

    /// Path of the socket.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
