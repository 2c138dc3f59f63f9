//! A line → a verb.

use super::ConsoleError;
use super::help::VERBS;
use super::scan::{Word, words};
use super::verb::{CounterName, Name, Show, Verb};
use crate::ids::{Guid, Lid};
use crate::sim::fault::{Corruption, Misbehaviour};
use crate::wire::perf::{GROUPS, Group};
use std::time::Duration;

/// The longest duration: nobody waits longer for a script.
const DAY: f64 = 86_400.0;

type Parsed<T> = Result<T, ConsoleError>;

/// What a line asks for; `None` if there is nothing in it.
pub(super) fn parse(line: &str) -> Parsed<Option<Verb>> {
    let words = words(line)?;
    let Some((first, rest)) = words.split_first() else { return Ok(None) };
    let end = line.trim_end().chars().count() + 1;
    let mut args = Args { rest: rest.iter(), end, verb: first };
    let verb = args.verb()?;
    match args.rest.next() {
        Some(surplus) => Err(surplus.wrong("nothing more is expected here")),
        None => Ok(Some(verb)),
    }
}

impl Word {
    fn wrong(&self, text: impl Into<String>) -> ConsoleError {
        ConsoleError::new(self.column, text)
    }

    fn is(&self, word: &str) -> bool {
        !self.quoted && self.port.is_none() && self.text.eq_ignore_ascii_case(word)
    }

    /// The word as it was, where no port is meant.
    fn whole(&self) -> String {
        match self.port {
            Some(port) => format!("{}/{port}", self.text),
            None => self.text.clone(),
        }
    }
}

/// What follows the verb.
struct Args<'a> {
    rest: std::slice::Iter<'a, Word>,
    /// Column behind the line.
    end: usize,
    verb: &'a Word,
}

impl<'a> Args<'a> {
    fn verb(&mut self) -> Parsed<Verb> {
        let name = self.verb.text.to_ascii_lowercase();
        Ok(match name.as_str() {
            "help" | "?" => Verb::Help(self.rest.next().map(Word::whole)),
            "show" => Verb::Show(self.show()?),
            "link" => self.link()?,
            "unlink" => Verb::Unlink(self.name()?),
            "relink" => Verb::Relink(self.name()?),
            "clear" => Verb::Clear(self.name()?),
            "swap" => Verb::Swap(self.name()?, self.name()?),
            "flap" => Verb::Flap {
                port: self.name()?,
                period: self.duration()?,
                times: self.number(1, 100_000, "how often, 1 to 100000,")?,
            },
            "silent" => Verb::Misbehave(self.name()?, Some(Misbehaviour::Silent)),
            "garbage" => Verb::Misbehave(self.name()?, Some(Misbehaviour::Garbage)),
            "wrong-tid" => Verb::Misbehave(self.name()?, Some(Misbehaviour::WrongTid)),
            "back" => Verb::Misbehave(self.name()?, None),
            "reboot" => Verb::Reboot(self.name()?),
            "loss" | "drop" => self.loss()?,
            "delay" => Verb::Delay(self.duration()?),
            "corrupt" => self.corrupt()?,
            "duplicate" => Verb::Duplicate(self.chance()?),
            "error" => self.error()?,
            "repair" => Verb::Repair,
            _ => return self.verb_of_data(&name),
        })
    }

    fn verb_of_data(&mut self, name: &str) -> Parsed<Verb> {
        Ok(match name {
            "counters" => self.counters()?,
            "inject" => self.inject()?,
            "performanceset" => self.set_counter()?,
            "describe" => Verb::Describe(self.name()?, self.word("a description")?.whole()),
            "guid" => Verb::Guid(self.name()?, Guid(self.number(1, u64::MAX, "a GUID")?)),
            "baselid" => self.base_lid()?,
            "route" => Verb::Route(self.lid()?, self.lid()?),
            "dump" => Verb::Dump(self.rest.next().cloned()),
            "attached" => Verb::Attached,
            "wait" => Verb::Wait(self.duration()?),
            "start" => Verb::Said("the fabric is running\n"),
            "x" | "verbose" | "quit" => {
                return Err(self.verb.wrong(format!(
                    "'{name}' is ibsim's; here programs and the simulator end by themselves"
                )));
            }
            _ => return Err(self.unknown(name)),
        })
    }

