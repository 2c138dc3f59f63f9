//! ExtendedPortInfo, a vendor-specific attribute of subnet management by Mellanox, which carries
//! FDR10: 10 Gb/s per lane with 64b/66b coding.

use super::NodeInfo;
use crate::wire::bits::record;

/// Bit of FDR10 in the speeds of [`MlnxExtPortInfo`].
pub const FDR10: u8 = 1;

/// VendorID of Bull, which builds devices with Mellanox chips.
const BULL: u32 = 0x119f;

record! {
    /// ExtendedPortInfo of Mellanox devices, attribute 0xFF90.
    pub struct MlnxExtPortInfo[64] {
        /// Fields that a Set changes: 1: LinkSpeedEnabled.
        state_change_enable, set_state_change_enable: u8 = 24, 8;
        /// LinkSpeedSupported: [`FDR10`] or 0.
        link_speed_supported, set_link_speed_supported: u8 = 56, 8;
        /// LinkSpeedEnabled: [`FDR10`] or 0.
        link_speed_enabled, set_link_speed_enabled: u8 = 88, 8;
        /// LinkSpeedActive: [`FDR10`] or 0.
        link_speed_active, set_link_speed_active: u8 = 120, 8;
    }
}

impl MlnxExtPortInfo {
    /// True for devices that OpenSM asks for the attribute: by DeviceID those of Mellanox from
    /// ConnectX-3, SwitchX and SwitchIB on, and those of Bull.
    pub fn is_supported_by(device: &NodeInfo) -> bool {
        let of_mellanox = matches!(
            device.device_id(),
            0xc738..=0xc73b
                | 0xc839
                | 0xcb20
                | 0xcf08
                | 0xcf09
                | 0xd2f0
                | 0x1003..=0x101b
                | 0xa2d2
        );
        let of_bull = matches!(
            device.device_id(),
            0x1b02
                | 0x1b33
                | 0x1b40
                | 0x1b41
                | 0x1b50
                | 0x1b60
                | 0x1b61
                | 0x1b73
                | 0x1b83
                | 0x1b93
                | 0x1b94
                | 0x1ba0
                | 0x1bb4
                | 0x1bb5
                | 0x1bc4..=0x1bc6
                | 0x1bd0..=0x1bd5
                | 0x1bf0
        );
        of_mellanox || (device.vendor_id() == BULL && of_bull)
    }

    pub fn supports_fdr10(&self) -> bool {
        self.link_speed_supported() & FDR10 != 0
    }

    pub fn has_fdr10_enabled(&self) -> bool {
        self.link_speed_enabled() & FDR10 != 0
    }

    /// True if the link runs at FDR10; PortInfo shows 10 Gb/s per lane.
    pub fn is_fdr10(&self) -> bool {
        self.link_speed_active() & FDR10 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_the_last_bytes_of_their_words() {
        let mut info = MlnxExtPortInfo::default();
        info.set_state_change_enable(1);
        info.set_link_speed_supported(2);
        info.set_link_speed_enabled(3);
        info.set_link_speed_active(4);
        let set: Vec<_> = (0..64).filter(|&at| info.0[at] != 0).collect();
        assert_eq!(set, [3, 7, 11, 15]);
        assert_eq!([info.0[3], info.0[7], info.0[11], info.0[15]], [1, 2, 3, 4]);
    }

    #[test]
    fn devices_are_told_by_their_ids() {
        assert!(supports(0x2c9, 0xc738) && supports(0, 0x1003) && supports(BULL, 0x1bd3));
        assert!(!supports(0x2c9, 0x1b02) && !supports(0x2c9, 0x1002) && !supports(0, 0));
    }

    fn supports(vendor_id: u32, device_id: u16) -> bool {
        let mut device = NodeInfo::default();
        device.set_vendor_id(vendor_id);
        device.set_device_id(device_id);
        MlnxExtPortInfo::is_supported_by(&device)
    }
}
