//! Statements → sections: checks that sections are nested and fields are in the right section.

use super::fields;
use super::policy::MatchRule;
use super::section::PolicySection;
use super::statements::{self, FIELDS, LEVEL_FIELDS, SECTIONS, Statement, ULPS};
use super::ulps::{self, UlpRule};
use crate::config::diagnostic::Diagnostics;
use crate::config::span::Span;
use crate::config::suggest;
use crate::ids::Sl;
use std::ops::RangeInclusive;

/// The contents of a file before names are resolved.
#[derive(Default)]
pub(super) struct Sections<'a> {
    pub sections: Vec<PolicySection<'a>>,
    /// Rules of `qos-ulps` without their levels, and their SLs.
    pub ulp_rules: Vec<(MatchRule, Sl)>,
    /// SL and line of the last `default` in `qos-ulps`.
    pub ulp_default: Option<(Sl, u32)>,
    /// First and last lines of the sections `qos-setup`.
    pub setup_lines: Vec<RangeInclusive<u32>>,
}

/// Reads a whole file.
pub(super) fn read<'a>(text: &'a str, diagnostics: &mut Diagnostics<'_>) -> Sections<'a> {
    let mut reader = PolicyReader {
        diagnostics,
        open: Vec::new(),
        section: None,
        sections: Sections::default(),
    };
    statements::statements(text).into_iter().for_each(|statement| reader.statement(statement));
    while let Some((name, at)) = reader.open.pop() {
        reader.diagnostics.error(at, format!("`{name}` has no `end-{name}`"));
    }
    reader.finish_section();
    reader.sections
}

struct PolicyReader<'a, 'd, 'f> {
    diagnostics: &'d mut Diagnostics<'f>,
    /// Sections that have not ended, outermost first.
    open: Vec<(&'static str, Span<'a>)>,
    /// The section whose fields are being read.
    section: Option<PolicySection<'a>>,
    sections: Sections<'a>,
}

impl<'a> PolicyReader<'a, '_, '_> {
    fn statement(&mut self, statement: Statement<'a>) {
        match statement {
            Statement::Open(name, at) => self.begin(name, at),
            Statement::Close(name, at) => self.end(name, at),
            Statement::Field(name, at, value) => self.field(name, at, &value),
            Statement::Ulp(rule) => self.ulp(rule),
            Statement::Stray(text) => self.stray(text),
        }
    }

    fn begin(&mut self, name: &'static str, at: Span<'a>) {
        let outer = SECTIONS.iter().find(|(known, _)| *known == name).and_then(|(_, outer)| *outer);
        let current = self.open.last().map(|(name, _)| *name);
        if current != outer {
            self.misplaced_section(name, at, outer);
            // Continue as if the sections between had ended.
            while self.open.last().is_some_and(|(open, _)| Some(*open) != outer) {
                self.open.pop();
            }
        }
        self.finish_section();
        self.open.push((name, at));
        self.section = PolicySection::open(name, at);
    }

    fn misplaced_section(&mut self, name: &str, at: Span<'_>, outer: Option<&str>) {
        let place = outer
            .map_or("outside of other sections".to_owned(), |outer| format!("within `{outer}`"));
        let found = match self.open.last() {
            Some((open, begin)) => format!("`{open}` of line {} has not ended", begin.line),
            None => "this is outside of all sections".to_owned(),
        };
        self.diagnostics.error(at, format!("`{name}` belongs {place}; {found}"));
    }

    fn end(&mut self, name: &'static str, at: Span<'a>) {
        let Some(depth) = self.open.iter().rposition(|(open, _)| *open == name) else {
            self.diagnostics.error(at, format!("`end-{name}` without a `{name}`"));
            return;
        };
        let ended = self.open.split_off(depth);
        // In a file of one line, the errors of sections cannot be told apart.
        if name == "qos-setup" && ended[0].1.line < at.line {
            self.sections.setup_lines.push(ended[0].1.line..=at.line);
        }
        for (open, begin) in ended.into_iter().skip(1) {
            self.diagnostics
                .error(begin, format!("`{open}` has no `end-{open}` before `end-{name}`"));
        }
        self.finish_section();
    }

    fn finish_section(&mut self) {
        if let Some(section) = self.section.take() {
            section.check_complete(self.diagnostics);
            self.sections.sections.push(section);
        }
    }

    fn field(&mut self, name: &'static str, at: Span<'a>, value: &[Span<'a>]) {
        let current = self.open.last().map(|(name, _)| *name);
        let known = FIELDS.iter().find(|(field, _)| *field == name);
        let allowed = known.map_or(&["qos-match-rule"][..], |(_, sections)| sections);
        let is_allowed = current.is_some_and(|name| allowed.contains(&name));
        match self.section.as_mut().filter(|_| is_allowed) {
            Some(section) => fields::set(section, name, at, value, self.diagnostics),
            None => {
                let allowed: Vec<_> = allowed.iter().map(|name| format!("`{name}`")).collect();
                let found = current.map_or("not outside of sections".to_owned(), |section| {
                    format!("not in `{section}`")
                });
                let allowed = allowed.join(" or ");
                self.diagnostics.error(at, format!("`{name}` belongs in {allowed}, {found}"));
            }
        }
    }

    fn ulp(&mut self, text: Span<'a>) {
        match ulps::rule(text, self.diagnostics) {
            Some(UlpRule::Default(sl)) => {
                if let Some((_, line)) = self.sections.ulp_default.replace((sl, text.line)) {
                    let message = format!("this default replaces the one in line {line}");
                    self.diagnostics.warning(text, message);
                }
            }
            Some(UlpRule::Match(rule, sl)) => self.sections.ulp_rules.push((*rule, sl)),
            None => {}
        }
    }

    fn stray(&mut self, text: Span<'a>) {
        let word = text.text();
        let word = word.split(|c: char| c.is_whitespace() || c == ':').next().unwrap_or(word);
        let section = self.open.last().map(|(name, _)| *name);
        let fields = FIELDS.iter().map(|(name, _)| *name).chain(LEVEL_FIELDS);
        let sections = SECTIONS.iter().map(|(name, _)| *name);
        let dashed = word.replace('_', "-");
        let value = text.text()[word.len()..].trim();
        let mut known = FIELDS.iter().map(|(name, _)| *name).chain(LEVEL_FIELDS);
        if let Some(field) = known.find(|field| field.eq_ignore_ascii_case(&dashed))
            && !value.starts_with(':')
        {
            let message = format!("a colon is missing after `{word}`: write `{field}: {value}`");
            self.diagnostics.error(text, message);
            return;
        }
        let is_ulp = ULPS.iter().any(|ulp| ulp.eq_ignore_ascii_case(&dashed));
        let mut hint = suggest::did_you_mean(&dashed, fields.chain(sections));
        if hint.is_empty() && is_ulp && section.is_none() {
            "; rules for protocols belong in `qos-ulps`".clone_into(&mut hint);
        }
        let place = section.map_or("outside of sections".to_owned(), |name| format!("in `{name}`"));
        self.diagnostics.error(text, format!("`{word}` is not a keyword {place}{hint}"));
    }
}
