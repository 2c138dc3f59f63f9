//! What the kernel knows of management classes: which may use RMPP, and how long the headers are
//! that every segment of a message repeats (IBA vol. 1, 13.6.2 and the chapters of the classes).

use crate::wire::mad::{Class, Header, Method};
use crate::wire::sa::DATA_OFFSET as SA_DATA;

/// Headers of the device management and administration classes.
const DEVICE_DATA: usize = 64;
/// Headers of the vendor classes that carry an OUI.
const VENDOR_DATA: usize = 40;
/// Where the OUI of such a vendor class is.
const VENDOR_OUI: usize = 37;

const DEVICE_MANAGEMENT: u8 = 0x06;
const DEVICE_ADMINISTRATION: u8 = 0x10;
const BOOT_MANAGEMENT: u8 = 0x05;
const BOOT_INFORMATION: u8 = 0x12;

/// Classes below this one, and the directed-route class, can be registered for.
pub(super) const CLASSES: u8 = 80;
/// Class versions below this one can be registered for.
pub(super) const VERSIONS: u8 = 0x83;

/// True for the vendor classes whose MADs carry an OUI.
pub(super) fn has_oui(class: u8) -> bool {
    (0x30..=0x4F).contains(&class)
}

/// True for the classes of subnet management, which go through QP 0.
pub(in crate::sim) fn is_smi(class: u8) -> bool {
    class == Class::SUBN_LID || class == Class::SUBN_DIRECTED
}

/// True if MADs of the class have an RMPP header.
pub(super) fn has_rmpp(class: u8) -> bool {
    matches!(class, Class::SUBN_ADM | DEVICE_MANAGEMENT | DEVICE_ADMINISTRATION | BOOT_INFORMATION)
        || has_oui(class)
}

/// Where the data of a MAD of the class start.
pub(super) fn data_offset(class: u8) -> usize {
    match class {
        Class::SUBN_ADM => SA_DATA,
        DEVICE_MANAGEMENT | DEVICE_ADMINISTRATION | BOOT_INFORMATION => DEVICE_DATA,
        _ if has_oui(class) => VENDOR_DATA,
        _ => Header::SIZE,
    }
}

/// The OUI in a MAD of a vendor class.
pub(super) fn oui(mad: &[u8]) -> u32 {
    let bytes = mad.get(VENDOR_OUI..VENDOR_OUI + 3).unwrap_or(&[0; 3]);
    bytes.iter().fold(0, |oui, &byte| oui << 8 | u32::from(byte))
}

/// True for what answers a request of somebody: responses, TrapRepress, and in the boot
/// management class what a bit of the attribute modifier marks.
pub(super) fn is_response(header: &Header) -> bool {
    let method = Method(header.method());
    method.is_response()
        || method == Method::TRAP_REPRESS
        || (header.class() == BOOT_MANAGEMENT && header.attr_mod() & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_by_class() {
        for (class, rmpp, offset) in [
            (Class::SUBN_LID, false, 24),
            (Class::SUBN_DIRECTED, false, 24),
            (Class::SUBN_ADM, true, 56),
            (Class::PERF, false, 24),
            (BOOT_MANAGEMENT, false, 24),
            (DEVICE_MANAGEMENT, true, 64),
            (0x07, false, 24),
            (0x09, false, 24),
            (DEVICE_ADMINISTRATION, true, 64),
            (BOOT_INFORMATION, true, 64),
            (0x2F, false, 24),
            (0x30, true, 40),
            (0x4F, true, 40),
            (0x50, false, 24),
        ] {
            assert_eq!((has_rmpp(class), data_offset(class)), (rmpp, offset), "0x{class:02x}");
        }
    }

    #[test]
    fn what_counts_as_a_response() {
        let mut header = Header::default();
        for (class, method, modifier, response) in [
            (3, 0x01, 0, false),
            (3, 0x81, 0, true),
            (3, 0x92, 0, true),
            (1, 0x05, 0, false),
            (1, 0x07, 0, true),
            (5, 0x03, 0, false),
            (5, 0x03, 1, true),
            (4, 0x03, 1, false),
        ] {
            header.set_class(class);
            header.set_method(method);
            header.set_attr_mod(modifier);
            assert_eq!(is_response(&header), response, "{class} {method:#x} {modifier}");
        }
    }
}
