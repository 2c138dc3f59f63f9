//! Scripts of random faults: the same seed gives the same script on the same fabric.

use crate::sim::devices::{Devices, NONE};
use crate::sim::random::Random;
use crate::wire::attr::AttrId;
use std::fmt::Write as _;

/// Attributes whose Sets nodes refuse, ignore or do not answer.
const ATTRIBUTES: [u16; 7] = [
    AttrId::SWITCH_INFO,
    AttrId::PORT_INFO,
    AttrId::PKEY_TABLE,
    AttrId::SL_TO_VL,
    AttrId::VL_ARBITRATION,
    AttrId::LINEAR_FT,
    AttrId::MULTICAST_FT,
];

/// Kinds of faults with their weights in a script. Repairs are about as frequent as damage.
const MIX: [(u64, Draw); 28] = [
    (12, |faults| format!("link {} down", faults.cabled_port())),
    (16, |faults| format!("link {} up", faults.cabled_port())),
    (3, |faults| format!("unlink {}", faults.node())),
    (6, |faults| format!("relink {}", faults.node())),
    (4, |faults| {
        let port = faults.cabled_port();
        format!("flap {port} {} {}", faults.duration(3_000_000), 2 * (1 + faults.below(8)))
    }),
    (1, |faults| format!("swap {} {}", faults.cabled_port(), faults.cabled_port())),
    (3, |faults| format!("move {} {}", faults.host_port(), faults.free_port())),
    (2, |faults| faults.split()),
    (5, |_| "heal".to_owned()),
    (3, |faults| format!("degrade {} 1x SDR", faults.cabled_port())),
    (2, |faults| format!("degrade {} off", faults.cabled_port())),
    (3, |faults| format!("training {} {}", faults.node(), faults.duration(5_000_000))),
    (4, |faults| format!("silent {}", faults.node())),
    (3, |faults| format!("slow {} {}", faults.node(), faults.duration(2_000_000))),
    (2, |faults| format!("garbage {}", faults.node())),
    (1, |faults| format!("wrong-tid {}", faults.node())),
    (2, |faults| format!("numports {} {}", faults.node(), faults.below(256))),
    (3, |faults| {
        let status = faults.pick(&["0x04", "0x0c", "0x1c", "0x01"]);
        format!("refuse {} 0x{:04x} {status}", faults.node(), faults.attribute())
    }),
    (2, |faults| format!("ignore-sets {} 0x{:04x}", faults.node(), faults.attribute())),
    (12, |faults| format!("back {}", faults.node())),
    (4, |faults| format!("reboot {}", faults.node())),
    (3, |faults| format!("reboot {} keep-lids", faults.node())),
    (3, |faults| {
        let trap = faults.pick(&["128", "129", "131", "144", "145"]);
        let period = faults.duration(200_000);
        format!("storm {} {trap} {period} {}", faults.cabled_port(), 1 + faults.below(300))
    }),
    (6, |faults| faults.transit()),
    (1, |faults| {
        format!("error {} {} 0x{:x}", faults.node(), faults.below(100), faults.attribute())
    }),
    (1, |faults| format!("corrupt {}% responses", faults.below(10))),
    (2, |faults| format!("describe {} \"renamed {}\"", faults.node(), faults.below(1000))),
    (2, |_| "calm".to_owned()),
];

type Draw = fn(&mut RandomFaults<'_>) -> String;

struct RandomFaults<'a> {
    devices: &'a Devices,
    random: Random,
    /// Slots of ports with a cable, plugged in or not.
    cabled: Vec<u32>,
    /// Slots of switch ports without a cable.
    free: Vec<u32>,
}

