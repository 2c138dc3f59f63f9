//! Properties of management classes: use of RMPP, and the length of the headers that every segment
//! of an RMPP message repeats (IBA vol. 1, 13.6.2 and the chapters of the classes).

use crate::wire::mad::{Class, Header, Mad, Method, Status};
use crate::wire::sa::DATA_OFFSET as SA_DATA_OFFSET;

/// Length of the headers of the device management and device administration classes.
const DEVICE_DATA_OFFSET: usize = 64;
/// Length of the headers of vendor classes 0x30 to 0x4f.
const VENDOR_DATA_OFFSET: usize = 40;
/// Offset of the OUI in MADs of vendor classes 0x30 to 0x4f.
const VENDOR_OUI_OFFSET: usize = 37;

const DEVICE_MANAGEMENT: u8 = 0x06;
const DEVICE_ADMINISTRATION: u8 = 0x10;
const BOOT_MANAGEMENT: u8 = 0x05;
const BOOT_INFORMATION: u8 = 0x12;

/// Agents can register for classes below this one and for the directed-route class
/// (`MAX_MGMT_CLASS` in Linux).
pub(super) const MAX_CLASS: u8 = 80;
/// Agents can register for class versions below this one (`MAX_MGMT_VERSION` in Linux).
pub(super) const MAX_VERSION: u8 = 0x83;

/// True for the vendor classes with an OUI in their MADs.
pub(super) fn has_oui(class: u8) -> bool {
    (0x30..=0x4F).contains(&class)
}

/// True for the subnet management classes, which use QP 0.
pub(in crate::sim) fn is_smi(class: u8) -> bool {
    class == Class::SUBN_LID || class == Class::SUBN_DIRECTED
}

/// True if MADs of the class have an RMPP header.
pub(in crate::sim) fn has_rmpp(class: u8) -> bool {
    matches!(class, Class::SUBN_ADM | DEVICE_MANAGEMENT | DEVICE_ADMINISTRATION | BOOT_INFORMATION)
        || has_oui(class)
}

/// Offset of the data in a MAD of the class.
pub(in crate::sim) fn data_offset(class: u8) -> usize {
    match class {
        Class::SUBN_ADM => SA_DATA_OFFSET,
        DEVICE_MANAGEMENT | DEVICE_ADMINISTRATION | BOOT_INFORMATION => DEVICE_DATA_OFFSET,
        _ if has_oui(class) => VENDOR_DATA_OFFSET,
        _ => Header::SIZE,
    }
}

/// OUI in a MAD of a vendor class.
pub(super) fn oui(mad: &[u8]) -> u32 {
    let bytes = mad.get(VENDOR_OUI_OFFSET..VENDOR_OUI_OFFSET + 3).unwrap_or(&[0; 3]);
    bytes.iter().fold(0, |oui, &byte| oui << 8 | u32::from(byte))
}

/// True for MADs that go to the agent in their transaction ID: responses, TrapRepress, and in the
/// boot management class MADs with bit 0 of the attribute modifier set.
pub(in crate::sim) fn is_response(header: &Header) -> bool {
    let method = Method(header.method());
    method.is_response()
        || method == Method::TRAP_REPRESS
        || (header.class() == BOOT_MANAGEMENT && header.attr_mod() & 1 != 0)
}

/// The kernel's response to a Get or Set without an agent; `None` for other methods.
pub(in crate::sim) fn unsupported_response(mad: &Mad) -> Option<Mad> {
    if ![Method::GET, Method::SET].contains(&mad.method()) {
        return None;
    }
    let mut response = *mad;
    let mut header = response.header();
    header.set_method(Method::GET_RESP.0);
    header.set_status(Status::BAD_METHOD_ATTR);
    response.set_header(&header);
    Some(response)
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
    fn responses_by_class_and_method() {
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
