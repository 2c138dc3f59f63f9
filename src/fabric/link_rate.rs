//! Width and speed of links: read from the attributes of ports, in the words of ibnetdiscover
//! (`4xEDR`), and written to attributes of simulated ports.

use super::{Fabric, PortId};
use crate::wire::attr::{CapMask, CapMask2, LinkWidth, MlnxExtPortInfo, PortInfo};
use std::fmt;

/// Bits of LinkSpeedExtActive2 of PortInfo.
const EXT2_XDR: u8 = 2;

/// Speed of a link per lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LinkSpeed {
    Sdr,
    Ddr,
    Qdr,
    /// 10 Gb/s with 64b/66b encoding, of Mellanox devices.
    Fdr10,
    Fdr,
    Edr,
    Hdr,
    Ndr,
    Xdr,
}

impl LinkSpeed {
    pub const ALL: [Self; 9] = [
        Self::Sdr,
        Self::Ddr,
        Self::Qdr,
        Self::Fdr10,
        Self::Fdr,
        Self::Edr,
        Self::Hdr,
        Self::Ndr,
        Self::Xdr,
    ];

    /// `SDR` to `XDR`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sdr => "SDR",
            Self::Ddr => "DDR",
            Self::Qdr => "QDR",
            Self::Fdr10 => "FDR10",
            Self::Fdr => "FDR",
            Self::Edr => "EDR",
            Self::Hdr => "HDR",
            Self::Ndr => "NDR",
            Self::Xdr => "XDR",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|speed| speed.name() == name)
    }

    /// The speed of the link at a port; `None` if it is unknown.
    pub fn of(fabric: &Fabric, port: PortId) -> Option<Self> {
        let info = fabric.port(port).info()?;
        let is_fdr10 = fabric.extended_port_info(port).is_some_and(MlnxExtPortInfo::is_fdr10);
        Self::active(&info, has_extended_speeds(fabric, port).unwrap_or(false), is_fdr10)
    }

    /// The speed in the fields of PortInfo. `has_extended`: the node has the capability
    /// [`CapMask::EXTENDED_SPEEDS`], without which the fields of extended speeds are undefined.
    pub fn active(info: &PortInfo, has_extended: bool, is_fdr10: bool) -> Option<Self> {
        if has_extended {
            match (info.link_speed_ext_active2(), info.link_speed_ext_active()) {
                (EXT2_XDR, _) => return Some(Self::Xdr),
                (_, 8) => return Some(Self::Ndr),
                (_, 4) => return Some(Self::Hdr),
                (_, 2) => return Some(Self::Edr),
                (_, 1) => return Some(Self::Fdr),
                (_, 0) => {}
                _ => return None,
            }
        }
        match info.link_speed_active() {
            4 if is_fdr10 => Some(Self::Fdr10),
            4 => Some(Self::Qdr),
            2 => Some(Self::Ddr),
            1 => Some(Self::Sdr),
            _ => None,
        }
    }

    /// The bit of the speed in LinkSpeedExtActive; 0 for XDR, which has a field of its own, and for
    /// basic speeds.
    fn extended_bit(self) -> u8 {
        match self {
            Self::Fdr => 1,
            Self::Edr => 2,
            Self::Hdr => 4,
            Self::Ndr => 8,
            _ => 0,
        }
    }

    pub fn is_extended(self) -> bool {
        self >= Self::Fdr
    }

    /// Sets the speeds that a port supports and has enabled: this one and all slower ones.
    pub fn support(self, info: &mut PortInfo) {
        let basic = match self {
            Self::Sdr => 0x1,
            Self::Ddr => 0x3,
            _ => 0x7,
        };
        info.set_link_speed_supported(basic);
        info.set_link_speed_enabled(basic);
        let extended = match self {
            Self::Xdr => 0xF,
            speed if speed.is_extended() => (speed.extended_bit() << 1) - 1,
            _ => 0,
        };
        info.set_link_speed_ext_supported(extended);
        info.set_link_speed_ext_enabled(extended);
        info.set_link_speed_ext_supported2(if self == Self::Xdr { EXT2_XDR } else { 0 });
    }

    /// Sets the speed in use.
    pub fn activate(self, info: &mut PortInfo) {
        info.set_link_speed_active(match self {
            Self::Sdr => 1,
            Self::Ddr => 2,
            _ => 4,
        });
        info.set_link_speed_ext_active(self.extended_bit());
        info.set_link_speed_ext_active2(if self == Self::Xdr { EXT2_XDR } else { 0 });
    }

    /// The speeds that a port has enabled, as a mask: bits 0 to 7 stand for SDR, DDR, QDR, FDR, EDR,
    /// HDR, NDR and XDR. LinkSpeedExtEnabled does not restrict XDR.
    pub fn enabled_mask(info: &PortInfo) -> u8 {
        let extended = info.link_speed_ext_enabled() & info.link_speed_ext_supported();
        let xdr = u8::from(info.link_speed_ext_supported2() & EXT2_XDR != 0);
        info.link_speed_enabled() & 0x7 | extended << 3 | xdr << 7
    }

    /// The fastest speed of such a mask; SDR if there is none.
    pub fn fastest(mask: u8) -> Self {
        const BY_BIT: [LinkSpeed; 8] = [
            LinkSpeed::Sdr,
            LinkSpeed::Ddr,
            LinkSpeed::Qdr,
            LinkSpeed::Fdr,
            LinkSpeed::Edr,
            LinkSpeed::Hdr,
            LinkSpeed::Ndr,
            LinkSpeed::Xdr,
        ];
        mask.checked_ilog2().map_or(Self::Sdr, |bit| BY_BIT[bit as usize])
    }
}

