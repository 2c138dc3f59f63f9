//! Sections → [`QosPolicy`]: names of port groups and levels to indexes, and the default level.

use super::policy::{MatchRule, PortFilter, QosLevel, QosPolicy, SlToVlScope, VlArbScope};
use super::reader::Sections;
use super::section::{NamedRule, NamedScope, Names, SectionContent};
use crate::config::diagnostic::Diagnostics;
use crate::config::span::Span;
use crate::config::suggest::did_you_mean;
use crate::ids::Sl;
use crate::notes::Severity;
use std::path::Path;

/// Name of the level of queries that match no rule.
const DEFAULT_LEVEL: &str = "default";

// OpenSM's numbers of errors.
const NO_DEFAULT: &str = "AC10";
const NO_LEVEL: &str = "AC11";
const NO_SOURCE: &str = "AC12";
const NO_DESTINATION: &str = "AC13";

/// Builds the policy. It is meaningless if a diagnostic is an error.
pub(super) fn resolve(
    file: &Path,
    sections: Sections<'_>,
    diagnostics: &mut Diagnostics<'_>,
) -> QosPolicy {
    let policy = QosPolicy { file: file.to_path_buf(), ..QosPolicy::default() };
    let mut resolver = PolicyResolver { policy, diagnostics };
    let mut referring = Vec::new();
    for section in sections.sections {
        match section.content {
            SectionContent::PortGroup(group) => resolver.policy.groups.push(group),
            SectionContent::Level(level) => resolver.policy.levels.push(level),
            content => referring.push(content),
        }
    }
    resolver.report_duplicates();
    for content in referring {
        match content {
            SectionContent::VlArb(scope) => resolver.vlarb_scope(scope),
            SectionContent::SlToVl(scope) => resolver.sl2vl_scope(scope),
            SectionContent::Rule(rule) => resolver.rule(rule),
            SectionContent::PortGroup(_) | SectionContent::Level(_) => {}
        }
    }
    resolver.default_level(sections.ulp_default);
    let mut policy = resolver.policy;
    for (rule, sl) in sections.ulp_rules {
        let level = implied_level(&mut policy.levels, sl, rule.line);
        policy.rules.push(MatchRule { level, ..rule });
    }
    policy
}

struct PolicyResolver<'d, 'f> {
    policy: QosPolicy,
    diagnostics: &'d mut Diagnostics<'f>,
}

impl PolicyResolver<'_, '_> {
    fn report_duplicates(&mut self) {
        let groups = self.policy.groups.iter().map(|group| (&*group.name, group.line)).collect();
        report_duplicates(groups, "port group", self.diagnostics);
        let levels = self.policy.levels.iter().map(|level| (&*level.name, level.line)).collect();
        report_duplicates(levels, "level", self.diagnostics);
    }

    fn vlarb_scope(&mut self, section: NamedScope<'_, VlArbScope>) {
        let groups = self.groups(&section.groups, None);
        let across = self.groups(&section.across, None);
        self.policy.vl_arbitration.push(VlArbScope { groups, across, ..section.scope });
    }

    fn sl2vl_scope(&mut self, section: NamedScope<'_, SlToVlScope>) {
        let scope = SlToVlScope {
            groups: self.groups(&section.groups, None),
            across: self.groups(&section.across, None),
            across_from: self.groups(&section.across_from, None),
            across_to: self.groups(&section.across_to, None),
            ..section.scope
        };
        self.policy.sl_to_vl.push(scope);
    }

    fn rule(&mut self, section: NamedRule<'_>) {
        let source = self.port_filter(&section.sources, Some(NO_SOURCE));
        let destination = self.port_filter(&section.destinations, Some(NO_DESTINATION));
        let level = self.level(section.level_name, section.level_number);
        self.policy.rules.push(MatchRule { source, destination, level, ..section.rule });
    }

