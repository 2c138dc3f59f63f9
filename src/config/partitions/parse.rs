//! Text → [`PartitionsConfig`].
//!
//! Line by line, as OpenSM reads it: a definition begins with its head up to a colon, which
//! stands on one line; its body goes on over lines up to a semicolon. An `mgid` takes the rest
//! of its line. After a mistake reading goes on with the next item or, in a head, behind the next
//! semicolon, so that one pass finds all of them.

mod groups;
mod members;

use super::{Definition, GroupFlags, Membership, PartitionsConfig, Who};
use crate::config::Diagnostic;
use crate::config::piece::Piece;
use crate::config::value::{self, quoted};
use crate::ids::{Guid, Pkey};
use crate::notes::Severity;
use std::collections::HashMap;
use std::path::Path;

/// Flags of groups and definitions, in the order in which OpenSM tries what is cut short.
const FLAGS: [&str; 10] =
    ["mtu", "rate", "scope", "Q_Key", "TClass", "sl", "FlowLabel", "ipoib", "defmember", "indx0"];

/// How many of [`FLAGS`] are flags of groups.
const GROUP_FLAGS: usize = 7;

/// Names that stand for ports, in the order in which OpenSM tries what is cut short.
const KEYWORDS: [(&str, Option<Who>); 7] = [
    ("NONE", None),
    ("ALL", Some(Who::All)),
    ("ALL_CAS", Some(Who::ChannelAdapters)),
    ("ALL_SWITCHES", Some(Who::Switches)),
    ("ALL_ROUTERS", Some(Who::Routers)),
    ("ALL_VCAS", Some(Who::Virtual)),
    ("SELF", Some(Who::Own)),
];

const MEMBERSHIPS: [(&str, Membership); 3] =
    [("full", Membership::Full), ("both", Membership::Both), ("limited", Membership::Limited)];

/// Reads a whole file.
pub(super) fn parse(file: &Path, text: &str) -> (PartitionsConfig, Vec<Diagnostic>) {
    let mut parser = Parser { file, findings: Vec::new(), done: Vec::new(), state: State::Outside };
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split('#').next().unwrap_or_default();
        parser.line(Piece::new(code, number));
    }
    // The last definition may go without its semicolon.
    parser.end();
    let mut findings = parser.findings;
    findings.sort_by_key(|found| (found.line, found.column));
    (PartitionsConfig { definitions: parser.done }, findings)
}

enum State {
    /// The next thing is a head.
    Outside,
    /// A head was wrong: nothing counts up to the next semicolon.
    Skipping,
    /// In the body of a definition.
    Inside(Box<Open>),
}

/// A definition that has not ended.
struct Open {
    definition: Definition,
    default: Membership,
    /// The lines in which ports were named by GUID.
    named: HashMap<Guid, (u32, Membership)>,
}

/// A name that was looked up.
enum Found {
    Exactly(usize),
    CutShort(usize),
}

struct Parser<'a> {
    file: &'a Path,
    findings: Vec<Diagnostic>,
    done: Vec<Definition>,
    state: State,
}

impl<'a> Parser<'a> {
    fn say(&mut self, severity: Severity, at: Piece<'_>, message: String) {
        let (file, line, column) = (self.file.to_path_buf(), at.number, at.column());
        self.findings.push(Diagnostic { file, line, column, severity, message });
    }

    fn wrong(&mut self, at: Piece<'_>, message: impl Into<String>) {
        self.say(Severity::Error, at, message.into());
    }

    fn odd(&mut self, at: Piece<'_>, message: impl Into<String>) {
        self.say(Severity::Warning, at, message.into());
    }

    fn line(&mut self, line: Piece<'a>) {
        let mut rest = Some(line);
        while let Some(piece) = rest {
            let (code, behind) = piece.split_once(';');
            self.code(code.trim());
            if behind.is_some() {
                self.end();
            }
            rest = behind;
        }
    }

    /// The definition ends here.
    fn end(&mut self) {
        if let State::Inside(open) = std::mem::replace(&mut self.state, State::Outside) {
            self.done.push(open.definition);
        }
    }

