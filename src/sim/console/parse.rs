//! Parser: a line to a command.

use super::ConsoleError;
use super::args::{Args, Parsed, integer};
use super::command::{ConsoleCommand, CounterName, Show};
use super::help::COMMANDS;
use super::scan::{Word, words};
use super::{congestion, parse_faults, traffic, vendor, vports};
use crate::ids::Guid;
use crate::sim::faults::Corruption;
use crate::wire::perf::{CounterAttribute, GROUPS};

/// Largest edit distance of a command that is suggested for an unknown one.
const MAX_EDITS: usize = 2;
/// Parses a line; `None` if it is empty or a comment.
pub(super) fn parse(line: &str) -> Parsed<Option<ConsoleCommand>> {
    let words = words(line)?;
    let Some((first, rest)) = words.split_first() else { return Ok(None) };
    let end = line.trim_end().chars().count() + 1;
    let mut args = Args { rest: rest.iter(), end, command: first };
    let command = command(&mut args)?;
    match args.rest.next() {
        Some(surplus) => Err(surplus.error("unexpected argument")),
        None => Ok(Some(command)),
    }
}

fn command(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let name = args.command.text.to_ascii_lowercase();
    Ok(match name.as_str() {
        "help" | "?" => ConsoleCommand::Help(args.rest.next().map(Word::whole)),
        "show" => ConsoleCommand::Show(show(args)?),
        "link" => link(args)?,
        "unlink" => ConsoleCommand::Unlink(args.target()?),
        "relink" => ConsoleCommand::Relink(args.target()?),
        "clear" => ConsoleCommand::Clear(args.target()?),
        "swap" => ConsoleCommand::Swap(args.target()?, args.target()?),
        "move" => ConsoleCommand::Move(args.target()?, args.target()?),
        "split" => parse_faults::split(args)?,
        "heal" => ConsoleCommand::Heal,
        "flap" => ConsoleCommand::Flap {
            port: args.target()?,
            period: args.duration()?,
            times: args.times()?,
        },
        "training" => ConsoleCommand::Training(args.target()?, args.duration()?),
        "degrade" => parse_faults::degrade(args)?,
        "storm" => parse_faults::storm(args)?,
        "corrupt" => corrupt(args)?,
        "error" => error(args)?,
        "calm" => ConsoleCommand::Calm,
        "repair" => ConsoleCommand::Repair,
        _ => match parse_faults::node_command(args, &name)? {
            Some(command) => command,
            None => match parse_faults::transit_command(args, &name)? {
                Some(command) => command,
                None => return data_command(args, &name),
            },
        },
    })
}

/// Commands that read or change data of devices, and those of scripts.
fn data_command(args: &mut Args<'_>, name: &str) -> Parsed<ConsoleCommand> {
    Ok(match name {
        "counters" => counters(args)?,
        "inject" => inject(args)?,
        "performanceset" => set_counter(args)?,
        "congestion" => congestion::parse(args)?,
        "vendor" => vendor::parse(args)?,
        "traffic" => traffic::parse(args)?,
        "vport" => vports::parse(args)?,
        "describe" => ConsoleCommand::Describe(args.target()?, args.word("a description")?.whole()),
        "guid" => ConsoleCommand::Guid(args.target()?, Guid(args.number(1, u64::MAX, "a GUID")?)),
        "baselid" => base_lid(args)?,
        "route" => ConsoleCommand::Route(args.lid()?, args.lid()?),
        "dump" => ConsoleCommand::Dump(args.rest.next().cloned()),
        "random" => ConsoleCommand::Random {
            seed: args.number(0, u64::MAX, "a seed, which is a number")?,
            count: args.number(1, 100_000, "a number of faults from 1 to 100000")?,
        },
        "attached" => ConsoleCommand::Attached,
        "wait" => ConsoleCommand::Wait(args.duration()?),
        "start" => ConsoleCommand::Message("the fabric is running\n"),
        "x" | "verbose" | "quit" => {
            return Err(args
                .command
                .error(format!("'{name}' is a command of ibsim that torus-sm sim does not have")));
        }
        _ => return Err(unknown(args, name)),
    })
}

fn unknown(args: &Args<'_>, name: &str) -> ConsoleError {
    let hint = match similar_command(name) {
        Some(command) => format!("; did you mean '{command}'?"),
        None => "; 'help' lists all commands".to_owned(),
    };
    args.command.error(format!("unknown command '{}'{hint}", args.command.text))
}

fn show(args: &mut Args<'_>) -> Parsed<Show> {
    let what = args.word("nodes, links, faults, sma, node or port")?;
    Ok(match what.text.to_ascii_lowercase().as_str() {
        "nodes" => Show::Nodes,
        "links" => Show::Links,
        "faults" => Show::Faults,
        "paths" => Show::Paths,
        "sma" => Show::Sma,
        "node" => Show::Node(args.target()?),
        "port" => Show::Port(args.target()?),
        _ => return Err(what.error("expected nodes, links, faults, paths, sma, node or port")),
    })
}