    fn port_filter(&mut self, names: &Names<'_>, code: Option<&'static str>) -> Option<PortFilter> {
        let groups = self.groups(names, code);
        (!names.is_empty()).then(|| PortFilter { groups, ..PortFilter::default() })
    }

    /// The indexes of port groups; `code` is that of an error for a name without a group.
    fn groups(&mut self, names: &Names<'_>, code: Option<&'static str>) -> Vec<usize> {
        let groups = &self.policy.groups;
        let mut indexes = Vec::new();
        for (name, at) in names {
            match groups.iter().position(|group| is_same_name(&group.name, name)) {
                Some(index) => indexes.push(index),
                None => {
                    let hint = did_you_mean(name, groups.iter().map(|group| &*group.name));
                    let message = format!("there is no port group `{name}`{hint}");
                    self.diagnostics.coded_error(code, Some(*at), message);
                }
            }
        }
        indexes
    }

    fn level(
        &mut self,
        name: Option<(String, Span<'_>)>,
        number: Option<(u64, Span<'_>)>,
    ) -> usize {
        let levels = &self.policy.levels;
        if let Some((name, at)) = name {
            let level = levels.iter().position(|level| is_same_name(&level.name, &name));
            return level.unwrap_or_else(|| {
                let hint = did_you_mean(&name, levels.iter().map(|level| &*level.name));
                let message = format!("there is no qos-level `{name}`{hint}");
                self.diagnostics.coded_error(Some(NO_LEVEL), Some(at), message);
                0
            });
        }
        let Some((number, at)) = number else { return 0 };
        let index = usize::try_from(number).unwrap_or(usize::MAX);
        if index >= levels.len() {
            let count = levels.len();
            let message =
                format!("there is no qos-level {number}: the file has {count}, counted from 0");
            self.diagnostics.coded_error(Some(NO_LEVEL), Some(at), message);
        }
        index
    }

    /// Sets the default level: the level named DEFAULT, else the default of `qos-ulps`, else, if
    /// rules refer to levels by number, the first level.
    fn default_level(&mut self, ulp_default: Option<(Sl, u32)>) {
        let levels = &mut self.policy.levels;
        let named = levels.iter().position(|level| is_same_name(&level.name, DEFAULT_LEVEL));
        let by_number = levels.iter().any(|level| level.name.is_empty());
        self.policy.default = match (named, ulp_default) {
            (Some(index), _) => index,
            (None, Some((sl, line))) => implied_level(levels, sl, line),
            (None, None) => 0,
        };
        if named.is_none() && ulp_default.is_none() && !by_number {
            let message = "there is no default: write a qos-level named DEFAULT, or `default : SL` \
                           in qos-ulps";
            self.diagnostics.coded_error(Some(NO_DEFAULT), None, message.to_owned());
        }
    }
}

/// Warns of groups or levels, given as names and lines, that an earlier one of the same name hides.
fn report_duplicates(names: Vec<(&str, u32)>, what: &str, diagnostics: &mut Diagnostics<'_>) {
    for (index, (name, line)) in names.iter().enumerate() {
        let earlier = names[..index].iter().find(|(known, _)| is_same_name(known, name));
        if let Some((_, first)) = earlier.filter(|_| !name.is_empty()) {
            let message = format!(
                "the {what} `{name}` of line {first} has the same name and is used instead"
            );
            diagnostics.add(Severity::Warning, *line, 0, message);
        }
    }
}

/// The level that `qos-ulps` implies for an SL; adds it if it is missing.
fn implied_level(levels: &mut Vec<QosLevel>, sl: Sl, line: u32) -> usize {
    let level = QosLevel { name: format!("SL {sl} of qos-ulps"), sl, ..QosLevel::default() };
    let known = levels.iter().position(|known| known.name == level.name && known.sl == sl);
    known.unwrap_or_else(|| {
        levels.push(QosLevel { line, ..level });
        levels.len() - 1
    })
}

/// Compares names without regard to case and blanks.
fn is_same_name(a: &str, b: &str) -> bool {
    plain(a) == plain(b)
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}
