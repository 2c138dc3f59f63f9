//! SL to VL mappings.
//!
//! Output ports between switches: VL bit 0 is the dateline bit of the output dimension, VL bit 1
//! marks turns back to an earlier dimension, VL bit 2 is the QoS bit; each is used if there are at
//! least 2, 4 and 8 data VLs. All other output ports: the VL is the QoS bit if there are at least
//! 2.

use super::grid::Grid;
use super::lattice::{Direction, Position};
use super::path_sl::QOS_BIT;
use crate::fabric::{Fabric, Port};
use crate::plan::routing::PreviousFabric;
use crate::wire::attr::tables::SlToVl;
use crate::wire::attr::{PortInfo, PortState};

/// Numbers of data VLs available on all ports of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VlCounts {
    /// Minimum over all live switch ports cabled to switches; 15 if there are none.
    pub switch_links: u8,
    /// Minimum over all live CA and router ports; 15 if there are none.
    pub end_ports: u8,
}

/// Numbers of live ports by their number of data VLs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct VlHistogram {
    /// By number of data VLs: switch ports cabled to switches.
    switch_links: [u32; 16],
    /// By number of data VLs: CA and router ports.
    end_ports: [u32; 16],
}

impl VlHistogram {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let mut histogram = Self::default();
        for port in fabric.ports() {
            if let Some(count) = histogram.count_of(fabric, port) {
                *count += 1;
            }
        }
        histogram
    }

    /// The histogram of `fabric`, which differs by `since` from the fabric of `self`.
    pub(super) fn updated(&self, since: &PreviousFabric<'_>, fabric: &Fabric) -> Self {
        let mut histogram = self.clone();
        for &id in &since.difference.ports {
            if let Some(count) = histogram.count_of(since.fabric, since.fabric.port(id)) {
                *count -= 1;
            }
            if let Some(count) = histogram.count_of(fabric, fabric.port(id)) {
                *count += 1;
            }
        }
        histogram
    }

    /// The counter of a port; `None` if the port does not count.
    fn count_of(&mut self, fabric: &Fabric, port: &Port) -> Option<&mut u32> {
        let vls = usize::from(live_vls(port)?);
        let peer_is_switch = port.peer.is_some_and(|peer| fabric.node_of(peer).is_switch());
        match (fabric.node(port.node).is_switch(), peer_is_switch) {
            (true, true) => self.switch_links.get_mut(vls),
            (false, _) => self.end_ports.get_mut(vls),
            (true, false) => None,
        }
    }

    /// The minimums if ports operate at most the VLs of `max_op_vls`, a VLCap code (1: VL 0, 2: VL
    /// 0-1, ... 5: VL 0-14).
    pub(super) fn counts(&self, max_op_vls: u8) -> VlCounts {
        let allowed = match PortInfo::data_vls(max_op_vls) {
            0 => 15,
            vls => vls,
        };
        VlCounts {
            switch_links: least_used_vl(&self.switch_links, allowed),
            end_ports: least_used_vl(&self.end_ports, allowed),
        }
    }
}

fn least_used_vl(ports: &[u32; 16], allowed: u8) -> u8 {
    let used = ports.iter().zip(0u8..).find(|&(&count, _)| count > 0);
    used.map_or(15, |(_, vls)| vls).min(allowed)
}

/// Number of data VLs of a port; `None` if it is down or its VLCap is invalid.
fn live_vls(port: &Port) -> Option<u8> {
    let info = port.info().filter(|info| info.port_state() > PortState::Down)?;
    Some(PortInfo::data_vls(info.vl_cap())).filter(|&vls| vls > 0)
}

/// The role of a port in the torus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortClass {
    /// A switch port cabled along a dimension, 0 to 2.
    Along(u8),
    /// A port of a placed switch cabled to an end port.
    Host,
    /// Any other port of a placed switch: port 0, not connected, or cabled to a switch outside the
    /// torus.
    Local,
    /// A CA or router port, or a port of a switch outside the torus.
    Outside,
}

/// Port classes by port slot.
pub(super) fn classify(fabric: &Fabric, grid: &Grid) -> Vec<PortClass> {
    let mut classes = vec![PortClass::Outside; fabric.ports().len()];
    for (at, switch) in grid.placed() {
        let node = fabric.switch(switch);
        let first = node.first_port.index();
        let slots = &mut classes[first..=first + usize::from(node.num_ports())];
        classify_switch(grid, at, slots);
    }
    classes
}

