//! Text → [`PartitionsConfig`].
//!
//! A definition begins with a head up to a colon, which is on one line; its body continues over
//! lines up to a semicolon. An `mgid` takes the rest of its line. After an error the parser
//! continues with the next item or, in a head, after the next semicolon, so that one pass finds all
//! errors.

mod groups;
mod members;

use super::{Definition, GroupFlags, Membership, PartitionsConfig, PortSelector};
use crate::config::Diagnostic;
use crate::config::diagnostic::Diagnostics;
use crate::config::literal::{self, quoted};
use crate::config::span::Span;
use crate::config::text_file::without_comment;
use crate::ids::{Guid, Pkey};
use std::collections::HashMap;
use std::path::Path;

/// Flags of groups and definitions, in the order in which OpenSM tries abbreviations.
const FLAGS: [&str; 10] =
    ["mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel", "ipoib", "defmember", "indx0"];

/// Number of [`FLAGS`], from the first, that groups have.
const GROUP_FLAGS: usize = 7;

/// Keywords for sets of ports, in the order in which OpenSM tries abbreviations.
const PORT_KEYWORDS: [(&str, Option<PortSelector>); 7] = [
    ("NONE", None),
    ("ALL", Some(PortSelector::All)),
    ("ALL_CAS", Some(PortSelector::ChannelAdapters)),
    ("ALL_SWITCHES", Some(PortSelector::Switches)),
    ("ALL_ROUTERS", Some(PortSelector::Routers)),
    ("ALL_VCAS", Some(PortSelector::Virtual)),
    ("SELF", Some(PortSelector::SmPort)),
];

const MEMBERSHIPS: [(&str, Membership); 3] =
    [("full", Membership::Full), ("both", Membership::Both), ("limited", Membership::Limited)];

/// Parses a whole file.
pub(super) fn parse(file: &Path, text: &str) -> (PartitionsConfig, Vec<Diagnostic>) {
    let mut parser = Parser {
        diagnostics: Diagnostics::new(file),
        definitions: Vec::new(),
        state: ParserState::BetweenDefinitions,
    };
    let mut last = None;
    for (number, line) in (1..).zip(text.lines()) {
        let code = Span::new(without_comment(line), number);
        if !code.trim().is_empty() {
            last = Some(code.trim());
        }
        parser.line(code);
    }
    if let Some(last) = last {
        parser.check_end(text.ends_with('\n'), last);
    }
    // OpenSM does without the semicolon of the last definition.
    parser.end_definition();
    let diagnostics = parser.diagnostics.into_sorted();
    (PartitionsConfig { definitions: parser.definitions }, diagnostics)
}

enum ParserState {
    BetweenDefinitions,
    /// After an error in a head, up to the next semicolon.
    Skipping,
    InBody(Box<OpenDefinition>),
}

/// A definition that has not ended.
struct OpenDefinition {
    definition: Definition,
    /// Membership of ports without their own.
    default: Membership,
    /// Line and membership of the ports named by GUID.
    named: HashMap<Guid, (u32, Membership)>,
}

/// Result of a search for a name; the index of the name found.
enum NameMatch {
    Exact(usize),
    Abbreviation(usize),
}

struct Parser<'a> {
    diagnostics: Diagnostics<'a>,
    definitions: Vec<Definition>,
    state: ParserState,
}

impl<'a> Parser<'a> {
    fn line(&mut self, line: Span<'a>) {
        let mut rest = Some(line);
        while let Some(text) = rest {
            let (code, after) = text.split_once(';');
            self.code(code.trim());
            if after.is_some() {
                self.end_definition();
            }
            rest = after;
        }
    }

    /// Reports a last definition without a semicolon, which OpenSM does without. Written by hand, it ends
    /// with its line. The file was certainly cut if it ends with a comma, or within a further line of the
    /// definition; other signs are a warning, because a subnet manager that refuses to start is worse.
    /// `last` is the last code of the file.
    fn check_end(&mut self, ends_with_line: bool, last: Span<'_>) {
        let ParserState::InBody(open) = &self.state else { return };
        let name = quoted(&open.definition.name);
        let line = open.definition.line;
        let has_lines = last.line > line;
        let message = format!(
            "the file ends within the definition of {name} from line {line}, which has no semicolon: if the \
             file was cut, members and partitions are missing; if not, add the semicolon"
        );
        if last.text().ends_with(',') || has_lines && !ends_with_line {
            self.diagnostics.error(last.after(), message);
        } else if has_lines || !ends_with_line {
            self.diagnostics.warning(last.after(), message);
        }
    }

    fn end_definition(&mut self) {
        if let ParserState::InBody(open) =
            std::mem::replace(&mut self.state, ParserState::BetweenDefinitions)
        {
            self.definitions.push(open.definition);
        }
    }

    /// Parses text between semicolons or ends of lines.
    fn code(&mut self, code: Span<'a>) {
        if code.is_empty() {
            return;
        }
        let state = std::mem::replace(&mut self.state, ParserState::Skipping);
        self.state = match state {
            ParserState::Skipping => ParserState::Skipping,
            ParserState::BetweenDefinitions => match self.head(code) {
                Some((open, body)) => self.in_body(open, body),
                None => ParserState::Skipping,
            },
            ParserState::InBody(open) => self.in_body(open, code),
        };
    }

