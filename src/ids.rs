//! Identifiers of a subnet, one type each, so that passing an MLID for a LID or an SL for a VL does
//! not compile. Values are in host byte order; [`crate::wire`] converts them.

use std::fmt;

/// Defines a newtype over an unsigned integer, with its text format.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident($raw:ty), $format:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub $raw);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $format, self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "(", $format, ")"), self.0)
            }
        }

        impl From<$raw> for $name {
            fn from(raw: $raw) -> Self {
                Self(raw)
            }
        }
    };
}

id! {
    /// The EUI-64 of a node, a port or a system (IBA vol. 1, 4.1.1). 0 means "none".
    Guid(u64), "0x{:016x}"
}
id! {
    /// A local identifier (IBA vol. 1, 4.1.3). Unicast: 1..=0xBFFF; 0 means "not assigned".
    Lid(u16), "{}"
}
id! {
    /// A multicast local identifier, 0xC000..=0xFFFE.
    Mlid(u16), "0x{:04x}"
}
id! {
    /// A port number on its node: 1..=254, and 0 for the management port of a switch.
    PortNum(u8), "{}"
}
id! {
    /// A partition key: 15 bits of partition number, most significant bit set for full membership.
    Pkey(u16), "0x{:04x}"
}
id! {
    /// A service level, 0..=15.
    Sl(u8), "{}"
}
id! {
    /// A virtual lane, 0..=14 for data, 15 for management.
    Vl(u8), "{}"
}

/// Defines a newtype over a secret of 64 bits. It has no text format, and `Debug` shows only
/// whether it is set, so that no log line, dump or status contains it.
macro_rules! key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// No key.
            pub const NONE: Self = Self(0);

            /// True unless the key is 0.
            pub fn is_set(self) -> bool {
                self != Self::NONE
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let content = if self.is_set() { "hidden" } else { "none" };
                write!(f, concat!(stringify!($name), "({})"), content)
            }
        }
    };
}

key! {
    /// A management key, which ports require of requests that change them (IBA vol. 1, 14.2.4); 0:
    /// no protection.
    MKey
}

key! {
    /// An SM_Key: subnet managers of one subnet show each other theirs, and a client that sends
    /// that of `sa_key` is trusted (IBA vol. 1, 14.4.7 and 15.4.4); 0: none.
    SmKey
}

key! {
    /// A congestion control key, which devices require of requests that change their congestion
    /// control (IBA vol. 1, annex A10); 0: no protection.
    CcKey
}

impl Guid {
    /// Sort key that reproduces the order of OpenSM's maps, which on little-endian machines compare
    /// GUIDs by their bytes from last to first.
    pub fn opensm_order(self) -> u64 {
        self.0.swap_bytes()
    }
}

impl Lid {
    /// The permissive LID, which directed routes use at both ends.
    pub const PERMISSIVE: Self = Self(0xFFFF);
    /// The highest unicast LID.
    pub const UNICAST_MAX: Self = Self(0xBFFF);

    /// True for 1..=0xBFFF.
    pub fn is_unicast(self) -> bool {
        (1..=Self::UNICAST_MAX.0).contains(&self.0)
    }

    /// Index into a table by LID.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Mlid {
    pub const FIRST: Self = Self(0xC000);
    /// The highest multicast LID; 0xFFFF is the permissive LID.
    pub const LAST: Self = Self(0xFFFE);
}

impl PortNum {
    /// The management port of a switch.
    pub const ZERO: Self = Self(0);

    /// Index into the ports of a node.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl Pkey {
    /// Full membership in the default partition.
    pub const DEFAULT_FULL: Self = Self(0xFFFF);
    /// Limited membership in the default partition.
    pub const DEFAULT_LIMITED: Self = Self(0x7FFF);

    /// The partition number, without the membership bit.
    pub fn base(self) -> u16 {
        self.0 & 0x7FFF
    }

    /// Sort key that reproduces the order of OpenSM's maps of P_Keys on little-endian machines.
    pub fn opensm_order(self) -> u16 {
        self.0.swap_bytes()
    }

    /// Like [`Self::opensm_order`], without regard to the membership bit.
    pub fn base_opensm_order(self) -> u16 {
        self.base().swap_bytes()
    }

    /// True if the membership bit is set.
    pub fn is_full(self) -> bool {
        self.0 & 0x8000 != 0
    }

    /// True if packets may pass between holders of the two P_Keys: same partition, and at least one
    /// full member (IBA vol. 1, 10.9.3). The invalid partition 0 matches nothing.
    pub fn matches(self, other: Self) -> bool {
        self.base() != 0 && self.base() == other.base() && (self.is_full() || other.is_full())
    }

    /// True if packets may pass between ports with these P_Key tables in some partition.
    #[inline] // The SA asks this for every record of a table.
    pub fn any_match(a: &[Self], b: &[Self]) -> bool {
        a.iter().any(|&key| b.iter().any(|&other| key.matches(other)))
    }
}

/// A 128-bit global identifier in network byte order: the GID of a port, or the MGID of a multicast
/// group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::net::Ipv6Addr::from(self.0).fmt(f)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gid({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pkeys_match_only_with_a_full_member() {
        assert!(Pkey(0xFFFF).matches(Pkey(0x7FFF)));
        assert!(!Pkey(0x7FFF).matches(Pkey(0x7FFF)));
        assert!(!Pkey(0x8000).matches(Pkey(0x8000)));
        assert!(!Pkey(0x8001).matches(Pkey(0x8002)));
    }
}
