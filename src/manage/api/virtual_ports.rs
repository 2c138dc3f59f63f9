//! Vports of an adapter port.

use crate::ids::Guid;
use crate::vendor::virtual_ports::VirtualStatus;
use serde::Serialize;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VirtualPortsView {
    /// Highest index in use.
    top_index: u16,
    vports: Vec<VportView>,
    /// Why the vports of the port are not managed; null if they are.
    failure: Option<String>,
}

/// How many vports are in which state.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct VportCountsView {
    /// Ports that have vports.
    ports: usize,
    active: usize,
    /// In INIT, to be activated.
    init: usize,
    /// Vports that are not as planned.
    failed: usize,
    /// Ports whose vports cannot be managed.
    failed_ports: usize,
}

/// `None` unless this SM manages vports.
pub(super) fn vport_counts(status: &VirtualStatus) -> Option<VportCountsView> {
    let counts = status.counts();
    status.is_enabled.then_some(VportCountsView {
        ports: status.ports.len(),
        active: counts.active,
        init: counts.init,
        failed: counts.failed,
        failed_ports: counts.failed_ports,
    })
}

/// A vport that is not Down.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct VportView {
    index: u16,
    guid: String,
    /// GUID of the virtual node.
    vnode: String,
    /// Description of the virtual node.
    description: String,
    /// `INIT` or `ACTIVE`.
    state: String,
    /// It needs a LID of its own; otherwise it shares that of the port.
    lid_required: bool,
    /// The LID of its own; null if it has none.
    lid: Option<u16>,
    /// Why it is not ACTIVE as planned; null if it is.
    failure: Option<String>,
}

/// `None` if the port with this GUID has no vports, or they are not managed.
pub(super) fn virtual_ports(status: &VirtualStatus, port: Guid) -> Option<VirtualPortsView> {
    let port = status.ports.get(&port)?;
    Some(VirtualPortsView {
        top_index: port.top_index,
        vports: port
            .vports
            .iter()
            .map(|vport| VportView {
                index: vport.index,
                guid: vport.guid.to_string(),
                vnode: vport.vnode.to_string(),
                description: vport.description.to_string(),
                state: vport.state.to_string(),
                lid_required: vport.lid_required,
                lid: Some(vport.lid.0).filter(|&lid| lid != 0),
                failure: vport.failure.map(|failure| failure.to_string()),
            })
            .collect(),
        failure: port.failure.map(|failure| failure.to_string()),
    })
}
