//! Synthetic snapshots: what a sweep of a trained fabric with a given topology would return. Tests,
//! planning without a fabric, and the initial state of simulated devices use them.

use super::link_rate::LinkRate;
use super::topology::{Topology, TopologyNode};
use super::{Fabric, NodeParts};
use crate::ids::{Guid, Lid, PortNum};
use crate::wire::attr::{
    CapMask, LinkWidth, NodeDescription, NodeInfo, NodeKind, PhysState, PortInfo, PortState,
    SwitchInfo,
};
use crate::wire::smp::DirectedRoute;
use std::collections::VecDeque;
use std::sync::Arc;

const DEFAULT_PREFIX: u64 = 0xFE80_0000_0000_0000;
/// CapabilityMask of all end ports: traps, SL mapping, system image GUID, client reregistration
/// (IBA vol. 1, 14.2.5.6).
const END_PORT_CAPABILITIES: u32 =
    CapMask::TRAPS | CapMask::SL_MAPPING | 1 << 11 | CapMask::CLIENT_REREGISTER;
/// Link speed bits of SDR, DDR and QDR.
const ALL_SPEEDS: u8 = 0x7;
/// Link speed bit of QDR.
const FASTEST: u8 = 0x4;
/// Link widths 1x and 4x.
const WIDTHS: u8 = LinkWidth::X1 | LinkWidth::X4;

/// Capabilities of all devices, in the encoding of the attributes. All ports are 4x QDR, unless the
/// topology says otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// VLCap; 4 stands for eight data VLs.
    pub vl_cap: u8,
    /// MTUCap; 4 stands for 2048 bytes.
    pub mtu_cap: u8,
    /// Entries of the high-priority VL arbitration table.
    pub vl_arb_high_cap: u8,
    /// Entries of the low-priority VL arbitration table.
    pub vl_arb_low_cap: u8,
    /// Entries of the linear forwarding tables.
    pub linear_fdb_cap: u16,
    /// Entries of the multicast forwarding tables; 0 stands for no multicast.
    pub multicast_fdb_cap: u16,
    /// Entries of the P_Key tables of end ports.
    pub partition_cap: u16,
    /// Entries of the P_Key tables of external switch ports; 0 stands for no enforcement.
    pub partition_enforcement_cap: u16,
    /// Entries of the GUID tables of channel adapter and router ports.
    pub guid_cap: u8,
    pub enhanced_port0: bool,
    /// Switches support the optimized SL to VL mapping table programming.
    pub optimized_sl_to_vl: bool,
    /// End ports report changed capabilities, such as IsSM, by trap 144.
    pub reports_capabilities: bool,
}

impl Default for Hardware {
    /// The capabilities of ibsim devices: eight data VLs, MTU 2048, VL arbitration with 8 + 8
    /// entries.
    fn default() -> Self {
        Self {
            vl_cap: 4,
            mtu_cap: 4,
            vl_arb_high_cap: 8,
            vl_arb_low_cap: 8,
            linear_fdb_cap: 49152,
            multicast_fdb_cap: 1024,
            partition_cap: 64,
            partition_enforcement_cap: 64,
            guid_cap: 32,
            enhanced_port0: false,
            optimized_sl_to_vl: false,
            reports_capabilities: true,
        }
    }
}

impl Hardware {
    /// The capabilities of a single device of these.
    pub fn of_node(&self, node: &TopologyNode) -> Self {
        let enhanced_port0 = self.enhanced_port0 || node.model.enhanced_port0;
        Self { enhanced_port0, ..self.clone() }
    }

    /// NodeInfo of `node` as its port `local_port` answers it.
    pub fn node_info(&self, node: &TopologyNode, local_port: PortNum) -> NodeInfo {
        let mut info = NodeInfo::default();
        info.set_base_version(1);
        info.set_class_version(1);
        info.set_kind(node.kind);
        info.set_num_ports(node.num_ports);
        info.set_system_guid(node.system_guid);
        info.set_node_guid(node.guid);
        let owner = if node.kind == NodeKind::Switch { PortNum::ZERO } else { local_port };
        info.set_port_guid(node.port_guid(owner));
        info.set_partition_cap(self.partition_cap);
        info.set_local_port(local_port);
        info.set_vendor_id(node.model.vendor_id);
        info.set_device_id(node.model.device_id);
        info
    }