    /// What stands between two semicolons, or ends of lines.
    fn code(&mut self, code: Piece<'a>) {
        if code.is_empty() {
            return;
        }
        let state = std::mem::replace(&mut self.state, State::Skipping);
        self.state = match state {
            State::Skipping => State::Skipping,
            State::Outside => match self.head(code) {
                Some((open, body)) => self.inside(open, body),
                None => State::Skipping,
            },
            State::Inside(open) => self.inside(open, code),
        };
    }

    fn inside(&mut self, mut open: Box<Open>, body: Piece<'a>) -> State {
        self.body(&mut open, body);
        State::Inside(open)
    }

    /// The head of a definition, and what stands behind its colon.
    fn head(&mut self, code: Piece<'a>) -> Option<(Box<Open>, Piece<'a>)> {
        let (head, Some(body)) = code.split_once(':') else {
            self.wrong(code, "a definition begins with `name=P_Key:`, and here is no colon");
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
            line: code.number,
            name: name.to_owned(),
            pkey,
            index0: false,
            ipoib: false,
            flags: GroupFlags::default(),
            says_sl: false,
            members: Vec::new(),
            groups: Vec::new(),
        };
        let default = Membership::Limited;
        let mut open = Box::new(Open { definition, default, named: HashMap::new() });
        items.for_each(|item| self.head_flag(&mut open, item));
        Some((open, body))
    }

    fn pkey(&mut self, id: Piece<'_>) -> Option<Option<Pkey>> {
        match value::pkey(id.text()) {
            Ok(pkey) if pkey.0 == 0 => {
                self.odd(id, "0 is no partition's P_Key: one is generated, as if none was given");
                Some(None)
            }
            Ok(pkey) => Some(Some(pkey)),
            Err(message) => {
                self.wrong(id, message);
                None
            }
        }
    }

    fn head_flag(&mut self, open: &mut Open, item: Piece<'_>) {
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
                    open.definition.says_sl |= flag == "sl";
                }
            }
        }
    }

    fn default_membership(&mut self, open: &mut Open, name: Piece<'_>, value: Option<Piece<'_>>) {
        let at = value.unwrap_or(name.behind());
        match look_up(at.text(), MEMBERSHIPS.iter().map(|(name, _)| *name)) {
            Some(Found::Exactly(index)) => open.default = MEMBERSHIPS[index].1,
            Some(Found::CutShort(index)) => {
                let (meant, membership) = MEMBERSHIPS[index];
                self.odd(at, format!("`{}` is taken for `{meant}`", at.text()));
                open.default = membership;
            }
            None => {
                let found = quoted(at.text());
                self.wrong(at, format!("defmember is full, limited or both, not {found}"));
            }
        }
    }

    /// Ports and groups, up to the end of the line or a semicolon.
    fn body(&mut self, open: &mut Open, mut code: Piece<'a>) {
        if let (flags, Some(rest)) = code.split_once(':')
            && flags.items().all(|item| is_flag(item.assignment().0.text()))
        {
            flags.items().for_each(|item| self.head_flag(open, item));
            code = rest;
        }
        let mut rest = Some(code);
        while let Some(piece) = rest {
            let (item, behind) = piece.split_once(',');
            let (name, value) = item.assignment();
            if name.text() == "mgid" {
                self.group(open, name, value, behind);
                return;
            }
            if item.text().contains(':') {
                self.colon(open, item.trim());
                return;
            }
            self.member(open, name, value);
            rest = behind;
        }
    }
}

/// The index of `name` among `names`: as it is but for case and underscores, or cut short as
/// OpenSM takes it.
fn look_up<'n>(name: &str, names: impl Iterator<Item = &'n str> + Clone) -> Option<Found> {
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    if name.is_empty() {
        return None;
    }
    let exactly = names.clone().position(|known| plain(known) == plain(name));
    let cut_short = || names.clone().position(|known| known.starts_with(name));
    exactly.map(Found::Exactly).or_else(|| cut_short().map(Found::CutShort))
}

/// True for the whole name of a flag of definitions.
fn is_flag(name: &str) -> bool {
    matches!(look_up(name, FLAGS.iter().copied()), Some(Found::Exactly(_)))
}
