//! The keywords of port groups, scopes, levels and rules, with their values.

use super::read::Said;
use super::{
    MatchRule, NodeKinds, PortChoice, PortGroup, PortName, QosLevel, Ranges, SlToVlScope,
    VlArbScope,
};
use crate::config::piece::Piece;
use crate::config::value::{self, at_most, quoted};
use crate::ids::Sl;

/// Entries of a VL arbitration table (IBA vol. 1, 14.2.5.9: two blocks of 32).
const MOST_ARBITRATION: usize = 64;

/// Names of port groups, and where they stand.
type Names<'a> = Vec<(String, Piece<'a>)>;

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
    pub fn of(name: &str, at: Piece<'a>) -> Option<Self> {
        let line = at.number;
        let seen = Vec::new();
        Some(match name {
            "port-group" => {
                Self::Group(Open { done: PortGroup { line, ..PortGroup::default() }, at, seen })
            }
            "vlarb-scope" => {
                Self::VlArb(Scope::new(VlArbScope { line, ..VlArbScope::default() }, at))
            }
            "sl2vl-scope" => {
                Self::SlToVl(Scope::new(SlToVlScope { line, ..SlToVlScope::default() }, at))
            }
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
    pub fn field(
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
            Self::Group(open) => group_field(&mut open.done, name, &value, said),
            Self::VlArb(scope) => vlarb_field(scope, name, &value, said),
            Self::SlToVl(scope) => sl2vl_field(scope, name, &value, said),
            Self::Level(open) => level_field(&mut open.done, name, &value, said),
            Self::Rule(rule) => rule_field(rule, name, &value, said),
        }
    }

    /// Says what is missing, at the end of the section.
    pub fn check(&self, said: &mut Said<'_>) {
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

fn group_field(group: &mut PortGroup, name: &str, value: &Value<'_, '_>, said: &mut Said<'_>) {
    match name {
        "name" => group.name = value.name(said).map_or(String::new(), |(name, _)| name),
        "use" => group.purpose = value.words(),
        "port-guid" => group.guids.extend(value.ranges("a port GUID", u64::MAX, said)),
        "port-name" => group.names.extend(value.port_names(said)),
        "pkey" => group.pkeys.extend(value.pkeys(said)),
        "partition" => group.partitions.extend(value.names(said).into_iter().map(|(name, _)| name)),
        _ => value.node_kinds(&mut group.kinds, said),
    }
}

fn vlarb_field<'a>(
    scope: &mut Scope<'a, VlArbScope>,
    name: &str,
    value: &Value<'a, '_>,
    said: &mut Said<'_>,
) {
    match name {
        "group" => scope.groups.extend(value.names(said)),
        "across" => scope.across.extend(value.names(said)),
        "vlarb-high" => scope.done.high = value.arbitration(said),
        "vlarb-low" => scope.done.low = value.arbitration(said),
        _ => {
            let limit = value.number("a high limit", 255, said);
            scope.done.high_limit = limit.map(|limit| limit as u8);
        }
    }
}

fn sl2vl_field<'a>(
    scope: &mut Scope<'a, SlToVlScope>,
    name: &str,
    value: &Value<'a, '_>,
    said: &mut Said<'_>,
) {
    match name {
        "group" => scope.groups.extend(value.names(said)),
        "across" => scope.across.extend(value.names(said)),
        "across-from" => scope.across_from.extend(value.names(said)),
        "across-to" => scope.across_to.extend(value.names(said)),
        "from" => scope.done.from = value.port_choice(said),
        "to" => scope.done.to = value.port_choice(said),
        _ => {
            let vls = value.numbers("a VL", 15, said);
            if let Some((_, at)) = vls.get(scope.done.vls.len()) {
                said.wrong(*at, "a VL for a seventeenth SL: SLs are 0 to 15");
            }
            for (slot, (vl, _)) in scope.done.vls.iter_mut().zip(vls) {
                *slot = vl as u8;
            }
        }
    }
}

fn level_field(level: &mut QosLevel, name: &str, value: &Value<'_, '_>, said: &mut Said<'_>) {
    match name {
        "name" => level.name = value.name(said).map_or(String::new(), |(name, _)| name),
        "use" => level.purpose = value.words(),
        "sl" => level.sl = Sl(value.number("an SL", 15, said).unwrap_or_default() as u8),
        "mtu-limit" => level.mtu_limit = value.judged(said, value::mtu),
        "rate-limit" => level.rate_limit = value.rate(said),
        "packet-life" => {
            let life = value.number("a packet lifetime", 63, said);
            level.packet_life = life.map(|life| life as u8);
        }
        "path-bits" => level.path_bits.extend(value.ranges("path bits", 127, said)),
        _ => level.pkeys.extend(value.pkeys(said)),
    }
}

fn rule_field<'a>(rule: &mut Rule<'a>, name: &str, value: &Value<'a, '_>, said: &mut Said<'_>) {
    match name {
        "use" => rule.done.purpose = value.words(),
        "source" => rule.sources.extend(value.names(said)),
        "destination" => rule.destinations.extend(value.names(said)),
        "service-id" => {
            rule.done.service_ids.extend(value.ranges("a service ID", u64::MAX, said));
        }
        "qos-class" => rule.done.qos_classes.extend(value.ranges("a QoS class", 0xFFF, said)),
        "pkey" => rule.done.pkeys.extend(value.pkeys(said)),
        "qos-level-name" => rule.level_name = value.name(said),
        _ => {
            let number = value.number("the number of a qos-level", u64::MAX, said);
            rule.level_number = number.map(|number| (number, value.at));
        }
    }
}