    fn unknown(&self, name: &str) -> ConsoleError {
        let near = VERBS.iter().map(|entry| entry.name).find(|verb| {
            let head = |text: &str| text.chars().take(3).collect::<String>();
            head(verb) == head(name)
        });
        let hint = near.map_or_else(|| "; try 'help'".into(), |v| format!("; is it '{v}'?"));
        self.verb.wrong(format!("there is no verb '{}'{hint}", self.verb.text))
    }

    fn word(&mut self, what: &str) -> Parsed<&'a Word> {
        let missing = || ConsoleError::new(self.end, format!("{what} is missing"));
        self.rest.next().ok_or_else(missing)
    }

    fn name(&mut self) -> Parsed<Name> {
        self.word("the name of a node or port").cloned()
    }

    fn peek(&self) -> Option<&'a Word> {
        self.rest.as_slice().first()
    }

    fn show(&mut self) -> Parsed<Show> {
        let what = self.word("nodes, links, faults, node or port")?;
        Ok(match what.text.to_ascii_lowercase().as_str() {
            "nodes" => Show::Nodes,
            "links" => Show::Links,
            "faults" => Show::Faults,
            "node" => Show::Node(self.name()?),
            "port" => Show::Port(self.name()?),
            _ => return Err(what.wrong("nodes, links, faults, node or port can be shown")),
        })
    }

    fn link(&mut self) -> Parsed<Verb> {
        let port = self.name()?;
        let state = self.word("down, up or another port")?;
        Ok(match state {
            word if word.is("down") => Verb::Unlink(port),
            word if word.is("up") => Verb::Relink(port),
            other => Verb::Cable(port, other.clone()),
        })
    }

    fn loss(&mut self) -> Parsed<Verb> {
        let port = if self.rest.len() > 1 { Some(self.name()?) } else { None };
        Ok(Verb::Loss(port, self.chance()?))
    }

    fn corrupt(&mut self) -> Parsed<Verb> {
        let chance = self.chance()?;
        let which = self.rest.next();
        let (mut requests, mut answers) = (chance, chance);
        match which {
            None => {}
            Some(word) if word.is("requests") => answers = 0.0,
            Some(word) if word.is("answers") => requests = 0.0,
            Some(word) => return Err(word.wrong("either requests or answers, or neither word")),
        }
        Ok(Verb::Corrupt(Corruption { requests, answers }))
    }

    fn error(&mut self) -> Parsed<Verb> {
        let at = self.name()?;
        let percent: u8 = self.number(0, 100, "a rate of 0 to 100 percent")?;
        let attr_id = match self.peek() {
            Some(_) => Some(self.number(0, u16::MAX, "an attribute's number")?),
            None => None,
        };
        // As in ibsim, attribute 0 stands for all.
        let attr_id = attr_id.filter(|&id| id != 0);
        Ok(Verb::Error { at, chance: f64::from(percent) / 100.0, attr_id })
    }

    fn counters(&mut self) -> Parsed<Verb> {
        let first = self.word("show, clear, set or a port")?;
        if first.is("clear") {
            return Ok(Verb::CountersClear(self.rest.next().cloned()));
        }
        if first.is("set") {
            return self.set_counter();
        }
        Ok(Verb::CountersShow(if first.is("show") { self.name()? } else { first.clone() }))
    }

    fn set_counter(&mut self) -> Parsed<Verb> {
        let port = self.name()?;
        let word = self.word("a counter and its value")?;
        let text = word.whole();
        let Some((name, value)) = text.split_once('=') else {
            return Err(word.wrong("a counter is set by NAME=VALUE"));
        };
        let column = word.column + name.chars().count() + 1;
        let value = integer(value).ok_or_else(|| {
            ConsoleError::new(column, format!("'{value}' is not a number below 2^64"))
        })?;
        let counter = counter_name(name).ok_or_else(|| word.wrong(no_counter(name)))?;
        Ok(Verb::CountersSet { port, counter, value, add: false })
    }

    fn inject(&mut self) -> Parsed<Verb> {
        let port = self.name()?;
        let word = self.word("a counter")?;
        let counter = counter_name(&word.text).ok_or_else(|| word.wrong(no_counter(&word.text)))?;
        let value = match self.peek() {
            Some(_) => self.number(0, u64::MAX, "how often")?,
            None => 1,
        };
        Ok(Verb::CountersSet { port, counter, value, add: true })
    }

    fn base_lid(&mut self) -> Parsed<Verb> {
        let (port, lid) = (self.name()?, self.lid()?);
        let lmc = match self.peek() {
            Some(_) => Some(self.number(0, 7, "an LMC of 0 to 7")?),
            None => None,
        };
        Ok(Verb::BaseLid(port, lid, lmc))
    }

    fn lid(&mut self) -> Parsed<Lid> {
        self.number(1, Lid::UNICAST_MAX.0, "a LID of 1 to 49151").map(Lid)
    }

    fn number<T: TryFrom<u64> + Into<u64> + Copy>(
        &mut self,
        least: T,
        most: T,
        what: &str,
    ) -> Parsed<T> {
        let word = self.word(what)?;
        let value = integer(&word.text).filter(|_| word.port.is_none());
        let value = value.filter(|value| (least.into()..=most.into()).contains(value));
        let value = value.and_then(|value| T::try_from(value).ok());
        value.ok_or_else(|| word.wrong(format!("{what} is needed, not '{}'", word.whole())))
    }

    fn chance(&mut self) -> Parsed<f64> {
        let word = self.word("a chance")?;
        let wrong = || word.wrong(format!("'{}' is not a chance: 0 to 1, or 25%", word.whole()));
        let (digits, scale) = match word.text.strip_suffix('%') {
            Some(digits) => (digits, 0.01),
            None => (word.text.as_str(), 1.0),
        };
        let chance = decimal(digits).filter(|_| word.port.is_none()).ok_or_else(wrong)? * scale;
        if chance <= 1.0 { Ok(chance) } else { Err(wrong()) }
    }

    fn duration(&mut self) -> Parsed<Duration> {
        let word = self.word("a duration")?;
        let wrong = || {
            let text = word.whole();
            word.wrong(format!(
                "'{text}' is not a duration such as 250ms, 1.5s, 2m (a day at most)"
            ))
        };
        let digits = word.text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let scale = match &word.text[digits.len()..] {
            "us" => 1e-6,
            "ms" => 1e-3,
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        let seconds = decimal(digits).filter(|_| word.port.is_none()).ok_or_else(wrong)? * scale;
        if seconds <= DAY { Ok(Duration::from_secs_f64(seconds)) } else { Err(wrong()) }
    }
}

/// A number in decimal or, after `0x`, in hexadecimal notation.
fn integer(text: &str) -> Option<u64> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((text, 10), |digits| (digits, 16));
    let plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u64::from_str_radix(digits, radix).ok())?
}

/// A number that is not negative, without exponent.
fn decimal(text: &str) -> Option<f64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    plain.then(|| text.parse().ok())?
}

/// `PortXmitData`: wherever there is one. `PortCounters.PortXmitData`: of that attribute.
fn counter_name(name: &str) -> Option<CounterName> {
    let name = name.trim();
    let (groups, name) = match name.split_once('.') {
        Some((group, name)) => (std::slice::from_ref(Group::by_name(group)?), name),
        None => (&GROUPS[..], name),
    };
    let all = groups.iter().flat_map(|group| group.counters.iter().map(move |c| (group, c)));
    let counters: Vec<_> = all.filter(|(_, c)| c.name.eq_ignore_ascii_case(name)).collect();
    (!counters.is_empty()).then_some(CounterName { counters })
}

fn no_counter(name: &str) -> String {
    format!("there is no counter '{name}'; 'show port PORT' lists them")
}
