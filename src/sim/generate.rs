//! Generator of fabrics: tori and meshes such as `6x5x1`, `8x8x8`, `4tx3mx2m` ([`Shape`]), and the
//! kinds of [`family`], such as `fattree:18x9`. [`FabricShape`] is any of them.
//!
//! The GUID of switch x,y,z is 0x200000 + its index, with z as the fastest coordinate. Its ports
//! are numbered +x, -x, +y, -y, +z, -z, with the parallel cables of a direction together, followed
//! by the ports of hosts and of the router. Omitting switches or cables thus changes no other GUID
//! or port.

pub mod fabric_shape;
pub mod family;
mod wiring;

pub use fabric_shape::FabricShape;

use crate::fabric::topology::{Topology, TopologyNode};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::NodeKind;
use std::fmt::{self, Write as _};
use std::str::FromStr;

/// GUID of the first switch.
const FIRST_SWITCH_GUID: u64 = 0x20_0000;
/// GUID of the first host.
const FIRST_HOST_GUID: u64 = 0x1000_0000;
const ROUTER_GUID: u64 = 0x30_0000_0000;
/// Largest number of switches in a dimension.
const MAX_RADIX: u16 = 255;
/// Largest number of ports of a switch, without port 0.
const MAX_PORTS: u8 = 254;
/// Largest number of switches: the number of unicast LIDs, rounded up.
const MAX_SWITCHES: u64 = 48 * 1024;

/// A torus or mesh to be generated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Switches in each dimension; 1 means that the dimension is not used.
    pub radix: [u16; 3],
    /// True for a ring, false for a mesh. A dimension with 2 switches is never a ring.
    pub looped: [bool; 3],
    /// Hosts (channel adapters with one port) at each switch.
    pub hosts: u8,
    /// Parallel cables between neighbours.
    pub parallel: u8,
    /// Adds a router, with one cable to the first switch.
    pub router: bool,
    /// Switches to omit, with their hosts and cables.
    pub missing_switches: Vec<[u16; 3]>,
    /// Links to omit, with all parallel cables: from this switch upwards in this dimension (0..=2).
    pub missing_links: Vec<([u16; 3], usize)>,
}

/// A shape that cannot be read or built.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShapeError {
    #[error(
        "\"{0}\" is not a shape such as 6x5x1, with an optional t (torus) or m (mesh) after a number, \
         or fattree:18x9"
    )]
    Form(String),
    #[error(
        "\"{0}\": a dimension has 1 to {MAX_RADIX} switches, and a fabric at most {MAX_SWITCHES}"
    )]
    Radix(String),
    #[error(
        "{hosts} hosts and {parallel} parallel cables per direction need {needed} ports; a switch has at most {MAX_PORTS}"
    )]
    Ports { hosts: u8, parallel: u8, needed: u16 },
    #[error(
        "the shape has {0} end ports, and a subnet has 49151 unicast LIDs: use fewer switches or hosts"
    )]
    Lids(u64),
    #[error("unknown kind of fabric \"{name}\"; known are {families}")]
    Family { name: String, families: String },
    #[error("\"{text}\" is not of the form {form}: {why}")]
    Numbers { text: String, form: &'static str, why: String },
    #[error(
        "switch \"{switch}\" needs {needed} ports for {cables} cables to switches and {hosts} hosts; \
         a switch has at most {MAX_PORTS}"
    )]
    SwitchPorts { switch: String, cables: usize, hosts: u8, needed: usize },
}

impl FromStr for Shape {
    type Err = ShapeError;

