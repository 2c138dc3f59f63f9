//! Paragraphs with qualifiers: the common syntax of the policy files.

use crate::config::diagnostic::Diagnostics;
use crate::config::span::Span;
use crate::config::suggest;
use crate::config::text_file::without_comment;

/// The keywords of a file.
pub(super) struct Grammar {
    /// The keyword that begins a paragraph.
    pub(super) section: &'static str,
    pub(super) qualifiers: &'static [&'static str],
    /// Qualifiers that a paragraph may repeat.
    pub(super) repeatable: &'static [&'static str],
    /// Qualifiers whose values may have a colon.
    pub(super) with_colon: &'static [&'static str],
}

/// A paragraph, in the order of the file.
pub(super) struct Paragraph<'a> {
    /// Its first keyword.
    pub(super) at: Span<'a>,
    pub(super) qualifiers: Vec<Qualifier<'a>>,
}

/// A qualifier with a value.
pub(super) struct Qualifier<'a> {
    pub(super) name: &'static str,
    /// The keyword.
    pub(super) at: Span<'a>,
    /// The value, one part for each line; at least one.
    pub(super) value: Vec<Span<'a>>,
}

impl<'a> Qualifier<'a> {
    /// The value of a qualifier that has a single word or line.
    pub(super) fn single(&self) -> Span<'a> {
        self.value.first().copied().unwrap_or(self.at.after())
    }

    /// The items of a list separated by commas, over all lines, without empty ones at the ends of
    /// lines.
    pub(super) fn items(&self) -> Vec<Span<'a>> {
        let last = self.value.len().saturating_sub(1);
        let lines = self.value.iter().enumerate().flat_map(|(line, part)| {
            let items: Vec<Span<'a>> = part.items().collect();
            let count = items.len();
            items.into_iter().enumerate().filter_map(move |(index, item)| {
                let is_seam = (index == 0 && line > 0) || (index + 1 == count && line < last);
                (!item.is_empty() || !is_seam).then_some(item)
            })
        });
        lines.collect()
    }
}

impl<'a> Paragraph<'a> {
    /// The first value of a qualifier.
    pub(super) fn find(&self, name: &str) -> Option<Span<'a>> {
        self.qualifiers.iter().find(|qualifier| qualifier.name == name).map(Qualifier::single)
    }

    /// The value of a qualifier that every paragraph must have.
    pub(super) fn required(
        &self,
        name: &str,
        section: &str,
        diagnostics: &mut Diagnostics<'_>,
    ) -> Option<Span<'a>> {
        let value = self.find(name);
        if value.is_none() {
            diagnostics.error(self.at, format!("this `{section}` has no `{name}:`"));
        }
        value
    }

    /// The text of an optional description.
    pub(super) fn usage(&self) -> String {
        self.find("use").map_or_else(String::new, |usage| usage.text().to_owned())
    }
}

/// Reads all paragraphs of a file.
pub(super) fn paragraphs<'a>(
    text: &'a str,
    grammar: &Grammar,
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<Paragraph<'a>> {
    let mut reader = ParagraphReader { grammar, diagnostics, open: None, done: Vec::new() };
    for (line, number) in text.lines().zip(1..) {
        let code = without_comment(line);
        reader.line(Span::new(code, number));
    }
    reader.end_of_file();
    reader.done
}

/// A keyword at the beginning of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keyword {
    Begin,
    End,
    Qualifier(&'static str),
}

impl Grammar {
    /// The keyword at the beginning of `text`, and its length in bytes.
    fn keyword(&self, text: &str) -> Option<(Keyword, usize)> {
        let end = text.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(text.len());
        let (word, after) = text.split_at(end);
        if !after.trim_start().starts_with(':') {
            let is_end = word.strip_prefix("end-") == Some(self.section);
            let keyword = if is_end { Keyword::End } else { Keyword::Begin };
            return (is_end || word == self.section).then_some((keyword, end));
        }
        let name = self.qualifiers.iter().find(|name| name.eq_ignore_ascii_case(word))?;
        Some((Keyword::Qualifier(name), end))
    }

    /// Length of a value in bytes: it ends before the next keyword.
    fn extent(&self, value: &str) -> usize {
        let mut before = ' ';
        for (at, c) in value.char_indices() {
            let starts_word = before.is_whitespace() && !c.is_whitespace();
            if starts_word && self.keyword(&value[at..]).is_some() {
                return at;
            }
            before = c;
        }
        value.len()
    }
}

struct ParagraphReader<'a, 'g, 'd, 'f> {
    grammar: &'g Grammar,
    diagnostics: &'d mut Diagnostics<'f>,
    open: Option<Paragraph<'a>>,
    done: Vec<Paragraph<'a>>,
}

