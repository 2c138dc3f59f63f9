//! The records of subnet administration (IBA vol. 1, 15.2.5), one file each; records of a LID and a
//! block of a table are in [`tables`]. Sizes include the padding to multiples of 8 bytes between
//! the records of a table.
//!
//! Each record lists its components, the fields selected by the bits of the component mask.
//! [`matches()`] compares by that list, so that all records have the same semantics.

mod class_port_info;
mod inform;
mod mc_member;
mod multi_path;
mod node;
mod path;
mod port_info;
mod service;
mod sm_info;
pub mod tables;
mod trace;

pub use class_port_info::{ClassCap, ClassCap2, ClassPortInfo};
pub use inform::{InformInfo, InformInfoRecord};
pub use mc_member::{JoinState, McMemberRecord};
pub use multi_path::MultiPathRecord;
pub use node::NodeRecord;
pub use path::{PathRecord, Selector};
pub use port_info::PortInfoRecord;
pub use service::ServiceRecord;
pub use sm_info::SmInfoRecord;
pub use trace::TraceRecord;

use super::bits;

/// A component: a field with a bit in the component mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Component {
    pub bit: u8,
    /// Offset of the field in the record in bits.
    pub offset: u16,
    /// Width of the field in bits. Fields wider than 57 bits are aligned to bytes.
    pub width: u16,
}

/// A record of an SA MAD.
pub trait Record: Copy + Default {
    /// The components, ascending by bit, without reserved fields.
    const COMPONENTS: &'static [Component];
    /// All bits of the mask that belong to a component or to a reserved field.
    const DEFINED: u64;
    /// Distance between records of a table in bytes, a multiple of 8.
    const STRIDE: usize;

    /// The record at the start of `bytes`; missing bytes are read as 0.
    fn parse(bytes: &[u8]) -> Self;
    fn bytes(&self) -> &[u8];
}

/// Defines the components of a record of `record!`: `NAME = bit: offset, width;`. Generates a
/// constant with the mask bit of each, and the [`Record`] implementation. `reserved` lists the mask
/// bits of reserved fields, which are accepted and ignored.
macro_rules! components {
    ($record:ident, reserved [$($reserved:literal),*] {
        $($name:ident = $bit:literal : $offset:literal, $width:literal;)*
    }) => {
        impl $record {
            $(
                #[doc = concat!("Component mask bit ", stringify!($bit), ".")]
                pub const $name: u64 = 1 << $bit;
            )*
        }

        impl $crate::wire::record::Record for $record {
            const COMPONENTS: &'static [$crate::wire::record::Component] = &[
                $($crate::wire::record::Component { bit: $bit, offset: $offset, width: $width },)*
            ];
            const DEFINED: u64 = 0 $(| 1 << $bit)* $(| 1 << $reserved)*;
            const STRIDE: usize = {
                assert!($record::SIZE % 8 == 0);
                $record::SIZE
            };

            fn parse(bytes: &[u8]) -> Self {
                Self::read(bytes)
            }

            fn bytes(&self) -> &[u8] {
                &self.0
            }
        }
    };
}
pub(crate) use components;

/// True if `have` equals `wanted` in every component of `mask`.
pub fn matches<R: Record>(mask: u64, wanted: &R, have: &R) -> bool {
    let wanted = wanted.bytes();
    let have = have.bytes();
    mask & R::DEFINED == 0
        || R::COMPONENTS
            .iter()
            .filter(|component| mask >> component.bit & 1 == 1)
            .all(|component| same(component, wanted, have))
}

/// True if two records have the same value in one field.
fn same(component: &Component, a: &[u8], b: &[u8]) -> bool {
    let offset = usize::from(component.offset);
    let width = usize::from(component.width);
    if offset.is_multiple_of(8) && width.is_multiple_of(8) {
        let range = offset / 8..(offset + width) / 8;
        return a[range.clone()] == b[range];
    }
    bits::get(a, offset, width) == bits::get(b, offset, width)
}

