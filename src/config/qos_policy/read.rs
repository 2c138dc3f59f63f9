//! Statements → [`QosPolicy`]: sections within sections, names to indexes.

use super::draft::Draft;
use super::statements::{self, FIELDS, LEVEL_FIELDS, SECTIONS, Statement, ULPS};
use super::{Ports, QosLevel, QosPolicy};
use crate::config::piece::Piece;
use crate::config::{Diagnostic, suggest};
use crate::ids::Sl;
use crate::notes::Severity;
use std::path::Path;

/// Name of the level of queries that match no rule.
const DEFAULT: &str = "default";

/// Reads a whole file.
pub(super) fn read(file: &Path, text: &str) -> (QosPolicy, Vec<Diagnostic>) {
    let mut reader = Reader {
        said: Said { file, findings: Vec::new() },
        open: Vec::new(),
        draft: None,
        drafts: Vec::new(),
        simple: Vec::new(),
        simple_default: None,
    };
    statements::statements(text).into_iter().for_each(|statement| reader.take(statement));
    while let Some((name, at)) = reader.open.pop() {
        reader.said.wrong(at, format!("`{name}` has no `end-{name}`"));
    }
    reader.finish()
}

/// What was found so far.
pub(super) struct Said<'a> {
    file: &'a Path,
    findings: Vec<Diagnostic>,
}

impl Said<'_> {
    fn say(&mut self, severity: Severity, line: u32, column: u32, message: String) {
        let file = self.file.to_path_buf();
        self.findings.push(Diagnostic { file, line, column, severity, message });
    }

    /// An error at a place.
    pub(super) fn wrong(&mut self, at: Piece<'_>, message: impl Into<String>) {
        self.say(Severity::Error, at.number, at.column(), message.into());
    }

    /// A warning.
    pub(super) fn odd(&mut self, at: Piece<'_>, message: impl Into<String>) {
        self.say(Severity::Warning, at.number, at.column(), message.into());
    }
}

/// A rule of `qos-ulps`, and its SL.
pub(super) struct Simple {
    /// The rule without its level.
    pub rule: super::MatchRule,
    /// What it gives.
    pub sl: Sl,
}

struct Reader<'a> {
    said: Said<'a>,
    open: Vec<(&'static str, Piece<'a>)>,
    /// The section whose fields are being read.
    draft: Option<Draft<'a>>,
    drafts: Vec<Draft<'a>>,
    simple: Vec<Simple>,
    simple_default: Option<(Sl, u32)>,
}

impl<'a> Reader<'a> {
    fn take(&mut self, statement: Statement<'a>) {
        match statement {
            Statement::Open(name, at) => self.begin(name, at),
            Statement::Close(name, at) => self.end(name, at),
            Statement::Field(name, at, value) => self.field(name, at, &value),
            Statement::Ulp(rule) => self.ulp(rule),
            Statement::Stray(piece) => self.stray(piece),
        }
    }

    fn begin(&mut self, name: &'static str, at: Piece<'a>) {
        let outer = SECTIONS.iter().find(|(known, _)| *known == name).and_then(|(_, outer)| *outer);
        let current = self.open.last().map(|(name, _)| *name);
        if current != outer {
            let place = outer.map_or("outside of other sections".to_owned(), |outer| {
                format!("within `{outer}`")
            });
            let found = match self.open.last() {
                Some((open, begun)) => format!("`{open}` of line {} has not ended", begun.number),
                None => "this is outside of all sections".to_owned(),
            };
            self.said.wrong(at, format!("`{name}` stands {place}; {found}"));
            // Go on as if the sections between had ended.
            while self.open.last().is_some_and(|(open, _)| Some(*open) != outer) {
                self.open.pop();
            }
        }
        self.close_draft();
        self.open.push((name, at));
        self.draft = Draft::of(name, at);
    }

    fn end(&mut self, name: &'static str, at: Piece<'a>) {
        let Some(depth) = self.open.iter().rposition(|(open, _)| *open == name) else {
            self.said.wrong(at, format!("`end-{name}` without a `{name}`"));
            return;
        };
        for (open, begun) in self.open.split_off(depth).into_iter().skip(1) {
            self.said.wrong(begun, format!("`{open}` has no `end-{open}` before `end-{name}`"));
        }
        self.close_draft();
    }