/// Names of the widths, and their codes.
pub(crate) const WIDTHS: [(&str, u8); 5] = [
    ("1x", LinkWidth::X1),
    ("2x", LinkWidth::X2),
    ("4x", LinkWidth::X4),
    ("8x", LinkWidth::X8),
    ("12x", LinkWidth::X12),
];

/// The name of a width code: `1x` to `12x`.
pub fn width_name(code: u8) -> Option<&'static str> {
    WIDTHS.iter().find(|(_, width)| *width == code).map(|(name, _)| *name)
}

/// Width and speed of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LinkRate {
    /// A code of [`LinkWidth`].
    pub width: u8,
    pub speed: LinkSpeed,
}

impl Default for LinkRate {
    /// The rate of links of which nothing is known: 4xQDR.
    fn default() -> Self {
        Self { width: LinkWidth::X4, speed: LinkSpeed::Qdr }
    }
}

impl LinkRate {
    /// Reads a rate as ibnetdiscover writes it: `4xEDR`.
    pub fn from_name(text: &str) -> Option<Self> {
        let (_, width) = WIDTHS.iter().find(|(name, _)| text.starts_with(name))?;
        let (_, speed) = text.split_once('x')?;
        Some(Self { width: *width, speed: LinkSpeed::from_name(speed)? })
    }

    /// Sets the widths and speeds that a port supports and has enabled. Links can always become
    /// narrower, to 1x.
    pub fn support(self, info: &mut PortInfo) {
        let widths = LinkWidth::X1 | self.width;
        info.set_link_width_supported(widths);
        info.set_link_width_enabled(widths);
        self.speed.support(info);
    }

    /// Copies the widths and speeds that a port supports, enables all of them, and copies the
    /// capabilities that announce them.
    pub fn copy_support(from: &PortInfo, to: &mut PortInfo) {
        to.set_link_width_supported(from.link_width_supported());
        to.set_link_width_enabled(from.link_width_supported());
        to.set_link_speed_supported(from.link_speed_supported());
        to.set_link_speed_enabled(from.link_speed_supported());
        to.set_link_speed_ext_supported(from.link_speed_ext_supported());
        to.set_link_speed_ext_enabled(from.link_speed_ext_supported());
        to.set_link_speed_ext_supported2(from.link_speed_ext_supported2());
        let announced = from.capability_mask() & (CapMask::EXTENDED_SPEEDS | CapMask::CAP_MASK2);
        to.set_capability_mask(to.capability_mask() | announced);
        to.set_capability_mask2(from.capability_mask2());
    }

