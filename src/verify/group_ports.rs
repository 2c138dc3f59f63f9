//! The SLs of packets from all switches to one LID.

use crate::fabric::PortId;
use crate::ids::{Lid, Sl};
use crate::plan::routing::RoutingPolicy;

/// The SL groups of the end ports at all switches, each with one of its ports.
#[derive(Default)]
pub(super) struct GroupPorts {
    ports: Vec<PortId>,
    /// The switch of each port.
    switches: Vec<u32>,
}

impl GroupPorts {
    pub(super) fn add(&mut self, switch: u32, port: PortId) {
        self.ports.push(port);
        self.switches.push(switch);
    }

    /// Adds to `sls`, by switch and with one bit for each, the SLs of the paths to a LID of `destination`.
    /// `buffer` keeps its memory from one call to the next.
    pub(super) fn add_sls(
        &self,
        policy: &dyn RoutingPolicy,
        destination: PortId,
        lid: Lid,
        hints: &[Sl],
        buffer: &mut Vec<Sl>,
        sls: &mut [u16],
    ) {
        buffer.resize(self.ports.len(), Sl(0));
        for &hint in hints {
            policy.path_sls_to_lid(&self.ports, destination, lid, hint, buffer);
            for (&switch, sl) in self.switches.iter().zip(&*buffer) {
                sls[switch as usize] |= 1 << (sl.0 & 0xF);
            }
        }
    }
}
