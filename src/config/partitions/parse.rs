//! Text → [`PartitionsConfig`].
//!
//! Line by line, as OpenSM reads it: a definition begins with its head up to a colon, which
//! stands on one line; its body goes on over lines up to a semicolon. An `mgid` takes the rest
//! of its line. After a mistake reading goes on with the next item or, in a head, behind the next
//! semicolon, so that one pass finds all of them.

use super::{
    BROADCAST, Definition, GroupEntry, GroupFlags, MemberEntry, Membership, PartitionsConfig, Who,
    is_ip, pkey_of_ip_group,
};
use crate::config::piece::Piece;
use crate::config::value::{self, quoted};
use crate::config::{Diagnostic, suggest};
use crate::ids::{Gid, Guid, Pkey, Sl};
use crate::notes::Severity;
use std::collections::HashMap;
use std::net::Ipv6Addr;
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

    /// The index of a flag's name in the first `count` of [`FLAGS`].
    fn flag(&mut self, name: Piece<'_>, count: usize, whose: &str) -> Option<usize> {
        let flags = &FLAGS[..count];
        match look_up(name.text(), flags.iter().copied()) {
            Some(Found::Exactly(index)) => Some(index),
            // OpenSM wants the whole name of this one.
            Some(Found::CutShort(index)) if flags[index] != "indx0" => {
                self.odd(name, format!("`{}` is taken for `{}`", name.text(), flags[index]));
                Some(index)
            }
            _ => {
                let hint = suggest::closest(name.text(), flags.iter().copied())
                    .map(|meant| format!("; did you mean `{meant}`?"));
                let hint = hint.unwrap_or_default();
                self.odd(name, format!("{whose} have no flag `{}`: ignored{hint}", name.text()));
                None
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

    /// Sets a group's parameter; false if the value is wrong.
    fn group_flag(
        &mut self,
        flag: &str,
        name: Piece<'_>,
        value: Option<Piece<'_>>,
        flags: &mut GroupFlags,
    ) -> bool {
        let at = value.unwrap_or(name.behind());
        let text = at.text();
        let set = match flag {
            "mtu" => value::mtu(text).map(|code| flags.mtu = code),
            "rate" => value::rate(text).map(|code| flags.rate = code),
            "scope" => value::scope(text).map(|scope| flags.scopes |= 1 << scope),
            "sl" => value::at_most(text, "an SL", 15).map(|sl| flags.sl = Sl(sl as u8)),
            "Q_Key" => value::at_most(text, "a Q_Key", u32::MAX.into())
                .map(|q_key| flags.q_key = q_key as u32),
            "TClass" => value::at_most(text, "a traffic class", 0xFF)
                .map(|tclass| flags.tclass = tclass as u8),
            _ => value::at_most(text, "a flow label", 0xF_FFFF)
                .map(|label| flags.flow_label = label as u32),
        };
        set.map_err(|message| self.wrong(at, message)).is_ok()
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

    /// A colon where ports are listed: most likely a semicolon is missing.
    fn colon(&mut self, open: &Open, item: Piece<'_>) {
        let definition = &open.definition;
        let (name, line) = (quoted(&definition.name), definition.line);
        let (guid, _) = item.assignment();
        let is_pair = |part: &str| part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit());
        let message = if guid.text().split(':').all(is_pair) {
            let digits = guid.text().replace(':', "");
            format!("a GUID has no colons here: write 0x{digits}")
        } else {
            format!(
                "a colon among ports: the definition of {name} from line {line} has not ended; \
                 is the semicolon before this one missing?"
            )
        };
        self.wrong(item, message);
    }

    fn member(&mut self, open: &mut Open, name: Piece<'_>, value: Option<Piece<'_>>) {
        if name.is_empty() {
            if let Some(value) = value {
                self.wrong(value, "there is no port before this membership");
            }
            return;
        }
        let Some(who) = self.who(name) else { return };
        let membership = match value {
            None => open.default,
            Some(value) => self.membership(value),
        };
        if let Who::Port(guid) = who {
            let before = open.named.insert(guid, (name.number, membership));
            if let Some((line, other)) = before.filter(|(_, other)| *other != membership) {
                let (was, is) = (word(other), word(membership));
                let message =
                    format!("port {guid} was {was} in line {line} of this definition; {is} counts");
                self.odd(name, message);
            }
        }
        open.definition.members.push(MemberEntry { who, membership });
    }

    fn membership(&mut self, value: Piece<'_>) -> Membership {
        match look_up(value.text(), MEMBERSHIPS.iter().map(|(name, _)| *name)) {
            Some(Found::Exactly(index)) => MEMBERSHIPS[index].1,
            Some(Found::CutShort(index)) => {
                let (meant, membership) = MEMBERSHIPS[index];
                self.odd(value, format!("`{}` is taken for `{meant}`", value.text()));
                membership
            }
            None => {
                let found = quoted(value.text());
                let message =
                    format!("a membership is full, limited or both, not {found}: limited counts");
                self.odd(value, message);
                Membership::Limited
            }
        }
    }

    /// The ports a name stands for; `None` if it stands for none or is wrong.
    fn who(&mut self, name: Piece<'_>) -> Option<Who> {
        let text = name.text();
        let keyword = KEYWORDS.iter().position(|(known, _)| *known == text).or_else(|| {
            let index = KEYWORDS.iter().position(|(known, _)| known.starts_with(text))?;
            self.odd(name, format!("`{text}` is taken for `{}`", KEYWORDS[index].0));
            Some(index)
        });
        if let Some(index) = keyword {
            if KEYWORDS[index].1 == Some(Who::Virtual) {
                self.say(
                    Severity::Info,
                    name,
                    "ALL_VCAS: virtual ports are not managed here, so there are none".to_owned(),
                );
            }
            return KEYWORDS[index].1;
        }
        match value::guid(text) {
            Ok(guid) => Some(Who::Port(guid)),
            Err(message) => {
                let names = KEYWORDS.iter().map(|(name, _)| *name);
                let hint = suggest::closest(text, names)
                    .map(|meant| format!("; did you mean `{meant}`?"))
                    .unwrap_or_default();
                self.wrong(name, message + &hint);
                None
            }
        }
    }

    /// A group with its flags: the rest of the line.
    fn group(
        &mut self,
        open: &mut Open,
        name: Piece<'_>,
        value: Option<Piece<'_>>,
        flags: Option<Piece<'_>>,
    ) {
        let at = value.unwrap_or(name.behind());
        let mgid = match at.text().parse::<Ipv6Addr>() {
            Ok(address) if address.octets()[0] == 0xFF => Some(Gid(address.octets())),
            Ok(_) => {
                self.wrong(at, format!("{} is no multicast GID: those begin with ff", at.text()));
                None
            }
            Err(_) => {
                let found = quoted(at.text());
                self.wrong(at, format!("{found} is no GID such as ff12:401b::16"));
                None
            }
        };
        // The traffic class alone is not inherited, as in OpenSM.
        let mut wanted = GroupFlags { tclass: 0, ..open.definition.flags };
        for item in flags.iter().flat_map(Piece::items) {
            self.flag_of_group(item, &mut wanted);
        }
        let Some(mgid) = mgid else { return };
        if is_ip(&mgid) && !self.suits_broadcast(open, at, mgid, &wanted) {
            return;
        }
        open.definition.groups.push(GroupEntry { line: at.number, mgid, flags: wanted });
    }

    fn flag_of_group(&mut self, item: Piece<'_>, flags: &mut GroupFlags) {
        let (name, value) = item.assignment();
        if name.is_empty() {
            return;
        }
        let text = name.text();
        if value::number(text).is_some() || KEYWORDS.iter().any(|(known, _)| *known == text) {
            let message = format!(
                "a port in the line of an mgid: what follows an mgid belongs to the group; write \
                 `{text}` in a line of its own"
            );
            self.wrong(name, message);
            return;
        }
        if let Some(index) = self.flag(name, GROUP_FLAGS, "groups") {
            self.group_flag(FLAGS[index], name, value, flags);
        }
    }

    /// IP groups have the key, MTU and rate of the broadcast group (RFC 4391, 5). Those that do not
    /// are left out, as in OpenSM: nobody is cut off from anybody by that.
    fn suits_broadcast(
        &mut self,
        open: &Open,
        at: Piece<'_>,
        mgid: Gid,
        flags: &GroupFlags,
    ) -> bool {
        let broadcast = &open.definition.flags;
        let found = pkey_of_ip_group(&mgid);
        let own = open.definition.pkey.map(|pkey| Pkey(pkey.0 | 0x8000));
        let default = open.definition.name == "Default" && found == Pkey::DEFAULT_FULL;
        let message = if !(found.0 == 0 || own == Some(found) || default || mgid == BROADCAST) {
            match own {
                Some(own) => format!(
                    "the P_Key in this MGID is {found}, the partition's is {own}: write the \
                     partition's, or 0 to have it put in"
                ),
                None => format!(
                    "the P_Key in this MGID is {found}, the partition's is generated: write 0 to \
                     have it put in"
                ),
            }
        } else if flags.rate != broadcast.rate {
            format!(
                "an IP group has the rate of the partition's broadcast group, {}, not {}",
                value::rate_in_words(broadcast.rate),
                value::rate_in_words(flags.rate)
            )
        } else if flags.mtu != broadcast.mtu {
            format!(
                "an IP group has the MTU of the partition's broadcast group, {}, not {}",
                value::mtu_in_words(broadcast.mtu),
                value::mtu_in_words(flags.mtu)
            )
        } else {
            return true;
        };
        self.odd(at, format!("{message}; the group is left out"));
        false
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

fn word(membership: Membership) -> &'static str {
    let known = MEMBERSHIPS.iter().find(|(_, other)| *other == membership);
    known.map_or("limited", |(name, _)| name)
}
