//! `torus-sm help [COMMAND]`: the same texts as `--help`.

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error};

/// Id of the words that select a command.
const WORDS: &str = "command";

/// `help` as a clap command.
pub(super) fn command() -> Command {
    Command::new("help").about("Print this help, or that of a command, and exit").arg(
        Arg::new(WORDS)
            .num_args(0..)
            .value_name("COMMAND")
            .help("The command, such as plan or sim exec"),
    )
}

/// The help of the command that the words after `help` select, as an error of the kind of `--help`.
///
/// # Errors
/// Always: the help, or that there is no such command.
pub(super) fn show<T>(root: &mut Command, matches: &ArgMatches) -> Result<T, Error> {
    let mut line = vec![root.get_name().to_owned()];
    let mut command = &*root;
    for word in matches.get_many::<String>(WORDS).into_iter().flatten() {
        let Some(next) = command.find_subcommand(word) else {
            let text = unknown(command, word);
            return Err(root.error(ErrorKind::InvalidSubcommand, text));
        };
        line.push(word.clone());
        command = next;
    }
    line.push("--help".into());
    let parsed = root.try_get_matches_from_mut(line);
    Err(parsed.err().unwrap_or_else(|| root.error(ErrorKind::InvalidSubcommand, "no help")))
}

/// The message about a word that is no command, with the closest one.
pub(super) fn unknown(command: &Command, word: &str) -> String {
    let known = command.get_subcommands().map(Command::get_name);
    let hint = crate::config::suggest::closest(word, known);
    let hint = hint.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
    format!("unknown command '{word}'{hint}")
}
