//! Finds the port that sent a request.

use super::counters::DropReason;
use super::registry::Registry;
use super::view::SubnetView;
use crate::fabric::virtual_ports::EndPort;
use crate::transport::Address;
use crate::wire::attr::NodeKind;

/// The port or vport that sent a MAD: the owner of the source LID, which the sender's hardware writes,
/// or the vport of the same physical port whose GID is in the global route header.
///
/// Senders choose the GID in the global route header freely. One of this subnet must not be that of
/// another port and, with `is_strict` (`sa_check_sgid_spoofing`), must be one of the sender. One of
/// another subnet is accepted, with `is_strict` from routers only.
pub(super) fn find(
    view: &SubnetView<'_>,
    registry: &Registry,
    from: &Address,
    is_strict: bool,
) -> Result<EndPort, DropReason> {
    let port = view.lids().owner(from.lid).ok_or(DropReason::UnknownRequester)?;
    let physical = port.physical;
    let Some(grh) = from.grh else { return Ok(port) };
    if !view.is_local_prefix(grh.gid.prefix()) {
        let is_plausible = !is_strict || view.fabric().node_of(physical).kind() == NodeKind::Router;
        return if is_plausible { Ok(port) } else { Err(DropReason::ForgedGid) };
    }
    let claimed = grh.gid.guid();
    let by_alias = registry.aliases.port(claimed);
    let owner = view.fabric().end_port_by_guid(by_alias.unwrap_or(claimed));
    match owner {
        Some(owner) if owner.physical == physical => Ok(owner),
        None if !is_strict && by_alias.is_none() => Ok(port),
        _ => Err(DropReason::ForgedGid),
    }
}
