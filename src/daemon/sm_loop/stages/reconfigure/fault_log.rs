//! Log lines of the faults that heavy sweeps find: one for each device, however many of its
//! neighbours show a link to it.

use super::key_log;
use crate::fabric::{DiscoveryFault, End, Fabric, NodeId, PortId};
use crate::ids::Guid;
use crate::notes::counted;
use crate::observe::m_keys::MKeys;
use crate::wire::attr::PortState;
use crate::wire::smp::DirectedRoute;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Ports that a line names.
const MAX_NAMED_PORTS: usize = 4;

/// Faults without an answer that a sweep may log one by one; it counts the others.
const MAX_LOGGED_FAULTS: usize = 20;

/// The device that does not answer NodeInfo behind a port, as far as it is known.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum SilentDevice {
    /// It answered this daemon before: kind, GUID and description.
    Answered(String),
    /// An earlier run found this port GUID there.
    Stored(Guid),
    Unknown,
}

/// The faults of the last heavy sweep, and the devices that have left the fabric.
#[derive(Default)]
pub(super) struct FaultLog {
    logged: Vec<String>,
    last: Option<Arc<Fabric>>,
    /// The names of devices that are not in the last snapshot, by the port they were cabled to.
    departed: HashMap<End, String>,
}

impl FaultLog {
    /// The lines about the faults of a snapshot that the last one did not have.
    pub(super) fn new_lines(&mut self, fabric: &Arc<Fabric>, keys: &MKeys) -> Vec<String> {
        self.note_departures(fabric);
        let lines = self.lines(fabric, keys);
        let known: HashSet<&String> = self.logged.iter().collect();
        let new = lines.iter().filter(|line| !known.contains(line)).cloned().collect();
        self.logged = lines;
        new
    }

    /// Records that a sweep failed. True if the last one did not fail for the same reason.
    pub(super) fn failed(&mut self, text: String) -> bool {
        if self.logged == [text.clone()] {
            return false;
        }
        self.logged = vec![text];
        true
    }

    fn note_departures(&mut self, fabric: &Arc<Fabric>) {
        if let Some(last) = self.last.replace(fabric.clone()).filter(|it| !Arc::ptr_eq(it, fabric))
        {
            for id in last.node_ids().filter(|id| is_gone(&last, fabric, id)) {
                let node = last.node(id);
                let name = format!("{} {} \"{}\"", node.kind(), node.guid(), node.name());
                let near = last.ports_of(id).filter_map(|port| port.peer);
                self.departed.extend(near.map(|near| (last.end_of(near), name.clone())));
            }
        }
        self.departed.retain(|end, _| is_silent(fabric, end));
    }

    fn lines(&self, fabric: &Fabric, keys: &MKeys) -> Vec<String> {
        let mut silent: BTreeMap<SilentDevice, Vec<String>> = BTreeMap::new();
        let mut lines = Vec::new();
        let mut unanswered = 0;
        for fault in fabric.faults() {
            match fault {
                // The SM loop logs when a device becomes unresponsive.
                DiscoveryFault::Unresponsive { .. } => {}
                DiscoveryFault::NoAnswer { attribute: "NodeInfo", route, .. }
                    if let Some(near) = last_port(fabric, route) =>
                {
                    let device = self.device_behind(fabric, near, keys, route);
                    silent.entry(device).or_default().push(fabric.describe(near));
                }
                DiscoveryFault::NoAnswer { .. } => {
                    unanswered += 1;
                    if unanswered <= MAX_LOGGED_FAULTS {
                        lines.push(fault.to_string());
                    }
                }
                other => lines.push(other.to_string()),
            }
        }
        if unanswered > MAX_LOGGED_FAULTS {
            let count = unanswered - MAX_LOGGED_FAULTS;
            let more = counted(count, "more attribute", "more attributes");
            lines.push(format!("no answer to {more}: SMPs are lost"));
        }
        lines.extend(silent.iter().map(|(device, ports)| silence(device, ports)));
        lines
    }

    fn device_behind(
        &self,
        fabric: &Fabric,
        near: PortId,
        keys: &MKeys,
        route: &DirectedRoute,
    ) -> SilentDevice {
        if let Some(name) = self.departed.get(&fabric.end_of(near)) {
            return SilentDevice::Answered(name.clone());
        }
        keys.last_at(fabric, route).map_or(SilentDevice::Unknown, SilentDevice::Stored)
    }
}

fn is_gone(last: &Fabric, fabric: &Fabric, id: &NodeId) -> bool {
    fabric.node_by_guid(last.node(*id).guid()).is_none()
}

fn is_silent(fabric: &Fabric, end: &End) -> bool {
    let port = fabric.port_by_end(*end).map(|id| fabric.port(id));
    port.is_some_and(|port| port.peer.is_none() && port.state() != PortState::Down)
}

