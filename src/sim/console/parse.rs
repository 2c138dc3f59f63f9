//! Parser: a line to a command.

use super::ConsoleError;
use super::command::{ConsoleCommand, CounterName, Show, TargetName};
use super::help::COMMANDS;
use super::scan::{Word, words};
use crate::ids::{Guid, Lid};
use crate::sim::faults::Corruption;
use crate::wire::perf::{CounterAttribute, GROUPS};
use std::time::Duration;

/// Largest edit distance of a command that is suggested for an unknown one.
const MAX_EDITS: usize = 2;
/// Longest duration in seconds: one day.
const MAX_DURATION: f64 = 86_400.0;

pub(super) type Parsed<T> = Result<T, ConsoleError>;

/// Parses a line; `None` if it is empty or a comment.
pub(super) fn parse(line: &str) -> Parsed<Option<ConsoleCommand>> {
    let words = words(line)?;
    let Some((first, rest)) = words.split_first() else { return Ok(None) };
    let end = line.trim_end().chars().count() + 1;
    let mut args = Args { rest: rest.iter(), end, command: first };
    let command = args.command()?;
    match args.rest.next() {
        Some(surplus) => Err(surplus.error("unexpected argument")),
        None => Ok(Some(command)),
    }
}

impl Word {
    pub(super) fn error(&self, text: impl Into<String>) -> ConsoleError {
        ConsoleError::new(self.column, text)
    }

    pub(super) fn is(&self, word: &str) -> bool {
        !self.quoted && self.port.is_none() && self.text.eq_ignore_ascii_case(word)
    }

    /// The word with its port number, where it does not name a port.
    fn whole(&self) -> String {
        match self.port {
            Some(port) => format!("{}/{port}", self.text),
            None => self.text.clone(),
        }
    }
}

/// Arguments of a command.
pub(super) struct Args<'a> {
    pub(super) rest: std::slice::Iter<'a, Word>,
    /// Column after the end of the line.
    end: usize,
    command: &'a Word,
}

impl<'a> Args<'a> {
    fn command(&mut self) -> Parsed<ConsoleCommand> {
        let name = self.command.text.to_ascii_lowercase();
        Ok(match name.as_str() {
            "help" | "?" => ConsoleCommand::Help(self.rest.next().map(Word::whole)),
            "show" => ConsoleCommand::Show(self.show()?),
            "link" => self.link()?,
            "unlink" => ConsoleCommand::Unlink(self.target()?),
            "relink" => ConsoleCommand::Relink(self.target()?),
            "clear" => ConsoleCommand::Clear(self.target()?),
            "swap" => ConsoleCommand::Swap(self.target()?, self.target()?),
            "move" => ConsoleCommand::Move(self.target()?, self.target()?),
            "split" => self.split()?,
            "heal" => ConsoleCommand::Heal,
            "flap" => ConsoleCommand::Flap {
                port: self.target()?,
                period: self.duration()?,
                times: self.times()?,
            },
            "training" => ConsoleCommand::Training(self.target()?, self.duration()?),
            "degrade" => self.degrade()?,
            "storm" => self.storm()?,
            "corrupt" => self.corrupt()?,
            "error" => self.error()?,
            "calm" => ConsoleCommand::Calm,
            "repair" => ConsoleCommand::Repair,
            _ => match self.node_command(&name)? {
                Some(command) => command,
                None => match self.transit_command(&name)? {
                    Some(command) => command,
                    None => return self.data_command(&name),
                },
            },
        })
    }

    /// Commands that read or change data of devices, and those of scripts.
    fn data_command(&mut self, name: &str) -> Parsed<ConsoleCommand> {
        Ok(match name {
            "counters" => self.counters()?,
            "inject" => self.inject()?,
            "performanceset" => self.set_counter()?,
            "congestion" => self.congestion()?,
            "vendor" => self.vendor()?,
            "traffic" => self.traffic()?,
            "vport" => self.vport()?,
            "describe" => {
                ConsoleCommand::Describe(self.target()?, self.word("a description")?.whole())
            }
            "guid" => {
                ConsoleCommand::Guid(self.target()?, Guid(self.number(1, u64::MAX, "a GUID")?))
            }
            "baselid" => self.base_lid()?,
            "route" => ConsoleCommand::Route(self.lid()?, self.lid()?),
            "dump" => ConsoleCommand::Dump(self.rest.next().cloned()),
            "random" => ConsoleCommand::Random {
                seed: self.number(0, u64::MAX, "a seed, which is a number")?,
                count: self.number(1, 100_000, "a number of faults from 1 to 100000")?,
            },
            "attached" => ConsoleCommand::Attached,
            "wait" => ConsoleCommand::Wait(self.duration()?),
            "start" => ConsoleCommand::Message("the fabric is running\n"),
            "x" | "verbose" | "quit" => {
                return Err(self.command.error(format!(
                    "'{name}' is a command of ibsim that torus-sm sim does not have"
                )));
            }
            _ => return Err(self.unknown(name)),
        })
    }

    fn unknown(&self, name: &str) -> ConsoleError {
        let hint = match similar_command(name) {
            Some(command) => format!("; did you mean '{command}'?"),
            None => "; 'help' lists all commands".to_owned(),
        };
        self.command.error(format!("unknown command '{}'{hint}", self.command.text))
    }