    fn close_draft(&mut self) {
        if let Some(draft) = self.draft.take() {
            draft.check(&mut self.said);
            self.drafts.push(draft);
        }
    }

    fn field(&mut self, name: &'static str, at: Piece<'a>, value: &[Piece<'a>]) {
        let section = self.open.last().map(|(name, _)| *name);
        let known = FIELDS.iter().find(|(field, _)| *field == name);
        let homes = known.map_or(&["qos-match-rule"][..], |(_, homes)| homes);
        let Some(draft) =
            self.draft.as_mut().filter(|_| section.is_some_and(|name| homes.contains(&name)))
        else {
            let homes: Vec<_> = homes.iter().map(|home| format!("`{home}`")).collect();
            let found = section.map_or("not outside of sections".to_owned(), |section| {
                format!("not in `{section}`")
            });
            self.said.wrong(at, format!("`{name}` belongs in {}, {found}", homes.join(" or ")));
            return;
        };
        draft.field(name, at, value, &mut self.said);
    }

    fn ulp(&mut self, text: Piece<'a>) {
        match super::ulps::rule(text, &mut self.said) {
            Some(super::ulps::Ulp::Default(sl)) => {
                if let Some((_, line)) = self.simple_default.replace((sl, text.number)) {
                    self.said.odd(text, format!("the default of line {line} counts no more"));
                }
            }
            Some(super::ulps::Ulp::Rule(rule)) => self.simple.push(*rule),
            None => {}
        }
    }

    fn stray(&mut self, piece: Piece<'a>) {
        let text = piece.text();
        let word = text.split(|c: char| c.is_whitespace() || c == ':').next().unwrap_or(text);
        let section = self.open.last().map(|(name, _)| *name);
        let fields = FIELDS.iter().map(|(name, _)| *name).chain(LEVEL_FIELDS);
        let sections = SECTIONS.iter().map(|(name, _)| *name);
        let plain = word.replace('_', "-");
        let meant = suggest::closest(&plain, fields.chain(sections));
        let hint = match (meant, ULPS.iter().any(|ulp| ulp.eq_ignore_ascii_case(&plain))) {
            (Some(meant), _) => format!("; did you mean `{meant}`?"),
            (None, true) if section.is_none() => {
                "; rules for protocols stand in `qos-ulps`".to_owned()
            }
            _ => String::new(),
        };
        let place = section.map_or("outside of sections".to_owned(), |name| format!("in `{name}`"));
        self.said.wrong(piece, format!("`{word}` is no keyword {place}{hint}"));
    }

    /// Names to indexes, and the default level.
    fn finish(mut self) -> (QosPolicy, Vec<Diagnostic>) {
        self.close_draft();
        let mut policy = QosPolicy::default();
        for draft in &self.drafts {
            match draft {
                Draft::Group(group) => policy.groups.push(group.done.clone()),
                Draft::Level(level) => policy.levels.push(level.done.clone()),
                _ => {}
            }
        }
        self.unique(policy.groups.iter().map(|g| (&*g.name, g.line)).collect(), "port group");
        self.unique(policy.levels.iter().map(|l| (&*l.name, l.line)).collect(), "level");
        for draft in std::mem::take(&mut self.drafts) {
            self.resolve(draft, &mut policy);
        }
        self.default_level(&mut policy);
        for Simple { rule, sl } in std::mem::take(&mut self.simple) {
            let level = simple_level(&mut policy.levels, sl, rule.line);
            policy.rules.push(super::MatchRule { level, ..rule });
        }
        let mut findings = self.said.findings;
        findings.sort_by_key(|found| (found.line, found.column));
        (policy, findings)
    }

    /// A second thing of one name is not reached.
    fn unique(&mut self, names: Vec<(&str, u32)>, what: &str) {
        for (index, (name, line)) in names.iter().enumerate() {
            let earlier = names[..index].iter().find(|(known, _)| is_same(known, name));
            if let Some((_, first)) = earlier.filter(|_| !name.is_empty()) {
                let message = format!(
                    "there is a {what} `{name}` in line {first} already: what names it means that"
                );
                self.said.say(Severity::Warning, *line, 0, message);
            }
        }
    }

    fn resolve(&mut self, draft: Draft<'a>, policy: &mut QosPolicy) {
        match draft {
            Draft::VlArb(scope) => {
                let mut done = scope.done;
                done.groups = self.groups(policy, &scope.groups);
                done.across = self.groups(policy, &scope.across);
                policy.vl_arbitration.push(done);
            }
            Draft::SlToVl(scope) => {
                let mut done = scope.done;
                done.groups = self.groups(policy, &scope.groups);
                done.across = self.groups(policy, &scope.across);
                done.across_from = self.groups(policy, &scope.across_from);
                done.across_to = self.groups(policy, &scope.across_to);
                policy.sl_to_vl.push(done);
            }
            Draft::Rule(rule) => {
                let ports = |groups: Vec<usize>| Ports { groups, ..Ports::default() };
                let mut done = rule.done;
                let sources = self.groups(policy, &rule.sources);
                let destinations = self.groups(policy, &rule.destinations);
                done.source = (!rule.sources.is_empty()).then(|| ports(sources));
                done.destination = (!rule.destinations.is_empty()).then(|| ports(destinations));
                done.level = self.level(policy, rule.level_name, rule.level_number);
                policy.rules.push(done);
            }
            Draft::Group(_) | Draft::Level(_) => {}
        }
    }

    fn groups(&mut self, policy: &QosPolicy, names: &[(String, Piece<'a>)]) -> Vec<usize> {
        let mut found = Vec::new();
        for (name, at) in names {
            let index = policy.groups.iter().position(|group| is_same(&group.name, name));
            match index {
                Some(index) => found.push(index),
                None => {
                    let known = policy.groups.iter().map(|group| &*group.name);
                    let hint = suggest::closest(name, known)
                        .map(|meant| format!("; did you mean `{meant}`?"))
                        .unwrap_or_default();
                    self.said.wrong(*at, format!("there is no port group `{name}`{hint}"));
                }
            }
        }
        found
    }

    fn level(
        &mut self,
        policy: &QosPolicy,
        name: Option<(String, Piece<'a>)>,
        number: Option<(u64, Piece<'a>)>,
    ) -> usize {
        if let Some((name, at)) = name {
            let level = policy.levels.iter().position(|level| is_same(&level.name, &name));
            return level.unwrap_or_else(|| {
                let known = policy.levels.iter().map(|level| &*level.name);
                let hint = suggest::closest(&name, known)
                    .map(|meant| format!("; did you mean `{meant}`?"))
                    .unwrap_or_default();
                self.said.wrong(at, format!("there is no qos-level `{name}`{hint}"));
                0
            });
        }
        let Some((number, at)) = number else { return 0 };
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        if index >= policy.levels.len() {
            let count = policy.levels.len();
            self.said.wrong(
                at,
                format!("there is no qos-level {number}: the file has {count}, counted from 0"),
            );
        }
        index
    }

    /// The level named DEFAULT, that of `qos-ulps`, or, where levels go by number, the first.
    fn default_level(&mut self, policy: &mut QosPolicy) {
        let named = policy.levels.iter().position(|level| is_same(&level.name, DEFAULT));
        let by_number = policy.levels.iter().any(|level| level.name.is_empty());
        policy.default = match (named, self.simple_default) {
            (Some(index), _) => index,
            (None, Some((sl, line))) => simple_level(&mut policy.levels, sl, line),
            (None, None) if by_number => 0,
            (None, None) => {
                let message = "there is no default: write a qos-level named DEFAULT, or `default : \
                               SL` in qos-ulps";
                self.said.say(Severity::Error, 0, 0, message.to_owned());
                0
            }
        };
    }
}

/// The level of `qos-ulps` for an SL, made if there is none yet.
fn simple_level(levels: &mut Vec<QosLevel>, sl: Sl, line: u32) -> usize {
    let level = QosLevel { name: format!("SL {sl} of qos-ulps"), sl, ..QosLevel::default() };
    let known = levels.iter().position(|known| known.name == level.name && known.sl == sl);
    known.unwrap_or_else(|| {
        levels.push(QosLevel { line, ..level });
        levels.len() - 1
    })
}

/// Names are the same whatever their case and blanks.
fn is_same(a: &str, b: &str) -> bool {
    let plain = |text: &str| -> String {
        text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
    };
    plain(a) == plain(b)
}
