//! One path, hop by hop, according to the planned forwarding tables.

use super::MAX_PATH_SWITCHES;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::Lid;
use crate::plan::Plan;
use std::fmt;

/// The ports that a packet passes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    /// The switches on the path. A path that begins or ends in a switch has port 0 there.
    pub hops: Vec<WalkHop>,
    pub end: WalkEnd,
}

/// A switch on a path, with the ports that the packet uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WalkHop {
    pub switch: SwitchId,
    pub input: PortId,
    pub output: PortId,
}

/// The end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkEnd {
    /// The packet arrives at the port that owns the LID.
    Delivered,
    /// The packet arrives at an end port that does not own the LID.
    Misdelivered(PortId),
    /// The switch has no entry for the LID.
    NoEntry(SwitchId),
    /// The entry names a port number that the switch does not have.
    NoSuchPort(SwitchId, u8),
    /// The output port has no cable or no link.
    NoLink(PortId),
    /// The packet returns to this switch.
    Loop(SwitchId),
    /// The path exceeds [`MAX_PATH_SWITCHES`] switches.
    TooLong,
    /// No port has the LID.
    UnknownLid,
}

impl WalkEnd {
    /// Describes the end of the path for messages.
    pub fn describe(self, fabric: &Fabric) -> String {
        match self {
            Self::Delivered => "delivered".to_owned(),
            Self::Misdelivered(port) => format!("ends at {}", fabric.describe(port)),
            Self::NoEntry(id) => format!("switch {} has no entry for it", switch_text(fabric, id)),
            Self::NoSuchPort(id, num) => {
                format!(
                    "switch {} sends it to port {num}, which it does not have",
                    switch_text(fabric, id)
                )
            }
            Self::NoLink(port) => format!("{} has no link", fabric.describe(port)),
            Self::Loop(id) => format!("loops, back at switch {}", switch_text(fabric, id)),
            Self::TooLong => format!("more than {MAX_PATH_SWITCHES} switches"),
            Self::UnknownLid => "no port has this LID".to_owned(),
        }
    }
}

fn switch_text(fabric: &Fabric, id: SwitchId) -> String {
    let node = fabric.switch(id);
    format!("{} \"{}\"", node.guid(), node.name())
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} switches, {:?}", self.hops.len(), self.end)
    }
}

/// The path from an end port to a LID.
pub fn walk(fabric: &Fabric, plan: &Plan, source: PortId, lid: Lid) -> Walk {
    let Some(destination) = plan.lids.port(lid) else {
        return Walk { hops: Vec::new(), end: WalkEnd::UnknownLid };
    };
    let mut hops = Vec::new();
    let end = steps(fabric, plan, source, lid, destination, &mut hops);
    Walk { hops, end }
}

fn steps(
    fabric: &Fabric,
    plan: &Plan,
    source: PortId,
    lid: Lid,
    destination: PortId,
    hops: &mut Vec<WalkHop>,
) -> WalkEnd {
    if source == destination {
        return WalkEnd::Delivered;
    }
    let mut input = match (fabric.node_of(source).is_switch(), fabric.port(source).peer) {
        (true, _) => source,
        (false, Some(peer)) => peer,
        (false, None) => return WalkEnd::NoLink(source),
    };
    loop {
        if input == destination {
            return WalkEnd::Delivered;
        }
        let node = fabric.node_of(input);
        let Some(switch) = node.switch else { return WalkEnd::Misdelivered(input) };
        if hops.iter().any(|hop: &WalkHop| hop.switch == switch) {
            return WalkEnd::Loop(switch);
        }
        if hops.len() as u32 == MAX_PATH_SWITCHES {
            return WalkEnd::TooLong;
        }
        let table = plan.routing.lfts.get(switch.index());
        let Some(num) = table.and_then(|table| table.out(lid)) else {
            return WalkEnd::NoEntry(switch);
        };
        let Some(output) = fabric.switch_port(switch, num.into()) else {
            return WalkEnd::NoSuchPort(switch, num);
        };
        hops.push(WalkHop { switch, input, output });
        if num == 0 {
            let own = output == destination;
            return if own { WalkEnd::Delivered } else { WalkEnd::Misdelivered(output) };
        }
        match fabric.port(output).peer {
            Some(peer) => input = peer,
            None => return WalkEnd::NoLink(output),
        }
    }
}
