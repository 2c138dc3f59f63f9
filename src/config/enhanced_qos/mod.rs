//! `enhanced_qos_policy_file`: rate limits of SLs, for ports and virtual ports (MLNX OpenSM, "Enhanced
//! QoS").
//!
//! ```text
//! BW_NAMES
//! slow = 50                                  # 1 Mb/s; 0 is no limit
//! BW_RULES
//! default = all:slow
//! 0x2c90000000025 = 5:slow, SL7:slow         # a port GUID, or the name of a port group
//! VPORT_BW_RULES
//! 0x2c90000000026 = all:slow
//! ```
//!
//! A rule ends with its line, unless the line ends with a comma. `#` starts a comment; lines of
//! dashes, which frame the manual's example, are skipped. Names may be defined after their use.
//! A file with errors is not used at all.

mod read;

pub use read::{policy_path, read_from};

use super::diagnostic::Diagnostics;
use super::literal::{guid, number, quoted};
use super::routing_chain::port_groups::{self, ChainPortGroup, GroupRef};
use super::span::Span;
use super::{Diagnostic, suggest};
use crate::ids::Guid;
use crate::notes::Severity;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Number of SLs.
pub const SLS: usize = 16;
/// The largest rate limit in Mb/s: devices have 20 bits for it.
pub const MAX_RATE: u32 = (1 << 20) - 1;

/// Rate limits in Mb/s by SL; 0 is no limit.
pub type RateLimits = [u32; SLS];

/// The contents of the file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EnhancedQos {
    /// The groups to which [`RateSubject::Group`] refers.
    pub groups: Vec<ChainPortGroup>,
    /// Rules of physical ports.
    pub ports: Vec<RateRule>,
    /// Rules of virtual ports, without groups.
    pub vports: Vec<RateRule>,
}

/// The ports of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RateSubject {
    Guid(Guid),
    Group(GroupRef),
    /// All SLs that no other rule names.
    Default,
}

/// A rule: limits of SLs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateRule {
    pub subject: RateSubject,
    pub line: u32,
    /// The limit of the SLs that have none of their own.
    pub all: Option<u32>,
    pub by_sl: [Option<u32>; SLS],
}

impl RateRule {
    /// The limit of an SL; `None` if the rule does not name it.
    pub fn limit(&self, sl: usize) -> Option<u32> {
        self.by_sl.get(sl).copied().flatten().or(self.all)
    }
}

/// The rule for all ports without one.
pub fn default_rule(rules: &[RateRule]) -> Option<&RateRule> {
    rules.iter().find(|rule| rule.subject == RateSubject::Default)
}

/// The limits of a port to which `rule` applies: SLs that the rule does not name have those of the
/// default rule, if `default` is one, else none.
pub fn limits(rule: Option<&RateRule>, default: Option<&RateRule>) -> RateLimits {
    std::array::from_fn(|sl| {
        let own = rule.and_then(|rule| rule.limit(sl));
        own.or_else(|| default.and_then(|default| default.limit(sl))).unwrap_or(0)
    })
}

/// What selects the limits of a virtual port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitedVport {
    pub guid: Guid,
    /// The virtual port has index 0: it is the interface of the physical port.
    pub is_first: bool,
}

impl EnhancedQos {
    /// The limits of a virtual port. With `is_first_unlimited`
    /// (`enhanced_qos_vport0_unlimit_default_rl`) that of index 0 has only those of its own rule.
    pub fn vport_limits(&self, port: LimitedVport, is_first_unlimited: bool) -> RateLimits {
        let own = self.vports.iter().find(|rule| rule.subject == RateSubject::Guid(port.guid));
        let default = default_rule(&self.vports).filter(|_| !(port.is_first && is_first_unlimited));
        limits(own, default)
    }
}

/// The sections.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LimitSection {
    Names,
    Rules,
    VportRules,
}

const SECTIONS: [(&str, LimitSection); 3] = [
    ("BW_NAMES", LimitSection::Names),
    ("BW_RULES", LimitSection::Rules),
    ("VPORT_BW_RULES", LimitSection::VportRules),
];

/// The SLs of an item.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ItemSl {
    One(usize),
    All,
}

/// A rule whose bandwidth names are not resolved.
struct RawRule<'a> {
    subject: RateSubject,
    section: LimitSection,
    line: u32,
    items: Vec<(ItemSl, Span<'a>)>,
}

