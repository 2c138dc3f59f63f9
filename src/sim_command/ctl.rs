//! `torus-sm sim ctl`: lines sent to the console of a running simulator. Pauses are spent here,
//! so that the simulator serves others meanwhile.

use crate::cli::{CtlArgs, ExitCode, Failure};
use crate::sim::console::{ConsoleError, pause, script};
use crate::sim::serve::address;
use crate::sim::serve::protocol::{
    CONSOLE, FRAME_HEAD, SOCKET_VARIABLE, frame_head, read_console_reply, read_frame_head,
};
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Sends the line, or the lines of the script, and prints what is answered.
///
/// # Errors
/// There is no simulator; the line that failed, with file, line and column.
pub fn run(args: &CtlArgs) -> Result<ExitCode, Failure> {
    let mut console = Console::open(args)?;
    let out = &mut io::stdout().lock();
    match &args.script {
        None => {
            let line = args.as_line();
            let answer = console.line(&line)?;
            let answer =
                answer.map_err(|error| Failure::new(ExitCode::Fatal, error_at(&line, &error)))?;
            print(out, &answer)?;
        }
        Some(path) => {
            let (name, text) = read(path)?;
            console.script(&name, &text, out)?;
        }
    }
    Ok(ExitCode::Ok)
}

/// The text of a script, with its name for messages.
///
/// # Errors
/// It cannot be read.
pub fn read(path: &Path) -> Result<(String, String), Failure> {
    let is_stdin = path == Path::new("-");
    let name = if is_stdin { "standard input".into() } else { path.display().to_string() };
    let text =
        if is_stdin { io::read_to_string(io::stdin()) } else { std::fs::read_to_string(path) };
    match text {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Failure::new(ExitCode::Config, format!("{name}: {error}"))),
    }
}

fn error_at(line: &str, error: &ConsoleError) -> String {
    let marker = " ".repeat(error.column.saturating_sub(1));
    format!("{}\n  {line}\n  {marker}^", error.text)
}

fn print(out: &mut impl io::Write, text: &str) -> Result<(), Failure> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::new(ExitCode::System, format!("standard output: {error}")))
}

/// A connection to the console.
struct Console {
    stream: UnixStream,
    path: PathBuf,
}

impl Console {
    fn open(args: &CtlArgs) -> Result<Self, Failure> {
        let named = args.socket.clone().or_else(|| {
            std::env::var_os(SOCKET_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
        });
        let path = named.unwrap_or_else(address::default_path);
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Self { stream, path }),
            Err(error) => {
                let text = format!("{}: {error}; is there a torus-sm sim?", path.display());
                Err(Failure::new(ExitCode::NoPort, text))
            }
        }
    }

    /// Runs a line and gives its answer.
    #[expect(clippy::disallowed_methods, reason = "this process has nothing else to do meanwhile")]
    fn line(&mut self, line: &str) -> Result<Result<String, ConsoleError>, Failure> {
        if let Some(duration) = pause(line) {
            std::thread::sleep(duration);
            return Ok(Ok(String::new()));
        }
        self.ask(line).map_err(|error| {
            Failure::new(ExitCode::NoPort, format!("{}: {error}", self.path.display()))
        })
    }

    fn ask(&mut self, line: &str) -> io::Result<Result<String, ConsoleError>> {
        self.stream.write_all(&frame_head(CONSOLE, line.len()))?;
        self.stream.write_all(line.as_bytes())?;
        let mut head = [0; FRAME_HEAD];
        self.stream.read_exact(&mut head)?;
        let (errno, length) = read_frame_head(head).ok_or(io::ErrorKind::InvalidData)?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        read_console_reply(errno, &body)
            .map(|reply| reply.map_err(|(column, text)| ConsoleError { column, text }))
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Runs the lines of a script, showing each.
    fn script(&mut self, name: &str, text: &str, out: &mut impl io::Write) -> Result<(), Failure> {
        for (line, number) in text.lines().zip(1..) {
            if !script::is_command(line) {
                continue;
            }
            print(out, &format!("{number}: {line}\n"))?;
            match self.line(line)? {
                Ok(answer) => print(out, &answer)?,
                Err(error) => {
                    let error = script::ScriptError { name: name.to_owned(), line: number, error };
                    return Err(Failure::new(ExitCode::Fatal, error));
                }
            }
        }
        Ok(())
    }
}