    /// Parses `6x5`, `6x5x1`, `8x8x8` or `4tx3mx2m`: one host per switch, single cables, rings
    /// except in dimensions with `m`.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let mut shape = Self::torus([1; 3]);
        let parts: Vec<_> = text.split(['x', 'X']).collect();
        if parts.len() > 3 {
            return Err(ShapeError::Form(text.to_owned()));
        }
        for (dimension, part) in parts.iter().enumerate() {
            let digits = part.trim_end_matches(['t', 'T', 'm', 'M']);
            let suffix = &part[digits.len()..];
            if suffix.len() > 1 || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit())
            {
                return Err(ShapeError::Form(text.to_owned()));
            }
            let radix = digits.parse().ok().filter(|radix| (1..=MAX_RADIX).contains(radix));
            shape.radix[dimension] = radix.ok_or_else(|| ShapeError::Radix(text.to_owned()))?;
            shape.looped[dimension] = !suffix.eq_ignore_ascii_case("m");
        }
        if shape.switches() > MAX_SWITCHES {
            return Err(ShapeError::Radix(text.to_owned()));
        }
        Ok(shape)
    }
}

impl fmt::Display for Shape {
    /// `6x5mx1`: the switches of each dimension, with `m` after those of a mesh.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = std::array::from_fn(|dimension| {
            let suffix = if self.looped[dimension] { "" } else { "m" };
            format!("{}{suffix}", self.radix[dimension])
        });
        write!(f, "{x}x{y}x{z}")
    }
}

impl Shape {
    /// A torus with one host per switch and single cables.
    pub fn torus(radix: [u16; 3]) -> Self {
        Self {
            radix,
            looped: [true; 3],
            hosts: 1,
            parallel: 1,
            router: false,
            missing_switches: Vec::new(),
            missing_links: Vec::new(),
        }
    }

    /// True if `at` lies within the radices.
    pub fn contains(&self, at: [u16; 3]) -> bool {
        at.iter().zip(self.radix).all(|(&at, radix)| at < radix)
    }

    /// Number of switches and hosts, and the router.
    fn end_ports(&self) -> u64 {
        let switches = self.switches().saturating_sub(self.missing_switches.len() as u64);
        switches * (1 + u64::from(self.hosts)) + u64::from(self.router)
    }

    fn switches(&self) -> u64 {
        self.radix.iter().map(|&radix| u64::from(radix)).product()
    }

    /// GUID of the switch at `at`, omitted or not.
    pub fn switch_guid(&self, at: [u16; 3]) -> Guid {
        Guid(FIRST_SWITCH_GUID + self.index(at))
    }

    /// Node GUID of host `host` (from 0) of the switch at `at`; its port GUID is one higher.
    pub fn host_guid(&self, at: [u16; 3], host: u8) -> Guid {
        wiring::host_guid(self.index(at) as usize, self.hosts, host)
    }

    fn index(&self, [x, y, z]: [u16; 3]) -> u64 {
        let [_, ry, rz] = self.radix.map(u64::from);
        (u64::from(x) * ry + u64::from(y)) * rz + u64::from(z)
    }

    /// The positions of all switches, omitted or not.
    pub fn positions(&self) -> impl Iterator<Item = [u16; 3]> + use<> {
        let [rx, ry, rz] = self.radix;
        (0..rx).flat_map(move |x| (0..ry).flat_map(move |y| (0..rz).map(move |z| [x, y, z])))
    }

    /// Position of the neighbour of `at` upwards in a dimension (0..=2), omitted or not; `None` at
    /// the edge of a mesh and in an unused dimension.
    pub fn above(&self, at: [u16; 3], dimension: usize) -> Option<[u16; 3]> {
        let radix = self.radix[dimension];
        let is_ring = self.looped[dimension] && radix > 2;
        if radix < 2 || (at[dimension] + 1 == radix && !is_ring) {
            return None;
        }
        let mut up = at;
        up[dimension] = (at[dimension] + 1) % radix;
        Some(up)
    }