/// A script of `count` faults and repairs, with pauses of up to 2 s between them.
pub(super) fn script(devices: &Devices, seed: u64, count: u32) -> String {
    let slots = (0..devices.ports.len() as u32).filter(|&slot| devices.port(slot).num.0 > 0);
    let mut faults = RandomFaults {
        devices,
        random: Random(seed),
        cabled: slots.clone().filter(|a| has_cable(devices, a)).collect(),
        free: slots
            .filter(|slot| devices.is_switch_slot(*slot) && !has_cable(devices, slot))
            .collect(),
    };
    let mut text = String::new();
    if faults.cabled.is_empty() {
        return text;
    }
    for _ in 0..count {
        let _ = writeln!(text, "{}\nwait {}", faults.line(), faults.duration(2_000_000));
    }
    text
}

fn has_cable(devices: &Devices, &slot: &u32) -> bool {
    devices.port(slot).peer != NONE
}

impl RandomFaults<'_> {
    fn line(&mut self) -> String {
        let total: u64 = MIX.iter().map(|(weight, _)| weight).sum();
        let mut at = self.below(total);
        for (weight, draw) in &MIX {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return draw(self),
            }
        }
        String::new()
    }

    /// A number below `limit`, which is above 0.
    fn below(&mut self, limit: u64) -> u64 {
        self.random.next() % limit
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize]
    }

    /// A duration of up to `longest` microseconds, of any order of magnitude.
    fn duration(&mut self, longest: u64) -> String {
        let magnitude = 10u64.pow(self.below(5) as u32);
        format!("{}us", 1 + self.below((longest / magnitude).max(1)))
    }

    fn node_name(&self, node: u32) -> String {
        // The node GUID of the topology: `guid` may change the one in NodeInfo.
        let by_guid = self.devices.by_guid.iter().find(|(_, index)| **index == node);
        by_guid.map_or_else(String::new, |(guid, _)| guid.to_string())
    }

    fn port_name(&self, slot: u32) -> String {
        let port = self.devices.port(slot);
        format!("{}[{}]", self.node_name(port.node), port.num)
    }

    fn node(&mut self) -> String {
        let node = self.below(self.devices.nodes.len() as u64) as u32;
        self.node_name(node)
    }

    fn cabled_port(&mut self) -> String {
        let slot = self.below(self.cabled.len() as u64) as usize;
        self.port_name(self.cabled[slot])
    }

    /// The switch port of an adapter or, without adapters, any port with a cable.
    fn host_port(&mut self) -> String {
        let devices = self.devices;
        let hosts: Vec<u32> = self
            .cabled
            .iter()
            .filter(|slot| {
                devices.is_switch_slot(**slot) && !devices.is_switch_slot(devices.port(**slot).peer)
            })
            .copied()
            .collect();
        if hosts.is_empty() {
            return self.cabled_port();
        }
        let slot = self.pick(&hosts);
        self.port_name(slot)
    }

    /// A switch port without a cable or, if all have one, any port with a cable.
    fn free_port(&mut self) -> String {
        if self.free.is_empty() {
            return self.cabled_port();
        }
        let slot = self.below(self.free.len() as u64) as usize;
        self.port_name(self.free[slot])
    }

    fn attribute(&mut self) -> u16 {
        self.pick(&ATTRIBUTES)
    }

    /// A split along a random third of the switches.
    fn split(&mut self) -> String {
        let mut line = "split".to_owned();
        let switches: Vec<u32> = (0..self.devices.nodes.len() as u32)
            .filter(|&node| self.devices.is_switch(node))
            .collect();
        let first = self.below(switches.len().max(1) as u64) as usize;
        for &node in switches.iter().skip(first).take(1 + switches.len() / 3) {
            let _ = write!(line, " {}", self.node_name(node));
        }
        line
    }

    fn transit(&mut self) -> String {
        let port = if self.below(3) == 0 { self.cabled_port() + " " } else { String::new() };
        let kind = self.pick(&["", "", " requests", " responses", " traps"]);
        match self.below(5) {
            0 | 1 => format!("loss {port}{}%{kind}", self.below(30)),
            2 => format!("delay {port}{}{kind}", self.duration(50_000)),
            3 => format!("jitter {port}{}{kind}", self.duration(50_000)),
            _ => format!("duplicate {port}{}%{kind}", self.below(50)),
        }
    }
}
