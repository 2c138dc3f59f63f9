//! The fields of port groups, scopes, levels and rules.

use super::field_value::FieldValue;
use super::policy::{QosLevel, QosPortGroup, SlToVlScope, VlArbScope};
use super::section::{NamedRule, NamedScope, PolicySection, SectionContent};
use crate::config::diagnostic::Diagnostics;
use crate::config::literal;
use crate::config::span::Span;
use crate::ids::Sl;

/// Sets a field of a section that may contain it. `parts` are the lines of its value.
pub(super) fn set<'a>(
    section: &mut PolicySection<'a>,
    name: &'static str,
    at: Span<'a>,
    parts: &[Span<'a>],
    diagnostics: &mut Diagnostics<'_>,
) {
    if let Err(line) = section.record(name, at) {
        diagnostics.error(at, format!("`{name}` is already set in line {line}"));
        return;
    }
    let value = FieldValue { at, parts };
    match &mut section.content {
        SectionContent::PortGroup(group) => set_in_group(group, name, &value, diagnostics),
        SectionContent::VlArb(scope) => set_in_vlarb(scope, name, &value, diagnostics),
        SectionContent::SlToVl(scope) => set_in_sl2vl(scope, name, &value, diagnostics),
        SectionContent::Level(level) => set_in_level(level, name, &value, diagnostics),
        SectionContent::Rule(rule) => set_in_rule(rule, name, &value, diagnostics),
    }
}

fn set_in_group(
    group: &mut QosPortGroup,
    name: &str,
    value: &FieldValue<'_, '_>,
    diagnostics: &mut Diagnostics<'_>,
) {
    match name {
        "name" => group.name = value.name(diagnostics).map_or(String::new(), |(name, _)| name),
        "use" => group.purpose = value.words(),
        "port-guid" => group.guids.extend(value.ranges("a port GUID", u64::MAX, diagnostics)),
        "port-name" => group.names.extend(value.port_names(diagnostics)),
        "pkey" => group.pkeys.extend(value.pkeys(diagnostics)),
        "partition" => {
            group.partitions.extend(value.names(diagnostics).into_iter().map(|(name, _)| name));
        }
        _ => value.node_kinds(&mut group.kinds, diagnostics),
    }
}

fn set_in_vlarb<'a>(
    section: &mut NamedScope<'a, VlArbScope>,
    name: &str,
    value: &FieldValue<'a, '_>,
    diagnostics: &mut Diagnostics<'_>,
) {
    match name {
        "group" => section.groups.extend(value.names(diagnostics)),
        "across" => section.across.extend(value.names(diagnostics)),
        "vlarb-high" => section.scope.high = value.arbitration(diagnostics),
        "vlarb-low" => section.scope.low = value.arbitration(diagnostics),
        _ => {
            let limit = value.number("a high limit", 255, diagnostics);
            section.scope.high_limit = limit.map(|limit| limit as u8);
        }
    }
}

fn set_in_sl2vl<'a>(
    section: &mut NamedScope<'a, SlToVlScope>,
    name: &str,
    value: &FieldValue<'a, '_>,
    diagnostics: &mut Diagnostics<'_>,
) {
    match name {
        "group" => section.groups.extend(value.names(diagnostics)),
        "across" => section.across.extend(value.names(diagnostics)),
        "across-from" => section.across_from.extend(value.names(diagnostics)),
        "across-to" => section.across_to.extend(value.names(diagnostics)),
        "from" => section.scope.from = value.port_choice(diagnostics),
        "to" => section.scope.to = value.port_choice(diagnostics),
        _ => set_mapping(&mut section.scope, value, diagnostics),
    }
}

fn set_mapping(
    scope: &mut SlToVlScope,
    value: &FieldValue<'_, '_>,
    diagnostics: &mut Diagnostics<'_>,
) {
    let vls = value.numbers("a VL", 15, diagnostics);
    if let Some((_, at)) = vls.get(scope.vls.len()) {
        diagnostics.error(*at, "a VL for a seventeenth SL: SLs are 0 to 15");
    }
    for (slot, (vl, at)) in scope.vls.iter_mut().zip(vls) {
        *slot = vl as u8;
        scope.written.push(at.into());
    }
}

fn set_in_level(
    level: &mut QosLevel,
    name: &str,
    value: &FieldValue<'_, '_>,
    diagnostics: &mut Diagnostics<'_>,
) {
    match name {
        "name" => level.name = value.name(diagnostics).map_or(String::new(), |(name, _)| name),
        "use" => level.purpose = value.words(),
        "sl" => level.sl = Sl(value.number("an SL", 15, diagnostics).unwrap_or(0) as u8),
        "mtu-limit" => level.mtu_limit = value.parsed(diagnostics, literal::mtu),
        "rate-limit" => level.rate_limit = value.rate(diagnostics),
        "packet-life" => {
            let life = value.number("a packet lifetime", 63, diagnostics);
            level.packet_life = life.map(|life| life as u8);
        }
        "path-bits" => level.path_bits.extend(value.ranges("path bits", 127, diagnostics)),
        _ => level.pkeys.extend(value.pkeys(diagnostics)),
    }
}

fn set_in_rule<'a>(
    section: &mut NamedRule<'a>,
    name: &str,
    value: &FieldValue<'a, '_>,
    diagnostics: &mut Diagnostics<'_>,
) {
    let rule = &mut section.rule;
    match name {
        "use" => rule.purpose = value.words(),
        "source" => section.sources.extend(value.names(diagnostics)),
        "destination" => section.destinations.extend(value.names(diagnostics)),
        "service-id" => {
            rule.service_ids.extend(value.ranges("a service ID", u64::MAX, diagnostics));
        }
        "qos-class" => rule.qos_classes.extend(value.ranges("a QoS class", 0xFFF, diagnostics)),
        "pkey" => rule.pkeys.extend(value.pkeys(diagnostics)),
        "qos-level-name" => section.level_name = value.name(diagnostics),
        _ => {
            let number = value.number("the number of a qos-level", u64::MAX, diagnostics);
            section.level_number = number.map(|number| (number, value.at));
        }
    }
}
