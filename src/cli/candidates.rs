//! Words that complete arguments: engines, commands of the simulator, and nodes and incidents of the
//! running daemon.

use crate::manage::client::candidates::{incidents, nodes};
use crate::plan::routing::chain::EngineRegistry;
use crate::sim::console::help::COMMANDS;
use clap::{Arg, Command, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, ValueCompleter};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::sync::Arc;

/// Completes the word that the shell has so far.
type Completer = fn(&OsStr) -> Vec<CompletionCandidate>;

/// The completers of arguments, by the words of the command and the id of the argument.
const COMPLETERS: [(&[&str], &str, Completer); 17] = [
    (&[], "routing_engine", engines),
    (&["plan"], "routing_engine", engines),
    (&["plan"], "compare", engines),
    (&["check"], "routing_engine", engines),
    (&["shadow"], "routing_engine", engines),
    (&["sim"], "routing_engine", engines),
    (&["sim", "ctl"], "line", console),
    (&["links"], "node", nodes_beginning),
    (&["ports"], "node", nodes_beginning),
    (&["path"], "from", nodes_beginning),
    (&["path"], "to", nodes_beginning),
    (&["adaptive"], "switch", nodes_beginning),
    (&["quarantine"], "port", nodes_beginning),
    (&["release"], "port", nodes_beginning),
    (&["what-if"], "port", nodes_beginning),
    (&["incidents"], "id", incidents_beginning),
    (&["accept"], "id", incidents_beginning),
];

/// The command line with completers, and without files where none are meant.
pub(super) fn with_completers(command: Command) -> Command {
    let command = command.mut_args(|arg| {
        if arg.get_id() == super::OPERANDS { arg.value_hint(ValueHint::Other) } else { arg }
    });
    COMPLETERS.iter().fold(command, |command, (words, id, completer)| {
        at(command, words, id, ArgValueCompleter::new(Words(*completer)))
    })
}

/// Adds a completer to the argument `id` of the command that the words select.
fn at(command: Command, words: &[&str], id: &str, completer: ArgValueCompleter) -> Command {
    match words {
        [] => command.mut_args(
            |arg: Arg| {
                if arg.get_id() == id { arg.add(completer.clone()) } else { arg }
            },
        ),
        [word, rest @ ..] => {
            command.mut_subcommand(word, |subcommand| at(subcommand, rest, id, completer))
        }
    }
}

#[derive(Clone)]
struct Words(Completer);

impl ValueCompleter for Words {
    fn complete(&self, current: &OsStr) -> Vec<CompletionCandidate> {
        self.0(current)
    }
}

/// The last name of a list of engines.
fn engines(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let (before, name) = match current.rfind(',') {
        Some(at) => current.split_at(at + 1),
        None => ("", &*current),
    };
    let registry = EngineRegistry::standard(Arc::default());
    let names = registry.names().into_iter().chain(["no_fallback"]);
    let fitting = names.filter(|engine| engine.starts_with(name));
    fitting.map(|engine| CompletionCandidate::new(format!("{before}{engine}"))).collect()
}

/// The commands of the simulator's console.
fn console(current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fitting = COMMANDS.iter().filter(|entry| entry.name.starts_with(&*current));
    // A command has an entry for each of its forms.
    let first: BTreeMap<&str, &str> = fitting.rev().map(|entry| (entry.name, entry.text)).collect();
    let words = first.into_iter();
    words.map(|(name, text)| CompletionCandidate::new(name).help(Some(text.into()))).collect()
}

fn nodes_beginning(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, nodes())
}

fn incidents_beginning(current: &OsStr) -> Vec<CompletionCandidate> {
    beginning(current, incidents())
}

/// The words that begin with `current`, each with its explanation.
fn beginning(current: &OsStr, words: Vec<(String, String)>) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let fitting = words.into_iter().filter(|(word, _)| word.starts_with(&*current));
    fitting.map(|(word, help)| CompletionCandidate::new(word).help(Some(help.into()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_completers_have_their_arguments() {
        let root = super::super::command();
        for (words, id, _) in COMPLETERS {
            let command = words.iter().try_fold(&root, |at, word| at.find_subcommand(word));
            let command = command.expect("a command");
            assert!(command.get_arguments().any(|arg| arg.get_id() == id), "{words:?} {id}");
        }
    }

    #[test]
    fn lists_of_engines_are_completed_at_their_end() {
        assert_eq!(words("tor"), ["torus-2QoS"]);
        assert_eq!(words("ftree,no_f"), ["ftree,no_fallback"]);
        assert_eq!(words("x"), Vec::<String>::new());
    }

    fn words(current: &str) -> Vec<String> {
        let found = engines(OsStr::new(current)).into_iter();
        found.map(|it| it.get_value().to_string_lossy().into_owned()).collect()
    }
}
