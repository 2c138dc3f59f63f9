//! ExtendedPortInfo of simulated Mellanox devices: FDR10, which all their ports support.

use super::devices::Devices;
use super::sim_fabric::SimFabric;
use super::sma::AttributeResult;
use super::tables::AttributeData;
use crate::ids::{Guid, PortNum};
use crate::wire::attr::{FDR10, MlnxExtPortInfo, PortState};
use crate::wire::mad::Status;

/// StateChangeEnable: a Set changes LinkSpeedEnabled.
const SPEED_ENABLED: u8 = 1;

impl SimFabric {
    /// True if FDR10 is enabled at a port of a Mellanox device.
    pub fn has_fdr10_enabled(&self, guid: Guid, num: PortNum) -> Option<bool> {
        self.at_port(guid, num, |net, slot| net.devices.vendor.has_fdr10(slot))
    }
}

impl Devices {
    /// Reads or sets the attribute of the port with the number `modifier`.
    pub(super) fn extended_port_info(
        &mut self,
        entry: u32,
        modifier: u32,
        write: Option<&AttributeData>,
    ) -> AttributeResult {
        let slot = self.numbered_port(entry, modifier)?;
        if let Some(data) = write {
            let wanted = MlnxExtPortInfo::read(data);
            if wanted.link_speed_enabled() & !FDR10 != 0 {
                return Err(Status::BAD_FIELD);
            }
            if wanted.state_change_enable() & SPEED_ENABLED != 0 {
                self.vendor.set_fdr10(slot, wanted.has_fdr10_enabled());
            }
        }
        let port = self.port(slot);
        let is_up = port.info.port_state() != PortState::Down;
        let is_enabled = self.vendor.has_fdr10(slot);
        let mut info = MlnxExtPortInfo::default();
        info.set_link_speed_supported(FDR10);
        info.set_link_speed_enabled(if is_enabled { FDR10 } else { 0 });
        // The simulated link changes its speed without training.
        let is_active = is_up && is_enabled && self.vendor.has_fdr10(port.peer);
        info.set_link_speed_active(if is_active { FDR10 } else { 0 });
        Ok(info.0)
    }
}