    /// Builds the fabric. The first node is a host, if there are hosts, because programs may attach
    /// to the first node.
    ///
    /// # Errors
    /// [`ShapeError::Ports`] if a switch would need more than 254 ports.
    pub fn build(&self) -> Result<Topology, ShapeError> {
        let needed = 6 * u16::from(self.parallel) + u16::from(self.hosts) + u16::from(self.router);
        let num_ports = u8::try_from(needed)
            .ok()
            .filter(|&ports| ports <= MAX_PORTS)
            .ok_or(ShapeError::Ports { hosts: self.hosts, parallel: self.parallel, needed })?;
        let mut topology = Topology::default();
        let mut index = vec![None; self.switches() as usize];
        for at in self.positions().filter(|at| !self.missing_switches.contains(at)) {
            self.add_switch(&mut topology, &mut index, at, num_ports);
        }
        for at in self.positions() {
            for dimension in 0..3 {
                self.add_links(&mut topology, &index, at, dimension);
            }
        }
        let first_switch = topology.nodes.iter().position(|node| node.kind == NodeKind::Switch);
        if let (true, Some(switch)) = (self.router, first_switch) {
            let router = topology.nodes.len();
            let description = "router".to_owned();
            let router_node = TopologyNode::new(NodeKind::Router, Guid(ROUTER_GUID), 2);
            topology.nodes.push(router_node.described(description));
            topology.cables.push([(switch, PortNum(num_ports)), (router, PortNum(1))]);
        }
        topology.normalize();
        Ok(topology)
    }

    fn add_switch(
        &self,
        topology: &mut Topology,
        index: &mut [Option<usize>],
        at: [u16; 3],
        num_ports: u8,
    ) {
        let [x, y, z] = at;
        let first_host = topology.nodes.len();
        for host in 0..self.hosts {
            let description = format!("h{x}-{y}-{z}-{host} HCA-1");
            let node = TopologyNode::new(NodeKind::Ca, self.host_guid(at, host), 1);
            topology.nodes.push(node.described(description));
        }
        let switch = topology.nodes.len();
        let description = format!("sw {x},{y},{z}");
        let node = TopologyNode::new(NodeKind::Switch, self.switch_guid(at), num_ports);
        topology.nodes.push(node.described(description));
        index[self.index(at) as usize] = Some(switch);
        for host in 0..self.hosts {
            let port = PortNum(6 * self.parallel + 1 + host);
            topology.cables.push([(first_host + usize::from(host), PortNum(1)), (switch, port)]);
        }
    }

    fn add_links(
        &self,
        topology: &mut Topology,
        index: &[Option<usize>],
        at: [u16; 3],
        dimension: usize,
    ) {
        let Some(up) = self.above(at, dimension) else { return };
        let ends = (index[self.index(at) as usize], index[self.index(up) as usize]);
        let (Some(low), Some(high)) = ends else { return };
        if self.missing_links.contains(&(at, dimension)) {
            return;
        }
        let direction = 2 * dimension as u8;
        for cable in 1..=self.parallel {
            let plus = PortNum(direction * self.parallel + cable);
            let minus = PortNum((direction + 1) * self.parallel + cable);
            topology.cables.push([(low, plus), (high, minus)]);
        }
    }

    /// Text of torus-2QoS.conf for this fabric, with the seed at 0,0,0 or at the first position
    /// that has all its neighbours.
    pub fn torus_conf(&self) -> String {
        let mut text = String::from("torus");
        for (radix, looped) in self.radix.iter().zip(self.looped) {
            let _ = write!(text, " {radix}{}", if looped { 'T' } else { 'M' });
        }
        text.push('\n');
        let origin = self.positions().find(|&at| self.can_be_seed(at)).unwrap_or_default();
        for (dimension, name) in ["x", "y", "z"].iter().enumerate() {
            self.write_seed(&mut text, origin, dimension, name);
        }
        // The port group of the switch itself has port 0, the hosts and the router.
        let local = u16::from(self.hosts) + 1 + u16::from(self.router);
        let largest = local.max(u16::from(self.parallel)).max(16);
        let _ = writeln!(text, "portgroup_max_ports {largest}");
        text
    }

