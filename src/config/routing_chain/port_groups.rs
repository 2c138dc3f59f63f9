//! `pgrp_policy_file`: named groups of ports.
//!
//! A group has a name and at least one rule; it has the ports of all its rules. A name may be
//! defined again: the later definition replaces the earlier one, and may refer to it by the same
//! name, as the manual's example does.

use super::paragraphs::{Grammar, Paragraph, Qualifier, paragraphs};
pub use super::port_rules::{ChainPortGroup, GroupRef, GuidPorts, HostPorts, Pattern, PortRule};
use crate::config::diagnostic::Diagnostics;
use crate::config::literal::{guid, number, quoted};
use crate::config::span::Span;
use crate::config::{Diagnostic, suggest};
use crate::ids::Guid;
use crate::notes::Severity;
use std::path::Path;

const SECTION: &str = "port-group";

const GRAMMAR: Grammar = Grammar {
    section: SECTION,
    qualifiers: &[
        "name",
        "use",
        "port-guid",
        "port-guid-range",
        "port-name",
        "port-regexp",
        "union-rule",
        "subtract-rule",
    ],
    repeatable: &[
        "port-guid",
        "port-guid-range",
        "port-name",
        "port-regexp",
        "union-rule",
        "subtract-rule",
    ],
    with_colon: &["port-regexp"],
};

/// Names of groups that exist without a definition.
const PREDEFINED: [(&str, GroupRef); 4] = [
    ("ALL", GroupRef::All),
    ("ALL_SWITCHES", GroupRef::AllSwitches),
    ("ALL_CAS", GroupRef::AllCas),
    ("ALL_ROUTERS", GroupRef::AllRouters),
];

/// The group that a name stands for, outside of the definition of a group.
pub fn find(groups: &[ChainPortGroup], name: &str) -> Option<GroupRef> {
    let predefined = PREDEFINED.iter().find(|(known, _)| *known == name).map(|(_, group)| *group);
    predefined
        .or_else(|| groups.iter().rposition(|group| group.name == name).map(GroupRef::Defined))
}

/// The suggestion for an unknown name of a group.
pub(super) fn hint(groups: &[ChainPortGroup], name: &str) -> String {
    let names = groups.iter().map(|group| group.name.as_str());
    suggest::did_you_mean(name, names.chain(PREDEFINED.map(|(name, _)| name)))
}

/// Parses the text of `file`. The groups are complete unless a diagnostic is an error.
pub fn parse(file: &Path, text: &str) -> (Vec<ChainPortGroup>, Vec<Diagnostic>) {
    let mut diagnostics = Diagnostics::new(file);
    let paragraphs = paragraphs(text, &GRAMMAR, &mut diagnostics);
    let mut groups: Vec<ChainPortGroup> = Vec::new();
    for paragraph in &paragraphs {
        let name = paragraph.required("name", SECTION, &mut diagnostics);
        let name = name.unwrap_or(paragraph.at.after());
        check_name(name, &groups, &mut diagnostics);
        groups.push(ChainPortGroup {
            name: name.text().to_owned(),
            usage: paragraph.usage(),
            line: paragraph.at.line,
            rules: Vec::new(),
        });
    }
    for (index, paragraph) in paragraphs.iter().enumerate() {
        let rules = rules(paragraph, index, &groups, &mut diagnostics);
        groups[index].rules = rules;
    }
    report_cycles(&paragraphs, &groups, &mut diagnostics);
    (groups, diagnostics.into_sorted())
}

fn check_name(name: Span<'_>, groups: &[ChainPortGroup], diagnostics: &mut Diagnostics<'_>) {
    let text = name.text();
    if PREDEFINED.iter().any(|(known, _)| *known == text) {
        diagnostics.error(name, format!("group `{text}` is predefined and cannot be defined"));
    }
    if text.contains(',') {
        diagnostics.error(name, "the name of a group may not have a comma".to_owned());
    }
    let earlier = groups.iter().rfind(|group| !text.is_empty() && group.name == text);
    if let Some(earlier) = earlier {
        diagnostics
            .warning(name, format!("group `{text}` replaces the one in line {}", earlier.line));
    }
}

/// The rules of the group with this index.
fn rules(
    paragraph: &Paragraph<'_>,
    index: usize,
    groups: &[ChainPortGroup],
    diagnostics: &mut Diagnostics<'_>,
) -> Vec<PortRule> {
    let mut rules = Vec::new();
    let mut has_rule = false;
    for qualifier in paragraph.qualifiers.iter() {
        let rule = match qualifier.name {
            "port-guid" => guids(qualifier, diagnostics),
            "port-guid-range" => guid_range(qualifier, diagnostics),
            "port-name" => names(qualifier, diagnostics),
            "port-regexp" => pattern(qualifier.single(), diagnostics),
            "union-rule" => two_groups(qualifier, index, groups, diagnostics).map(PortRule::Union),
            "subtract-rule" => {
                two_groups(qualifier, index, groups, diagnostics).map(PortRule::Subtract)
            }
            _ => continue,
        };
        has_rule = true;
        rules.extend(rule);
    }
    if !has_rule {
        let message = "this `port-group` has no rule such as `port-guid:`";
        diagnostics.error(paragraph.at, message);
    }
    rules
}

