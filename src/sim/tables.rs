//! Table attributes of the devices: LFT, MFT, SL to VL mapping, VL arbitration, P_Keys, GUIDs.
//! Each function stores the block `write`, if given, and returns the resulting block, or `None` if
//! the attribute modifier is out of range for the device.

use super::devices::{Devices, FACTORY_SL2VL};
use crate::ids::PortNum;
use crate::wire::attr::tables::{
    GUID_BLOCK, GuidBlock, LFT_BLOCK, LFT_NO_PATH, MFT_BLOCK, MFT_POSITION_PORTS, MftBlock,
    PKEY_BLOCK, PkeyBlock, SlToVl, VLARB_BLOCK,
};
use crate::wire::smp::DATA_SIZE;
use tokio::time::Instant;

/// Attribute data of an SMP.
pub(super) type AttributeData = [u8; DATA_SIZE];

impl Devices {
    /// LinearForwardingTable (IBA vol. 1, 14.2.5.10).
    pub(super) fn lft(
        &mut self,
        node: u32,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> Option<AttributeData> {
        let switch = self.switch_mut(node)?;
        let start = usize::try_from(modifier).ok()?.checked_mul(LFT_BLOCK)?;
        if start >= usize::from(switch.info.linear_fdb_cap()) {
            return None;
        }
        let range = start..start + LFT_BLOCK;
        if let Some(data) = write {
            if switch.lft.len() < range.end {
                switch.lft.resize(range.end, LFT_NO_PATH);
            }
            if switch.lft[range.clone()] != data[..] {
                switch.lft[range].copy_from_slice(data);
                self.last_route_change = Some(Instant::now());
            }
            self.plain_table_written(node);
            return Some(*data);
        }
        let stored = switch.lft.get(range).and_then(|block| block.try_into().ok());
        Some(stored.unwrap_or([LFT_NO_PATH; LFT_BLOCK]))
    }

    /// MulticastForwardingTable (IBA vol. 1, 14.2.5.12).
    pub(super) fn mft(
        &mut self,
        node: u32,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> Option<AttributeData> {
        let positions =
            usize::from(self.nodes.get(node as usize)?.info.num_ports()) / MFT_POSITION_PORTS + 1;
        let switch = self.switch_mut(node)?;
        let position = (modifier >> 28) as usize;
        let block = (modifier & 0x1FF) as usize;
        let cap = usize::from(switch.info.multicast_fdb_cap());
        if position >= positions || block * MFT_BLOCK >= cap || modifier & 0x0FFF_FE00 != 0 {
            return None;
        }
        let rows = cap.next_multiple_of(MFT_BLOCK);
        let start = position * rows + block * MFT_BLOCK;
        if let Some(data) = write {
            if switch.mft.is_empty() {
                switch.mft = vec![0; positions * rows];
            }
            switch.mft[start..start + MFT_BLOCK].copy_from_slice(&MftBlock::read(data).0);
            return Some(*data);
        }
        let mut block = MftBlock::default();
        // A switch has no table before the first Set.
        if let Some(stored) = switch.mft.get(start..start + MFT_BLOCK) {
            block.0.copy_from_slice(stored);
        }
        Some(block.to_wire())
    }

    /// SLtoVLMappingTable (IBA vol. 1, 14.2.5.8).
    pub(super) fn sl_to_vl(
        &mut self,
        slot: u32,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> Option<AttributeData> {
        let node = self.port(slot).node;
        let written = write.map(|data| SlToVl(std::array::from_fn(|i| data[i])));
        let mapping = if self.is_switch(node) {
            self.switch_sl_to_vl(node, modifier, written)?
        } else if let Some(mapping) = written {
            self.tables_mut(slot).sl2vl = mapping;
            mapping
        } else {
            self.port(slot).tables.as_ref().map_or(FACTORY_SL2VL, |tables| tables.sl2vl)
        };
        let mut data = [0; DATA_SIZE];
        data[..8].copy_from_slice(&mapping.0);
        Some(data)
    }

    fn switch_sl_to_vl(
        &mut self,
        node: u32,
        modifier: u32,
        written: Option<SlToVl>,
    ) -> Option<SlToVl> {
        let ports = usize::from(self.node(node).info.num_ports()) + 1;
        let input = (modifier >> 8 & 0xFF) as usize;
        let output = (modifier & 0xFF) as usize;
        if input >= ports || output >= ports || modifier >> 18 != 0 {
            return None;
        }
        // Bits 17 and 16 mean all input and all output ports, on switches with OptimizedSLtoVL.
        let all_inputs = modifier & 0x2_0000 != 0;
        let all_outputs = modifier & 0x1_0000 != 0;
        let switch = self.switch_mut(node)?;
        if (all_inputs || all_outputs) && switch.info.optimized_sl2vl() & 1 == 0 {
            return None;
        }
        let index = input * ports + output;
        if let Some(mapping) = written {
            if switch.sl2vl.is_empty() {
                switch.sl2vl = vec![FACTORY_SL2VL; ports * ports];
            }
            let inputs = if all_inputs { 0..ports } else { input..input + 1 };
            let outputs = if all_outputs { 1..ports } else { output..output + 1 };
            for input in inputs {
                let row = &mut switch.sl2vl[input * ports..(input + 1) * ports];
                row[outputs.clone()].fill(mapping);
            }
        }
        Some(switch.sl2vl.get(index).copied().unwrap_or(FACTORY_SL2VL))
    }

    /// VLArbitrationTable (IBA vol. 1, 14.2.5.9). Writes beyond the port's VLArbitrationHighCap and
    /// VLArbitrationLowCap are ignored.
    pub(super) fn vl_arb(
        &mut self,
        slot: u32,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> Option<AttributeData> {
        let node = self.port(slot).node;
        let slot = if self.is_switch(node) {
            self.slot(node, PortNum(u8::try_from(modifier & 0xFFFF).ok()?))?
        } else {
            slot
        };
        let info = &self.port(slot).info;
        let low = usize::from(info.vl_arb_low_cap());
        let high = usize::from(info.vl_arb_high_cap());
        let (index, entries) = match modifier >> 16 {
            1 => (0, low),
            2 => (1, low.saturating_sub(VLARB_BLOCK)),
            3 => (2, high),
            4 => (3, high.saturating_sub(VLARB_BLOCK)),
            _ => return None,
        };
        if entries == 0 {
            return None;
        }
        if let Some(data) = write {
            let block = &mut self.tables_mut(slot).vl_arb[index];
            let len = entries.min(VLARB_BLOCK) * 2;
            block.0[..len].copy_from_slice(&data[..len]);
        }
        let stored = self.port(slot).tables.as_ref().map(|tables| tables.vl_arb[index].0);
        Some(stored.unwrap_or([0; DATA_SIZE]))
    }

    /// P_KeyTable (IBA vol. 1, 14.2.5.7).
    pub(super) fn pkeys(
        &mut self,
        slot: u32,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> Option<AttributeData> {
        let node = self.port(slot).node;
        let slot = if self.is_switch(node) {
            self.slot(node, PortNum(u8::try_from(modifier >> 16).ok()?))?
        } else {
            slot
        };
        let start = (modifier & 0xFFFF) as usize * PKEY_BLOCK;
        let cap = self.pkey_cap(slot);
        if start >= cap {
            return None;
        }
        let range = start..cap.min(start + PKEY_BLOCK);
        if let Some(data) = write {
            let keys = PkeyBlock::read(data).0;
            let len = range.len();
            self.tables_mut(slot).pkeys[range.clone()].copy_from_slice(&keys[..len]);
        }
        let mut block = PkeyBlock::default();
        let stored = match &self.port(slot).tables {
            Some(tables) => &tables.pkeys,
            None => &self.factory_tables(slot).pkeys,
        };
        block.0[..range.len()].copy_from_slice(&stored[range]);
        Some(block.to_wire())
    }

    /// GUIDInfo (IBA vol. 1, 14.2.5.5). Entry 0, the port GUID, is read-only.
    pub(super) fn guids(
        &mut self,
        slot: u32,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> Option<AttributeData> {
        let slot = self.end_port(slot);
        let start = usize::try_from(modifier).ok()?.checked_mul(GUID_BLOCK)?;
        let cap = usize::from(self.port(slot).info.guid_cap());
        if start >= cap {
            return None;
        }
        let range = start..cap.min(start + GUID_BLOCK);
        if let Some(data) = write {
            let guids = GuidBlock::read(data).0;
            let own = self.port(slot).guid;
            let len = range.len();
            let stored = &mut self.tables_mut(slot).guids;
            stored[range.clone()].copy_from_slice(&guids[..len]);
            if let Some(first) = stored.first_mut() {
                *first = own;
            }
        }
        let mut block = GuidBlock::default();
        let stored = match &self.port(slot).tables {
            Some(tables) => &tables.guids,
            None => &self.factory_tables(slot).guids,
        };
        block.0[..range.len()].copy_from_slice(&stored[range]);
        Some(block.to_wire())
    }
}