    /// SwitchInfo of an unconfigured switch.
    pub fn switch_info(&self) -> SwitchInfo {
        let mut info = SwitchInfo::default();
        info.set_linear_fdb_cap(self.linear_fdb_cap);
        info.set_multicast_fdb_cap(self.multicast_fdb_cap);
        info.set_partition_enforcement_cap(self.partition_enforcement_cap);
        info.set_inbound_enforcement_cap(self.partition_enforcement_cap > 0);
        info.set_outbound_enforcement_cap(self.partition_enforcement_cap > 0);
        info.set_filter_raw_in_cap(true);
        info.set_filter_raw_out_cap(true);
        info.set_enhanced_port0(self.enhanced_port0);
        info.set_optimized_sl2vl(self.optimized_sl_to_vl.into());
        info
    }

    /// PortInfo of an unconfigured port: INIT if `linked`, else down and polling. Port 0 of a
    /// switch has no cable and is always up; a base port 0 is always ACTIVE.
    pub fn port_info(&self, kind: NodeKind, num: PortNum, linked: bool) -> PortInfo {
        let is_switch = kind == NodeKind::Switch;
        let is_port0 = is_switch && num == PortNum::ZERO;
        let mut info = PortInfo::default();
        if !is_switch || is_port0 {
            info.set_gid_prefix(DEFAULT_PREFIX);
            let notices = if self.reports_capabilities { CapMask::CAP_MASK_NOTICE } else { 0 };
            info.set_capability_mask(END_PORT_CAPABILITIES | notices);
            info.set_guid_cap(if is_port0 { 1 } else { self.guid_cap });
            info.set_resp_time_value(16);
        }
        info.set_local_port(num);
        info.set_link_width_supported(WIDTHS);
        info.set_link_width_enabled(WIDTHS);
        info.set_link_speed_supported(ALL_SPEEDS);
        info.set_link_speed_enabled(ALL_SPEEDS);
        info.set_link_down_default_state(2);
        info.set_neighbor_mtu(if is_port0 { self.mtu_cap } else { 1 });
        info.set_mtu_cap(self.mtu_cap);
        info.set_vl_cap(self.vl_cap);
        info.set_operational_vls(1);
        info.set_vl_arb_high_cap(self.vl_arb_high_cap);
        info.set_vl_arb_low_cap(self.vl_arb_low_cap);
        set_link(&mut info, linked || is_port0);
        if is_port0 && !self.enhanced_port0 {
            info.set_port_state(PortState::Active);
        }
        info
    }
}

/// Sets the fields that link training sets: INIT with 4x QDR, or down and polling.
pub fn set_link(info: &mut PortInfo, up: bool) {
    info.set_link_speed_ext_active(0);
    info.set_link_speed_ext_active2(0);
    if up {
        info.set_port_state(PortState::Init);
        info.set_phys_state(PhysState::LinkUp);
        info.set_link_width_active(LinkWidth::X4);
        info.set_link_speed_active(FASTEST);
    } else {
        info.set_port_state(PortState::Down);
        info.set_phys_state(PhysState::Polling);
        info.set_link_width_active(LinkWidth::X4);
        info.set_link_speed_active(1);
    }
}

/// Sets the fields that the rates in a topology determine for a port of a node: what it supports,
/// what its link uses, and what its node announces.
pub fn set_rate(info: &mut PortInfo, topology: &Topology, node: usize, num: PortNum) {
    if topology.rates.is_empty() {
        return;
    }
    let rate = topology.rate(node, num);
    if rate != LinkRate::default() {
        rate.support(info);
    }
    if info.phys_state() == PhysState::LinkUp {
        info.set_link_width_active(rate.width);
        rate.speed.activate(info);
    }
    let is_switch = topology.nodes[node].kind == NodeKind::Switch;
    if !is_switch || num == PortNum::ZERO {
        topology.fastest_rate(node).announce(info);
    }
}

/// Parameters of [`Fabric::from_topology`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SyntheticView {
    pub hardware: Hardware,
    /// State of all links: INIT as before the first sweep, or ACTIVE.
    pub state: PortState,
    /// The SM's port on the local node. `None` stands for port 0 of a switch or the first cabled
    /// port of another node.
    pub local_port: Option<PortNum>,
}