/// Parses the text of `file`, in which `groups` may be named. `None` if a diagnostic is an error.
pub fn parse(
    file: &Path,
    text: &str,
    groups: &[ChainPortGroup],
) -> (Option<EnhancedQos>, Vec<Diagnostic>) {
    let mut parser = LimitParser {
        diagnostics: Diagnostics::new(file),
        groups,
        section: None,
        seen: BTreeSet::new(),
        names: BTreeMap::new(),
        rules: Vec::new(),
        is_continued: false,
        skips: false,
    };
    for (line, number) in text.lines().zip(1..) {
        parser.line(Span::new(line, number).split_once('#').0.trim());
    }
    let policy = parser.resolve();
    let found = parser.diagnostics.into_sorted();
    let is_valid = !found.iter().any(|found| found.severity == Severity::Error);
    (is_valid.then_some(policy), found)
}

struct LimitParser<'a, 'g> {
    diagnostics: Diagnostics<'a>,
    groups: &'g [ChainPortGroup],
    section: Option<LimitSection>,
    seen: BTreeSet<LimitSection>,
    /// Bandwidths by name, with the place of the definition.
    names: BTreeMap<&'a str, (u32, Span<'a>)>,
    rules: Vec<RawRule<'a>>,
    /// The last line ended with a comma: its rule goes on.
    is_continued: bool,
    /// The rule that goes on is faulty.
    skips: bool,
}