    pub(super) fn word(&mut self, what: &str) -> Parsed<&'a Word> {
        self.rest.next().ok_or_else(|| ConsoleError::new(self.end, format!("{what} is missing")))
    }

    pub(super) fn target(&mut self) -> Parsed<TargetName> {
        self.word("a node or port").cloned()
    }

    pub(super) fn peek(&self) -> Option<&'a Word> {
        self.rest.as_slice().first()
    }

    fn show(&mut self) -> Parsed<Show> {
        let what = self.word("nodes, links, faults, sma, node or port")?;
        Ok(match what.text.to_ascii_lowercase().as_str() {
            "nodes" => Show::Nodes,
            "links" => Show::Links,
            "faults" => Show::Faults,
            "paths" => Show::Paths,
            "sma" => Show::Sma,
            "node" => Show::Node(self.target()?),
            "port" => Show::Port(self.target()?),
            _ => return Err(what.error("expected nodes, links, faults, paths, sma, node or port")),
        })
    }

    fn link(&mut self) -> Parsed<ConsoleCommand> {
        let port = self.target()?;
        let state = self.word("down, up or another port")?;
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

    fn corrupt(&mut self) -> Parsed<ConsoleCommand> {
        let probability = self.probability()?;
        let which = self.rest.next();
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

    fn error(&mut self) -> Parsed<ConsoleCommand> {
        let at = self.target()?;
        let percent: u8 = self.number(0, 100, "a rate from 0 to 100 percent")?;
        let attr_id = match self.peek() {
            Some(_) => Some(self.number(0, u16::MAX, "an attribute number")?),
            None => None,
        };
        // As in ibsim, attribute 0 means all attributes.
        let attr_id = attr_id.filter(|&id| id != 0);
        Ok(ConsoleCommand::Error { at, probability: f64::from(percent) / 100.0, attr_id })
    }

    fn counters(&mut self) -> Parsed<ConsoleCommand> {
        let first = self.word("show, clear, set or a port")?;
        if first.is("clear") {
            return Ok(ConsoleCommand::CountersClear(self.rest.next().cloned()));
        }
        if first.is("set") {
            return self.set_counter();
        }
        Ok(ConsoleCommand::CountersShow(if first.is("show") {
            self.target()?
        } else {
            first.clone()
        }))
    }

    fn set_counter(&mut self) -> Parsed<ConsoleCommand> {
        let port = self.target()?;
        let word = self.word("a counter and its value")?;
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

    fn inject(&mut self) -> Parsed<ConsoleCommand> {
        let port = self.target()?;
        let word = self.word("a counter")?;
        let counter = counter_name(&word.text).ok_or_else(|| word.error(no_counter(&word.text)))?;
        let value = match self.peek() {
            Some(_) => self.number(0, u64::MAX, "a number of times")?,
            None => 1,
        };
        Ok(ConsoleCommand::CountersSet { port, counter, value, add: true })
    }

    fn base_lid(&mut self) -> Parsed<ConsoleCommand> {
        let port = self.target()?;
        let lid = self.lid()?;
        let lmc = match self.peek() {
            Some(_) => Some(self.number(0, 7, "an LMC from 0 to 7")?),
            None => None,
        };
        Ok(ConsoleCommand::BaseLid(port, lid, lmc))
    }

    fn lid(&mut self) -> Parsed<Lid> {
        self.number(1, Lid::UNICAST_MAX.0, "a LID from 1 to 49151").map(Lid)
    }

    /// A number of times.
    pub(super) fn times(&mut self) -> Parsed<u32> {
        self.number(1, 100_000, "a number of times from 1 to 100000")
    }

    pub(super) fn number<T: TryFrom<u64> + Into<u64> + Copy>(
        &mut self,
        min: T,
        max: T,
        what: &str,
    ) -> Parsed<T> {
        let word = self.word(what)?;
        let value = integer(&word.text).filter(|_| word.port.is_none());
        let value = value.filter(|value| (min.into()..=max.into()).contains(value));
        let value = value.and_then(|value| T::try_from(value).ok());
        value.ok_or_else(|| word.error(format!("expected {what}, not '{}'", word.whole())))
    }

    pub(super) fn probability(&mut self) -> Parsed<f64> {
        let word = self.word("a probability")?;
        let (digits, scale) = match word.text.strip_suffix('%') {
            Some(digits) => (digits, 0.01),
            None => (word.text.as_str(), 1.0),
        };
        let probability =
            decimal(digits).filter(|_| word.port.is_none()).ok_or_else(|| invalid(word))? * scale;
        if probability <= 1.0 { Ok(probability) } else { Err(invalid(word)) }
    }

    pub(super) fn duration(&mut self) -> Parsed<Duration> {
        let word = self.word("a duration")?;
        duration(&word.text).filter(|_| word.port.is_none()).ok_or_else(|| {
            let text = word.whole();
            word.error(format!(
                "'{text}' is not a duration such as 250ms, 1.5s or 2m, of one day at most"
            ))
        })
    }
}

fn invalid(word: &Word) -> ConsoleError {
    word.error(format!("'{}' is not a probability such as 0.25 or 25%", word.whole()))
}

/// Parses a duration such as `50us` or `1.5s`, of one day at most; without a unit in seconds.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let seconds = decimal(digits)? * scale;
    (seconds <= MAX_DURATION).then(|| Duration::from_secs_f64(seconds))
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

/// Parses a decimal or, after `0x`, hexadecimal number.
fn integer(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, radix).ok())?
}

/// Parses a non-negative decimal fraction without exponent.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok())?
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
