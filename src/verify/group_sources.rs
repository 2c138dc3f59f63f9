//! The SLs of packets from all switches to one LID.

use crate::fabric::PortId;
use crate::ids::{Lid, Sl};
use crate::plan::routing::{PathSources, RoutingPolicy};

/// The SL groups of the end ports at all switches, each with one of its ports.
pub(super) struct GroupSources<'a> {
    policy: &'a dyn RoutingPolicy,
    sources: PathSources,
    /// The switch of each source.
    switches: Vec<u32>,
}

impl<'a> GroupSources<'a> {
    pub(super) fn none(policy: &'a dyn RoutingPolicy) -> Self {
        Self { policy, sources: PathSources::default(), switches: Vec::new() }
    }

    pub(super) fn add(&mut self, switch: u32, port: PortId) {
        self.sources.add(self.policy, port);
        self.switches.push(switch);
    }

    /// Adds to `sls`, by switch and with one bit for each, the SLs of the paths to a LID of `destination`.
    /// `buffer` keeps its memory from one call to the next.
    pub(super) fn add_sls(
        &self,
        destination: PortId,
        lid: Lid,
        hints: &[Sl],
        buffer: &mut Vec<Sl>,
        sls: &mut [u16],
    ) {
        buffer.resize(self.switches.len(), Sl(0));
        for &hint in hints {
            self.policy.path_sls_to_lid(&self.sources, destination, lid, hint, buffer);
            for (&switch, sl) in self.switches.iter().zip(&*buffer) {
                sls[switch as usize] |= 1 << (sl.0 & 0xF);
            }
        }
    }
}