/// Sets the classes of the ports of the switch at a position.
pub(super) fn classify_switch(grid: &Grid, at: Position, slots: &mut [PortClass]) {
    slots.fill(PortClass::Local);
    for host in grid.local.of(at).iter().filter(|host| host.port != 0) {
        slots[usize::from(host.port)] = PortClass::Host;
    }
    for direction in Direction::ALL {
        for &port in grid.port_group(at, direction) {
            slots[usize::from(port)] = PortClass::Along(direction.axis() as u8);
        }
    }
}

/// The mapping from an input port to an output port of the same node.
pub(super) fn mapping(vls: VlCounts, input: PortClass, output: PortClass) -> SlToVl {
    let (qos, count) = match output {
        PortClass::Along(axis) => return along(vls.switch_links, input, axis),
        PortClass::Host | PortClass::Local => (1, vls.switch_links),
        PortClass::Outside => (1, vls.end_ports),
    };
    table(|sl| if count >= 2 && sl & QOS_BIT != 0 { qos } else { 0 })
}

fn along(count: u8, input: PortClass, axis: u8) -> SlToVl {
    let turns_back = matches!(input, PortClass::Along(from) if from > axis);
    table(|sl| {
        let dateline = if count >= 2 { sl >> axis & 1 } else { 0 };
        let turn = if count >= 4 && turns_back { 2 } else { 0 };
        let qos = if count >= 8 && sl & QOS_BIT != 0 { 4 } else { 0 };
        dateline | turn | qos
    })
}

fn table(vl: impl Fn(u8) -> u8) -> SlToVl {
    SlToVl::new(std::array::from_fn(|sl| vl(sl as u8)))
}

#[cfg(test)]
mod tests {
    use super::super::cabling::tests::fabric_variant;
    use super::*;
    use crate::fabric::difference::Difference;
    use crate::sim::generate::Shape;
    use PortClass::{Along, Host, Local, Outside};

    #[test]
    fn a_census_follows_its_fabric() {
        let whole = Shape { hosts: 2, ..Shape::torus([4, 3, 1]) }.build().unwrap();
        let fabrics = [(&[][..], [0, 0]), (&[30, 40], [0, 0]), (&[40], [25, 35]), (&[], [1, 33])];
        let fabrics: Vec<Fabric> = fabrics
            .iter()
            .filter_map(|&(lost, crossed)| fabric_variant(&whole, lost, crossed))
            .collect();
        let mut compared = 0;
        for (old, new) in fabrics.iter().flat_map(|old| fabrics.iter().map(move |new| (old, new))) {
            let Some(difference) = Difference::between(old, new) else { continue };
            let since = PreviousFabric { fabric: old, difference: &difference };
            assert_eq!(VlHistogram::new(old).updated(&since, new), VlHistogram::new(new));
            compared += usize::from(VlHistogram::new(old) != VlHistogram::new(new));
        }
        assert!(compared > 0, "no two fabrics have the same nodes and other cables");
        let counts = VlHistogram::new(&fabrics[0]).counts(3);
        assert!(counts.switch_links <= 4 && counts.end_ports <= 4);
        assert_eq!(VlHistogram::default().counts(0), VlCounts { switch_links: 15, end_ports: 15 });
    }

    fn hex(count: u8, input: PortClass, output: PortClass) -> String {
        let vls = VlCounts { switch_links: count, end_ports: count };
        format!("{:?}", mapping(vls, input, output))
    }

    #[test]
    fn eight_vls() {
        for input in [Local, Host, Along(0)] {
            assert_eq!(hex(8, input, Along(0)), "0101010145454545");
            assert_eq!(hex(8, input, Along(1)), "0011001144554455");
            assert_eq!(hex(8, input, Along(2)), "0000111144445555");
        }
        assert_eq!(hex(8, Along(1), Along(0)), "2323232367676767");
        assert_eq!(hex(15, Along(2), Along(0)), "2323232367676767");
        assert_eq!(hex(8, Along(2), Along(1)), "2233223366776677");
        assert_eq!(hex(8, Along(1), Along(2)), "0000111144445555");
        for output in [Local, Host, Outside] {
            assert_eq!(hex(8, Along(1), output), "0000000011111111");
        }
    }

    #[test]
    fn fewer_vls() {
        assert_eq!(hex(4, Along(1), Along(0)), "2323232323232323");
        assert_eq!(hex(2, Along(1), Along(0)), "0101010101010101");
        assert_eq!(hex(2, Along(1), Local), "0000000011111111");
        assert_eq!(hex(1, Outside, Outside), "0000000000000000");
    }
}
