//! Faults of a simulated fabric, as methods of its handle. The console has a command for each.

use super::congestion::CongestionFault;
use super::devices::NONE;
use super::node_faults::{Misbehaviour, NodeFaults, SetFault};
use super::redirection::PerfRedirection;
use super::sim_fabric::SimFabric;
use super::sma_load::SmaSpeed;
use super::transit_faults::{MadKind, TransitFaults};
use super::trap::TrapStorm;
use crate::ids::{Guid, PortNum};
use std::time::Duration;

/// Cables, links and nodes.
impl SimFabric {
    /// Unplugs the cable at this port; false if there is none.
    pub fn unlink(&self, guid: Guid, num: PortNum) -> bool {
        self.plug(guid, num, false)
    }

    /// Plugs the cable at this port in again; false if there is none.
    pub fn relink(&self, guid: Guid, num: PortNum) -> bool {
        self.plug(guid, num, true)
    }

    fn plug(&self, guid: Guid, num: PortNum, plugged: bool) -> bool {
        let done = self.at_port(guid, num, |net, slot| {
            let cabled = net.devices.port(slot).peer != NONE;
            net.devices.set_plugged(slot, plugged);
            net.report_link_changes();
            cabled
        });
        done.unwrap_or(false)
    }

    /// Connects two ports with a new cable, and removes the cables that they had.
    pub fn connect(&self, a: (Guid, PortNum), b: (Guid, PortNum)) -> bool {
        let Some(a) = self.at_port(a.0, a.1, |_, slot| slot) else { return false };
        self.at_port(b.0, b.1, |net, b| {
            net.devices.connect_ports(a, b);
            net.report_link_changes();
        })
        .is_some()
    }

    /// Unplugs all cables between these nodes, with their hosts, and the others.
    pub fn split(&self, part: &[Guid]) {
        let mut net = self.shared.lock();
        let by_guid = &net.devices.by_guid;
        let part: Vec<u32> = part.iter().filter_map(|guid| by_guid.get(guid).copied()).collect();
        net.devices.split(&part);
        net.report_link_changes();
    }

    /// Plugs in the cables that [`Self::split`] has unplugged.
    pub fn heal(&self) {
        let mut net = self.shared.lock();
        net.devices.heal();
        net.report_link_changes();
    }

    /// Unplugs or plugs in the cable `times` times: now, then every `period`.
    pub fn flap(&self, guid: Guid, num: PortNum, period: Duration, times: u32) -> bool {
        self.at_port(guid, num, |net, slot| net.flap(slot, period, times)).is_some()
    }

    /// Limits the link at this port to `widths` (see [`crate::wire::attr::LinkWidth`]) and `speeds`
    /// (1 SDR, 2 DDR, 4 QDR), and trains it again.
    pub fn degrade(&self, guid: Guid, num: PortNum, widths: u8, speeds: u8) -> bool {
        self.at_port(guid, num, |net, slot| {
            net.devices.degrade(slot, widths, speeds);
            net.report_link_changes();
        })
        .is_some()
    }

    /// Sets the time from Polling to INIT of the link at this port.
    pub fn set_training_time(&self, guid: Guid, num: PortNum, time: Duration) -> bool {
        self.at_port(guid, num, |net, slot| {
            net.devices.change_cable(slot, |cable| cable.training_time = time);
        })
        .is_some()
    }

    /// Reboots the node: its tables and settings are lost, and its links are trained again.
    pub fn reboot(&self, guid: Guid) -> bool {
        self.at_node(guid, |net, node| net.reboot(node, false)).is_some()
    }

    /// Reboots the node, which keeps the LIDs of its ports and of their SM.
    pub fn reboot_with_lids(&self, guid: Guid) -> bool {
        self.at_node(guid, |net, node| net.reboot(node, true)).is_some()
    }

    /// Sends trap `number` from this port `times` times, now and every `period`, repressed or not.
    pub fn storm(&self, at: (Guid, PortNum), number: u16, period: Duration, times: u32) -> bool {
        self.at_port(at.0, at.1, |net, slot| {
            net.storm(TrapStorm { slot, number, period, left: times });
        })
        .is_some()
    }

    /// Changes the node GUID in the node's NodeInfo. The methods of this handle keep using `guid`.
    pub fn set_reported_guid(&self, guid: Guid, reported: Guid) -> bool {
        self.at_node(guid, |net, node| {
            net.devices.nodes[node as usize].info.set_node_guid(reported);
        })
        .is_some()
    }

    /// Changes the node description, and sends trap 144 from the first port that has a LID.
    pub fn set_description(&self, guid: Guid, description: &str) -> bool {
        self.at_node(guid, |net, node| net.set_description(node, description)).is_some()
    }
}

/// Management agents.
impl SimFabric {
    pub fn misbehave(&self, guid: Guid, how: Misbehaviour) -> bool {
        self.change_node(guid, |faults| faults.misbehaviour = Some(how))
    }

    /// Stops all responses and traps of the node; packets are still forwarded.
    pub fn silence(&self, guid: Guid) -> bool {
        self.misbehave(guid, Misbehaviour::Silent)
    }

