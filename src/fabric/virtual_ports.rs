//! Virtual ports (vports) of adapter ports, as they were discovered.
//!
//! They are kept by port GUID, so that they stay valid from one snapshot to the next. A vport with the
//! GUID of its physical port is the function of that port itself; look-ups return the physical port.

use super::{Fabric, PortId};
use crate::ids::{Guid, Lid, PortNum};
use crate::wire::attr::tables::PkeyBlock;
use crate::wire::attr::{NodeDescription, PortState};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A vport that is not Down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VirtualPort {
    pub index: u16,
    pub guid: Guid,
    pub vnode: VirtualNode,
    /// The state when the vport was discovered.
    pub state: PortState,
    /// The vport needs a LID of its own.
    pub lid_required: bool,
    /// The LID that the vport carried when it was discovered.
    pub lid: Lid,
    /// Index of the vport whose LID this one shares, if it requires none and that one has a LID.
    pub lid_by_vport_index: u16,
    /// Entries of the GUID table.
    pub guid_cap: u8,
    /// Entries of the P_Key table.
    pub partition_cap: u16,
    /// Blocks of the P_Key table as they were read. Vports of a port share equal tables.
    pub pkeys: Arc<[PkeyBlock]>,
}

/// The virtual node of a vport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VirtualNode {
    /// 0 until it is known.
    pub guid: Guid,
    pub num_ports: u8,
    /// The number of the vport at this node.
    pub port: PortNum,
    pub description: NodeDescription,
}

/// The vports of a physical port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualizedPort {
    /// All vports are known; false while the port does not answer.
    pub is_discovered: bool,
    /// The highest index in use.
    pub top_index: u16,
    /// By index, ascending.
    pub vports: Vec<VirtualPort>,
}

impl VirtualizedPort {
    pub fn vport(&self, index: u16) -> Option<&VirtualPort> {
        let found = self.vports.binary_search_by_key(&index, |vport| vport.index);
        found.ok().and_then(|at| self.vports.get(at))
    }
}

/// The vports of a subnet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VirtualPorts {
    by_port: BTreeMap<Guid, Arc<VirtualizedPort>>,
    /// Physical port and index, by the GUID of the vport.
    by_guid: FxHashMap<Guid, (Guid, u16)>,
}

impl VirtualPorts {
    /// The vports of these ports. A GUID that occurs twice belongs to the vport of `before`, else to
    /// the first one; the other vports with it are left out, and returned as physical port and index.
    pub fn new(
        ports: &BTreeMap<Guid, Arc<VirtualizedPort>>,
        before: &Self,
    ) -> (Self, Vec<(Guid, u16)>) {
        let count = ports.values().map(|port| port.vports.len()).sum();
        let mut by_guid = FxHashMap::with_capacity_and_hasher(count, FxBuildHasher);
        let kept = before.by_guid.iter().filter(|&(&guid, &place)| is_held(ports, guid, place));
        by_guid.extend(kept.map(|(&guid, &place)| (guid, place)));
        let mut duplicates = Vec::new();
        let mut by_port = BTreeMap::new();
        for (&guid, port) in ports {
            let first_duplicate = duplicates.len();
            for vport in &port.vports {
                let place = (guid, vport.index);
                if *by_guid.entry(vport.guid).or_insert(place) != place {
                    duplicates.push(place);
                }
            }
            let left_out = &duplicates[first_duplicate..];
            let port = if left_out.is_empty() {
                port.clone()
            } else {
                Arc::new(VirtualizedPort {
                    vports: port
                        .vports
                        .iter()
                        .filter(|vport| !left_out.contains(&(guid, vport.index)))
                        .cloned()
                        .collect(),
                    ..VirtualizedPort::clone(port)
                })
            };
            by_port.insert(guid, port);
        }
        (Self { by_port, by_guid }, duplicates)
    }

    pub fn is_empty(&self) -> bool {
        self.by_port.is_empty()
    }

    /// The vports of the physical port with this GUID.
    pub fn of_port(&self, guid: Guid) -> Option<&Arc<VirtualizedPort>> {
        self.by_port.get(&guid)
    }

    /// All physical ports with vports, by GUID.
    pub fn ports(&self) -> impl Iterator<Item = (Guid, &Arc<VirtualizedPort>)> {
        self.by_port.iter().map(|(&guid, port)| (guid, port))
    }

    /// The GUID of the physical port of a vport, and the vport.
    pub fn by_guid(&self, guid: Guid) -> Option<(Guid, &VirtualPort)> {
        let &(port, index) = self.by_guid.get(&guid)?;
        Some((port, self.by_port.get(&port)?.vport(index)?))
    }
}

/// True if the vport at a place, a physical port and an index, has this GUID.
fn is_held(
    ports: &BTreeMap<Guid, Arc<VirtualizedPort>>,
    guid: Guid,
    (port, index): (Guid, u16),
) -> bool {
    let vport = ports.get(&port).and_then(|port| port.vport(index));
    vport.is_some_and(|vport| vport.guid == guid)
}