impl<'a> ParagraphReader<'a, '_, '_, '_> {
    fn line(&mut self, line: Span<'a>) {
        let mut rest = line.trim();
        while !rest.is_empty() {
            rest = self.statement(rest).trim();
        }
    }

    /// Reads one statement and returns the rest of the line.
    fn statement(&mut self, text: Span<'a>) -> Span<'a> {
        match self.grammar.keyword(text.text()) {
            Some((Keyword::Begin, length)) => {
                let (at, rest) = text.split_at(length);
                self.finish(Some(at));
                self.open = Some(Paragraph { at, qualifiers: Vec::new() });
                rest
            }
            Some((Keyword::End, length)) => {
                let (at, rest) = text.split_at(length);
                if self.open.is_none() {
                    let section = self.grammar.section;
                    self.diagnostics.error(at, format!("`end-{section}` without a `{section}`"));
                }
                self.done.extend(self.open.take());
                rest
            }
            Some((Keyword::Qualifier(name), length)) => {
                let (at, rest) = text.split_at(length);
                let (_, value) = rest.split_once(':');
                let value = value.unwrap_or(rest.after());
                let (value, rest) = value.split_at(self.grammar.extent(value.text()));
                self.qualifier(name, at, value.trim());
                rest
            }
            None => self.other(text),
        }
    }

    fn qualifier(&mut self, name: &'static str, at: Span<'a>, value: Span<'a>) {
        let section = self.grammar.section;
        self.check_colon(name, value);
        let Some(paragraph) = &mut self.open else {
            self.diagnostics.error(at, format!("`{name}:` is outside of a `{section}`"));
            return;
        };
        let earlier = paragraph.qualifiers.iter().find(|other| other.name == name);
        if let Some(earlier) = earlier.filter(|_| !self.grammar.repeatable.contains(&name)) {
            let line = earlier.at.line;
            self.diagnostics.error(at, format!("`{name}:` is given twice, first in line {line}"));
            return;
        }
        let value = if value.is_empty() { Vec::new() } else { vec![value] };
        paragraph.qualifiers.push(Qualifier { name, at, value });
    }

    fn check_colon(&mut self, name: &str, value: Span<'a>) {
        if self.grammar.with_colon.contains(&name) {
            return;
        }
        if let (head, Some(_)) = value.split_once(':') {
            let message = format!("the value of `{name}:` may not have a colon");
            self.diagnostics.error(head.after(), message);
        }
    }

    /// Reads text without a keyword, which may continue a list.
    fn other(&mut self, text: Span<'a>) -> Span<'a> {
        let (part, rest) = text.split_at(self.grammar.extent(text.text()));
        let part = part.trim();
        let qualifiers = self.open.as_mut().map(|paragraph| &mut paragraph.qualifiers);
        let last = qualifiers.and_then(|qualifiers| qualifiers.last_mut());
        match last.filter(|last| last.name != "use" && continues(&last.value, part)) {
            Some(last) => {
                last.value.push(part);
                let name = last.name;
                self.check_colon(name, part);
            }
            None => self.stray(part),
        }
        rest
    }

    fn stray(&mut self, part: Span<'a>) {
        let text = part.text();
        let end = text.find(|c: char| c.is_whitespace() || c == ':').unwrap_or(text.len());
        let (word, after) = text.split_at(end);
        let names = self.grammar.qualifiers;
        if !after.trim_start().starts_with(':') && names.contains(&word) {
            self.diagnostics.error(part.split_at(end).0.after(), format!("`{word}` needs a colon"));
            return;
        }
        let section = self.grammar.section;
        let end = format!("end-{section}");
        let all = names.iter().copied().chain([section, end.as_str()]);
        let hint = suggest::did_you_mean(word, all);
        let place = match &self.open {
            Some(_) => format!("in `{section}`"),
            None => format!("outside of a `{section}`"),
        };
        self.diagnostics.error(part, format!("`{word}` is not a keyword {place}{hint}"));
    }

    /// Ends a paragraph without an end: at the beginning of the next one, or at the end of file.
    fn finish(&mut self, next: Option<Span<'a>>) {
        let Some(paragraph) = self.open.take() else { return };
        let section = self.grammar.section;
        let before = match next {
            Some(next) => format!(" before the next `{section}` in line {}", next.line),
            None => String::new(),
        };
        self.diagnostics.error(paragraph.at, format!("`{section}` has no `end-{section}`{before}"));
        self.done.push(paragraph);
    }

    fn end_of_file(&mut self) {
        self.finish(None);
        for paragraph in &self.done {
            for qualifier in paragraph.qualifiers.iter().filter(|other| other.value.is_empty()) {
                // A description may be empty.
                if qualifier.name != "use" {
                    let message = format!("`{}:` has no value", qualifier.name);
                    self.diagnostics.error(qualifier.at, message);
                }
            }
        }
        for paragraph in &mut self.done {
            paragraph.qualifiers.retain(|qualifier| !qualifier.value.is_empty());
        }
    }
}

/// True if `part` continues a list: a comma is between them, or the list is empty.
fn continues(parts: &[Span<'_>], part: Span<'_>) -> bool {
    let Some(last) = parts.last() else { return true };
    last.text().ends_with(',') || part.text().starts_with(',')
}
