//! Whether the routes of a focused sweep still lead to the devices of the last snapshot.
//!
//! After cables were moved, a directed route may end at another switch, whose answers would be
//! taken for those of the expected one. So NodeInfo of each suspect, and of the peer of the local
//! port, is read with them. If it is that of another device, the sweep is of no use, and a heavy
//! sweep follows, which uses no earlier route.

use crate::fabric::Node;
use crate::wire::attr::NodeInfo;

/// A route to a known node that leads to another device, by the NodeInfo of that.
pub(super) fn misrouting(known: &Node, found: &NodeInfo) -> Option<String> {
    let expected = known.guid();
    let found = found.node_guid();
    (expected != found)
        .then(|| format!("route {} leads to {found}, not to {expected}", known.route))
}
