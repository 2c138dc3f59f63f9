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

/// The help of the command that the words after `help` select. `root` must be built.
///
/// # Errors
/// There is no such command.
pub(super) fn from_matches(root: &mut Command, matches: &ArgMatches) -> Result<String, Error> {
    let mut command = &*root;
    for word in matches.get_many::<String>(WORDS).into_iter().flatten() {
        let Some(next) = command.find_subcommand(word) else {
            let text = unknown(command, word);
            return Err(root.error(ErrorKind::InvalidSubcommand, text));
        };
        command = next;
    }
    Ok(command.clone().render_long_help().to_string())
}

/// The message about a word that is no command, with the closest one.
pub(super) fn unknown(command: &Command, word: &str) -> String {
    let known = command.get_subcommands().map(Command::get_name);
    let hint = crate::config::suggest::closest(word, known);
    let hint = hint.map(|name| format!("; did you mean '{name}'?")).unwrap_or_default();
    format!("unknown command '{word}'{hint}")
}
