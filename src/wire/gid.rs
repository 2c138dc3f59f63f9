//! The fields of a GID (IBA vol. 1, 4.1.1), and of the MGIDs of IPoIB (RFC 4391, section 4) and of
//! the SA.

use crate::ids::{Gid, Guid, Pkey};

impl Gid {
    /// Signature of the MGIDs of IPv4 over InfiniBand.
    pub const SIGNATURE_IPOIB_V4: u16 = 0x401B;
    /// Signature of the MGIDs of IPv6 over InfiniBand.
    pub const SIGNATURE_IPOIB_V6: u16 = 0x601B;
    /// Signature of the MGIDs that the SA assigns (o15-0.1.5).
    pub const SIGNATURE_SA: u16 = 0xA01B;

    /// The unicast GID of the port `guid` in the subnet `prefix`.
    pub fn new(prefix: u64, guid: Guid) -> Self {
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&prefix.to_be_bytes());
        raw[8..].copy_from_slice(&guid.0.to_be_bytes());
        Self(raw)
    }

    /// The upper 64 bits: the subnet prefix of a unicast GID.
    pub fn prefix(&self) -> u64 {
        u64::from_be_bytes(self.0[..8].try_into().expect("eight of sixteen bytes"))
    }

    /// The lower 64 bits: the port GUID of a unicast GID.
    pub fn guid(&self) -> Guid {
        Guid(u64::from_be_bytes(self.0[8..].try_into().expect("eight of sixteen bytes")))
    }

    /// True for multicast GIDs (first byte 0xFF).
    pub fn is_multicast(&self) -> bool {
        self.0[0] == 0xFF
    }

    /// The four flags of an MGID; the lowest one marks it as transient.
    pub fn multicast_flags(&self) -> u8 {
        self.0[1] >> 4
    }

    /// The scope of an MGID: 2 link-local, 5 site-local, 8 organisation-local, 14 global.
    pub fn scope(&self) -> u8 {
        self.0[1] & 0xF
    }

    /// The bits 16..=31 of an MGID, which name the protocol that assigned it.
    pub fn signature(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// The P_Key of an IPoIB MGID.
    pub fn ipoib_pkey(&self) -> Pkey {
        Pkey(u16::from_be_bytes([self.0[4], self.0[5]]))
    }

    /// This IPoIB MGID with another P_Key.
    #[must_use]
    pub fn with_ipoib_pkey(mut self, pkey: Pkey) -> Self {
        self.0[4..6].copy_from_slice(&pkey.0.to_be_bytes());
        self
    }

    /// The MGID of the IPv4 broadcast group of an IPoIB link: ff1S:401b:PPPP::ffff:ffff.
    pub fn ipoib_broadcast(scope: u8, pkey: Pkey) -> Self {
        let mut raw = Self::transient(scope, Self::SIGNATURE_IPOIB_V4);
        raw[4..6].copy_from_slice(&pkey.0.to_be_bytes());
        raw[12..].fill(0xFF);
        Self(raw)
    }

    /// An MGID that the SA assigns: ff1S:a01b, subnet prefix, `number` (IBA vol. 1, 4.1.1 and
    /// o15-0.1.5).
    pub fn sa_assigned(scope: u8, prefix: u64, number: u32) -> Self {
        let mut raw = Self::transient(scope, Self::SIGNATURE_SA);
        raw[4..12].copy_from_slice(&prefix.to_be_bytes());
        raw[12..].copy_from_slice(&number.to_be_bytes());
        Self(raw)
    }

    /// The first four bytes of a transient MGID; the others are 0.
    fn transient(scope: u8, signature: u16) -> [u8; 16] {
        let mut raw = [0; 16];
        raw[..2].copy_from_slice(&[0xFF, 0x10 | scope & 0xF]);
        raw[2..4].copy_from_slice(&signature.to_be_bytes());
        raw
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gid_is_prefix_and_guid() {
        let gid = Gid::new(0xfe80_0000_0000_0000, Guid(0x0002_c903_0000_0001));
        assert_eq!(gid.prefix(), 0xfe80_0000_0000_0000);
        assert_eq!(gid.guid(), Guid(0x0002_c903_0000_0001));
        assert_eq!(gid.to_string(), "fe80::2:c903:0:1");
    }

    #[test]
    fn mgids_have_the_layout_of_their_protocol() {
        let broadcast = Gid::ipoib_broadcast(2, Pkey(0x8001));
        assert_eq!(broadcast.to_string(), "ff12:401b:8001::ffff:ffff");
        assert_eq!((broadcast.scope(), broadcast.multicast_flags()), (2, 1));
        assert_eq!(broadcast.signature(), Gid::SIGNATURE_IPOIB_V4);
        assert_eq!(broadcast.ipoib_pkey(), Pkey(0x8001));
        let assigned = Gid::sa_assigned(5, 0xfe80_0000_0000_0000, 7);
        assert_eq!(assigned.to_string(), "ff15:a01b:fe80::7");
    }
}
