//! `show paths`: which hosts reach each other by the forwarding tables of the devices.

use crate::ids::{Lid, PortNum};
use crate::sim::devices::Devices;
use crate::sim::net::Net;
use crate::wire::attr::PortState;
use std::fmt::Write as _;
use std::time::Duration;

/// Longest list of unconnected pairs in the output.
const MAX_EXAMPLES: usize = 5;

/// The number of ordered pairs of hosts with a link that reach each other, some that do not, and
/// the time from the last console command that changed the fabric to the last change of a
/// forwarding table.
pub(super) fn show(net: &Net) -> String {
    let devices = &net.devices;
    let hosts: Vec<u32> = linked_hosts(devices).collect();
    let mut walk = RouteWalk::new(devices);
    let mut connected = 0_usize;
    let mut examples = Vec::new();
    for &to in &hosts {
        walk.begin(to);
        for &from in hosts.iter().filter(|&&from| from != to) {
            if walk.reaches_from(from) {
                connected += 1;
            } else if examples.len() < MAX_EXAMPLES {
                examples.push((from, to));
            }
        }
    }
    let pairs = hosts.len() * hosts.len().saturating_sub(1);
    let mut text = format!("{connected} of {pairs} pairs of hosts are connected\n");
    for (from, to) in examples {
        let [from, to] = [from, to].map(|slot| devices.port_name(slot));
        let _ = writeln!(text, "no path: {from} -> {to}");
    }
    text + &last_change(net)
}

fn last_change(net: &Net) -> String {
    match (net.last_fault, net.devices.last_route_change) {
        (Some(fault), Some(change)) if change >= fault => {
            format!(
                "last change of a forwarding table: {} after the last fault\n",
                milliseconds(change - fault)
            )
        }
        (Some(_), _) => "no change of a forwarding table since the last fault\n".to_owned(),
        (None, _) => String::new(),
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// Ports of channel adapters whose link is up, whatever its state.
fn linked_hosts(devices: &Devices) -> impl Iterator<Item = u32> + '_ {
    let slots = 0..devices.ports.len() as u32;
    slots.filter(|&slot| {
        let is_host = !devices.is_switch_slot(slot) && devices.is_end_port(slot);
        is_host && devices.linked_peer(slot).is_some()
    })
}

/// Routes of packets to one destination through ACTIVE links, with the verdicts of switches passed
/// before.
struct RouteWalk<'a> {
    devices: &'a Devices,
    /// Slot of the destination.
    to: u32,
    lid: Lid,
    /// By node: whether the destination is reached from it; `None` if not known yet.
    verdicts: Vec<Option<bool>>,
    /// Nodes passed by the present packet.
    trail: Vec<u32>,
}

impl<'a> RouteWalk<'a> {
    fn new(devices: &'a Devices) -> Self {
        let verdicts = vec![None; devices.nodes.len()];
        Self { devices, to: 0, lid: Lid::default(), verdicts, trail: Vec::new() }
    }

    fn begin(&mut self, to: u32) {
        (self.to, self.lid) = (to, self.devices.port(to).info.lid());
        self.verdicts.fill(None);
    }

    fn reaches_from(&mut self, from: u32) -> bool {
        if !self.lid.is_unicast() {
            return false;
        }
        let mut next = self.cross(from);
        self.trail.clear();
        let verdict = loop {
            let Some(at) = next else { break false };
            if at == self.to {
                break true;
            }
            let node = self.devices.port(at).node;
            if let Some(verdict) = self.verdicts[node as usize] {
                break verdict;
            }
            // A node passed twice is a routing loop.
            self.verdicts[node as usize] = Some(false);
            self.trail.push(node);
            next = self.exit(node).and_then(|exit| self.cross(exit));
        };
        for &node in &self.trail {
            self.verdicts[node as usize] = Some(verdict);
        }
        verdict
    }

    /// Output port of a node for the destination.
    fn exit(&self, node: u32) -> Option<u32> {
        let num = self.devices.lft_entry(node, self.lid).filter(|&num| num != PortNum::ZERO)?;
        self.devices.slot(node, num)
    }

    fn cross(&self, exit: u32) -> Option<u32> {
        let peer = self.devices.linked_peer(exit)?;
        (is_active(self.devices, exit) && is_active(self.devices, peer)).then_some(peer)
    }
}

fn is_active(devices: &Devices, slot: u32) -> bool {
    devices.port(slot).info.port_state() == PortState::Active
}
