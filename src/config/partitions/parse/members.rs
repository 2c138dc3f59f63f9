//! Ports and their membership.

use super::super::{MemberEntry, Membership, PortSelector};
use super::{MEMBERSHIPS, OpenDefinition, PORT_KEYWORDS, Parser};
use crate::config::literal::{self, quoted};
use crate::config::span::Span;
use crate::config::suggest::did_you_mean;

impl Parser<'_> {
    /// Reports a colon in a list of ports: most likely a semicolon is missing before it.
    pub(super) fn unexpected_colon(&mut self, open: &OpenDefinition, item: Span<'_>) {
        let definition = &open.definition;
        let name = quoted(&definition.name);
        let line = definition.line;
        let (guid, _) = item.assignment();
        let message = if guid.text().split(':').all(is_pair) {
            let digits = guid.text().replace(':', "");
            format!("write the GUID without colons: 0x{digits}")
        } else {
            format!(
                "unexpected colon in a list of ports: the definition of {name} from line {line} has \
                 not ended; is the semicolon before this definition missing?"
            )
        };
        self.diagnostics.error(item, message);
    }

    pub(super) fn member(
        &mut self,
        open: &mut OpenDefinition,
        name: Span<'_>,
        value: Option<Span<'_>>,
    ) {
        if name.is_empty() {
            if let Some(value) = value {
                self.diagnostics.error(value, "there is no port before this membership");
            }
            return;
        }
        let Some(ports) = self.port_selector(name) else { return };
        let membership = match value {
            None => open.default,
            Some(value) => self.membership(value),
        };
        if let PortSelector::Port(guid) = ports {
            let before = open.named.insert(guid, (name.line, membership));
            if let Some((line, other)) = before.filter(|(_, other)| *other != membership) {
                let was = membership_name(other);
                let is = membership_name(membership);
                let message =
                    format!("port {guid} is {was} in line {line} of this definition; {is} applies");
                self.diagnostics.warning(name, message);
            }
        }
        open.definition.members.push(MemberEntry { ports, membership });
    }

    fn membership(&mut self, value: Span<'_>) -> Membership {
        self.membership_by_name(value).unwrap_or_else(|| {
            let found = quoted(value.text());
            let message =
                format!("a membership is full, limited or both, not {found}; limited applies");
            self.diagnostics.warning(value, message);
            Membership::Limited
        })
    }

    /// The ports that a keyword or GUID selects; `None` for none or after an error.
    fn port_selector(&mut self, name: Span<'_>) -> Option<PortSelector> {
        let text = name.text();
        let exact = PORT_KEYWORDS.iter().find(|(known, _)| *known == text);
        let keyword = exact.or_else(|| {
            let (full, _) = PORT_KEYWORDS.iter().find(|(known, _)| known.starts_with(text))?;
            self.warn_of_abbreviation(name, full);
            PORT_KEYWORDS.iter().find(|(known, _)| known == full)
        });
        if let Some((_, selector)) = keyword {
            return *selector;
        }
        match literal::guid(text) {
            Ok(guid) => Some(PortSelector::Port(guid)),
            Err(message) => {
                let hint = did_you_mean(text, PORT_KEYWORDS.iter().map(|(name, _)| *name));
                self.diagnostics.error(name, message + &hint);
                None
            }
        }
    }
}

fn is_pair(part: &str) -> bool {
    part.len() == 2 && part.bytes().all(|c| c.is_ascii_hexdigit())
}

fn membership_name(membership: Membership) -> &'static str {
    let known = MEMBERSHIPS.iter().find(|(_, other)| *other == membership);
    known.map_or("limited", |(name, _)| name)
}
