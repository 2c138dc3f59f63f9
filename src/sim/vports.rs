//! The vports of a simulated adapter port: what the device holds.

use crate::ids::{Guid, Lid, Pkey};
use crate::wire::attr::tables::{GuidBlock, PKEY_BLOCK};
use crate::wire::vendor::qos_config_sl::QosConfigSl;
use crate::wire::vendor::virtual_ports::VirtualizationInfo;
use std::sync::Arc;

/// GUIDs in the table of a vport: one block.
pub(super) const GUID_CAP: u8 = 8;
/// Entries of the P_Key table of a vport.
pub(in crate::sim) const PARTITION_CAP: u16 = 128;
/// Vports that a port supports.
pub(super) const VPORT_CAP: u16 = 256;

/// A vport as it is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VportSpec {
    pub guid: Guid,
    pub vnode: Guid,
    pub description: Arc<str>,
    /// The vport needs a LID of its own.
    pub lid_required: bool,
    /// The vport whose LID this one shares, if that has one of its own.
    pub lid_by_vport_index: u16,
    /// The function of the vport is in use.
    pub is_up: bool,
}

/// Position of the index in the GUIDs of generated vports, above the port GUIDs of generated fabrics.
const GUID_SHIFT: u32 = 48;

impl VportSpec {
    /// `count` vports of the port with a GUID; index 0 is the port itself.
    pub fn of_port(port: Guid, count: u16) -> Vec<Self> {
        Self::described(port, &descriptions(count))
    }

    /// The vports of [`Self::of_port`] with these descriptions.
    pub(super) fn described(port: Guid, descriptions: &[Arc<str>]) -> Vec<Self> {
        let vports = (0_u16..).zip(descriptions).map(|(index, description)| {
            let guid = Guid(port.0 ^ u64::from(index) << GUID_SHIFT);
            Self {
                guid,
                vnode: Guid(guid.0 ^ 1 << (GUID_SHIFT - 1)),
                description: description.clone(),
                lid_required: false,
                lid_by_vport_index: 0,
                is_up: true,
            }
        });
        vports.collect()
    }
}

/// The descriptions of generated vports, by index.
pub(super) fn descriptions(count: u16) -> Vec<Arc<str>> {
    (0..count).map(|index| format!("vport {index}").into()).collect()
}

/// A vport of a simulated port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SimVport {
    pub spec: VportSpec,
    pub is_active: bool,
    pub lid: Lid,
    /// The blocks of the P_Key table up to the last one that was set; at least the first one.
    pub pkeys: Vec<Pkey>,
    /// The GUID table; entry 0 is the GUID of the vport.
    pub guids: GuidBlock,
    /// The rate limits.
    pub qos: QosConfigSl,
    /// Sets that asked the clients to reregister.
    pub reregistrations: u64,
}

impl SimVport {
    pub(super) fn new(spec: VportSpec) -> Self {
        let mut pkeys = vec![Pkey(0); PKEY_BLOCK];
        pkeys[0] = Pkey::DEFAULT_FULL;
        let mut guids = GuidBlock::default();
        guids.0[0] = spec.guid;
        Self {
            spec,
            is_active: false,
            lid: Lid(0),
            pkeys,
            guids,
            qos: QosConfigSl::default(),
            reregistrations: 0,
        }
    }

    /// The LID of a vport that requires one; 0 of others.
    pub(super) fn own_lid(&self) -> Lid {
        if self.spec.lid_required { self.lid } else { Lid(0) }
    }
}

/// The vports of a port, by index.
#[derive(Clone, Default)]
pub(super) struct SimVports {
    pub(super) is_enabled: bool,
    pub(super) has_changed: bool,
    /// A top index that is not that of the last vport.
    pub(super) claimed_top: Option<u16>,
    pub(super) vports: Vec<SimVport>,
}

impl SimVports {
    /// Forgets what a subnet manager has configured.
    pub(super) fn reset(&mut self) {
        self.is_enabled = false;
        self.has_changed = false;
        for vport in &mut self.vports {
            *vport = SimVport::new(vport.spec.clone());
        }
    }

    pub(super) fn link_down(&mut self) {
        self.has_changed |= self.vports.iter().any(|vport| vport.is_active);
        self.vports.iter_mut().for_each(|vport| vport.is_active = false);
    }

    pub(super) fn info(&self) -> VirtualizationInfo {
        let mut info = VirtualizationInfo::default();
        info.set_vport_cap(VPORT_CAP);
        let last = self.vports.len().saturating_sub(1) as u16;
        info.set_top_index(self.claimed_top.unwrap_or(last));
        info.set_enable(self.is_enabled);
        info.set_state_change(self.has_changed);
        info
    }

    pub(super) fn set_info(&mut self, wanted: &VirtualizationInfo) {
        self.is_enabled = wanted.enable();
        if !self.is_enabled {
            self.link_down();
        }
        self.has_changed &= !wanted.state_change();
        if wanted.client_reregister() {
            self.vports.iter_mut().for_each(|vport| vport.reregistrations += 1);
        }
    }
}
