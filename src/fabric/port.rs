//! A port slot of a snapshot.

use super::{NodeId, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::{PortInfo, PortState};
use std::sync::Arc;

/// A port slot, whether or not the port exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Port {
    pub node: NodeId,
    pub num: PortNum,
    /// All ports of a switch have the GUID of its port 0; 0 if unknown.
    pub guid: Guid,
    /// Snapshots with other nodes share it, although the indexes of their ports differ.
    port_info: Option<Arc<PortInfo>>,
    /// The port at the far end of the cable.
    pub peer: Option<PortId>,
}

impl Port {
    /// A port of which nothing else is known.
    pub fn new(node: NodeId, num: PortNum, guid: Guid) -> Self {
        Self { node, num, guid, port_info: None, peer: None }
    }

    /// Adds PortInfo.
    pub fn with_info(self, info: Option<Arc<PortInfo>>) -> Self {
        Self { port_info: info, ..self }
    }

    /// PortInfo; `None` for ports that do not exist, were not reached or did not answer.
    #[inline]
    pub fn info(&self) -> Option<PortInfo> {
        self.port_info.as_deref().copied()
    }

    /// [`Self::info`], as snapshots share it.
    pub fn shared_info(&self) -> &Option<Arc<PortInfo>> {
        &self.port_info
    }

    /// Replaces PortInfo by that of another port.
    pub fn share_info(&mut self, other: &Self) {
        self.port_info.clone_from(&other.port_info);
    }

    /// Replaces PortInfo.
    pub fn set_info(&mut self, info: Option<PortInfo>) {
        if self.info() != info {
            self.port_info = info.map(Arc::new);
        }
    }

    /// Changes PortInfo, if it is known.
    pub fn change_info(&mut self, change: impl FnOnce(&mut PortInfo)) {
        if let Some(info) = &mut self.port_info {
            change(Arc::make_mut(info));
        }
    }

    /// Logical state; `Down` if unknown.
    pub fn state(&self) -> PortState {
        self.port_info.as_ref().map_or(PortState::Down, |info| info.port_state())
    }
}