impl<'a> LimitParser<'a, '_> {
    /// Parses a line without comment and outer blanks.
    fn line(&mut self, line: Span<'a>) {
        let text = line.text();
        if text.is_empty() || text.bytes().all(|byte| byte == b'-') {
            return;
        }
        if self.is_continued {
            return self.items(line);
        }
        if let Some(&(_, section)) = SECTIONS.iter().find(|(word, _)| *word == text) {
            if !self.seen.insert(section) {
                self.diagnostics.warning(line, format!("a second section {text}: it is added"));
            }
            self.section = Some(section);
            return;
        }
        let (name, value) = line.assignment();
        let Some(value) = value else { return self.no_assignment(line) };
        if value.is_empty() {
            self.diagnostics.error(value, "nothing follows `=`");
            return;
        }
        match self.section {
            None => self.diagnostics.error(
                line,
                "text before the first section; expected BW_NAMES, BW_RULES or VPORT_BW_RULES",
            ),
            Some(LimitSection::Names) => self.name(name, value),
            Some(section) => self.rule(section, name, value),
        }
    }

    fn no_assignment(&mut self, line: Span<'a>) {
        let text = line.text();
        if text.contains(char::is_whitespace) {
            return self.diagnostics.error(line, "expected a section, or NAME = VALUE");
        }
        let hint = suggest::did_you_mean(text, SECTIONS.map(|(word, _)| word));
        self.diagnostics.error(line, format!("{} is no section{hint}", quoted(text)));
    }

    fn name(&mut self, name: Span<'a>, value: Span<'a>) {
        if name.is_empty() || name.text().contains([' ', '\t', ':', ',']) {
            return self.diagnostics.error(name, "expected the name of a bandwidth before `=`");
        }
        let rate = number(value.text()).and_then(|rate| u32::try_from(rate).ok());
        let Some(rate) = rate.filter(|&rate| rate <= MAX_RATE) else {
            let message = format!(
                "a rate limit is a number of Mb/s from 0 to {MAX_RATE}, not {}",
                quoted(value.text())
            );
            return self.diagnostics.error(value, message);
        };
        if let Some((_, first)) = self.names.get(name.text()) {
            let message =
                format!("{} is defined in line {} already", quoted(name.text()), first.line);
            return self.diagnostics.error(name, message);
        }
        self.names.insert(name.text(), (rate, name));
    }

    fn rule(&mut self, section: LimitSection, name: Span<'a>, value: Span<'a>) {
        let subject = self.subject(section, name);
        let is_twice =
            |rule: &RawRule<'_>| rule.section == section && Some(rule.subject) == subject;
        let earlier = self.rules.iter().find(|rule| is_twice(rule)).map(|rule| rule.line);
        if let Some(line) = earlier {
            let text = format!("{} has a rule in line {line} already", quoted(name.text()));
            self.diagnostics.error(name, text);
        }
        self.skips = subject.is_none();
        if let Some(subject) = subject {
            self.rules.push(RawRule { subject, section, line: name.line, items: Vec::new() });
        }
        self.items(value);
    }

    fn subject(&mut self, section: LimitSection, name: Span<'a>) -> Option<RateSubject> {
        let text = name.text();
        if text.eq_ignore_ascii_case("default") {
            return Some(RateSubject::Default);
        }
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return match guid(text) {
                Ok(guid) => Some(RateSubject::Guid(guid)),
                Err(problem) => {
                    self.diagnostics.error(name, problem);
                    None
                }
            };
        }
        if text.is_empty() {
            self.diagnostics.error(name, "expected a GUID, a port group or default before `=`");
            return None;
        }
        if section == LimitSection::VportRules {
            let text = format!(
                "{} is no GUID: virtual ports have no groups; expected a GUID or default",
                quoted(text)
            );
            self.diagnostics.error(name, text);
            return None;
        }
        let group = port_groups::find(self.groups, text);
        if group.is_none() {
            let names = self.groups.iter().map(|group| group.name.as_str());
            let known = ["default", "ALL", "ALL_CAS", "ALL_SWITCHES", "ALL_ROUTERS"];
            let hint = suggest::did_you_mean(text, names.chain(known));
            let text =
                format!("{} is no GUID, and no port group of pgrp_policy_file{hint}", quoted(text));
            self.diagnostics.error(name, text);
        }
        group.map(RateSubject::Group)
    }

    /// Adds the items of a line to the last rule.
    fn items(&mut self, line: Span<'a>) {
        let items: Vec<Span<'a>> = line.items().collect();
        self.is_continued = items.last().is_some_and(Span::is_empty);
        let count = items.len() - usize::from(self.is_continued);
        for item in items.into_iter().take(count) {
            self.item(item);
        }
    }

    fn item(&mut self, item: Span<'a>) {
        let (sl, name) = item.split_once(':');
        let Some(name) = name.map(|name| name.trim()) else {
            let message = format!("expected SL:BANDWIDTH, not {}", quoted(item.text()));
            return self.diagnostics.error(item, message);
        };
        let sl = sl.trim();
        let digits = match sl.text().get(..2) {
            Some(prefix) if prefix.eq_ignore_ascii_case("SL") => sl.split_at(2).1,
            _ => sl,
        };
        let parsed = match digits.text() {
            text if text.eq_ignore_ascii_case("all") => Some(ItemSl::All),
            text => number(text)
                .and_then(|number| usize::try_from(number).ok())
                .filter(|&number| number < SLS)
                .map(ItemSl::One),
        };
        let Some(parsed) = parsed else {
            let message =
                format!("an SL is a number from 0 to 15, or all, not {}", quoted(sl.text()));
            return self.diagnostics.error(sl, message);
        };
        let Some(rule) = self.rules.last_mut().filter(|_| !self.skips) else { return };
        if rule.items.iter().any(|(known, _)| *known == parsed) {
            let message = format!("{} stands in this rule twice", quoted(sl.text()));
            return self.diagnostics.error(sl, message);
        }
        rule.items.push((parsed, name));
    }

    /// The rules with the rates of their names.
    fn resolve(&mut self) -> EnhancedQos {
        let mut policy = EnhancedQos { groups: self.groups.to_vec(), ..EnhancedQos::default() };
        let mut used = BTreeSet::new();
        for raw in &self.rules {
            let RawRule { subject, section, line, items } = raw;
            let mut rule =
                RateRule { subject: *subject, line: *line, all: None, by_sl: [None; SLS] };
            for (sl, name) in items {
                used.insert(name.text());
                let Some(&(rate, _)) = self.names.get(name.text()) else {
                    let hint = suggest::did_you_mean(name.text(), self.names.keys().copied());
                    let message = format!("there is no bandwidth {}{hint}", quoted(name.text()));
                    self.diagnostics.error(*name, message);
                    continue;
                };
                match sl {
                    ItemSl::All => rule.all = Some(rate),
                    ItemSl::One(sl) => rule.by_sl[*sl] = Some(rate),
                }
            }
            match section {
                LimitSection::VportRules => policy.vports.push(rule),
                LimitSection::Names | LimitSection::Rules => policy.ports.push(rule),
            }
        }
        for (name, (_, at)) in self.names.iter().filter(|(name, _)| !used.contains(*name)) {
            self.diagnostics.warning(*at, format!("bandwidth {} is not used", quoted(name)));
        }
        policy
    }
}

#[cfg(test)]
mod tests;
