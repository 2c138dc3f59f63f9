//! Address of the sender of a MAD as its receiver sees it: LIDs with path bits, P_Key and GID
//! indexes. A GID index of [`FIRST_VPORT_GID`] and above is that of a vport.

use crate::ids::{Gid, Lid, Pkey};
use crate::sim::devices::Devices;
use crate::sim::vports::SimVport;
use crate::transport::{Address, Grh};
use crate::wire::attr::PortState;

/// GID index of the first vport of a port. Programs that send with the index of a vport, and P_Keys
/// of its table, stand for its function.
pub const FIRST_VPORT_GID: u8 = 0x80;

impl Devices {
    /// Source address that the end port `at` sees for a MAD that the port of `from` sent to `to`.
    /// `None` if `at` drops the MAD: the QP is wrong (QP 1 stands for all of general services), or
    /// the ports share no partition.
    pub(in crate::sim) fn source_address(
        &self,
        from: u32,
        to: &Address,
        at: u32,
        is_smi: bool,
    ) -> Option<Address> {
        let from = self.end_port(from);
        let sender = &self.port(from).info;
        let own = &self.port(at).info;
        let sending = to.grh.and_then(|grh| self.vport_of_index(from, grh.gid_index));
        let own_lid = sending.map(SimVport::own_lid).filter(|lid| lid.is_unicast());
        let mut lid = own_lid.unwrap_or(sender.lid());
        if own_lid.is_none() {
            lid.0 |= u16::from(to.path_bits) & path_mask(sender.lmc());
        }
        let path_bits = (to.lid.0 & path_mask(own.lmc())) as u8;
        if is_smi {
            return (to.qpn == 0).then(|| Address { sl: to.sl, path_bits, ..Address::smi(lid) });
        }
        let pkey = match sending {
            Some(vport) => *vport.pkeys.get(usize::from(to.pkey_index))?,
            None => self.pkey_at(from, to.pkey_index)?,
        };
        let pkey_index = match self.receiving_vport(at, to) {
            Some(vport) => index_of(&vport.pkeys, pkey)?,
            None => self.pkey_index(at, pkey)?,
        };
        let grh = to.grh.map(|grh| Grh {
            gid: self.gid_at(from, grh.gid_index),
            gid_index: self.gid_index(at, grh.gid),
            ..grh
        });
        let source = Address { path_bits, pkey_index, grh, ..Address::gsi(lid, to.sl) };
        (to.qpn != 0).then_some(source)
    }

    /// True if a response from `from` took the return path of a request from the end port `slot`
    /// to `to`: the same path bits, or the same GID index.
    pub(in crate::sim) fn is_return_path(&self, slot: u32, to: &Address, from: &Address) -> bool {
        match (to.grh, from.grh) {
            (Some(to), Some(from)) => to.gid_index == from.gid_index,
            (None, None) => {
                let mask = path_mask(self.port(self.end_port(slot)).info.lmc());
                u16::from(to.path_bits ^ from.path_bits) & mask == 0
            }
            _ => false,
        }
    }

    /// The global route header with which a vport sends to an address: its own, with the GID of the
    /// vport, or one to the owner of the LID.
    pub(in crate::sim) fn grh_of_vport(&self, index: u16, to: &Address) -> Grh {
        let own = u8::try_from(index).ok().and_then(|index| FIRST_VPORT_GID.checked_add(index));
        let gid_index = own.unwrap_or(FIRST_VPORT_GID);
        if let Some(grh) = to.grh {
            return Grh { gid_index, ..grh };
        }
        let slots = 0..self.ports.len() as u32;
        let mut owners = slots.filter(|&slot| self.is_end_port(slot));
        let owner = owners.find(|&slot| self.owns_lid(slot, to.lid));
        let gid = owner.map_or(Gid::default(), |slot| self.gid_at(slot, 0));
        Grh { gid, gid_index, hop_limit: 0xFF, traffic_class: 0, flow_label: 0 }
    }

    fn pkey_at(&self, slot: u32, index: u16) -> Option<Pkey> {
        match &self.port(slot).tables {
            Some(tables) => tables.pkeys.get(usize::from(index)).copied(),
            None => (index == 0).then_some(Pkey::DEFAULT_FULL),
        }
    }

    pub(super) fn pkey_index(&self, slot: u32, pkey: Pkey) -> Option<u16> {
        let at = match &self.port(slot).tables {
            Some(tables) => return index_of(&tables.pkeys, pkey),
            None => Pkey::DEFAULT_FULL.matches(pkey).then_some(0)?,
        };
        Some(at)
    }

    /// The vport that sends with this GID index.
    fn vport_of_index(&self, slot: u32, index: u8) -> Option<&SimVport> {
        let vports = &self.vendor.virtualized(slot)?.vports;
        vports.get(usize::from(index.checked_sub(FIRST_VPORT_GID)?))
    }

    /// The vport that gets a packet to `to`: by its GID, without a global route header by its LID.
    fn receiving_vport(&self, at: u32, to: &Address) -> Option<&SimVport> {
        match to.grh {
            Some(grh) => self.vport_of_gid(at, grh.gid).map(|(_, vport)| vport),
            None => self.vport_with_lid(at, to.lid).map(|(_, vport)| vport),
        }
    }

    /// The vport that has this LID of its own, and its index.
    pub(super) fn vport_with_lid(&self, slot: u32, lid: Lid) -> Option<(u16, &SimVport)> {
        let vports = &self.vendor.virtualized(slot)?.vports;
        (0..).zip(vports).find(|&(index, vport)| {
            vport.own_lid() == lid && self.vport_state(slot, index) != PortState::Down
        })
    }

    /// The vport with this GID, and its GID index. The physical port itself is none.
    pub(super) fn vport_of_gid(&self, slot: u32, gid: Gid) -> Option<(u8, &SimVport)> {
        let vports = &self.vendor.virtualized(slot)?.vports;
        let own = self.port(slot).guid;
        let vport = vports
            .iter()
            .find(|vport| vport.spec.guid == gid.guid())
            .filter(|vport| vport.spec.guid != own)?;
        let index = vports.iter().position(|other| std::ptr::eq(other, vport))?;
        Some((FIRST_VPORT_GID.checked_add(u8::try_from(index).ok()?)?, vport))
    }

    fn gid_at(&self, slot: u32, index: u8) -> Gid {
        let port = self.port(slot);
        if let Some(vport) = self.vport_of_index(slot, index) {
            return Gid::new(port.info.gid_prefix(), vport.spec.guid);
        }
        let tables = port.tables.as_ref();
        let alias = tables.and_then(|tables| tables.guids.get(usize::from(index)));
        Gid::new(port.info.gid_prefix(), alias.copied().unwrap_or(port.guid))
    }

    fn gid_index(&self, slot: u32, gid: Gid) -> u8 {
        if let Some((index, _)) = self.vport_of_gid(slot, gid) {
            return index;
        }
        let tables = self.port(slot).tables.as_ref();
        let mut guids = tables.into_iter().flat_map(|tables| &tables.guids);
        guids.position(|&guid| guid == gid.guid()).map_or(0, |at| at as u8)
    }
}

/// The index of a P_Key that accepts packets with `pkey`.
pub(super) fn index_of(table: &[Pkey], pkey: Pkey) -> Option<u16> {
    u16::try_from(table.iter().position(|own| own.matches(pkey))?).ok()
}

fn path_mask(lmc: u8) -> u16 {
    (1 << lmc.min(7)) - 1
}
