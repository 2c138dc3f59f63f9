//! Sections with fields, as far as they have been read.

use super::policy::{MatchRule, QosLevel, QosPortGroup, SlToVlScope, VlArbScope};
use crate::config::diagnostic::Diagnostics;
use crate::config::span::Span;

/// Names of port groups, with their positions.
pub(super) type Names<'a> = Vec<(String, Span<'a>)>;

/// A section whose fields are being read.
pub(super) struct PolicySection<'a> {
    /// Keyword that opens the section.
    at: Span<'a>,
    /// Fields read so far, with their lines.
    seen: Vec<(&'static str, u32)>,
    pub content: SectionContent<'a>,
}

pub(super) enum SectionContent<'a> {
    PortGroup(QosPortGroup),
    VlArb(NamedScope<'a, VlArbScope>),
    SlToVl(NamedScope<'a, SlToVlScope>),
    Level(QosLevel),
    Rule(NamedRule<'a>),
}

/// A scope, with the names of groups in place of their indexes.
#[derive(Default)]
pub(super) struct NamedScope<'a, T> {
    pub scope: T,
    pub groups: Names<'a>,
    pub across: Names<'a>,
    pub across_from: Names<'a>,
    pub across_to: Names<'a>,
}

/// A rule, with the names of groups and level in place of their indexes.
#[derive(Default)]
pub(super) struct NamedRule<'a> {
    pub rule: MatchRule,
    pub sources: Names<'a>,
    pub destinations: Names<'a>,
    pub level_name: Option<(String, Span<'a>)>,
    pub level_number: Option<(u64, Span<'a>)>,
}

/// Fields that a section may have only once.
const SINGLE_FIELDS: [&str; 14] = [
    "name",
    "use",
    "vlarb-high",
    "vlarb-low",
    "vl-high-limit",
    "from",
    "to",
    "sl2vl-table",
    "sl",
    "mtu-limit",
    "rate-limit",
    "packet-life",
    "qos-level-name",
    "qos-level-sn",
];

impl<'a> PolicySection<'a> {
    /// Opens the section of this name; `None` for a section without fields.
    pub(super) fn open(name: &str, at: Span<'a>) -> Option<Self> {
        let line = at.line;
        let content = match name {
            "port-group" => {
                SectionContent::PortGroup(QosPortGroup { line, ..QosPortGroup::default() })
            }
            "vlarb-scope" => {
                let scope = VlArbScope { at: at.into(), ..VlArbScope::default() };
                SectionContent::VlArb(NamedScope { scope, ..NamedScope::default() })
            }
            "sl2vl-scope" => {
                let scope = SlToVlScope { at: at.into(), ..SlToVlScope::default() };
                SectionContent::SlToVl(NamedScope { scope, ..NamedScope::default() })
            }
            "qos-level" => SectionContent::Level(QosLevel { line, ..QosLevel::default() }),
            "qos-match-rule" => {
                let rule = MatchRule { line, ..MatchRule::default() };
                SectionContent::Rule(NamedRule { rule, ..NamedRule::default() })
            }
            _ => return None,
        };
        Some(Self { at, seen: Vec::new(), content })
    }

    /// Records a field. Returns the line of an earlier occurrence that this one may not repeat.
    pub(super) fn record(&mut self, name: &'static str, at: Span<'a>) -> Result<(), u32> {
        let earlier = self.seen.iter().find(|(seen, _)| *seen == name);
        if let Some((_, line)) = earlier.filter(|_| SINGLE_FIELDS.contains(&name)) {
            return Err(*line);
        }
        self.seen.push((name, at.line));
        Ok(())
    }

    fn has_any(&self, names: &[&str]) -> bool {
        self.seen.iter().any(|(seen, _)| names.contains(seen))
    }

    /// Reports required fields that are missing, at the end of the section.
    pub(super) fn check_complete(&self, diagnostics: &mut Diagnostics<'_>) {
        const OUTPUTS: [&str; 4] = ["group", "across", "across-from", "across-to"];
        let message = match &self.content {
            SectionContent::PortGroup(_) if !self.has_any(&["name"]) => {
                "a port-group without a `name`"
            }
            SectionContent::Level(_) if !self.has_any(&["sl"]) => "a qos-level without an `sl`",
            SectionContent::VlArb(_) if !self.has_any(&["group", "across"]) => {
                "a vlarb-scope without `group` or `across`"
            }
            SectionContent::SlToVl(_) if !self.has_any(&["sl2vl-table"]) => {
                "an sl2vl-scope without an `sl2vl-table`"
            }
            SectionContent::SlToVl(_) if !self.has_any(&OUTPUTS) => {
                "an sl2vl-scope without `group`, `across`, `across-from` or `across-to`"
            }
            SectionContent::Rule(rule)
                if rule.level_name.is_none() && rule.level_number.is_none() =>
            {
                "a qos-match-rule without a `qos-level-name` or a `qos-level-sn`"
            }
            _ => return,
        };
        diagnostics.error(self.at, message);
    }
}
