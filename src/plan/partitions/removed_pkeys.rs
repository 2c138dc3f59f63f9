//! The former table indexes of keys that were removed from ports.
//!
//! Clients address keys by index, and some cache the index of a partition even after its key was
//! removed. While the subnet manager runs, the index of a removed key is therefore reused only when
//! no other index is free, and a key that returns gets its former index. Present keys need no
//! record, because they keep their indexes anyway; keys written by an earlier subnet manager are
//! treated like own ones. The records of a port are dropped when it leaves the fabric, and all
//! records are lost on a restart, as with OpenSM.

use crate::ids::{Guid, Pkey};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Removed keys with their former indexes, by port GUID.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemovedPkeys(Arc<BTreeMap<Guid, Vec<(Pkey, u16)>>>);

impl RemovedPkeys {
    pub fn new(ports: impl IntoIterator<Item = (Guid, Vec<(Pkey, u16)>)>) -> Self {
        Self(Arc::new(ports.into_iter().collect()))
    }

    /// The removed keys with their former indexes, by port GUID.
    pub fn iter(&self) -> impl Iterator<Item = (Guid, &[(Pkey, u16)])> {
        self.0.iter().map(|(&port, keys)| (port, &keys[..]))
    }

    /// The removed keys of a port, with their former indexes.
    pub fn of(&self, port: Guid) -> &[(Pkey, u16)] {
        self.0.get(&port).map_or(&[], Vec::as_slice)
    }
}