    /// Sets the capabilities of an end port, or port 0 of a switch, with links of this rate.
    pub fn announce(self, info: &mut PortInfo) {
        let second = match self.speed {
            LinkSpeed::Hdr => CapMask2::LINK_SPEED_HDR,
            LinkSpeed::Ndr => CapMask2::LINK_SPEED_HDR | CapMask2::LINK_SPEED_NDR,
            LinkSpeed::Xdr => {
                CapMask2::LINK_SPEED_HDR
                    | CapMask2::LINK_SPEED_NDR
                    | CapMask2::EXTENDED_SPEEDS2
                    | CapMask2::LINK_SPEED_XDR
            }
            _ => 0,
        };
        let two_lanes = if self.width == LinkWidth::X2 { CapMask2::LINK_WIDTH_2X } else { 0 };
        let second = second | two_lanes;
        let mut mask = info.capability_mask();
        if self.speed.is_extended() {
            mask |= CapMask::EXTENDED_SPEEDS;
        }
        if second != 0 {
            mask |= CapMask::CAP_MASK2;
            info.set_capability_mask2(info.capability_mask2() | second);
        }
        info.set_capability_mask(mask);
    }
}

impl fmt::Display for LinkRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", width_name(self.width).unwrap_or("?x"), self.speed.name())
    }
}

/// True if the node of a port supports extended speeds. A switch says so at port 0 only, for all
/// its ports; `None` if the attributes of that port are unknown.
pub fn has_extended_speeds(fabric: &Fabric, port: PortId) -> Option<bool> {
    let node = fabric.node_of(port);
    let owner = if node.is_switch() { node.first_port } else { port };
    Some(fabric.port(owner).info()?.has(CapMask::EXTENDED_SPEEDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_all_speeds_are_read_back() {
        for speed in LinkSpeed::ALL.into_iter().filter(|&speed| speed != LinkSpeed::Fdr10) {
            let mut info = PortInfo::default();
            let rate = LinkRate { width: LinkWidth::X4, speed };
            rate.support(&mut info);
            rate.announce(&mut info);
            speed.activate(&mut info);
            let has_extended = info.has(CapMask::EXTENDED_SPEEDS);
            assert_eq!(has_extended, speed.is_extended());
            assert_eq!(LinkSpeed::active(&info, has_extended, false), Some(speed));
            let mask = LinkSpeed::enabled_mask(&info);
            assert_eq!(LinkSpeed::fastest(mask), speed);
            assert_eq!(LinkRate::from_name(&rate.to_string()), Some(rate));
            let mut qdr = PortInfo::default();
            LinkRate::default().support(&mut qdr);
            let both = mask & LinkSpeed::enabled_mask(&qdr);
            assert_eq!(LinkSpeed::fastest(both), speed.min(LinkSpeed::Qdr));
        }
        let mut info = PortInfo::default();
        LinkSpeed::Qdr.activate(&mut info);
        assert_eq!(LinkSpeed::active(&info, false, true), Some(LinkSpeed::Fdr10));
        info.set_link_speed_ext_active(3);
        assert_eq!(LinkSpeed::active(&info, true, false), None, "two speeds at once");
        assert_eq!(LinkSpeed::active(&info, false, false), Some(LinkSpeed::Qdr));
        assert_eq!(LinkRate::from_name("12xSDR").map(|rate| rate.width), Some(LinkWidth::X12));
        for wrong in ["", "4x", "4xqdr", "xQDR", "3xQDR", "4x QDR", "1"] {
            assert_eq!(LinkRate::from_name(wrong), None, "{wrong}");
        }
    }

    /// As ports of NDR and XDR devices answer: bytes 56 and 62 of PortInfo.
    #[test]
    fn xdr_is_in_its_own_field() {
        let mut info = PortInfo::default();
        info.0[35] = 4 << 4;
        info.0[56] = 2 << 4;
        assert_eq!(LinkSpeed::active(&info, true, false), Some(LinkSpeed::Xdr));
        info.0[56] = 0;
        info.0[62] = 8 << 4;
        assert_eq!(LinkSpeed::active(&info, true, false), Some(LinkSpeed::Ndr));
    }
}
