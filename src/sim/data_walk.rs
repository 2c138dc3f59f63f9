//! The walk of a data packet between end ports and vports: along the forwarding tables, with the P_Key
//! checks of switches and of the receiver.

use super::addressing::{FIRST_VPORT_GID, index_of};
use super::devices::Devices;
use super::forwarding::LinkObserver;
use super::sim_fabric::SimFabric;
use crate::ids::{Gid, Guid, Lid, Pkey, PortNum};
use crate::wire::attr::PortState;
use std::fmt;

/// A packet that a port sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataPacket {
    pub to: Lid,
    /// The destination GID of its global route header.
    pub gid: Option<Gid>,
    pub pkey: Pkey,
}

/// The receiver of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataReceiver {
    /// The GUID of the physical port.
    pub port: Guid,
    /// The index of the vport; `None` for the physical port itself.
    pub vport: Option<u16>,
}

/// Why a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataDrop {
    /// The forwarding tables lead nowhere, or over a link that is not ACTIVE.
    NoRoute,
    /// A switch port that enforces partitions does not have the P_Key.
    SwitchPkey,
    /// The receiver does not have the P_Key.
    ReceiverPkey,
    /// No port or vport at the LID has the GID.
    UnknownGid,
    /// The vport is not ACTIVE.
    Inactive,
}

impl fmt::Display for DataDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoute => "no route",
            Self::SwitchPkey => "P_Key refused by a switch",
            Self::ReceiverPkey => "P_Key refused by the receiver",
            Self::UnknownGid => "unknown GID",
            Self::Inactive => "the vport is not ACTIVE",
        })
    }
}

/// The P_Key enforcement of the switch ports on the way.
struct Enforcement<'a> {
    devices: &'a Devices,
    pkey: Pkey,
    is_refused: bool,
}

impl Enforcement<'_> {
    fn refuses(&self, slot: u32, is_output: bool) -> bool {
        let port = self.devices.port(slot);
        let enforces = if is_output {
            port.info.partition_enforcement_out()
        } else {
            port.info.partition_enforcement_in()
        };
        self.devices.is_switch(port.node) && enforces && !has_key(&self.pkey, self.devices, slot)
    }
}

fn has_key(pkey: &Pkey, devices: &Devices, slot: u32) -> bool {
    devices.pkey_index(slot, *pkey).is_some()
}

impl LinkObserver for Enforcement<'_> {
    fn cross(&mut self, exit: u32, entry: u32) -> bool {
        self.is_refused |= self.refuses(exit, true) || self.refuses(entry, false);
        !self.is_refused
    }
    fn no_route(&mut self, _entry: u32) {}
    fn routing_loop(&mut self, _entry: u32) {}
    fn link_inactive(&mut self, _exit: u32) {}
}

impl SimFabric {
    /// Follows a packet from a port to its receiver. `None` if there is no such port.
    ///
    /// # Errors
    /// The reason why the packet is dropped.
    pub fn walk_data(
        &self,
        guid: Guid,
        num: PortNum,
        packet: DataPacket,
    ) -> Option<Result<DataReceiver, DataDrop>> {
        self.at_port(guid, num, |net, slot| receiver(&net.devices, slot, packet))
    }
}

/// Follows a packet from the port `from`.
fn receiver(devices: &Devices, from: u32, packet: DataPacket) -> Result<DataReceiver, DataDrop> {
    let mut enforcement = Enforcement { devices, pkey: packet.pkey, is_refused: false };
    let arrived = devices.forward_by_lid(from, packet.to, true, &mut enforcement);
    let Some(slot) = arrived.map(|slot| devices.end_port(slot)) else {
        let is_refused = enforcement.is_refused;
        return Err(if is_refused { DataDrop::SwitchPkey } else { DataDrop::NoRoute });
    };
    let port = devices.port(slot).guid;
    let index = match packet.gid {
        Some(gid) if gid.guid() == port => None,
        Some(gid) => {
            let (index, _) = devices.vport_of_gid(slot, gid).ok_or(DataDrop::UnknownGid)?;
            Some(u16::from(index - FIRST_VPORT_GID))
        }
        None => devices.vport_with_lid(slot, packet.to).map(|(index, _)| index),
    };
    let Some(index) = index else {
        let accepts = devices.pkey_index(slot, packet.pkey).is_some();
        let receiver = DataReceiver { port, vport: None };
        return if accepts { Ok(receiver) } else { Err(DataDrop::ReceiverPkey) };
    };
    if devices.vport_state(slot, index) != PortState::Active {
        return Err(DataDrop::Inactive);
    }
    let vport = devices.vport(slot, index).map_err(|_| DataDrop::UnknownGid)?;
    // A LID of a vport leads to this one, and to those that share it.
    let owner = devices.vport_with_lid(slot, packet.to).map(|(owner, _)| owner);
    if owner.is_some_and(|owner| owner != index && owner != vport.spec.lid_by_vport_index) {
        return Err(DataDrop::UnknownGid);
    }
    index_of(&vport.pkeys, packet.pkey).ok_or(DataDrop::ReceiverPkey)?;
    Ok(DataReceiver { port, vport: Some(index) })
}
