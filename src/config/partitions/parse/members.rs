//! Ports and their membership.

use super::super::{MemberEntry, Membership, Who};
use super::{Found, KEYWORDS, MEMBERSHIPS, Open, Parser, look_up};
use crate::config::piece::Piece;
use crate::config::suggest;
use crate::config::value::{self, quoted};
use crate::notes::Severity;

impl Parser<'_> {
    /// A colon where ports are listed: most likely a semicolon is missing.
    pub(super) fn colon(&mut self, open: &Open, item: Piece<'_>) {
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

    pub(super) fn member(&mut self, open: &mut Open, name: Piece<'_>, value: Option<Piece<'_>>) {
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
}

fn word(membership: Membership) -> &'static str {
    let known = MEMBERSHIPS.iter().find(|(_, other)| *other == membership);
    known.map_or("limited", |(name, _)| name)
}
