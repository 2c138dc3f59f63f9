//! Sections whose fields are being read: what they have so far, what they lack at their end.

use super::fields;
use super::read::Said;
use super::values::{Names, Value};
use super::{MatchRule, PortGroup, QosLevel, SlToVlScope, VlArbScope};
use crate::config::piece::Piece;

/// A section whose fields are being read.
pub(super) enum Draft<'a> {
    Group(Open<'a, PortGroup>),
    VlArb(Scope<'a, VlArbScope>),
    SlToVl(Scope<'a, SlToVlScope>),
    Level(Open<'a, QosLevel>),
    Rule(Rule<'a>),
}

/// A section, and what it said already.
pub(super) struct Open<'a, T> {
    pub done: T,
    at: Piece<'a>,
    seen: Vec<(&'static str, u32)>,
}

/// A scope, with the groups it names.
pub(super) struct Scope<'a, T> {
    pub done: T,
    pub groups: Names<'a>,
    pub across: Names<'a>,
    pub across_from: Names<'a>,
    pub across_to: Names<'a>,
    at: Piece<'a>,
    seen: Vec<(&'static str, u32)>,
}

/// A rule, with the groups and the level it names.
pub(super) struct Rule<'a> {
    pub done: MatchRule,
    pub sources: Names<'a>,
    pub destinations: Names<'a>,
    pub level_name: Option<(String, Piece<'a>)>,
    pub level_number: Option<(u64, Piece<'a>)>,
    at: Piece<'a>,
    seen: Vec<(&'static str, u32)>,
}

/// What may be said only once in a section.
const ONCE: [&str; 14] = [
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

impl<'a> Draft<'a> {
    /// A section that has fields.
    pub(super) fn of(name: &str, at: Piece<'a>) -> Option<Self> {
        let line = at.number;
        let seen = Vec::new();
        Some(match name {
            "port-group" => {
                Self::Group(Open { done: PortGroup { line, ..PortGroup::default() }, at, seen })
            }
            "vlarb-scope" => {
                Self::VlArb(Scope::new(VlArbScope { at: at.into(), ..VlArbScope::default() }, at))
            }
            "sl2vl-scope" => Self::SlToVl(Scope::new(
                SlToVlScope { at: at.into(), ..SlToVlScope::default() },
                at,
            )),
            "qos-level" => {
                Self::Level(Open { done: QosLevel { line, ..QosLevel::default() }, at, seen })
            }
            "qos-match-rule" => Self::Rule(Rule {
                done: MatchRule { line, ..MatchRule::default() },
                sources: Vec::new(),
                destinations: Vec::new(),
                level_name: None,
                level_number: None,
                at,
                seen,
            }),
            _ => return None,
        })
    }

    fn seen(&mut self) -> &mut Vec<(&'static str, u32)> {
        match self {
            Self::Group(open) => &mut open.seen,
            Self::VlArb(scope) => &mut scope.seen,
            Self::SlToVl(scope) => &mut scope.seen,
            Self::Level(open) => &mut open.seen,
            Self::Rule(rule) => &mut rule.seen,
        }
    }

    /// Takes a field that may stand in this section.
    pub(super) fn field(
        &mut self,
        name: &'static str,
        at: Piece<'a>,
        value: &[Piece<'a>],
        said: &mut Said<'_>,
    ) {
        let earlier = self.seen().iter().find(|(seen, _)| *seen == name).copied();
        if let Some((_, line)) = earlier.filter(|_| ONCE.contains(&name)) {
            said.wrong(at, format!("`{name}` was said in line {line} already"));
            return;
        }
        self.seen().push((name, at.number));
        let value = Value { at, parts: value };
        match self {
            Self::Group(open) => fields::of_group(&mut open.done, name, &value, said),
            Self::VlArb(scope) => fields::of_vlarb(scope, name, &value, said),
            Self::SlToVl(scope) => fields::of_sl2vl(scope, name, &value, said),
            Self::Level(open) => fields::of_level(&mut open.done, name, &value, said),
            Self::Rule(rule) => fields::of_rule(rule, name, &value, said),
        }
    }

    /// Says what is missing, at the end of the section.
    pub(super) fn check(&self, said: &mut Said<'_>) {
        let says = |seen: &[(&str, u32)], name: &str| seen.iter().any(|(known, _)| *known == name);
        match self {
            Self::Group(open) if !says(&open.seen, "name") => {
                said.wrong(open.at, "a port-group without a `name`");
            }
            Self::Level(open) if !says(&open.seen, "sl") => {
                said.wrong(open.at, "a qos-level without an `sl`");
            }
            Self::VlArb(scope) if !says(&scope.seen, "group") && !says(&scope.seen, "across") => {
                said.wrong(scope.at, "a vlarb-scope without `group` or `across`");
            }
            Self::SlToVl(scope) if !says(&scope.seen, "sl2vl-table") => {
                said.wrong(scope.at, "an sl2vl-scope without an `sl2vl-table`");
            }
            Self::SlToVl(scope) if !scope.names_ports() => {
                let message = "an sl2vl-scope without `group`, `across`, `across-from` or \
                               `across-to`";
                said.wrong(scope.at, message);
            }
            Self::Rule(rule) if rule.level_name.is_none() && rule.level_number.is_none() => {
                let message = "a qos-match-rule without a `qos-level-name` or a `qos-level-sn`";
                said.wrong(rule.at, message);
            }
            _ => {}
        }
    }
}

impl<'a, T> Scope<'a, T> {
    fn new(done: T, at: Piece<'a>) -> Self {
        let names = Vec::new;
        Self {
            done,
            groups: names(),
            across: names(),
            across_from: names(),
            across_to: names(),
            at,
            seen: Vec::new(),
        }
    }

    fn names_ports(&self) -> bool {
        let names = ["group", "across", "across-from", "across-to"];
        self.seen.iter().any(|(name, _)| names.contains(name))
    }
}
