//! Log lines about ports that joined or left the subnet, with OpenSM's wording.

use crate::fabric::{Fabric, PortId};
use crate::ids::{Gid, Guid, Lid};
use crate::publish::Subnet;
use tracing::info;

/// Number of ports that joined or left at once from which only their number is logged.
const MAX_PORTS: usize = 1024;

/// Logs the end ports in which two subnets differ, the latter the later one. Nothing is logged about the
/// first subnet of a master, as in OpenSM.
pub fn changes(before: Option<&Subnet>, after: &Subnet) {
    // Most changes are of links, and must not wait for a search in all ports.
    let Some(before) = before.filter(|before| !before.fabric.shares_index(&after.fabric)) else {
        return;
    };
    let removed = absent(&before.fabric, &after.fabric);
    for &port in removed.iter().take(MAX_PORTS) {
        let PortWords { gid, first, last, name, guid } = PortWords::of(before, port);
        info!(
            place = "log_notice",
            "Reporting Informational Notice \"GID out of service\", GID:{gid}"
        );
        info!(
            place = "drop_mgr_remove_port",
            event = "port_removed",
            "Removed port with GUID:{guid} LID range [{first}, {last}] of node:{name}"
        );
    }
    let found = absent(&after.fabric, &before.fabric);
    for &port in found.iter().take(MAX_PORTS) {
        let PortWords { gid, first, last, name, guid } = PortWords::of(after, port);
        info!(place = "log_notice", "Reporting Informational Notice \"GID in service\", GID:{gid}");
        info!(
            place = "state_mgr_report_new_ports",
            event = "port_discovered",
            "Discovered new port with GUID:{guid} LID range [{first},{last}] of node: {name}"
        );
    }
    let further = [&removed, &found].map(|ports| ports.len().saturating_sub(MAX_PORTS));
    if further != [0; 2] {
        info!("{} further ports were removed, and {} discovered", further[0], further[1]);
    }
}

/// The end ports of a fabric that another one has not.
fn absent(fabric: &Fabric, other: &Fabric) -> Vec<PortId> {
    fabric
        .end_ports()
        .filter(|port| other.port_by_guid(fabric.port(*port).guid).is_none())
        .collect()
}

/// What the log says of a port.
struct PortWords {
    gid: Gid,
    first: Lid,
    last: Lid,
    name: String,
    guid: Guid,
}

impl PortWords {
    fn of(subnet: &Subnet, port: PortId) -> Self {
        let guid = subnet.fabric.port(port).guid;
        let lids = &subnet.plan.lids;
        let first = lids.base_or_zero(port);
        let last = Lid(first.0.saturating_add((1 << lids.lmc(port)) - 1));
        let name = subnet.fabric.node_of(port).name().to_string();
        Self { gid: Gid::new(subnet.options.subnet_prefix, guid), first, last, name, guid }
    }
}
