//! getopt_long_only(3) on top of clap.
//!
//! OpenSM accepts long options with a single dash: `-once` is `--once`, `-sw 10` is `--sweep 10`.
//! clap takes such words for clusters of short options. [`normalize`] adds the second dash,
//! writes the full name, and leaves everything else to clap. As in getopt_long_only, a
//! word is tried as a long option first, unless it is a single letter that is a short option.

use super::UsageError;
use clap::{Arg, Command};

/// Rewrites `argv`, the words after the name of `command`, for clap. The options of `command`, or
/// of the subcommand that the first word names, decide which words are values of options.
///
/// `command` must be built.
///
/// # Errors
/// An abbreviation of several options.
pub(super) fn normalize(command: &Command, argv: &[String]) -> Result<Vec<String>, UsageError> {
    let mut normalized = Vec::with_capacity(argv.len());
    let mut words = argv.iter();
    if let Some(name) = argv.first()
        && let Some(subcommand) = command.find_subcommand(name)
    {
        normalized.push(name.clone());
        normalized.extend(normalize(subcommand, &argv[1..])?);
        return Ok(normalized);
    }
    while let Some(word) = words.next() {
        let (rewritten, values) = rewrite(command, word)?;
        normalized.push(rewritten);
        normalized.extend(words.by_ref().take(values).cloned());
    }
    Ok(normalized)
}

/// Rewrites one word that is not the value of an option. Returns it with the number of words after
/// it that clap must get unchanged.
fn rewrite(command: &Command, word: &str) -> Result<(String, usize), UsageError> {
    if word == "--" {
        return unchanged(usize::MAX, word);
    }
    if let Some(name) = word.strip_prefix("--") {
        return match find_long(command, word, name)? {
            Some(found) => Ok(found.rewritten(name)),
            None => unchanged(0, word),
        };
    }
    let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) else {
        let starts_program = command.get_positionals().any(Arg::is_trailing_var_arg_set);
        return unchanged(if starts_program { usize::MAX } else { 0 }, word);
    };
    if !is_short_option(command, name)
        && let Some(found) = find_long(command, word, name)?
    {
        return Ok(found.rewritten(name));
    }
    unchanged(values_after_cluster(command, name), word)
}

fn unchanged(values: usize, word: &str) -> Result<(String, usize), UsageError> {
    Ok((word.to_owned(), values))
}

/// True for the letter of a short option, alone or before `=`.
fn is_short_option(command: &Command, name: &str) -> bool {
    let mut letters = name.split('=').next().unwrap_or("").chars();
    match (letters.next(), letters.next()) {
        (Some(letter), None) => find_short(command, letter).is_some(),
        _ => false,
    }
}

fn find_short(command: &Command, letter: char) -> Option<&Arg> {
    command.get_arguments().find(|arg| {
        arg.get_short_and_visible_aliases().is_some_and(|letters| letters.contains(&letter))
    })
}

/// An option that was found by a long name.
struct LongOption<'c> {
    option: &'c Arg,
    /// The name in the table of options.
    name: String,
}

impl LongOption<'_> {
    /// The word for clap, and the number of words after it that are values. `given` is the word
    /// without its dashes.
    fn rewritten(&self, given: &str) -> (String, usize) {
        let value = given.split_once('=').map(|(_, value)| value);
        let word = match value {
            Some(value) => format!("--{}={value}", self.name),
            None => format!("--{}", self.name),
        };
        (word, values_after(self.option, value.is_some()))
    }
}

/// Finds the option with this long name or, if only one fits, abbreviation. `name` is `word`
/// without its dashes. `-` and `_` are the same in it: OpenSM's documents write `-ignore-guids` for
/// `--ignore_guids`.
fn find_long<'c>(
    command: &'c Command,
    word: &str,
    name: &str,
) -> Result<Option<LongOption<'c>>, UsageError> {
    let name = plain(name.split('=').next().unwrap_or(""));
    let mut candidates = Vec::new();
    for option in command.get_arguments() {
        let Some(names) = option.get_long_and_visible_aliases() else { continue };
        if let Some(full) = names.iter().find(|long| plain(long) == name) {
            return Ok(Some(LongOption { option, name: (*full).to_owned() }));
        }
        let abbreviated = names.iter().find(|long| plain(long).starts_with(&name));
        candidates.extend(
            abbreviated
                .filter(|_| !name.is_empty())
                .map(|long| LongOption { option, name: (*long).to_owned() }),
        );
    }
    if candidates.len() > 1 {
        let names: Vec<String> =
            candidates.iter().map(|found| format!("--{}", found.name)).collect();
        let names = names.join(", ");
        return Err(UsageError(format!("option '{word}' is ambiguous: it matches {names}")));
    }
    Ok(candidates.pop())
}

fn plain(name: &str) -> String {
    name.replace('_', "-")
}

/// Number of words after an option that are its values.
fn values_after(option: &Arg, has_attached_value: bool) -> usize {
    let values = option.get_num_args().map_or(0, |values| values.min_values());
    values.saturating_sub(usize::from(has_attached_value))
}

/// The same for a cluster of short options, of which the last may take values.
fn values_after_cluster(command: &Command, letters: &str) -> usize {
    let mut letters = letters.chars();
    while let Some(letter) = letters.next() {
        let Some(option) = find_short(command, letter) else { return 0 };
        if values_after(option, false) > 0 {
            return values_after(option, !letters.as_str().is_empty());
        }
    }
    0
}
