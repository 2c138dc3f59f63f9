//! What outlives a plan: where keys stood that ports have no more.
//!
//! Clients address keys by index, and some remember the index of a partition that was taken from
//! them. So, while the subnet manager runs, the index of a key that left a table is not given
//! to another one while there are others, and a key that comes back gets it again. What a device
//! holds is kept anyway, so nothing but the keys that are gone has to be remembered; what was
//! found on devices that another subnet manager left counts as if this one had put it there. A port
//! that leaves the fabric is forgotten, and so is everything on a restart, as with OpenSM.

use crate::ids::{Guid, Pkey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The keys that ports have no more, with the indexes they had.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemovedPkeys(Arc<BTreeMap<Guid, Vec<(Pkey, u16)>>>);

impl RemovedPkeys {
    /// Keys and indexes by port GUID.
    pub fn new(ports: impl IntoIterator<Item = (Guid, Vec<(Pkey, u16)>)>) -> Self {
        Self(Arc::new(ports.into_iter().collect()))
    }

    /// The keys that a port has no more, and where they stood.
    pub fn of(&self, port: Guid) -> &[(Pkey, u16)] {
        self.0.get(&port).map_or(&[], Vec::as_slice)
    }
}
