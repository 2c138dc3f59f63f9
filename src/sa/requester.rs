//! Finds the port that sent a request.

use super::counters::DropReason;
use super::registry::Registry;
use super::view::SubnetView;
use crate::fabric::PortId;
use crate::transport::Address;
use crate::wire::attr::NodeKind;

/// The port that sent a MAD: the owner of the source LID, which the sender's hardware writes.
///
/// Senders choose the GID in the global route header freely. One of this subnet must not be that of
/// another port and, with `is_strict` (`sa_check_sgid_spoofing`), must be one of the sender. One of
/// another subnet is accepted, with `is_strict` from routers only.
pub(super) fn find(
    view: &SubnetView<'_>,
    registry: &Registry,
    from: &Address,
    is_strict: bool,
) -> Result<PortId, DropReason> {
    let port = view.lids().port(from.lid).ok_or(DropReason::UnknownRequester)?;
    let Some(grh) = from.grh else { return Ok(port) };
    let is_plausible = if view.is_local_prefix(grh.gid.prefix()) {
        let (own, claimed) = (view.guid(port), grh.gid.guid());
        let by_alias = registry.aliases.port(claimed);
        let is_of_other = || {
            view.fabric().port_by_guid(claimed).is_some()
                || by_alias.is_some_and(|owner| owner != own)
        };
        let is_own = claimed == own || by_alias == Some(own);
        is_own || !is_strict && !is_of_other()
    } else {
        !is_strict || view.fabric().node_of(port).kind() == NodeKind::Router
    };
    if is_plausible { Ok(port) } else { Err(DropReason::ForgedGid) }
}