/// The port by which a route leaves the fabric.
fn last_port(fabric: &Fabric, route: &DirectedRoute) -> Option<PortId> {
    let mut node = fabric.port(fabric.local()).node;
    let mut port = None;
    for exit in route.exits() {
        let id = fabric.port_of(node, exit)?;
        if let Some(peer) = fabric.port(id).peer {
            node = fabric.port(peer).node;
        }
        port = Some(id);
    }
    port.filter(|&id| fabric.port(id).peer.is_none())
}

/// The line about a device that does not answer behind these ports. An M_Key is no explanation for
/// one that has answered this daemon.
fn silence(device: &SilentDevice, ports: &[String]) -> String {
    let place = places(ports);
    match device {
        SilentDevice::Answered(name) => format!(
            "no answer to NodeInfo from {name} at the far end of {place}: it answered before, so that \
             it is dead, or its management agent hangs"
        ),
        SilentDevice::Stored(guid) => format!(
            "no answer to NodeInfo at the far end of {place}; unless the device (last was port GUID \
             {guid}) is dead, it is protected by an unknown M_Key: {}",
            key_log::REMEDY
        ),
        SilentDevice::Unknown if ports.len() == 1 => format!(
            "no answer to NodeInfo at the far end of {place}; unless the device is dead, it is \
             protected by an unknown M_Key: {}",
            key_log::REMEDY
        ),
        SilentDevice::Unknown => format!(
            "no answer to NodeInfo at the far ends of {place}; unless the devices there are dead, they \
             are protected by unknown M_Keys: {}",
            key_log::REMEDY
        ),
    }
}

fn places(ports: &[String]) -> String {
    let named = ports[..ports.len().min(MAX_NAMED_PORTS)].join(", ");
    match ports.len() - ports.len().min(MAX_NAMED_PORTS) {
        0 => named,
        more => format!("{named} and {}", counted(more, "more port", "more ports")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::ibnet;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::PortNum;
    use std::path::Path;

    /// A switch with a host, and another switch behind two cables unless it `has_departed`.
    fn fabric(has_departed: bool) -> Arc<Fabric> {
        let cables = if has_departed { "" } else { "[2] \"b\"[1]\n[3] \"b\"[2]\n" };
        let b = if has_departed { "" } else { "Switch 4 \"b\"\n[1] \"a\"[2]\n[2] \"a\"[3]\n\n" };
        let text =
            format!("Switch 4 \"a\"\n[1] \"h\"[1]\n{cables}\n{b}Hca 1 \"h\"\n[1] \"a\"[1]\n");
        let topology = ibnet::parse(Path::new("net"), &text).expect("a fabric");
        let local = topology.nodes.iter().position(|node| node.num_ports == 1).expect("a host");
        let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
        Arc::new(Fabric::from_topology(&topology, local, &view).expect("a node"))
    }

    /// The snapshot without the switch, whose cables are trained and whose ports do not answer.
    fn silent() -> Arc<Fabric> {
        let fabric = fabric(true);
        let faults = vec![fault(2), fault(3)];
        let mut active = fabric.ports().iter().find_map(|port| port.info()).expect("a port");
        active.set_port_state(PortState::Active);
        let ports = fabric.ports().iter().map(|port| {
            let is_trained = fabric.node(port.node).is_switch() && [2, 3].contains(&port.num.0);
            let mut port = port.clone();
            if is_trained {
                port.set_info(Some(active));
            }
            port
        });
        let nodes = fabric.nodes().clone();
        Arc::new(fabric.with_contents(nodes, ports.collect(), fabric.local(), faults))
    }

    fn fault(exit: u8) -> DiscoveryFault {
        DiscoveryFault::NoAnswer {
            attribute: "NodeInfo",
            what: String::new(),
            route: DirectedRoute::new(&[PortNum(1), PortNum(exit)]).expect("a route"),
        }
    }

    #[test]
    fn a_switch_that_answered_before_has_one_line_without_advice_about_its_m_key() {
        let mut log = FaultLog::default();
        let keys = MKeys::default();
        assert_eq!(log.new_lines(&fabric(false), &keys), [] as [String; 0]);
        let lines = log.new_lines(&silent(), &keys);
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("answered before") && !lines[0].contains("M_Key"), "{lines:?}");
        assert!(lines[0].contains("\"a\"[2]") && lines[0].contains("\"a\"[3]"), "{lines:?}");
        assert_eq!(log.new_lines(&silent(), &keys), [] as [String; 0], "it is logged once");
    }

    #[test]
    fn devices_that_never_answered_have_one_line_with_the_advice() {
        let lines = FaultLog::default().new_lines(&silent(), &MKeys::default());
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("unknown M_Keys"), "{lines:?}");
    }
}