    /// Neighbours that the links of a seed at `at` lead to in a dimension: the upper one, and in a
    /// ring of four also the lower one, since one link alone leaves the direction ambiguous.
    fn seed_links(&self, at: [u16; 3], dimension: usize) -> Vec<(char, [u16; 3])> {
        let Some(up) = self.above(at, dimension) else { return Vec::new() };
        let mut links = vec![('p', up)];
        if self.radix[dimension] == 4 && self.looped[dimension] {
            let mut down = at;
            down[dimension] = (at[dimension] + 3) % 4;
            links.push(('m', down));
        }
        links
    }

    fn can_be_seed(&self, at: [u16; 3]) -> bool {
        present(&self.missing_switches, &at)
            && (0..3).all(|dimension| {
                let links = self.seed_links(at, dimension);
                (self.radix[dimension] < 2 || !links.is_empty())
                    && links.iter().all(|(_, at)| present(&self.missing_switches, at))
            })
    }

    fn write_seed(&self, text: &mut String, at: [u16; 3], dimension: usize, name: &str) {
        let origin = self.switch_guid(at);
        for (sign, neighbour) in self.seed_links(at, dimension) {
            let guid = self.switch_guid(neighbour);
            let _ = writeln!(text, "{name}{sign}_link {:#x} {:#x}", origin.0, guid.0);
        }
        if at[dimension] > 0 {
            let _ = writeln!(text, "{name}_dateline -{}", at[dimension]);
        }
    }
}

fn present(missing_switches: &[[u16; 3]], at: &[u16; 3]) -> bool {
    !missing_switches.contains(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        text.parse().expect(text)
    }

    #[test]
    fn tori_have_all_cables() {
        let cases = [("6x5x1", 30, 90), ("3x3x3", 27, 108), ("4mx3mx2m", 24, 70), ("2x1", 2, 3)];
        for (text, switches, cables) in cases {
            let topology = shape(text).build().expect(text);
            assert_eq!(topology.nodes.len(), 2 * switches, "{text}");
            assert_eq!(topology.cables.len(), cables, "{text}");
        }
    }

    #[test]
    fn omissions_change_no_other_guid() {
        let mut torus = shape("4x4");
        torus.missing_switches.push([1, 1, 0]);
        torus.missing_links.push(([0, 0, 0], 0));
        torus.router = true;
        torus.parallel = 2;
        let topology = torus.build().expect("fits");
        assert_eq!(topology.nodes.len(), 15 * 2 + 1);
        assert_eq!(topology.cables.len(), 15 + 1 + 2 * (32 - 4 - 1));
        assert!(topology.nodes.iter().all(|node| node.guid != torus.switch_guid([1, 1, 0])));
    }

    #[test]
    fn the_configuration_names_both_neighbours_of_a_ring_of_four() {
        let expected = "torus 6T 4T 1T\nxp_link 0x200000 0x200004\nyp_link 0x200000 0x200001\n\
                        ym_link 0x200000 0x200003\nportgroup_max_ports 16\n";
        assert_eq!(shape("6x4x1").torus_conf(), expected);
    }

    #[test]
    fn the_seed_has_all_its_neighbours() {
        let mut torus = shape("5x6m");
        torus.missing_switches.push([1, 0, 0]);
        let expected = "torus 5T 6M 1T\nxp_link 0x200001 0x200007\nyp_link 0x200001 0x200002\n\
                        y_dateline -1\nportgroup_max_ports 16\n";
        assert_eq!(torus.torus_conf(), expected);
    }

    #[test]
    fn invalid_shapes_are_rejected() {
        for text in ["", "x", "0x1", "3x3x3x3", "3q", "3tm", "300", "255x255x255", "-1x2"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
        let mut wide = shape("3x3");
        wide.hosts = 250;
        assert!(matches!(wide.build(), Err(ShapeError::Ports { needed: 256, .. })));
    }
}
