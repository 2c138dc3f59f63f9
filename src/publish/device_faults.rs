//! Devices and links that do not work as planned, for the operator.

use crate::apply::set_failures::{RefusedSet, SetFailures};
use crate::fabric::Fabric;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::ids::{Guid, PortNum};
use crate::notes::{Note, counted};
use crate::wire::attr::AttrId;
use crate::wire::mad::Status;
use std::collections::BTreeMap;

/// Devices and links that do not work as planned.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceFaults {
    /// Sets that devices refused.
    pub refused: Vec<RefusedSet>,
    /// Node GUIDs of devices that acknowledge no Sets.
    pub silent: Vec<Guid>,
    /// Links that are treated as down.
    pub quarantined: Vec<QuarantinedLink>,
}

impl DeviceFaults {
    pub fn new(failures: &SetFailures, quarantined: Vec<QuarantinedLink>) -> Self {
        Self { refused: failures.refused(), silent: failures.silent(), quarantined }
    }

    /// One message for each, with node, port and path; one for all Sets of an attribute that a device
    /// refuses in the same way.
    pub fn notes(&self, fabric: &Fabric) -> Vec<Note> {
        let refused = grouped(&self.refused).into_iter().map(|sets| refused_note(&sets, fabric));
        let silent = self.silent.iter().map(|&guid| {
            let device = describe(fabric, guid, PortNum::ZERO);
            Note::warning(format!("{device} acknowledges no Sets; it is tried again after a delay"))
        });
        let quarantined = self.quarantined.iter().map(|link| quarantine_note(link, fabric));
        refused.chain(silent).chain(quarantined).collect()
    }
}

fn quarantine_note(link: &QuarantinedLink, fabric: &Fabric) -> Note {
    let [near, far] = link.ends.map(|(guid, num)| describe(fabric, guid, num));
    let cause = match link.cause {
        QuarantineCause::Flaps => "flaps",
        QuarantineCause::Errors(_) => "reports errors",
        QuarantineCause::Operator => "was quarantined by an operator",
    };
    let end = match link.calm {
        Some(calm) => format!("it has been calm for {} s", calm.as_secs()),
        None => "an operator releases it".to_owned(),
    };
    Note::warning(format!(
        "the link between {near} and {far} {cause}; it is treated as down until {end}"
    ))
}

/// Groups refused Sets by device, attribute, status and consequence.
fn grouped(refused: &[RefusedSet]) -> Vec<Vec<&RefusedSet>> {
    let mut groups: BTreeMap<(Guid, u16, u16, bool), Vec<&RefusedSet>> = BTreeMap::new();
    for set in refused {
        let key = (set.node, set.attr_id, set.status, set.is_essential);
        groups.entry(key).or_default().push(set);
    }
    groups.into_values().collect()
}

/// The message about Sets of one group.
fn refused_note(sets: &[&RefusedSet], fabric: &Fabric) -> Note {
    let set = sets[0];
    let device = describe(fabric, set.node, set.port);
    let attribute = AttrId::name(set.attr_id);
    let modifier = set.attr_mod;
    let status = set.status;
    let name = Status::name(set.status);
    Note::warning(format!(
        "{device} refuses Set({attribute}, 0x{modifier:x}){} with status 0x{status:04x} ({name}); {}; it \
         is tried again after a delay{}",
        more_sets(sets.len() - 1),
        consequence(set),
        remedy(set)
    ))
}

fn more_sets(count: usize) -> String {
    match count {
        0 => String::new(),
        more => {
            let more = counted(more, "more Set", "more Sets");
            format!(" and {more} of this attribute to the device")
        }
    }
}

/// The remedy for a device that cannot hold SL to VL mappings.
pub const SL_TO_VL_REMEDY: &str = "if the device cannot hold this mapping, set \
    suppress_sl2vl_mad_status_errors TRUE: the subnet is up without it then, and packets use the VLs \
    that the device maps them to";

fn remedy(set: &RefusedSet) -> String {
    match set.attr_id {
        AttrId::SL_TO_VL => format!("; {SL_TO_VL_REMEDY}"),
        _ => String::new(),
    }
}

fn consequence(set: &RefusedSet) -> &'static str {
    match set.attr_id {
        _ if set.is_essential => "the subnet is incomplete",
        AttrId::VL_ARBITRATION => "the port shares its bandwidth among VLs differently",
        AttrId::PKEY_TABLE => "the partitions of the port are not those of the configuration",
        AttrId::SL_TO_VL => "packets that the device sends use other VLs",
        _ => "the port is ACTIVE with other settings",
    }
}

/// Node, port and directed route.
fn describe(fabric: &Fabric, guid: Guid, port: PortNum) -> String {
    let slot = fabric.node_by_guid(guid).and_then(|node| fabric.port_of(node, port));
    match slot {
        Some(slot) => format!("{} at path {}", fabric.describe(slot), fabric.route_to(slot)),
        None => format!("{guid}[{port}]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::SyntheticView;
    use crate::plan::tests::ring;

    #[test]
    fn a_switch_that_refuses_all_its_mappings_has_one_message_with_the_remedy() {
        let fabric = Fabric::from_topology(&ring(3, &[]), 0, &SyntheticView::default());
        let fabric = fabric.expect("a fabric");
        let node = fabric.switch(crate::fabric::SwitchId(1)).guid();
        let mut refused: Vec<RefusedSet> =
            (0..189).map(|at| set(AttrId::SL_TO_VL, at, node)).collect();
        refused.push(set(AttrId::LINEAR_FT, 0, node));
        let faults = DeviceFaults { refused, ..DeviceFaults::default() };
        let notes = faults.notes(&fabric);
        assert_eq!(notes.len(), 2, "{notes:?}");
        let mappings = notes.iter().find(|note| note.text.contains("188 more Sets"));
        let mappings = mappings.expect("the mappings are counted");
        assert!(mappings.text.contains("suppress_sl2vl_mad_status_errors"), "{mappings:?}");
    }

    fn set(attr_id: u16, attr_mod: u32, node: Guid) -> RefusedSet {
        RefusedSet { node, port: PortNum(1), attr_id, attr_mod, status: 0x1c, is_essential: true }
    }
}
