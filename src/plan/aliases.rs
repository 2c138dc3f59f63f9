//! Alias GUIDs: the GUID tables of end ports and vports, as requested by clients (GUIDInfoRecord).
//!
//! Only blocks that a client has written are planned; all other blocks stay as the device has them.

use crate::fabric::virtual_ports::EndPort;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::tables::{GUID_BLOCK, GuidBlock};

/// A block of the GUID table of an end port or vport (IBA vol. 1, 14.2.5.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AliasBlock {
    /// The physical port.
    pub port: PortId,
    /// The index of the vport; `None` for the physical port.
    pub vport: Option<u16>,
    /// Block number; a block holds 8 GUIDs.
    pub block: u8,
    pub guids: GuidBlock,
}

impl AliasBlock {
    pub fn end(&self) -> EndPort {
        EndPort { physical: self.port, vport: self.vport }
    }
}

/// Reduces the `wanted` blocks to those that exist, ascending by port, vport and block. Entries beyond the
/// port's GUIDCap are cleared, and entry 0 of block 0 is the port GUID.
pub fn tables(fabric: &Fabric, wanted: &[AliasBlock]) -> Vec<AliasBlock> {
    let mut blocks: Vec<AliasBlock> =
        wanted.iter().filter_map(|block| writable(fabric, *block)).collect();
    blocks.sort_unstable_by_key(|block| (block.end(), block.block));
    blocks.dedup_by_key(|block| (block.end(), block.block));
    blocks
}

/// The entries of the GUID table of an end port or vport; `None` if there is no such port.
pub fn guid_cap(fabric: &Fabric, end: EndPort) -> Option<u8> {
    let port = fabric.ports().get(end.physical.index())?;
    if end.is_virtual() {
        return fabric.vport(end).map(|vport| vport.guid_cap);
    }
    let is_end = !fabric.node(port.node).is_switch() || port.num == PortNum::ZERO;
    port.info().filter(|_| is_end).map(|info| info.guid_cap())
}

fn writable(fabric: &Fabric, mut block: AliasBlock) -> Option<AliasBlock> {
    let start = usize::from(block.block) * GUID_BLOCK;
    let entries = usize::from(guid_cap(fabric, block.end())?).saturating_sub(start);
    if entries == 0 {
        return None;
    }
    block.guids.0.iter_mut().skip(entries).for_each(|guid| *guid = Guid::default());
    if block.block == 0 {
        block.guids.0[0] = fabric.end_port_guid(block.end());
    }
    Some(block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::{Hardware, SyntheticView};
    use crate::sim::generate::Shape;

    #[test]
    fn tables_are_cut_to_what_ports_have() {
        let topology = Shape { hosts: 1, ..Shape::torus([3, 1, 1]) }.build().expect("a ring");
        let hardware = Hardware { guid_cap: 10, ..Hardware::default() };
        let view = SyntheticView { hardware, ..SyntheticView::default() };
        let fabric = Fabric::from_topology(&topology, 0, &view).expect("node 0 exists");
        let hosts: Vec<PortId> =
            fabric.end_ports().filter(|port| !fabric.node_of(*port).is_switch()).collect();
        let external = fabric.port_of(fabric.switches()[0], PortNum(1)).expect("a torus' switch");
        let wanted = [
            full(hosts[1], 1),
            full(hosts[1], 0),
            full(hosts[0], 0),
            full(hosts[0], 0),
            full(hosts[0], 2),
            full(external, 0),
            full(PortId(u32::MAX), 0),
        ];
        let tables = tables(&fabric, &wanted);
        let names: Vec<_> = tables.iter().map(|block| (block.port, block.block)).collect();
        assert_eq!(names, [(hosts[0], 0), (hosts[1], 0), (hosts[1], 1)]);
        assert_eq!(tables[0].guids.0[..2], [fabric.port(hosts[0]).guid, Guid(0x11)]);
        let rest = tables[2].guids.0.map(|guid| guid.0);
        assert_eq!(rest, [0x110, 0x111, 0, 0, 0, 0, 0, 0], "the table ends there");
    }

    fn full(port: PortId, block: u8) -> AliasBlock {
        let guids = std::array::from_fn(|n| Guid(0x100 * u64::from(block) + 0x10 + n as u64));
        AliasBlock { port, vport: None, block, guids: GuidBlock(guids) }
    }
}
