//! Failures of devices that a sweep encountered.

use crate::ids::Guid;
use crate::wire::smp::DirectedRoute;

/// A failure that a sweep encountered. The sweep continues without the device.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DiscoveryFault {
    /// Two nodes answer with the same node GUID.
    #[error("duplicate node GUID {guid}: at path {first} and at path {second}")]
    DuplicateNodeGuid {
        guid: Guid,
        /// Directed route to the node in the snapshot.
        first: DirectedRoute,
        /// Directed route to the other one.
        second: DirectedRoute,
    },
    /// Two ports of different nodes answer with the same port GUID.
    #[error("duplicate port GUID {guid}: at path {first} and at path {second}")]
    DuplicatePortGuid {
        guid: Guid,
        /// Directed route to the port in the snapshot.
        first: DirectedRoute,
        /// Directed route to the other one.
        second: DirectedRoute,
    },
    /// A node or port did not answer, although its link is up.
    #[error("no answer to {attribute} from {what} at path {route}")]
    NoAnswer {
        /// Name of the requested attribute.
        attribute: &'static str,
        /// GUID, port and description as far as known, or the place of the device.
        what: String,
        route: DirectedRoute,
    },
    /// A device of the last snapshot does not answer, and nothing shows that it is gone: it stays in
    /// the snapshot as it was last known.
    #[error(
        "{what} at path {route} does not answer, and no neighbour reports its link down: its LIDs \
         and routes stay as they are, and it is asked again"
    )]
    Unresponsive {
        guid: Guid,
        /// Kind, GUID and description.
        what: String,
        route: DirectedRoute,
    },
    /// A device answered with invalid data.
    #[error("{what} at path {route}: {problem}")]
    InvalidAnswer {
        /// GUID, port and description.
        what: String,
        route: DirectedRoute,
        problem: String,
    },
}