fn guids(qualifier: &Qualifier<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<PortRule> {
    let items: Vec<_> = qualifier.items();
    let list: Vec<_> = items.iter().filter_map(|&item| guid_ports(item, diagnostics)).collect();
    (list.len() == items.len()).then_some(PortRule::Guids(list))
}

/// `0x283`, `0x283@3`, `0x283@2-5/7/9-13`.
fn guid_ports(item: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<GuidPorts> {
    let (head, ports) = match item.split_once('@') {
        (head, Some(ports)) => (head, Some(ports)),
        // The manual's last example has a slash in place of the at sign.
        _ => item.split_once('/'),
    };
    if ports.is_some() && !item.text().contains('@') {
        let message = "the ports of a GUID follow `@`; the first `/` is read as `@`";
        diagnostics.warning(head.after(), message);
    }
    let guid = parsed_guid(head.trim(), diagnostics)?;
    let mut ranges = Vec::new();
    for part in ports.into_iter().flat_map(|ports| split(ports, '/')) {
        ranges.push(port_range(part.trim(), diagnostics)?);
    }
    Some(GuidPorts { guid, ports: ranges })
}

/// The parts between separators.
fn split<'a>(span: Span<'a>, separator: char) -> Vec<Span<'a>> {
    let mut parts = Vec::new();
    let mut rest = Some(span);
    while let Some(span) = rest {
        let (head, tail) = span.split_once(separator);
        parts.push(head);
        rest = tail;
    }
    parts
}