impl Default for SyntheticView {
    fn default() -> Self {
        Self { hardware: Hardware::default(), state: PortState::Init, local_port: None }
    }
}

impl Fabric {
    /// The snapshot that a sweep from node `local` (an index into `topology.nodes`) would take with
    /// all links up; `None` if there is no such node or port. Directed routes are the shortest. The
    /// snapshot omits nodes more than 63 hops away, and the PortInfo of channel adapter ports that
    /// are not reached through their own cable.
    pub fn from_topology(topology: &Topology, local: usize, view: &SyntheticView) -> Option<Self> {
        let cables_by_port = CableMap::new(topology);
        let home = topology.nodes.get(local)?;
        let local_port = view.local_port.unwrap_or_else(|| match home.kind {
            NodeKind::Switch => PortNum::ZERO,
            _ => first_cabled(&cables_by_port, local).unwrap_or(PortNum(1)),
        });
        if local_port.0 > home.num_ports {
            return None;
        }
        let origin = Origin { node: local, port: local_port };
        let routes = cables_by_port.routes(origin);
        let parts = (0..topology.nodes.len())
            .filter_map(|node| Some((node, (*routes.get(node)?)?)))
            .map(|(node, reached)| cables_by_port.parts(node, reached, origin, &routes, view))
            .collect();
        let cables: Vec<_> = topology
            .cables
            .iter()
            .filter(|ends| {
                ends.iter().all(|&(node, num)| cables_by_port.is_seen(node, num, origin))
            })
            .filter_map(|&[near, far]| {
                let near_guid = topology.nodes.get(near.0)?.guid;
                let far_guid = topology.nodes.get(far.0)?.guid;
                Some(((near_guid, near.1), (far_guid, far.1)))
            })
            .collect();
        Self::assemble(parts, &cables, (home.guid, local_port), Vec::new())
    }
}

fn first_cabled(cables_by_port: &CableMap<'_>, local: usize) -> Option<PortNum> {
    cables_by_port.ports(local).find(|&num| cables_by_port.peer(local, num).is_some())
}

/// The port of the SM.
#[derive(Clone, Copy)]
struct Origin {
    node: usize,
    port: PortNum,
}

/// Route to a node, and the port through which it answers.
type Reached = (DirectedRoute, PortNum);

/// A topology with its cables by port.
struct CableMap<'a> {
    topology: &'a Topology,
    /// Index of port 0 of each node in `peers`.
    first: Vec<usize>,
    peers: Vec<Option<(usize, PortNum)>>,
}

impl<'a> CableMap<'a> {
    fn new(topology: &'a Topology) -> Self {
        let mut first = Vec::with_capacity(topology.nodes.len());
        let mut total = 0;
        for node in &topology.nodes {
            first.push(total);
            total += usize::from(node.num_ports) + 1;
        }
        let mut cables_by_port = Self { topology, first, peers: vec![None; total] };
        for &[a, b] in &topology.cables {
            if let (Some(at_a), Some(at_b)) =
                (cables_by_port.slot(a.0, a.1), cables_by_port.slot(b.0, b.1))
            {
                cables_by_port.peers[at_a] = Some(b);
                cables_by_port.peers[at_b] = Some(a);
            }
        }
        cables_by_port
    }

    fn slot(&self, node: usize, num: PortNum) -> Option<usize> {
        let ports = self.topology.nodes.get(node)?.num_ports;
        (1..=ports).contains(&num.0).then(|| self.first[node] + num.index())
    }

    fn peer(&self, node: usize, num: PortNum) -> Option<(usize, PortNum)> {
        self.slot(node, num).and_then(|slot| self.peers[slot])
    }

    fn ports(&self, node: usize) -> impl Iterator<Item = PortNum> + use<> {
        (1..=self.topology.nodes[node].num_ports).map(PortNum)
    }

    fn is_switch(&self, node: usize) -> bool {
        self.topology.nodes[node].kind == NodeKind::Switch
    }

