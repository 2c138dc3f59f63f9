//! Finding options in argv as getopt_long_only does, which is what OpenSM uses.
//!
//! Long names may start with one dash or two and be cut short as long as they stay unambiguous;
//! their argument follows after `=` or as the next word. Short ones may be clustered; their
//! argument follows at once or as the next word. A single dash is tried as a long name first
//! (`-once` is `--once`), unless it is one letter that is a short name. `--` ends the options.
//!
//! One thing is added: `-g=0x1` is `-g 0x1`. OpenSM understands `-D=0x3` alone of that kind and
//! calls most others ambiguous.

use super::UsageError;
use super::flags::{FLAGS, Flag};
use crate::config::suggest;

/// What was found.
pub enum Item<'a> {
    /// An option as it was spelled, with its argument if it takes one.
    Flag {
        /// Its row.
        flag: &'static Flag,
        /// How it was spelled.
        spelled: String,
        /// Its argument; empty if it takes none.
        value: &'a str,
    },
    /// A word that belongs to no option.
    Operand(&'a str),
}

/// Splits arguments into options and operands.
///
/// # Errors
/// Unknown and ambiguous options, missing and surplus arguments.
pub fn scan(argv: &[String]) -> Result<Vec<Item<'_>>, UsageError> {
    let mut items = Vec::new();
    let mut words = argv.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if word == "--" {
            items.extend(words.by_ref().map(Item::Operand));
        } else if let Some(name) = word.strip_prefix("--") {
            items.push(long(word, lookup(word, name)?, &mut words)?);
        } else if let Some(name) = word.strip_prefix('-').filter(|name| !name.is_empty()) {
            single_dash(word, name, &mut words, &mut items)?;
        } else {
            items.push(Item::Operand(word));
        }
    }
    Ok(items)
}

/// `-name` or `-letters`.
fn single_dash<'a>(
    word: &'a str,
    name: &'a str,
    words: &mut impl Iterator<Item = &'a str>,
    items: &mut Vec<Item<'a>>,
) -> Result<(), UsageError> {
    let mut letters = name.chars();
    let first = letters.next().and_then(short);
    let rest = letters.as_str();
    if first.is_some() && rest.is_empty() {
        return cluster(word, name, words, items);
    }
    match (lookup(word, name), first) {
        (Ok(flag), _) => items.push(long(word, flag, words)?),
        (Err(UsageError::AmbiguousOption { .. }), Some(flag))
            if flag.metavar.is_some() && rest.starts_with('=') =>
        {
            cluster(word, name, words, items)?;
        }
        (Err(UsageError::UnknownOption { .. }), Some(_)) => cluster(word, name, words, items)?,
        (Err(error), _) => return Err(error),
    }
    Ok(())
}

/// One or more short options behind a dash.
fn cluster<'a>(
    word: &str,
    mut letters: &'a str,
    words: &mut impl Iterator<Item = &'a str>,
    items: &mut Vec<Item<'a>>,
) -> Result<(), UsageError> {
    while let Some(letter) = letters.chars().next() {
        let rest = letters.get(letter.len_utf8()..).unwrap_or_default();
        let spelled = format!("-{letter}");
        let flag = short(letter).ok_or_else(|| UsageError::UnknownOption {
            option: if letters.len() + 1 == word.len() { word.into() } else { spelled.clone() },
            suggestion: None,
        })?;
        let Some(metavar) = flag.metavar else {
            items.push(Item::Flag { flag, spelled, value: "" });
            letters = rest;
            continue;
        };
        let attached = rest.strip_prefix('=').unwrap_or(rest);
        let value = Some(attached).filter(|value| !value.is_empty()).or_else(|| words.next());
        let Some(value) = value else {
            return Err(UsageError::MissingArgument { option: spelled, metavar });
        };
        items.push(Item::Flag { flag, spelled, value });
        break;
    }
    Ok(())
}

/// A long option that was found, with its argument.
fn long<'a>(
    word: &'a str,
    flag: &'static Flag,
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<Item<'a>, UsageError> {
    let (spelled, attached) = match word.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value)),
        None => (word.to_owned(), None),
    };
    let value = match (flag.metavar, attached) {
        (None, None) => "",
        (None, Some(_)) => return Err(UsageError::SurplusArgument { option: spelled }),
        (Some(_), Some(value)) => value,
        (Some(metavar), None) => match words.next() {
            Some(value) => value,
            None => return Err(UsageError::MissingArgument { option: spelled, metavar }),
        },
    };
    Ok(Item::Flag { flag, spelled, value })
}

fn short(letter: char) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.short.contains(&letter))
}

/// Finds a long name, exact or unambiguously cut short. `name` is `word` without its dashes.
fn lookup(word: &str, name: &str) -> Result<&'static Flag, UsageError> {
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    if let Some(flag) = FLAGS.iter().find(|flag| flag.long.contains(&name)) {
        return Ok(flag);
    }
    let matches = |flag: &&Flag| flag.long.iter().any(|long| long.starts_with(name));
    let candidates: Vec<&'static Flag> =
        FLAGS.iter().filter(matches).filter(|_| !name.is_empty()).collect();
    match candidates.as_slice() {
        [flag] => Ok(flag),
        [] => Err(unknown(word, name)),
        several => Err(UsageError::AmbiguousOption {
            option: word.into(),
            candidates: several.iter().map(|flag| flag.spelling()).collect(),
        }),
    }
}

fn unknown(word: &str, name: &str) -> UsageError {
    let names = FLAGS.iter().flat_map(|flag| flag.long.iter().copied());
    UsageError::UnknownOption {
        option: word.split_once('=').map_or(word, |(word, _)| word).into(),
        suggestion: suggest::closest(name, names).map(|name| format!("--{name}")),
    }
}