    /// Sets the time from a request to the node's response.
    pub fn set_response_time(&self, guid: Guid, time: Duration) -> bool {
        self.change_node(guid, |faults| faults.response_time = time)
    }

    /// Sets the speed and queue of all subnet management agents.
    pub fn set_sma_speed(&self, speed: SmaSpeed) {
        let mut net = self.shared.lock();
        for node in 0..net.devices.nodes.len() as u32 {
            net.smas.loads.set(node, speed);
        }
    }

    /// Sets the time that an SMP and its response are on their way, in all.
    pub fn set_smp_round_trip(&self, time: Duration) {
        self.shared.lock().smas.round_trip = time;
    }

    /// Largest number of SMPs at one agent with a service time.
    pub fn longest_sma_queue(&self) -> u32 {
        let net = self.shared.lock();
        net.smas.loads.iter().map(|(_, agent)| agent.longest_queue).max().unwrap_or(0)
    }

    /// SMPs that agents with a service time have dropped.
    pub fn dropped_smps(&self) -> u64 {
        self.shared.lock().smas.loads.iter().map(|(_, agent)| agent.dropped).sum()
    }

    /// Sets NumPorts in the node's NodeInfo; the ports stay.
    pub fn set_reported_ports(&self, guid: Guid, num_ports: u8) -> bool {
        self.change_node(guid, |faults| faults.num_ports = Some(num_ports))
    }

    /// Lets Sets of this attribute (0: of all attributes) of the node change nothing.
    pub fn fail_sets(&self, guid: Guid, attr_id: u16, how: SetFault) -> bool {
        self.change_node(guid, |faults| faults.fail_sets(attr_id, how))
    }

    /// Sets the fault of the node's congestion control agent.
    pub fn set_congestion_fault(&self, guid: Guid, fault: CongestionFault) -> bool {
        self.change_node(guid, |faults| faults.congestion = Some(fault))
    }

    /// Lets the node redirect performance management to a queue pair at the end port of another
    /// node, where its agent answers. False if there is no such node or port.
    pub fn redirect_perf(&self, guid: Guid, to: Guid, num: PortNum, qpn: u32) -> bool {
        let Some(to) = self.at_port(to, num, |net, slot| net.devices.end_port(slot)) else {
            return false;
        };
        self.change_node(guid, |faults| faults.perf_redirection = Some(PerfRedirection { to, qpn }))
    }

    /// Ends all faults of the node's management agents.
    pub fn revive(&self, guid: Guid) -> bool {
        self.at_node(guid, |net, node| net.faults.nodes.clear(node)).is_some()
    }

    fn change_node(&self, guid: Guid, change: impl FnOnce(&mut NodeFaults)) -> bool {
        self.at_node(guid, |net, node| net.faults.nodes.change(node, change)).is_some()
    }
}

/// MADs on their way.
impl SimFabric {
    /// Sets the probability (0.0 to 1.0) that a MAD is lost, for requests and responses alike.
    pub fn set_loss(&self, probability: f64) {
        self.change_transit(None, |faults| faults.loss = probability);
    }

    /// Sets the probability (0.0 to 1.0) that a MAD of this kind is lost.
    pub fn set_loss_of(&self, kind: MadKind, probability: f64) {
        self.change_transit(Some(kind), |faults| faults.loss = probability);
    }

    /// Sets the probability (0.0 to 1.0) that a MAD sent through this port is lost.
    pub fn set_link_loss(&self, guid: Guid, num: PortNum, probability: f64) -> bool {
        self.at_port(guid, num, |net, slot| {
            net.faults.links.change(slot, None, |faults| faults.loss = probability);
        })
        .is_some()
    }

    /// Sets the one-way delay of every MAD.
    pub fn set_delay(&self, delay: Duration) {
        self.change_transit(None, |faults| faults.delay = delay);
    }

    /// Sets the one-way delay of the MADs of this kind.
    pub fn set_delay_of(&self, kind: MadKind, delay: Duration) {
        self.change_transit(Some(kind), |faults| faults.delay = delay);
    }

    /// Sets the one-way delay of the MADs sent through this port.
    pub fn set_link_delay(&self, guid: Guid, num: PortNum, delay: Duration) -> bool {
        self.at_port(guid, num, |net, slot| {
            net.faults.links.change(slot, None, |faults| faults.delay = delay);
        })
        .is_some()
    }

    /// Sets the upper bound of a random additional delay of each MAD, which reorders MADs.
    pub fn set_jitter(&self, jitter: Duration) {
        self.change_transit(None, |faults| faults.jitter = jitter);
    }

    /// Sets the probability (0.0 to 1.0) that a MAD arrives twice.
    pub fn set_duplication(&self, probability: f64) {
        self.change_transit(None, |faults| faults.duplication = probability);
    }

    fn change_transit(&self, kind: Option<MadKind>, change: impl Fn(&mut TransitFaults)) {
        self.shared.lock().faults.transit.change(kind, change);
    }
}
