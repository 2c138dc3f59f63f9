//! The cables at the ports of switches, in a compact form.
//!
//! The order of a transition follows some 100,000 paths. A step along a path in the arrays of the
//! fabric touches five of their entries, which lie far apart; in this table it touches one number.
//! The table fills while paths are followed, so that links that no path crosses cost nothing; several
//! threads may fill it at the same time, since each finds the same.

use super::is_active;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::PortNum;
use std::sync::atomic::{AtomicU32, Ordering};

/// Marks an entry that was looked up; 0 is one that was not.
const KNOWN: u32 = 1 << 31;
/// The index is that of a switch, not of a port of another node.
const SWITCH: u32 = 1 << 30;
/// Both ends of the link are ACTIVE.
const ACTIVE: u32 = 1 << 29;
/// The index of a port without a cable.
const OPEN: u32 = ACTIVE - 1;

/// The far end of a cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkPeer {
    Switch(SwitchId),
    /// A port of a node that is no switch.
    End(PortId),
}

/// The cables at switches.
pub(super) struct LinkTable<'a> {
    fabric: &'a Fabric,
    /// Number of entries for each switch.
    ports: usize,
    entries: Vec<AtomicU32>,
}

impl<'a> LinkTable<'a> {
    pub(super) fn new(fabric: &'a Fabric) -> Self {
        let ports = fabric
            .switches()
            .iter()
            .map(|&node| usize::from(fabric.node(node).num_ports()) + 1)
            .max()
            .unwrap_or(0);
        let mut entries = Vec::new();
        entries.resize_with(fabric.switches().len() * ports, AtomicU32::default);
        Self { fabric, ports, entries }
    }

    pub(super) fn fabric(&self) -> &'a Fabric {
        self.fabric
    }

    /// The far end of the cable at a port, and true if the link is ACTIVE; `None` if there is no
    /// such port or no cable.
    pub(super) fn peer(&self, switch: SwitchId, num: PortNum) -> Option<(LinkPeer, bool)> {
        if num.index() >= self.ports {
            return None;
        }
        let entry = self.entries.get(switch.index() * self.ports + num.index())?;
        // Each thread finds the same, and nothing else depends on the entry.
        let mut value = entry.load(Ordering::Relaxed);
        if value == 0 {
            value = KNOWN | self.look_up(switch, num);
            entry.store(value, Ordering::Relaxed);
        }
        let index = value & OPEN;
        let is_active = value & ACTIVE != 0;
        let peer = match value & SWITCH {
            _ if index == OPEN => return None,
            0 => LinkPeer::End(PortId(index)),
            _ => LinkPeer::Switch(SwitchId(index)),
        };
        Some((peer, is_active))
    }

    fn look_up(&self, switch: SwitchId, num: PortNum) -> u32 {
        let fabric = self.fabric;
        let Some(slot) = fabric.switch_port(switch, num) else { return OPEN };
        let Some(peer) = fabric.port(slot).peer else { return OPEN };
        let active = if is_active(fabric, slot, peer) { ACTIVE } else { 0 };
        active
            | match fabric.node_of(peer).switch {
                Some(next) => SWITCH | next.0,
                None => peer.0,
            }
    }
}
