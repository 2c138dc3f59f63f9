//! Devices and links that do not work as planned, for the operator.

use crate::apply::set_failures::{RefusedSet, SetFailures};
use crate::fabric::Fabric;
use crate::fabric::quarantined::{QuarantineCause, QuarantinedLink};
use crate::ids::{Guid, PortNum};
use crate::notes::Note;
use crate::wire::attr::AttrId;
use crate::wire::mad::Status;

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

    /// One message for each, with node, port and path.
    pub fn notes(&self, fabric: &Fabric) -> Vec<Note> {
        let refused = self.refused.iter().map(|set| refused_note(set, fabric));
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

fn refused_note(set: &RefusedSet, fabric: &Fabric) -> Note {
    let device = describe(fabric, set.node, set.port);
    let (attribute, modifier) = (AttrId::name(set.attr_id), set.attr_mod);
    let (status, name) = (set.status, Status::name(set.status));
    Note::warning(format!(
        "{device} refuses Set({attribute}, 0x{modifier:x}) with status 0x{status:04x} ({name}); \
         {}; it is tried again after a delay",
        consequence(set)
    ))
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