fn port_range(span: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<(u8, u8)> {
    let (first, last) = span.split_once('-');
    let first_port = port(first.trim(), diagnostics)?;
    let last_port = match last {
        Some(last) => port(last.trim(), diagnostics)?,
        None => first_port,
    };
    if first_port > last_port {
        let message = format!("ports {first_port}-{last_port}: the first is above the last");
        diagnostics.error(span, message);
        return None;
    }
    Some((first_port, last_port))
}

fn port(span: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<u8> {
    let value = number(span.text()).and_then(|value| u8::try_from(value).ok());
    let value = value.filter(|value| (1..=254).contains(value));
    if value.is_none() {
        let message = format!("a port is a number from 1 to 254, not {}", quoted(span.text()));
        diagnostics.error(span, message);
    }
    value
}

fn parsed_guid(span: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<Guid> {
    guid(span.text()).map_err(|message| diagnostics.error(span, message)).ok()
}

fn guid_range(qualifier: &Qualifier<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<PortRule> {
    let items = qualifier.items();
    if let Some(second) = items.get(1) {
        let message = "`port-guid-range:` has one range; use several of them for more ranges";
        diagnostics.error(*second, message);
        return None;
    }
    let range = qualifier.single();
    let (first, Some(last)) = range.split_once('-') else {
        diagnostics.error(range, "a range is two GUIDs with `-` between them");
        return None;
    };
    if let (_, Some(ports)) = range.split_once('@') {
        diagnostics.error(ports, "a range of GUIDs cannot have port numbers");
        return None;
    }
    let ends = (parsed_guid(first.trim(), diagnostics), parsed_guid(last.trim(), diagnostics));
    let (Some(first), Some(last)) = ends else { return None };
    if first > last {
        diagnostics.error(range, "the first GUID of the range is above the last");
        return None;
    }
    Some(PortRule::GuidRange(first, last))
}

fn names(qualifier: &Qualifier<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<PortRule> {
    let items = qualifier.items();
    let list: Vec<_> = items.iter().filter_map(|&item| host_ports(item, diagnostics)).collect();
    (list.len() == items.len()).then_some(PortRule::Names(list))
}

/// `hostname=kuku; port=2; hca_idx=1`, with semicolons or blanks between.
fn host_ports(item: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<HostPorts> {
    let mut hostname = None;
    let mut ports = None;
    let mut hca_index = None;
    for field in split(item, ';').into_iter().flat_map(words) {
        let (name, value) = field.assignment();
        let value = value.unwrap_or(name.after());
        match name.text() {
            "hostname" if !value.is_empty() => hostname = Some(value.text().to_owned()),
            "port" => ports = Some(port(value, diagnostics)?),
            "hca_idx" => hca_index = Some(port(value, diagnostics)?),
            "hostname" => {
                diagnostics.error(name, "`hostname=` has no value");
                return None;
            }
            other => {
                let hint = suggest::did_you_mean(other, ["hostname", "port", "hca_idx"]);
                let message = format!(
                    "{} is none of `hostname=`, `port=` and `hca_idx=`{hint}",
                    quoted(other)
                );
                diagnostics.error(name, message);
                return None;
            }
        }
    }
    if hostname.is_none() {
        diagnostics.error(item, "`port-name:` needs a `hostname=`");
    }
    Some(HostPorts { hostname: hostname?, port: ports, hca_index })
}

/// The words of a text.
fn words(span: Span<'_>) -> Vec<Span<'_>> {
    let mut found = Vec::new();
    let mut rest = span.trim();
    while !rest.is_empty() {
        let text = rest.text();
        let (word, after) = rest.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        found.push(word);
        rest = after.trim();
    }
    found
}

/// A regular expression, and a port number after its last colon.
fn pattern(value: Span<'_>, diagnostics: &mut Diagnostics<'_>) -> Option<PortRule> {
    let text = value.text();
    let (expression, port_number) = match text.rfind(':') {
        Some(at) => {
            let (head, tail) = value.split_at(at);
            (head, Some(port(tail.split_at(1).1.trim(), diagnostics)?))
        }
        None => (value, None),
    };
    let expression = expression.trim();
    match Pattern::new(expression.text()) {
        Ok(pattern) => Some(PortRule::Pattern(pattern, port_number)),
        Err(problem) => {
            diagnostics.error(expression, problem);
            None
        }
    }
}

fn two_groups(
    qualifier: &Qualifier<'_>,
    index: usize,
    groups: &[ChainPortGroup],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<[GroupRef; 2]> {
    let items = qualifier.items();
    let &[first, second] = &items[..] else {
        let message = format!("`{}:` needs two groups, not {}", qualifier.name, items.len());
        diagnostics.error(qualifier.single(), message);
        return None;
    };
    let first = defined_group(first, index, groups, diagnostics);
    let second = defined_group(second, index, groups, diagnostics);
    Some([first?, second?])
}

fn defined_group(
    span: Span<'_>,
    index: usize,
    groups: &[ChainPortGroup],
    diagnostics: &mut Diagnostics<'_>,
) -> Option<GroupRef> {
    let name = span.text();
    let found = referred(groups, index, name);
    if found.is_none() {
        let hint = hint(groups, name);
        diagnostics.error(span, format!("there is no group {}{hint}", quoted(name)));
    }
    found
}

/// The group that a name stands for in the definition of group `index`: its own name is that of
/// the definition which this one replaces.
fn referred(groups: &[ChainPortGroup], index: usize, name: &str) -> Option<GroupRef> {
    if groups[index].name == name {
        let earlier = groups[..index].iter().rposition(|group| group.name == name);
        return Some(GroupRef::Defined(earlier.unwrap_or(index)));
    }
    find(groups, name)
}

/// Reports groups that refer to themselves through others.
fn report_cycles(
    paragraphs: &[Paragraph<'_>],
    groups: &[ChainPortGroup],
    diagnostics: &mut Diagnostics<'_>,
) {
    let references: Vec<Vec<usize>> = groups.iter().map(references).collect();
    let mut state = vec![GroupVisit::New; groups.len()];
    for start in 0..groups.len() {
        let mut trail = Vec::new();
        if let Some(cycle) = cycle_from(start, &references, &mut state, &mut trail) {
            let names: Vec<&str> = cycle.iter().map(|&group| &*groups[group].name).collect();
            let message = format!("group `{}` refers to itself: {}", names[0], names.join(" -> "));
            diagnostics.add(
                Severity::Error,
                paragraphs[cycle[0]].at.line,
                paragraphs[cycle[0]].at.column(),
                message,
            );
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupVisit {
    New,
    Open,
    Done,
}

/// Follows references from `start` without recursion. Returns a cycle that begins and ends with
/// the same group.
fn cycle_from(
    start: usize,
    references: &[Vec<usize>],
    state: &mut [GroupVisit],
    trail: &mut Vec<(usize, usize)>,
) -> Option<Vec<usize>> {
    if state[start] != GroupVisit::New {
        return None;
    }
    state[start] = GroupVisit::Open;
    trail.push((start, 0));
    let mut found = None;
    while let Some(last) = trail.last_mut() {
        let group = last.0;
        let next = last.1;
        last.1 += 1;
        let Some(&to) = references[group].get(next) else {
            state[group] = GroupVisit::Done;
            trail.pop();
            continue;
        };
        match state[to] {
            GroupVisit::New => {
                state[to] = GroupVisit::Open;
                trail.push((to, 0));
            }
            GroupVisit::Open if found.is_none() => {
                let passed = trail.iter().map(|(group, _)| *group).skip_while(|&at| at != to);
                found = Some(passed.chain([to]).collect());
            }
            _ => {}
        }
    }
    found
}

fn references(group: &ChainPortGroup) -> Vec<usize> {
    let pairs = group.rules.iter().filter_map(|rule| match rule {
        PortRule::Union(pair) | PortRule::Subtract(pair) => Some(*pair),
        _ => None,
    });
    pairs
        .flatten()
        .filter_map(|group| match group {
            GroupRef::Defined(index) => Some(index),
            _ => None,
        })
        .collect()
}