/// An end port: a physical one, or a vport of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndPort {
    /// The port that sends and receives the packets.
    pub physical: PortId,
    /// The index of the vport; `None` for the physical port itself.
    pub vport: Option<u16>,
}

impl From<PortId> for EndPort {
    fn from(physical: PortId) -> Self {
        Self { physical, vport: None }
    }
}

impl EndPort {
    pub fn is_virtual(self) -> bool {
        self.vport.is_some()
    }
}

impl Fabric {
    pub fn virtual_ports(&self) -> &Arc<VirtualPorts> {
        &self.virtual_ports
    }

    pub fn set_virtual_ports(&mut self, virtual_ports: Arc<VirtualPorts>) {
        self.virtual_ports = virtual_ports;
    }

    /// The physical port or vport with this GUID.
    pub fn end_port_by_guid(&self, guid: Guid) -> Option<EndPort> {
        if let Some(port) = self.port_by_guid(guid) {
            return Some(port.into());
        }
        let (port, vport) = self.virtual_ports.by_guid(guid)?;
        Some(EndPort { physical: self.port_by_guid(port)?, vport: Some(vport.index) })
    }

    /// True for ports that announce vports and whose vports are not known.
    pub fn has_unknown_vports(&self, port: PortId) -> bool {
        let port = self.port(port);
        port.info().is_some_and(|info| info.has_virtual_ports())
            && !self.virtual_ports.of_port(port.guid).is_some_and(|known| known.is_discovered)
    }

    /// True if no discovery of the vports of a port that announces some has ended yet.
    pub fn awaits_vports(&self) -> bool {
        let mut announced = self
            .end_ports()
            .filter(|id| self.port(*id).info().is_some_and(|info| info.has_virtual_ports()));
        announced.any(|id| self.virtual_ports.of_port(self.port(id).guid).is_none())
    }

    /// The vport of an end port; `None` for physical ports.
    pub fn vport(&self, end: EndPort) -> Option<&VirtualPort> {
        let guid = self.port(end.physical).guid;
        self.virtual_ports.of_port(guid)?.vport(end.vport?)
    }

    /// The GUID of an end port.
    pub fn end_port_guid(&self, end: EndPort) -> Guid {
        self.vport(end).map_or(self.port(end.physical).guid, |vport| vport.guid)
    }

    /// The vports of a physical port that are not the port itself.
    pub fn vports_of(&self, port: PortId) -> impl Iterator<Item = (EndPort, &VirtualPort)> {
        let guid = self.port(port).guid;
        let all = self.virtual_ports.of_port(guid).into_iter().flat_map(|port| &port.vports);
        let others = all.filter(move |vport| vport.guid != guid);
        others.map(move |vport| (EndPort { physical: port, vport: Some(vport.index) }, vport))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A vport in INIT that shares the LID of its physical port.
    pub(crate) fn vport(index: u16, guid: Guid, vnode: Guid) -> VirtualPort {
        VirtualPort {
            index,
            guid,
            vnode: VirtualNode {
                guid: vnode,
                num_ports: 1,
                port: PortNum(1),
                description: NodeDescription::new("vf"),
            },
            state: PortState::Init,
            lid_required: false,
            lid: Lid(0),
            lid_by_vport_index: 0,
            guid_cap: 8,
            partition_cap: 32,
            pkeys: Arc::default(),
        }
    }

    fn ports(list: &[(u64, &[(u16, u64)])]) -> BTreeMap<Guid, Arc<VirtualizedPort>> {
        list.iter()
            .map(|&(guid, vports)| {
                let vports = vports
                    .iter()
                    .map(|&(index, guid)| vport(index, Guid(guid), Guid(0x99)))
                    .collect();
                (
                    Guid(guid),
                    Arc::new(VirtualizedPort { is_discovered: true, top_index: 9, vports }),
                )
            })
            .collect()
    }

    #[test]
    fn a_guid_belongs_to_one_vport() {
        let first = ports(&[(2, &[(1, 0xA), (2, 0xB)])]);
        let (before, duplicates) = VirtualPorts::new(&first, &VirtualPorts::default());
        assert_eq!(duplicates, []);
        assert_eq!(
            before.by_guid(Guid(0xB)).map(|(port, vport)| (port, vport.index)),
            Some((Guid(2), 2))
        );
        // Another port claims the GUID: the vport that has it keeps it.
        let both = ports(&[(1, &[(1, 0xB)]), (2, &[(1, 0xA), (2, 0xB)])]);
        let (held, duplicates) = VirtualPorts::new(&both, &before);
        assert_eq!(duplicates, [(Guid(1), 1)]);
        assert_eq!(held.by_guid(Guid(0xB)).map(|(port, _)| port), Some(Guid(2)));
        assert_eq!(held.of_port(Guid(1)).map(|port| port.vports.len()), Some(0));
        // It has moved once its earlier vport is gone.
        let moved = ports(&[(1, &[(1, 0xB)]), (2, &[(1, 0xA)])]);
        let (after, duplicates) = VirtualPorts::new(&moved, &held);
        assert_eq!(
            (after.by_guid(Guid(0xB)).map(|(port, _)| port), duplicates),
            (Some(Guid(1)), vec![])
        );
    }
}