#[cfg(test)]
mod tests {
    use super::tables::*;
    use super::*;
    use proptest::prelude::*;

    /// Reference implementation: compares bit by bit.
    fn brute_force<R: Record>(mask: u64, wanted: &R, have: &R) -> bool {
        R::COMPONENTS.iter().all(|c| {
            mask >> c.bit & 1 == 0
                || (c.offset..c.offset + c.width)
                    .all(|n| bit(wanted.bytes(), n) == bit(have.bytes(), n))
        })
    }

    fn bit(bytes: &[u8], n: u16) -> u8 {
        bytes[usize::from(n) / 8] >> (7 - n % 8) & 1
    }

    fn check<R: Record>(mask: u64, bytes: &[u8], flips: &[usize]) {
        let wanted = R::parse(bytes);
        let mut other = wanted.bytes().to_vec();
        for flip in flips {
            let at = flip % (other.len() * 8);
            other[at / 8] ^= 1 << (at % 8);
        }
        let have = R::parse(&other);
        assert_eq!(matches(mask, &wanted, &have), brute_force(mask, &wanted, &have));
        assert_eq!(R::parse(have.bytes()).bytes(), have.bytes());
    }

    proptest! {
        #[test]
        fn matching_equals_brute_force(
            mask: u64,
            bytes in prop::collection::vec(any::<u8>(), 0..180),
            flips in prop::collection::vec(any::<usize>(), 0..3),
        ) {
            check::<NodeRecord>(mask, &bytes, &flips);
            check::<PortInfoRecord>(mask, &bytes, &flips);
            check::<SmInfoRecord>(mask, &bytes, &flips);
            check::<PathRecord>(mask, &bytes, &flips);
            check::<MultiPathRecord>(mask, &bytes, &flips);
            check::<McMemberRecord>(mask, &bytes, &flips);
            check::<ServiceRecord>(mask, &bytes, &flips);
            check::<InformInfoRecord>(mask, &bytes, &flips);
            check::<LinkRecord>(mask, &bytes, &flips);
            check::<SwitchInfoRecord>(mask, &bytes, &flips);
            check::<LinearFtRecord>(mask, &bytes, &flips);
            check::<MulticastFtRecord>(mask, &bytes, &flips);
            check::<SlToVlRecord>(mask, &bytes, &flips);
            check::<VlArbitrationRecord>(mask, &bytes, &flips);
            check::<PkeyTableRecord>(mask, &bytes, &flips);
            check::<GuidInfoRecord>(mask, &bytes, &flips);
            check::<TraceRecord>(mask, &bytes, &flips);
        }
    }

    fn well_formed<R: Record>() {
        for pair in R::COMPONENTS.windows(2) {
            assert!(pair[0].bit < pair[1].bit, "bits ascend");
            assert!(pair[0].offset + pair[0].width <= pair[1].offset, "fields do not overlap");
        }
        for component in R::COMPONENTS {
            assert!(usize::from(component.offset + component.width) <= R::STRIDE * 8);
        }
        assert_eq!(R::DEFINED & (R::DEFINED + 1), 0, "no gap in the defined bits");
    }

    #[test]
    fn component_lists_are_well_formed() {
        well_formed::<NodeRecord>();
        well_formed::<PortInfoRecord>();
        well_formed::<SmInfoRecord>();
        well_formed::<PathRecord>();
        well_formed::<MultiPathRecord>();
        well_formed::<McMemberRecord>();
        well_formed::<ServiceRecord>();
        well_formed::<InformInfoRecord>();
        well_formed::<LinkRecord>();
        well_formed::<SwitchInfoRecord>();
        well_formed::<LinearFtRecord>();
        well_formed::<MulticastFtRecord>();
        well_formed::<SlToVlRecord>();
        well_formed::<VlArbitrationRecord>();
        well_formed::<PkeyTableRecord>();
        well_formed::<GuidInfoRecord>();
        well_formed::<TraceRecord>();
    }
}
