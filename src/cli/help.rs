//! `torus-sm help [COMMAND]`: the same texts as `--help`. That of the program lists the commands in groups.

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Command, Error};

/// Id of the words that select a command.
const WORDS: &str = "command";

/// The groups of commands, and the heading of each.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Commands that look at a running daemon:",
        &[
            "status",
            "incidents",
            "top",
            "nodes",
            "links",
            "ports",
            "path",
            "what-if",
            "groups",
            "adaptive",
            "partitions",
            "torus",
            "sa",
            "events",
            "metrics",
        ],
    ),
    (
        "Commands that act on it:",
        &[
            "accept",
            "quarantine",
            "release",
            "resweep",
            "reroute",
            "reload",
            "loglevel",
            "priority",
            "perfmgr",
            "dump",
            "record",
            "handover",
            "stop",
        ],
    ),
    ("Commands that work offline:", &["plan", "check", "torus-config", "replay"]),
    ("Commands that simulate a fabric, or rehearse on a live one:", &["sim", "shadow"]),
    ("Commands about this program:", &["completions", "help"]),
];

/// The heading of clap's list of commands.
const HEADING: &str = "\nCommands:\n";

/// The text of the program's help with its commands in groups; other texts stay as they are.
pub(super) fn grouped(text: &str) -> String {
    let Some((before, rest)) = text.split_once(HEADING) else { return text.to_owned() };
    let (list, after) = rest.split_once("\n\n").unwrap_or((rest, ""));
    if !GROUPS.iter().all(|(_, names)| names.iter().all(|name| is_listed(name, list))) {
        return text.to_owned();
    }
    let groups = GROUPS.iter().map(|(heading, names)| {
        let entries: Vec<&str> = names.iter().flat_map(|name| entry(list, name)).collect();
        format!("\n{heading}\n{}\n", entries.join("\n"))
    });
    format!("{before}{}\n{after}", groups.collect::<String>())
}

fn is_listed(name: &str, list: &str) -> bool {
    list.lines().any(|line| is_entry(line, name))
}

/// True for the first line of a command in clap's list.
fn is_entry(line: &str, name: &str) -> bool {
    line.strip_prefix("  ")
        .and_then(|line| line.strip_prefix(name))
        .is_some_and(|rest| rest.starts_with(' '))
}

/// The lines of a command in clap's list. Those after the first are indented more.
fn entry<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let lines = list.lines().skip_while(|line| !is_entry(line, name));
    lines
        .enumerate()
        .take_while(|(at, line)| *at == 0 || !is_first(line))
        .map(|(_, line)| line)
        .collect()
}

fn is_first(line: &str) -> bool {
    !line.starts_with("   ")
}

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
    let hint = hint.map_or_else(String::new, |name| format!("; did you mean '{name}'?"));
    format!("unknown command '{word}'{hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_is_in_one_group() {
        let command = super::super::command();
        let mut names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        names.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn groups_have_whole_entries() {
        let text = super::super::command().render_help().to_string();
        let shown = grouped(&text);
        assert!(!shown.contains(HEADING), "{shown}");
        for line in text.lines().filter(|line| !line.is_empty() && *line != HEADING.trim()) {
            assert!(shown.contains(line), "{line}");
        }
        assert_eq!(
            grouped("a\nCommands:\n  ctl  x\n\nOptions"),
            "a\nCommands:\n  ctl  x\n\nOptions"
        );
    }
}
