//! The keywords of port groups, scopes, levels and rules: which field each one sets.

use super::draft::{Rule, Scope};
use super::read::Said;
use super::values::Value;
use super::{PortGroup, QosLevel, SlToVlScope, VlArbScope};
use crate::config::value;
use crate::ids::Sl;

pub(super) fn of_group(
    group: &mut PortGroup,
    name: &str,
    value: &Value<'_, '_>,
    said: &mut Said<'_>,
) {
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

pub(super) fn of_vlarb<'a>(
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

pub(super) fn of_sl2vl<'a>(
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
            for (slot, (vl, at)) in scope.done.vls.iter_mut().zip(vls) {
                *slot = vl as u8;
                scope.done.written.push(at.into());
            }
        }
    }
}

pub(super) fn of_level(
    level: &mut QosLevel,
    name: &str,
    value: &Value<'_, '_>,
    said: &mut Said<'_>,
) {
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

pub(super) fn of_rule<'a>(
    rule: &mut Rule<'a>,
    name: &str,
    value: &Value<'a, '_>,
    said: &mut Said<'_>,
) {
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
