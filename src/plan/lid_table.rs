//! The LIDs of a plan.

use crate::fabric::virtual_ports::EndPort;
use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use std::collections::BTreeMap;

/// The LIDs of all end ports and of the vports that require one, by port and by LID.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LidTable {
    /// Base LID (0: none) and LMC, by port slot.
    by_port: Vec<(Lid, u8)>,
    /// The physical ports. The LID of a vport is one more of its physical port.
    by_lid: Vec<Option<PortId>>,
    by_vport: BTreeMap<EndPort, Lid>,
    by_vport_lid: BTreeMap<Lid, EndPort>,
}

impl LidTable {
    /// Creates an empty table for a fabric with `ports` port slots.
    pub fn new(ports: usize) -> Self {
        Self { by_port: vec![(Lid(0), 0); ports], ..Self::default() }
    }

    /// Assigns the 2^`lmc` LIDs from `base` on to `port`. They must be free.
    pub fn assign(&mut self, port: PortId, base: Lid, lmc: u8) {
        self.by_port[port.index()] = (base, lmc);
        self.take(port, base, lmc);
    }

    /// Assigns a LID to a vport. It must be free, and the physical port must have a LID.
    pub fn assign_vport(&mut self, vport: EndPort, lid: Lid) {
        debug_assert!(vport.is_virtual() && self.base(vport.physical).is_some());
        self.by_vport.insert(vport, lid);
        self.by_vport_lid.insert(lid, vport);
        self.take(vport.physical, lid, 0);
    }

    fn take(&mut self, port: PortId, base: Lid, lmc: u8) {
        let range = base.index()..base.index() + (1 << lmc);
        debug_assert!(base.is_unicast(), "{base} is no unicast LID");
        if self.by_lid.len() < range.end {
            self.by_lid.resize(range.end, None);
        }
        debug_assert!(self.by_lid[range.clone()].iter().all(Option::is_none));
        self.by_lid[range].fill(Some(port));
    }

    /// The base LID of an end port; `None` if no LID is assigned.
    pub fn base(&self, port: PortId) -> Option<Lid> {
        let (base, _) = *self.by_port.get(port.index())?;
        (base.0 != 0).then_some(base)
    }

    /// The base LID of an end port; LID 0, which no port has, if none is assigned.
    pub fn base_or_zero(&self, port: PortId) -> Lid {
        self.base(port).unwrap_or(Lid(0))
    }

    /// The LMC of an end port (0 to 7).
    pub fn lmc(&self, port: PortId) -> u8 {
        self.by_port.get(port.index()).map_or(0, |&(_, lmc)| lmc)
    }

    /// The base LID of `port`, or of port 0 if `port` is an external switch port.
    pub fn base_of_owner(&self, fabric: &Fabric, port: PortId) -> Option<Lid> {
        let node = fabric.node_of(port);
        self.base(if node.is_switch() { node.first_port } else { port })
    }

    /// The physical end port that packets to a LID lead to.
    pub fn port(&self, lid: Lid) -> Option<PortId> {
        self.by_lid.get(lid.index()).copied().flatten()
    }

    /// The end port that owns a LID: a vport if the LID is that of a vport.
    pub fn owner(&self, lid: Lid) -> Option<EndPort> {
        let vport = self.by_vport_lid.get(&lid).copied();
        vport.or_else(|| self.port(lid).map(EndPort::from))
    }

    /// The LID that the plan gives to a vport of its own; `None` if it has none.
    pub fn of_vport(&self, vport: EndPort) -> Option<Lid> {
        self.by_vport.get(&vport).copied()
    }

    /// The first of the LIDs at which an end port receives packets. A vport without a LID of its own
    /// shares that of the vport that its `lid_by_vport_index` names, or that of its physical port.
    pub fn receives_at(&self, fabric: &Fabric, end: EndPort) -> Option<Lid> {
        if let Some(vport) = fabric.vport(end) {
            if let Some(lid) = self.of_vport(end) {
                return Some(lid);
            }
            let sharing = EndPort { vport: Some(vport.lid_by_vport_index), ..end };
            if !vport.lid_required
                && let Some(lid) = self.of_vport(sharing)
            {
                return Some(lid);
            }
        }
        self.base(end.physical)
    }

    /// The LMC of the LIDs at which an end port receives packets.
    pub fn lmc_at(&self, fabric: &Fabric, end: EndPort) -> u8 {
        let is_own = self.receives_at(fabric, end) != self.base(end.physical);
        if is_own { 0 } else { self.lmc(end.physical) }
    }

    /// The LIDs of vports, ascending.
    pub fn of_vports(&self) -> impl Iterator<Item = (Lid, EndPort)> + '_ {
        self.by_vport_lid.iter().map(|(&lid, &vport)| (lid, vport))
    }

    /// The LID whose routes lead to a LID: the base LID of the physical port for the LID of a vport,
    /// else the LID itself.
    pub fn route_lid(&self, lid: Lid) -> Lid {
        let vport = self.by_vport_lid.get(&lid);
        vport.and_then(|vport| self.base(vport.physical)).unwrap_or(lid)
    }

    /// True if both have the same LIDs except those of vports.
    pub fn has_same_physical(&self, other: &Self) -> bool {
        self.by_port == other.by_port
    }

    /// The table of the physical ports, with the same highest LID: the input of routing engines.
    pub fn without_vports(&self) -> Self {
        let mut by_lid = self.by_lid.clone();
        self.by_vport_lid.keys().for_each(|lid| by_lid[lid.index()] = None);
        Self { by_port: self.by_port.clone(), by_lid, ..Self::default() }
    }

    /// The highest assigned LID; 0 if no LID is assigned.
    pub fn max(&self) -> Lid {
        Lid(self.by_lid.len().saturating_sub(1) as u16)
    }

    /// All assigned LIDs with their physical ports, ascending by LID.
    pub fn iter(&self) -> impl Iterator<Item = (Lid, PortId)> + '_ {
        let used = self.by_lid.iter().enumerate();
        used.filter_map(|(lid, port)| port.map(|port| (Lid(lid as u16), port)))
    }
}
