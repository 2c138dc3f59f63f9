//! Commands behind options, such as `torus-sm -p 3 status`.
//!
//! A command is the first word of the command line; the daemon ignores words behind its options, as
//! OpenSM does. A word that names a command is an error instead: whoever asked for the status of a
//! daemon must not start a second subnet manager.

use clap::Command;

/// The error about the operands of the daemon, if one of them names a command of `root`.
///
/// `argv` are the words after the program's name.
pub(super) fn check<'a>(
    root: &Command,
    operands: impl IntoIterator<Item = &'a String>,
    argv: &[String],
) -> Result<(), String> {
    let Some(word) = operands.into_iter().find(|word| names_command(root, word)) else {
        return Ok(());
    };
    let name = word.to_lowercase();
    let remedy = match with_command_first(&name, word, argv) {
        Some(line) => format!("write 'torus-sm {line}'"),
        None => format!("write 'torus-sm {name}', with its own options after it"),
    };
    Err(format!("the command '{name}' must be the first word; {remedy}"))
}

fn names_command(root: &Command, word: &str) -> bool {
    root.find_subcommand(word.to_lowercase()).is_some()
}

/// The command line with the command `name`, which stands in it as `word`, moved to the front, if
/// that is valid.
fn with_command_first(name: &str, word: &str, argv: &[String]) -> Option<String> {
    let places = argv.iter().enumerate().filter(|(_, other)| *other == word);
    let mut moved = places.map(|(place, _)| {
        let others = argv.iter().enumerate().filter(|&(other, _)| other != place);
        let words = others.map(|(_, word)| word.clone());
        std::iter::once(name.to_owned()).chain(words).collect::<Vec<_>>()
    });
    let valid = moved.find(|line| super::parse(line.iter().cloned()).is_ok());
    valid.map(|line| line.join(" "))
}

#[cfg(test)]
mod tests {
    use crate::cli::{Command, parse};

    fn error(line: &str) -> String {
        parse(line.split(' ')).expect_err(line).to_string()
    }

    #[test]
    fn a_command_behind_options_is_an_error_with_the_right_spelling() {
        for (line, remedy) in [
            ("-v status", "write 'torus-sm status', with its own options after it"),
            ("-p 3 status", "write 'torus-sm status', with its own options after it"),
            ("-g 0x2c9 status", "write 'torus-sm status -g 0x2c9'"),
            ("-F new.conf check", "write 'torus-sm check -F new.conf'"),
            ("-R minhop plan 4x4x4", "write 'torus-sm plan -R minhop 4x4x4'"),
            ("-Q sim 4x4x4", "write 'torus-sm sim -Q 4x4x4'"),
            ("-o -- stop", "write 'torus-sm stop', with its own options after it"),
            ("-o Status", "write 'torus-sm status', with its own options after it"),
            ("-B stray resweep", "write 'torus-sm resweep', with its own options after it"),
        ] {
            let text = error(line);
            assert!(text.ends_with(remedy), "{line}: {text}");
        }
    }

    #[test]
    fn each_command_is_found_behind_an_option() {
        let names: Vec<_> =
            crate::cli::command().get_subcommands().map(|c| c.get_name().to_owned()).collect();
        assert!(names.len() > 20);
        for name in names {
            let text = error(&format!("-o {name}"));
            assert!(text.starts_with(&format!("the command '{name}' must be")), "{text}");
        }
    }

    #[test]
    fn values_of_options_and_other_words_start_the_daemon() {
        for line in ["-f status", "--routing_engine minhop", "-o stray", "-B statuses"] {
            let parsed = parse(line.split(' '));
            assert!(matches!(parsed, Ok(Command::Daemon(_))), "{line}: {parsed:?}");
        }
    }
}
