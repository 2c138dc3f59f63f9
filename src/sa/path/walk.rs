//! Follows a packet through the planned forwarding tables.

use super::PathEnds;
use crate::fabric::PortId;
use crate::ids::PortNum;
use crate::sa::path_index::MtuRate;
use crate::sa::view::SubnetView;

/// Maximum number of links of a path; tables that lead further contain a loop. Directed routes have
/// at most 63 hops (IBA vol. 1, 14.2.2).
const MAX_LINKS: usize = 64;

/// Properties of the links of a path.
pub(super) struct PathLimits {
    /// The lowest MTU and rate.
    pub mtu_rate: MtuRate,
    /// The SLs that an SL to VL table maps to VL 15: bit n for SL n.
    pub dropped_sls: u16,
}

/// A node on a path.
pub(in crate::sa) struct NodeTransit {
    /// Ingress port; `None` at the source node.
    pub entry: Option<PortId>,
    /// Egress port. At the destination node, and if source and destination are the same port, it is
    /// the destination port itself.
    pub exit: PortId,
    /// MTU and rate of the egress link, or of the destination port.
    mtu_rate: MtuRate,
}

/// Properties of the path that the tables provide; `None` if they do not deliver its packets.
pub(super) fn path_limits(view: &SubnetView<'_>, ends: &PathEnds) -> Option<PathLimits> {
    let policy = &view.plan().routing.policy;
    if ends.from.physical != ends.to.physical
        && !(policy.has_routes(ends.from.physical) && policy.has_routes(ends.to.physical))
    {
        return None;
    }
    limits_of_uniform_core(view, ends).or_else(|| limits_by_walk(view, ends))
}

/// Properties of a path through a uniform core, which depend on its ends only if the first switch has
/// an entry.
fn limits_of_uniform_core(view: &SubnetView<'_>, ends: &PathEnds) -> Option<PathLimits> {
    let core =
        view.path_index().uniform_core().filter(|_| ends.from.physical != ends.to.physical)?;
    let (first, from) = view.attachment(ends.from.physical)?;
    let (last, to) = view.attachment(ends.to.physical)?;
    view.egress(first, ends.dlid)?;
    let at_ends = from.min(to);
    let mtu_rate = if first == last { at_ends } else { at_ends.min(core) };
    Some(PathLimits { mtu_rate, dropped_sls: 0 })
}

fn limits_by_walk(view: &SubnetView<'_>, ends: &PathEnds) -> Option<PathLimits> {
    let mtu_rate = view.path_index().mtu_rate(ends.from.physical);
    let mut limits = PathLimits { mtu_rate, dropped_sls: 0 };
    walk(view, ends, |NodeTransit { entry, exit, mtu_rate }| {
        limits.mtu_rate = limits.mtu_rate.min(mtu_rate);
        if view.path_index().has_vl15_mappings() {
            let input = entry.map_or(PortNum::ZERO, |entry| view.fabric().port(entry).num);
            limits.dropped_sls |= view.dropped_sls(input, exit);
        }
    })
    .then_some(limits)
}

/// Calls `visit` for each node that forwards a packet of the path, from the source on, and for a
/// destination that is a switch. Returns false if the tables do not deliver the packet.
pub(in crate::sa) fn walk(
    view: &SubnetView<'_>,
    ends: &PathEnds,
    mut visit: impl FnMut(NodeTransit),
) -> bool {
    let path_index = view.path_index();
    let mut entry = None;
    let mut exit = match view.fabric().node_of(ends.from.physical).switch {
        Some(switch) => view.egress(switch, ends.dlid),
        _ => Some(ends.from.physical),
    };
    for _ in 0..MAX_LINKS {
        let Some(port) = exit else { return false };
        if port == ends.to.physical {
            visit(NodeTransit { entry, exit: port, mtu_rate: path_index.mtu_rate(port) });
            return true;
        }
        let Some(link) = path_index.link(port) else { return false };
        visit(NodeTransit { entry, exit: port, mtu_rate: link.mtu_rate });
        if link.peer == ends.to.physical {
            return true;
        }
        entry = Some(link.peer);
        exit = link.switch.and_then(|switch| view.egress(switch, ends.dlid));
    }
    false
}