    /// Searches breadth first, ports in ascending order. Only switches and the local port forward
    /// SMPs.
    fn routes(&self, origin: Origin) -> Vec<Option<Reached>> {
        let mut routes: Vec<Option<Reached>> = vec![None; self.first.len()];
        routes[origin.node] = Some((DirectedRoute::LOCAL, origin.port));
        let mut queue = VecDeque::from([origin.node]);
        while let Some(node) = queue.pop_front() {
            let Some((route, _)) = routes[node] else { continue };
            for exit in self.ports(node).filter(|&exit| self.passes(node, exit, origin)) {
                let Some((peer, entry)) = self.peer(node, exit) else { continue };
                if let (None, Some(longer)) = (routes[peer], route.then(exit)) {
                    routes[peer] = Some((longer, entry));
                    queue.push_back(peer);
                }
            }
        }
        routes
    }

    fn passes(&self, node: usize, exit: PortNum, origin: Origin) -> bool {
        self.is_switch(node) || (node == origin.node && exit == origin.port)
    }

    /// True for ports whose cable a sweep discovers: those of switches, the local one, and those at
    /// the far end of such a port.
    fn is_seen(&self, node: usize, num: PortNum, origin: Origin) -> bool {
        self.passes(node, num, origin)
            || self.peer(node, num).is_some_and(|(peer, at)| self.passes(peer, at, origin))
    }

    fn parts(
        &self,
        index: usize,
        reached: Reached,
        origin: Origin,
        routes: &[Option<Reached>],
        view: &SyntheticView,
    ) -> NodeParts {
        let (route, entry) = reached;
        let node = &self.topology.nodes[index];
        let is_switch = node.kind == NodeKind::Switch;
        let ports = (0..=node.num_ports).map(PortNum).map(|num| {
            let peer = self.peer(index, num);
            let through_peer = peer
                .is_some_and(|(peer, at)| routes[peer].is_some() && self.passes(peer, at, origin));
            let own = index == origin.node && num == origin.port;
            if !is_switch && !through_peer && !own {
                return (Guid(0), None);
            }
            let mut info = port_info(node, num, peer.is_some(), view);
            set_rate(&mut info, self.topology, index, num);
            (node.port_guid_on_wire(num), Some(Arc::new(info)))
        });
        NodeParts {
            info: view.hardware.node_info(node, entry),
            description: NodeDescription::new(&node.description),
            switch_info: if is_switch {
                view.hardware.of_node(node).switch_info()
            } else {
                SwitchInfo::default()
            },
            route,
            ports: ports.collect(),
        }
    }
}

impl TopologyNode {
    /// The port GUID in NodeInfo through port `num`; a switch gives that of port 0 on all ports.
    fn port_guid_on_wire(&self, num: PortNum) -> Guid {
        self.port_guid(if self.kind == NodeKind::Switch { PortNum::ZERO } else { num })
    }
}