    fn in_body(&mut self, mut open: Box<OpenDefinition>, body: Span<'a>) -> ParserState {
        self.body(&mut open, body);
        ParserState::InBody(open)
    }

    /// Parses the head of a definition. Returns the definition, and the text after the colon.
    fn head(&mut self, code: Span<'a>) -> Option<(Box<OpenDefinition>, Span<'a>)> {
        let (head, Some(body)) = code.split_once(':') else {
            let message = "a definition begins with `name=P_Key:`, and this line has no colon";
            self.diagnostics.error(code, message);
            return None;
        };
        let mut items = head.items();
        let (name, id) = items.next().unwrap_or(head).assignment();
        let (name, id) = match id {
            None if name.text().starts_with(|c: char| c.is_ascii_digit()) => ("", Some(name)),
            id => (name.text(), id),
        };
        let pkey = match id {
            Some(id) => self.pkey(id)?,
            None => None,
        };
        let definition = Definition {
            line: code.line,
            name: name.to_owned(),
            pkey,
            index0: false,
            ipoib: false,
            flags: GroupFlags::default(),
            has_sl: false,
            members: Vec::new(),
            groups: Vec::new(),
        };
        let default = Membership::Limited;
        let mut open = Box::new(OpenDefinition { definition, default, named: HashMap::new() });
        items.for_each(|item| self.head_flag(&mut open, item));
        Some((open, body))
    }

    /// Parses a P_Key; `Some(None)` for one to be generated, `None` after an error.
    fn pkey(&mut self, id: Span<'_>) -> Option<Option<Pkey>> {
        match literal::pkey(id.text()) {
            Ok(pkey) if pkey.0 == 0 => {
                let message = "0 is not a valid P_Key; a P_Key is generated, as if none was given";
                self.diagnostics.warning(id, message);
                Some(None)
            }
            Ok(pkey) => Some(Some(pkey)),
            Err(message) => {
                self.diagnostics.error(id, message);
                None
            }
        }
    }

    fn head_flag(&mut self, open: &mut OpenDefinition, item: Span<'_>) {
        let (name, value) = item.assignment();
        if name.is_empty() {
            return;
        }
        let Some(index) = self.flag(name, FLAGS.len(), "definitions") else { return };
        match FLAGS[index] {
            "ipoib" => open.definition.ipoib = true,
            "indx0" => open.definition.index0 = true,
            "defmember" => self.default_membership(open, name, value),
            flag => {
                if self.group_flag(flag, name, value, &mut open.definition.flags) {
                    open.definition.has_sl |= flag == "sl";
                }
            }
        }
    }

    fn default_membership(
        &mut self,
        open: &mut OpenDefinition,
        name: Span<'_>,
        value: Option<Span<'_>>,
    ) {
        let at = value.unwrap_or(name.after());
        match self.membership_by_name(at) {
            Some(membership) => open.default = membership,
            None => {
                let found = quoted(at.text());
                let message = format!("defmember is full, limited or both, not {found}");
                self.diagnostics.error(at, message);
            }
        }
    }

    /// The membership with this name; warns of abbreviations.
    fn membership_by_name(&mut self, name: Span<'_>) -> Option<Membership> {
        match look_up(name.text(), MEMBERSHIPS.iter().map(|(name, _)| *name))? {
            NameMatch::Exact(index) => Some(MEMBERSHIPS[index].1),
            NameMatch::Abbreviation(index) => {
                let (full, membership) = MEMBERSHIPS[index];
                self.warn_of_abbreviation(name, full);
                Some(membership)
            }
        }
    }

    fn warn_of_abbreviation(&mut self, name: Span<'_>, full: &str) {
        self.diagnostics.warning(name, format!("`{}` is read as `{full}`", name.text()));
    }

    /// Parses ports and groups, up to the end of the line or a semicolon.
    fn body(&mut self, open: &mut OpenDefinition, mut code: Span<'a>) {
        if let (flags, Some(rest)) = code.split_once(':')
            && flags.items().all(|item| is_flag(item.assignment().0.text()))
        {
            flags.items().for_each(|item| self.head_flag(open, item));
            code = rest;
        }
        let mut rest = Some(code);
        while let Some(text) = rest {
            let (item, after) = text.split_once(',');
            let (name, value) = item.assignment();
            if name.text() == "mgid" {
                self.group(open, name, value, after);
                return;
            }
            if item.text().contains(':') {
                self.unexpected_colon(open, item.trim());
                return;
            }
            self.member(open, name, value);
            rest = after;
        }
    }
}

/// Searches `names` for `name`, without regard to case and underscores, then for a name that it
/// abbreviates as OpenSM accepts it.
fn look_up<'n>(name: &str, names: impl Iterator<Item = &'n str> + Clone) -> Option<NameMatch> {
    if name.is_empty() {
        return None;
    }
    let exact = names.clone().position(|known| plain(known) == plain(name));
    exact.map(NameMatch::Exact).or_else(|| {
        let abbreviation = names.clone().position(|known| known.starts_with(name));
        abbreviation.map(NameMatch::Abbreviation)
    })
}

fn plain(text: &str) -> String {
    text.replace('_', "").to_ascii_lowercase()
}

/// True for the full name of a flag of definitions.
fn is_flag(name: &str) -> bool {
    matches!(look_up(name, FLAGS.iter().copied()), Some(NameMatch::Exact(_)))
}