fn link(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let port = args.target()?;
    let state = args.word("down, up or another port")?;
    Ok(match state {
        word if word.is("down") => ConsoleCommand::LinkDown(port),
        word if word.is("up") => ConsoleCommand::LinkUp(port),
        other if is_misspelt_down(other) => {
            let text = format!("'{}' is not a state; did you mean 'down'?", other.text);
            return Err(other.error(text));
        }
        other => ConsoleCommand::Connect(port, other.clone()),
    })
}

fn corrupt(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let probability = args.probability()?;
    let which = args.rest.next();
    let mut requests = probability;
    let mut responses = probability;
    match which {
        None => {}
        Some(word) if word.is("requests") => responses = 0.0,
        Some(word) if word.is("responses") || word.is("answers") => requests = 0.0,
        Some(word) => return Err(word.error("expected requests or responses")),
    }
    Ok(ConsoleCommand::Corrupt(Corruption { requests, responses }))
}

fn error(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let at = args.target()?;
    let percent: u8 = args.number(0, 100, "a rate from 0 to 100 percent")?;
    let attr_id = match args.peek() {
        Some(_) => Some(args.number(0, u16::MAX, "an attribute number")?),
        None => None,
    };
    // As in ibsim, attribute 0 means all attributes.
    let attr_id = attr_id.filter(|&id| id != 0);
    Ok(ConsoleCommand::Error { at, probability: f64::from(percent) / 100.0, attr_id })
}

fn counters(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let first = args.word("show, clear, set or a port")?;
    if first.is("clear") {
        return Ok(ConsoleCommand::CountersClear(args.rest.next().cloned()));
    }
    if first.is("set") {
        return set_counter(args);
    }
    Ok(ConsoleCommand::CountersShow(if first.is("show") { args.target()? } else { first.clone() }))
}

fn set_counter(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let port = args.target()?;
    let word = args.word("a counter and its value")?;
    let text = word.whole();
    let Some((name, value)) = text.split_once('=') else {
        return Err(word.error("expected NAME=VALUE"));
    };
    let column = word.column + name.chars().count() + 1;
    let value = integer(value).ok_or_else(|| {
        ConsoleError::new(column, format!("'{value}' is not a number below 2^64"))
    })?;
    let counter = counter_name(name).ok_or_else(|| word.error(no_counter(name)))?;
    Ok(ConsoleCommand::CountersSet { port, counter, value, add: false })
}

fn inject(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let port = args.target()?;
    let word = args.word("a counter")?;
    let counter = counter_name(&word.text).ok_or_else(|| word.error(no_counter(&word.text)))?;
    let value = match args.peek() {
        Some(_) => args.number(0, u64::MAX, "a number of times")?,
        None => 1,
    };
    Ok(ConsoleCommand::CountersSet { port, counter, value, add: true })
}

fn base_lid(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let port = args.target()?;
    let lid = args.lid()?;
    let lmc = match args.peek() {
        Some(_) => Some(args.number(0, 7, "an LMC from 0 to 7")?),
        None => None,
    };
    Ok(ConsoleCommand::BaseLid(port, lid, lmc))
}

fn is_misspelt_down(word: &Word) -> bool {
    word.port.is_none() && strsim::osa_distance(&word.text, "down") == 1
}

/// The command whose name is closest to `name`, at an edit distance of at most [`MAX_EDITS`], or
/// that begins with `name`.
fn similar_command(name: &str) -> Option<&'static str> {
    let mut names = COMMANDS.iter().map(|entry| entry.name);
    let closest = names.clone().min_by_key(|command| distance(command, name));
    let closest =
        closest.filter(|command| distance(command, name) <= MAX_EDITS && name.len() > MAX_EDITS);
    closest.or_else(|| names.find(|command| command.starts_with(name)))
}

fn distance(command: &str, name: &str) -> usize {
    strsim::osa_distance(command, name)
}

/// Parses `PortXmitData`, the counters of this name in all attributes, or
/// `PortCounters.PortXmitData`, the counter of one attribute.
fn counter_name(name: &str) -> Option<CounterName> {
    let name = name.trim();
    let (groups, name) = match name.split_once('.') {
        Some((group, name)) => (std::slice::from_ref(CounterAttribute::by_name(group)?), name),
        None => (&GROUPS[..], name),
    };
    let all = groups.iter().flat_map(|group| group.counters.iter().map(move |c| (group, c)));
    let counters: Vec<_> = all.filter(|(_, c)| c.name.eq_ignore_ascii_case(name)).collect();
    (!counters.is_empty()).then_some(CounterName { counters })
}

fn no_counter(name: &str) -> String {
    format!("there is no counter '{name}'; 'show port PORT' lists them")
}