/// What stands behind a keyword.
pub(super) struct Value<'a, 'p> {
    /// The keyword.
    pub at: Piece<'a>,
    /// The value, a part for each line.
    pub parts: &'p [Piece<'a>],
}

impl<'a> Value<'a, '_> {
    /// The words as they stand.
    fn words(&self) -> Option<String> {
        self.parts.first().map(|part| part.text().trim_matches('"').to_owned())
    }

    /// What stands between commas that are not within quotes.
    fn items(&self, said: &mut Said<'_>) -> Vec<Piece<'a>> {
        let items: Vec<_> = self
            .parts
            .iter()
            .flat_map(|part| unquoted_items(*part))
            .filter(|item| !item.is_empty())
            .collect();
        if items.is_empty() {
            said.wrong(self.at, format!("`{}` without a value", self.at.text()));
        }
        items
    }

    /// The only item.
    fn single(&self, said: &mut Said<'_>) -> Option<Piece<'a>> {
        let items = self.items(said);
        if let Some(second) = items.get(1) {
            said.wrong(*second, format!("`{}` has a single value", self.at.text()));
            return None;
        }
        items.first().copied()
    }

    fn name(&self, said: &mut Said<'_>) -> Option<(String, Piece<'a>)> {
        self.single(said).map(|item| (plain(item.text()), item))
    }

    fn names(&self, said: &mut Said<'_>) -> Names<'a> {
        self.items(said).into_iter().map(|item| (plain(item.text()), item)).collect()
    }

    /// A value that `judge` knows.
    fn judged(
        &self,
        said: &mut Said<'_>,
        judge: impl Fn(&str) -> Result<u8, String>,
    ) -> Option<u8> {
        let item = self.single(said)?;
        judge(item.text()).map_err(|message| said.wrong(item, message)).ok()
    }

    /// A rate. The proposal's example has 1, which is no code: less than the slowest link.
    fn rate(&self, said: &mut Said<'_>) -> Option<u8> {
        const SLOWEST: u8 = 2;
        let item = self.single(said)?;
        if item.text() == "1" {
            said.odd(item, "1 is no rate: the slowest, 2 (2.5Gbps), counts");
            return Some(SLOWEST);
        }
        self.judged(said, value::rate)
    }

    fn number(&self, what: &str, most: u64, said: &mut Said<'_>) -> Option<u64> {
        let item = self.single(said)?;
        at_most(item.text(), what, most).map_err(|message| said.wrong(item, message)).ok()
    }

    fn numbers(&self, what: &str, most: u64, said: &mut Said<'_>) -> Vec<(u64, Piece<'a>)> {
        let mut numbers = Vec::new();
        for item in self.items(said) {
            match at_most(item.text(), what, most) {
                Ok(number) => numbers.push((number, item)),
                Err(message) => said.wrong(item, message),
            }
        }
        numbers
    }

    /// Numbers and ranges of them.
    pub fn ranges(&self, what: &str, most: u64, said: &mut Said<'_>) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        for item in self.items(said) {
            let (first, second) = item.split_once('-');
            let bound = |at: Piece<'_>, said: &mut Said<'_>| {
                at_most(at.text(), what, most).map_err(|message| said.wrong(at, message)).ok()
            };
            let Some(low) = bound(first.trim(), said) else { continue };
            let high = second.map_or(Some(low), |second| bound(second.trim(), said));
            let Some(high) = high else { continue };
            if low > high {
                let message = format!("`{}` ends before it begins", item.text());
                said.wrong(item, message);
            } else {
                ranges.push((low, high));
            }
        }
        ranges
    }

    /// P_Keys without their membership bit.
    pub fn pkeys(&self, said: &mut Said<'_>) -> Vec<(u64, u64)> {
        const NUMBER: u64 = 0x7FFF;
        let ranges = self.ranges("a P_Key", 0xFFFF, said);
        ranges
            .into_iter()
            .map(|(first, last)| {
                let (first, last) = (first & NUMBER, last & NUMBER);
                (first.min(last), first.max(last))
            })
            .collect()
    }

    fn arbitration(&self, said: &mut Said<'_>) -> Option<Vec<(u8, u8)>> {
        let mut entries = Vec::new();
        for item in self.items(said) {
            let (vl, weight) = item.split_once(':');
            let Some(weight) = weight else {
                said.wrong(item, format!("{} is not VL:weight", quoted(item.text())));
                continue;
            };
            let vl = at_most(vl.trim().text(), "a VL", 14);
            match (vl, at_most(weight.trim().text(), "a weight", 255)) {
                (Ok(vl), Ok(weight)) => entries.push((vl as u8, weight as u8)),
                (Err(message), _) | (_, Err(message)) => said.wrong(item, message),
            }
        }
        if entries.len() > MOST_ARBITRATION {
            let message =
                format!("{} entries: a table has at most {MOST_ARBITRATION}", entries.len());
            said.wrong(self.at, message);
            return None;
        }
        Some(entries)
    }

    fn port_choice(&self, said: &mut Said<'_>) -> PortChoice {
        if let [part] = self.parts
            && part.text() == "*"
        {
            return PortChoice::All;
        }
        let ranges = Ranges::new(self.ranges("a port number", 254, said));
        let ports = ranges.iter().flat_map(|(first, last)| first..=last);
        PortChoice::These(ports.map(|port| port as u8).collect())
    }

    fn node_kinds(&self, kinds: &mut NodeKinds, said: &mut Said<'_>) {
        for item in self.items(said) {
            match item.text().to_ascii_uppercase().as_str() {
                "CA" => kinds.ca = true,
                "SWITCH" => kinds.switch = true,
                "ROUTER" => kinds.router = true,
                "SELF" => kinds.own = true,
                "ALL" => {
                    *kinds = NodeKinds { ca: true, switch: true, router: true, own: kinds.own };
                }
                _ => {
                    let found = quoted(item.text());
                    said.wrong(
                        item,
                        format!("a node type is CA, SWITCH, ROUTER, ALL or SELF, not {found}"),
                    );
                }
            }
        }
    }

    fn port_names(&self, said: &mut Said<'_>) -> Vec<PortName> {
        let mut names = Vec::new();
        for item in self.items(said) {
            for text in within_quotes(item.text()) {
                match port_name(&text) {
                    Ok(name) => names.push(name),
                    Err(message) => said.wrong(item, message),
                }
            }
        }
        names
    }
}

/// The items of a list; commas within quotes do not count. Quotes may be those of a text
/// processor.
fn unquoted_items(part: Piece<'_>) -> Vec<Piece<'_>> {
    let mut items = Vec::new();
    let mut rest = part;
    loop {
        let mut quoted = false;
        let comma = rest.text().char_indices().find(|(_, c)| {
            quoted ^= is_quote(*c);
            *c == ',' && !quoted
        });
        let Some((at, _)) = comma else { break };
        let (item, behind) = rest.split_at(at);
        items.push(item.trim());
        rest = behind.split_at(1).1;
    }
    items.push(rest.trim());
    items
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\u{201c}' | '\u{201d}')
}

/// A name without quotes, blanks made one.
fn plain(text: &str) -> String {
    let text: String = text.chars().filter(|c| !is_quote(*c)).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Port names of one pair of quotes: a comma behind `/P1` begins the next.
fn within_quotes(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for piece in plain(text).split(',') {
        match names.last_mut() {
            Some(last) if !ends_with_port(last) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => names.push(piece.trim().to_owned()),
        }
    }
    names
}

fn ends_with_port(name: &str) -> bool {
    let tail = name.rsplit_once('/').map_or("", |(_, tail)| tail);
    tail == "*" || port_number(tail).is_some()
}

fn port_number(tail: &str) -> Option<&str> {
    let digits = tail.strip_prefix(['P', 'p'])?;
    (!digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit())).then_some(digits)
}

/// A port by the name of its node.
fn port_name(text: &str) -> Result<PortName, String> {
    let Some((node, tail)) = text.rsplit_once('/') else {
        return Ok(PortName { node: text.to_owned(), port: None });
    };
    if tail == "*" {
        return Ok(PortName { node: node.to_owned(), port: None });
    }
    match port_number(tail).map(str::parse::<u8>) {
        Some(Ok(port @ 1..=254)) => Ok(PortName { node: node.to_owned(), port: Some(port) }),
        Some(_) => Err(format!("`{text}`: ports have numbers from 1 to 254")),
        None => Err(format!("`{text}` does not end with a port: write `{node}/P1`, or `{node}/*`")),
    }
}