fn port_info(node: &TopologyNode, num: PortNum, cabled: bool, view: &SyntheticView) -> PortInfo {
    let hardware = view.hardware.of_node(node);
    let mut info = hardware.port_info(node.kind, num, cabled);
    if info.port_state() == PortState::Init {
        info.set_port_state(view.state);
    }
    if let Some(&(_, lid, lmc)) = node.lids.iter().find(|&&(port, ..)| port == num) {
        info.set_lid(Lid(lid));
        info.set_lmc(lmc);
    }
    info
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::link_rate::LinkSpeed;
    use crate::fabric::{PortId, ibnet};

    const TEXT: &str = "\
switchguid=0x20
Switch 3 \"S-0000000000000020\" # \"one\" base port 0 lid 9 lmc 0
[1] \"S-0000000000000021\"[2]
[2] \"H-0000000000000010\"[1]

switchguid=0x21
Switch 3 \"S-0000000000000021\" # \"two\"
[2] \"S-0000000000000020\"[1]
[3] \"H-0000000000000013\"[2]

caguid=0x10
Ca 2 \"H-0000000000000010\" # \"a\"
[1] \"S-0000000000000020\"[2]
[2] \"H-0000000000000019\"[1]

caguid=0x13
Ca 2 \"H-0000000000000013\" # \"b\"
[2] \"S-0000000000000021\"[3]

caguid=0x19
Ca 1 \"H-0000000000000019\" # \"hidden\"
[1] \"H-0000000000000010\"[2]
";

    fn fabric(local: usize, view: &SyntheticView) -> Fabric {
        let topology = ibnet::parse("t.net".as_ref(), TEXT).expect("well formed");
        Fabric::from_topology(&topology, local, view).expect("the local port exists")
    }

    #[test]
    fn routes_are_shortest_and_unreachable_nodes_are_omitted() {
        let fabric = fabric(2, &SyntheticView::default());
        let seen: Vec<_> =
            fabric.nodes().iter().map(|node| (node.guid().0, node.route.to_string())).collect();
        let expected = [(0x10, "0"), (0x13, "0,1,1,3"), (0x20, "0,1"), (0x21, "0,1,1")];
        assert_eq!(seen, expected.map(|(guid, route)| (guid, route.to_owned())));
        assert_eq!(fabric.port(fabric.local()).guid, Guid(0x11));
        assert_eq!(fabric.end_ports().count(), 4);
        let second = fabric.node_by_guid(Guid(0x13)).expect("reached");
        assert!(fabric.ports_of(second).nth(1).expect("port 1").info().is_none());
        assert_eq!(fabric.node(second).info.local_port(), PortNum(2));
        assert_eq!(fabric.node(second).info.port_guid(), Guid(0x15));
    }

    #[test]
    fn unconnected_ports_are_down_and_known_lids_stay() {
        let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
        let fabric = fabric(0, &view);
        let one = fabric.node_by_guid(Guid(0x20)).expect("reached");
        let states: Vec<_> = fabric.ports_of(one).map(|port| port.state()).collect();
        use PortState::{Active, Down};
        assert_eq!(states, [Active, Active, Active, Down]);
        assert_eq!(fabric.observed_lid(fabric.local()), Some(Lid(9)));
        assert_eq!(fabric.local(), fabric.node(one).first_port);
    }

    /// Of a switch, only port 0 announces extended speeds.
    #[test]
    fn links_have_the_rate_of_the_topology() {
        for (rate, expected) in [
            ("4xSDR", LinkSpeed::Sdr),
            ("1xFDR", LinkSpeed::Fdr),
            ("4xEDR", LinkSpeed::Edr),
            ("2xNDR", LinkSpeed::Ndr),
            ("4xXDR", LinkSpeed::Xdr),
        ] {
            let (near, near_rated) = cable(rate, "[2] \"H-0000000000000010\"[1]");
            let (far, far_rated) = cable(rate, "[1] \"S-0000000000000020\"[2]");
            let text = TEXT.replace(&near, &near_rated).replace(&far, &far_rated);
            let topology = ibnet::parse("t.net".as_ref(), &text).expect("well formed");
            let fabric = Fabric::from_topology(&topology, 0, &SyntheticView::default());
            let fabric = fabric.expect("the local port exists");
            let one = fabric.node_by_guid(Guid(0x20)).expect("reached");
            let port = PortId(fabric.node(one).first_port.0 + 2);
            let peer = fabric.port(port).peer.expect("a link");
            for end in [port, peer] {
                assert_eq!(LinkSpeed::of(&fabric, end), Some(expected), "{rate}");
                let width = fabric.port(end).info().expect("known").link_width_active();
                assert_eq!(LinkRate { width, speed: expected }.to_string(), rate);
            }
            let other = PortId(port.0 - 1);
            assert_eq!(LinkSpeed::of(&fabric, other), Some(LinkSpeed::Qdr), "another link");
            let info = fabric.port(port).info().expect("known");
            assert!(!info.has(CapMask::EXTENDED_SPEEDS));
        }
    }

    fn cable(rate: &str, line: &str) -> (String, String) {
        (line.to_owned(), format!("{line} # \"x\" lid 0 {rate}"))
    }

    #[test]
    fn a_port_that_does_not_exist_is_refused() {
        let topology = ibnet::parse("t.net".as_ref(), TEXT).expect("well formed");
        let view = SyntheticView { local_port: Some(PortNum(9)), ..SyntheticView::default() };
        assert!(Fabric::from_topology(&topology, 0, &view).is_none());
        assert!(Fabric::from_topology(&topology, 99, &SyntheticView::default()).is_none());
    }
}
