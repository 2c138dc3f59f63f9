//! One session: lines in, texts out, and the repeated status.

use super::commands::{self, ConsoleReply};
use super::status;
use super::{ConsoleSources, MAX_LINE};
use std::io::{self, BufRead, ErrorKind, Read as _, Write};
use std::time::Duration;
use tokio::time::Instant;

/// Interval at which a session without input looks for other work.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// Interval of `status loop`.
const LOOP_INTERVAL: Duration = Duration::from_secs(2);

const PROMPT: &str = "OpenSM $ ";

/// Location of the client of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ConsoleClientPlace {
    Terminal,
    /// Root, or the user of this process, on this host.
    Loopback,
    /// Any host; the client must first send this token.
    Network(String),
}

pub(super) struct ConsoleSession<'a> {
    sources: &'a ConsoleSources,
    place: ConsoleClientPlace,
    /// The last time at which `status loop` printed; `None` while it is off.
    looping: Option<Instant>,
}

/// An item of input.
enum SessionInput {
    Line(String),
    /// No line came in time.
    Nothing,
    End,
}

impl<'a> ConsoleSession<'a> {
    pub(super) fn new(sources: &'a ConsoleSources, place: ConsoleClientPlace) -> Self {
        Self { sources, place, looping: None }
    }

    /// Runs until the client leaves or `is_closing`.
    ///
    /// # Errors
    /// The client does not take the replies.
    pub(super) fn run(
        &mut self,
        mut input: impl BufRead,
        output: &mut dyn Write,
        is_closing: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let mut partial = Vec::new();
        if let ConsoleClientPlace::Network(token) = self.place.clone() {
            write!(output, "Token: ")?;
            output.flush()?;
            match next(&mut input, &mut partial, is_closing)? {
                Some(line) if is_same(line.trim(), &token) => {}
                _ => return writeln!(output, "The token is wrong."),
            }
        }
        prompt(output)?;
        while !is_closing() {
            match read(&mut input, &mut partial)? {
                SessionInput::End => return Ok(()),
                SessionInput::Nothing => self.repeat_status(output)?,
                SessionInput::Line(line) => {
                    if !self.line(line.trim(), output)? {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Carries out a line. Returns false if it ends the session.
    fn line(&mut self, line: &str, output: &mut dyn Write) -> io::Result<bool> {
        if self.looping.is_some() {
            if line == "q" {
                self.looping = None;
                prompt(output)?;
            } else {
                writeln!(output, "use \"q<ret>\" to quit loop")?;
            }
            output.flush()?;
            return Ok(true);
        }
        let is_remote = matches!(self.place, ConsoleClientPlace::Network(_));
        match commands::run(self.sources, line, is_remote) {
            ConsoleReply::Text(text) => output.write_all(text.as_bytes())?,
            ConsoleReply::Loop(text) => {
                output.write_all(text.as_bytes())?;
                output.flush()?;
                self.looping = Some(Instant::now());
                return Ok(true);
            }
            // On the terminal there is nothing to leave.
            ConsoleReply::Quit if self.place == ConsoleClientPlace::Terminal => {}
            ConsoleReply::Quit => return Ok(false),
        }
        prompt(output)?;
        Ok(true)
    }

    fn repeat_status(&mut self, output: &mut dyn Write) -> io::Result<()> {
        if self.looping.is_none_or(|last| last.elapsed() < LOOP_INTERVAL) {
            return Ok(());
        }
        self.looping = Some(Instant::now());
        output.write_all(status::text(self.sources).as_bytes())?;
        output.flush()
    }
}

fn prompt(output: &mut dyn Write) -> io::Result<()> {
    output.write_all(PROMPT.as_bytes())?;
    output.flush()
}

/// Compares in a time that does not depend on where the texts differ.
fn is_same(given: &str, token: &str) -> bool {
    let differences = given.bytes().zip(token.bytes()).fold(0, |found, (a, b)| found | (a ^ b));
    given.len() == token.len() && differences == 0
}

/// The next line; `None` if the client leaves or the daemon ends first.
fn next(
    input: &mut impl BufRead,
    partial: &mut Vec<u8>,
    is_closing: &dyn Fn() -> bool,
) -> io::Result<Option<String>> {
    while !is_closing() {
        match read(input, partial)? {
            SessionInput::Line(line) => return Ok(Some(line)),
            SessionInput::End => return Ok(None),
            SessionInput::Nothing => {}
        }
    }
    Ok(None)
}

/// Reads up to the end of a line. `partial` keeps the beginning of a line that is not complete.
fn read(input: &mut impl BufRead, partial: &mut Vec<u8>) -> io::Result<SessionInput> {
    let room = MAX_LINE.saturating_sub(partial.len() as u64);
    match input.by_ref().take(room).read_until(b'\n', partial) {
        Ok(_) if partial.last() == Some(&b'\n') => {
            let line = String::from_utf8_lossy(partial).into_owned();
            partial.clear();
            Ok(SessionInput::Line(line))
        }
        Ok(_) if partial.len() as u64 >= MAX_LINE => {
            Err(io::Error::new(ErrorKind::InvalidData, "a line is too long"))
        }
        Ok(_) => Ok(SessionInput::End),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(SessionInput::Nothing)
        }
        Err(error) => Err(error),
    }
}
