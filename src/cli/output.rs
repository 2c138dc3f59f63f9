//! Standard output and standard error of the commands.
//!
//! A reader that closes the pipe, as `| head` does, ends the output without a message; any other error
//! of standard output ends the command with exit code 5. Nothing panics, whatever is closed or full.
//! Colours of the text are left out where [`super::color`] says so.

use super::{CommandFailure, ExitCode};
use anstream::AutoStream;
use std::io::{self, ErrorKind, IsTerminal as _, Write};

/// Moves the cursor of a terminal to its corner, and clears it.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// Prints text to standard output. False if the reader has closed the pipe.
///
/// # Errors
/// Standard output fails.
pub fn print(text: &str) -> Result<bool, CommandFailure> {
    print_to(&mut standard(), text)
}

/// Standard output, which leaves colours out where there are to be none.
pub fn standard() -> impl Write {
    AutoStream::auto(io::stdout().lock())
}

/// Clears the screen, if standard output is a terminal. It stays as it is if the terminal fails.
pub fn clear_screen() {
    if io::stdout().is_terminal() {
        let _ = io::stdout().lock().write_all(CLEAR);
    }
}

/// Writes text to `out`, which is standard output. False if the reader has closed the pipe.
///
/// # Errors
/// Standard output fails.
pub fn print_to(out: &mut dyn Write, text: &str) -> Result<bool, CommandFailure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => {
            Err(CommandFailure::new(ExitCode::System, format!("standard output: {error}")))
        }
    }
}

/// Prints text of a command that goes on: it ends if nobody reads on.
///
/// # Errors
/// Standard output fails, or the reader has closed the pipe, which is silent and has exit code 0.
pub fn print_or_end(text: &str) -> Result<(), CommandFailure> {
    if print(text)? { Ok(()) } else { Err(CommandFailure::new(ExitCode::Ok, "")) }
}

/// Prints a line to standard error, with the name of the program before it. It is lost if standard
/// error fails.
pub fn complain(text: &str) {
    complain_plainly(&format!("torus-sm: {text}"));
}

/// Prints a line to standard error. It is lost if standard error fails.
pub fn complain_plainly(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_silent_and_a_full_device_is_not() {
        assert_eq!(print_to(&mut Failing(ErrorKind::BrokenPipe), "x"), Ok(false));
        let full = print_to(&mut Failing(ErrorKind::StorageFull), "x").expect_err("full");
        assert_eq!(full.code, ExitCode::System);
        assert!(full.text.starts_with("standard output: "), "{}", full.text);
    }
}
