//! Bit fields of big-endian records, by bit offset and width as in the tables of the specification.
//! The macro [`record!`](crate::wire::bits::record) defines the layout of every record.

use crate::ids::{CcKey, Guid, Lid, MKey, Mlid, Pkey, PortNum, Sl, SmKey, Vl};

/// A value in a bit field of at most 64 bits.
pub trait Field: Copy {
    /// Converts the raw field; bits above the width of the type are dropped.
    fn from_bits(bits: u64) -> Self;
    /// Converts to the raw field.
    fn to_bits(self) -> u64;
}

macro_rules! plain_field {
    ($($raw:ty),*) => {$(
        impl Field for $raw {
            fn from_bits(bits: u64) -> Self {
                bits as $raw
            }
            fn to_bits(self) -> u64 {
                self.into()
            }
        }
    )*};
}
plain_field!(u8, u16, u32, u64);

macro_rules! id_field {
    ($($id:ident($raw:ty)),*) => {$(
        impl Field for $id {
            fn from_bits(bits: u64) -> Self {
                Self(bits as $raw)
            }
            fn to_bits(self) -> u64 {
                self.0.into()
            }
        }
    )*};
}
id_field!(
    Guid(u64),
    Lid(u16),
    Mlid(u16),
    PortNum(u8),
    Pkey(u16),
    Sl(u8),
    Vl(u8),
    MKey(u64),
    SmKey(u64),
    CcKey(u64)
);

impl Field for bool {
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    fn to_bits(self) -> u64 {
        self.into()
    }
}

/// Reads `width` (1..=64) bits at bit `offset`, most significant bit first. A field of more
/// than 57 bits must start on a byte.
#[inline(always)]
pub fn get(bytes: &[u8], offset: usize, width: usize) -> u64 {
    let first = offset / 8;
    let last = (offset + width - 1) / 8;
    let value = bytes[first..=last].iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let value = value >> ((last + 1) * 8 - offset - width);
    if width == 64 { value } else { value & ((1 << width) - 1) }
}

/// Writes the low `width` (1..=64) bits of `value` at bit `offset`. Other bits are not modified.
#[inline(always)]
pub fn put(bytes: &mut [u8], offset: usize, width: usize, value: u64) {
    let first = offset / 8;
    let last = (offset + width - 1) / 8;
    let shift = (last + 1) * 8 - offset - width;
    let mask = (if width == 64 { u64::MAX } else { (1 << width) - 1 }) << shift;
    let value = value << shift & mask;
    for (index, byte) in bytes[first..=last].iter_mut().rev().enumerate() {
        *byte = *byte & !((mask >> (8 * index)) as u8) | (value >> (8 * index)) as u8;
    }
}

/// Defines a record of named fields over a byte array of fixed size:
///
/// ```text
/// record! {
///     /// PortInfo, IBA vol. 1, 14.2.5.6.
///     pub struct PortInfo[64] {
///         lid, set_lid: Lid = 128, 16;      // bit offset, width
///     }
/// }
/// ```
///
/// Any bytes are a valid record: its users check the values.
macro_rules! record {
    (
        $(#[$doc:meta])*
        pub struct $name:ident[$size:literal] {
            $( $(#[$field_doc:meta])* $get:ident, $set:ident : $type:ty = $offset:literal, $width:literal; )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $name(pub [u8; $size]);

        // The layout check is `offset + 1 <= bits` for fields of one bit.
        #[allow(clippy::int_plus_one)]
        impl $name {
            /// Size of the record in bytes.
            pub const SIZE: usize = $size;

            /// Reads the record from the start of `bytes`; missing bytes are read as 0.
            pub fn read(bytes: &[u8]) -> Self {
                let mut raw = [0; $size];
                let len = bytes.len().min($size);
                raw[..len].copy_from_slice(&bytes[..len]);
                Self(raw)
            }

            /// Writes the record to the start of `out`, truncated to its length.
            pub fn write(&self, out: &mut [u8]) {
                let len = out.len().min($size);
                out[..len].copy_from_slice(&self.0[..len]);
            }

            $(
                $(#[$field_doc])*
                #[inline]
                pub fn $get(&self) -> $type {
                    const { assert!($offset + $width <= $size * 8) };
                    <$type as $crate::wire::bits::Field>::from_bits(
                        $crate::wire::bits::get(&self.0, $offset, $width),
                    )
                }

                #[inline]
                pub fn $set(&mut self, value: $type) {
                    $crate::wire::bits::put(
                        &mut self.0,
                        $offset,
                        $width,
                        <$type as $crate::wire::bits::Field>::to_bits(value),
                    );
                }
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self([0; $size])
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($get), &self.$get()))*.finish()
            }
        }
    };
}
pub(crate) use record;

#[cfg(test)]
mod tests {
    use super::{get, put};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn put_then_get_is_identity_and_touches_nothing_else(
            mut bytes in prop::array::uniform16(any::<u8>()),
            offset in 0usize..64,
            width in 1usize..=57,
            value: u64,
        ) {
            let before = bytes;
            put(&mut bytes, offset, width, value);
            prop_assert_eq!(get(&bytes, offset, width), value & ((1 << width) - 1));
            for bit in (0..128).filter(|bit| !(offset..offset + width).contains(bit)) {
                prop_assert_eq!(get(&bytes, bit, 1), get(&before, bit, 1));
            }
        }
    }

    #[test]
    fn whole_words_work() {
        let mut bytes = [0xAA; 10];
        put(&mut bytes, 8, 64, 0x0102_0304_0506_0708);
        assert_eq!(bytes, [0xAA, 1, 2, 3, 4, 5, 6, 7, 8, 0xAA]);
        assert_eq!(get(&bytes, 8, 64), 0x0102_0304_0506_0708);
    }
}
