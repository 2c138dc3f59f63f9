//! Parsing shared by the subcommands: clap's errors, and command lines that mix a subcommand's
//! options with those of the daemon.

use super::{Command, UsageError};
use clap::Parser;
use clap::error::ErrorKind;

/// Parses `argv`, the arguments after the subcommand's name, with clap.
///
/// `into_command` converts the parsed arguments, `help` renders the text for `--help`.
pub(super) fn parse<A: Parser>(
    argv: &[String],
    into_command: impl FnOnce(A) -> Command,
    help: impl FnOnce() -> String,
) -> Result<Command, UsageError> {
    let name = A::command().get_name().to_owned();
    match A::try_parse_from(std::iter::once(&name).chain(argv)) {
        Ok(args) => Ok(into_command(args)),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => Ok(Command::ShowHelp(help())),
        Err(error) => Err(usage_error(&error)),
    }
}

/// Help text of a subcommand.
pub(super) fn long_help<A: Parser>() -> String {
    A::command().render_long_help().to_string()
}

/// Splits `argv` into the arguments for the subcommand's own parser, preceded by its `name`, and
/// those for the daemon's. `arity` returns the number of arguments that an option of the
/// subcommand takes, `None` for all other words.
pub(super) fn split(
    name: &str,
    argv: &[String],
    arity: impl Fn(&str) -> Option<usize>,
) -> (Vec<String>, Vec<String>) {
    let (mut own, mut others) = (vec![name.to_owned()], Vec::new());
    let mut words = argv.iter();
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        let Some(arity) = arity(name) else {
            others.push(word.clone());
            continue;
        };
        own.push(word.clone());
        let attached = usize::from(name != word);
        own.extend(words.by_ref().take(arity.saturating_sub(attached)).cloned());
    }
    (own, others)
}

/// Converts clap's message, without its prefix "error: ".
pub(super) fn usage_error(error: &clap::Error) -> UsageError {
    let text = error.to_string();
    UsageError::Subcommand(text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned())
}
