//! The numbers of vendor-specific attributes, each with its source. A number that is not
//! [`Certainty::Documented`] has not been confirmed on hardware.
//!
//! A trace of MADs from a subnet whose subnet manager programs these attributes would confirm them
//! or show where they are wrong: this file is the only place to correct.

use std::fmt;

/// The source of a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Certainty {
    /// A manual by the vendor states it.
    Documented,
    /// A public header with a free licence states it, and nothing else.
    HeaderOnly,
    /// No source states it: it follows from such a header, or from how similar attributes of the
    /// InfiniBand Architecture Specification are built.
    Inferred,
}

impl fmt::Display for Certainty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Documented => "documented",
            Self::HeaderOnly => "from a header",
            Self::Inferred => "inferred",
        })
    }
}

/// A number with its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fact<T> {
    pub value: T,
    pub certainty: Certainty,
}

const fn documented<T: Copy>(value: T) -> Fact<T> {
    Fact { value, certainty: Certainty::Documented }
}

const fn from_header<T: Copy>(value: T) -> Fact<T> {
    Fact { value, certainty: Certainty::HeaderOnly }
}

const fn inferred<T: Copy>(value: T) -> Fact<T> {
    Fact { value, certainty: Certainty::Inferred }
}

/// Attribute ID of GeneralInfo.
pub const GENERAL_INFO: Fact<u16> = from_header(0xFF17);
/// Attribute modifier of GeneralInfo that selects the capability mask.
pub const GENERAL_INFO_CAPABILITIES: Fact<u32> = from_header(4);
/// Bits of a word of the capability mask: capability n is bit n % 32, the least significant one
/// being bit 0, of the big-endian word n / 32.
pub const CAPABILITY_WORD_BITS: Fact<usize> = from_header(32);
/// Number of words of the capability mask.
pub const CAPABILITY_WORDS: Fact<usize> = from_header(4);

/// Attribute ID of QosConfigSL.
pub const QOS_CONFIG_SL: Fact<u16> = from_header(0xFF82);
/// Bit of the modifier of QosConfigSL that selects a virtual port.
pub const QOS_CONFIG_SL_VPORT: Fact<u32> = from_header(1 << 31);
/// Bits of the modifier of QosConfigSL that hold the port number, or the index of the virtual port.
pub const QOS_CONFIG_SL_INDEX: Fact<u32> = inferred(0xFFFF);
/// Width of the rate limit, the low bits of the word of an SL. The bits above are the bandwidth share.
pub const RATE_LIMIT_BITS: Fact<u32> = from_header(20);
/// Unit of a rate limit in a policy file, in bit/s.
pub const RATE_LIMIT_FILE_UNIT: Fact<u64> = documented(1_000_000);
/// Rate limits on the wire for one of the policy file.
pub const RATE_LIMIT_SCALE: Fact<u32> = inferred(1);
/// Rate limit of an SL that is not limited.
pub const NO_RATE_LIMIT: Fact<u32> = documented(0);

/// Attribute IDs of virtual ports.
pub const VIRTUALIZATION_INFO: Fact<u16> = from_header(0xFFB0);
pub const VPORT_INFO: Fact<u16> = from_header(0xFFB1);
pub const VNODE_INFO: Fact<u16> = from_header(0xFFB2);
pub const VPORT_STATE: Fact<u16> = from_header(0xFFB3);
pub const VNODE_DESCRIPTION: Fact<u16> = from_header(0xFFB4);
pub const VPORT_GUID_INFO: Fact<u16> = from_header(0xFFB5);
pub const VPORT_PKEY_TABLE: Fact<u16> = from_header(0xFFB6);
/// Bit of CapabilityMask2 of a port with VirtualizationInfo.
pub const CAP_MASK2_VIRTUALIZATION: Fact<u16> = documented(1 << 2);
/// Position of the index of a virtual port in the modifier of an attribute with blocks, which are in
/// the bits below it.
pub const VPORT_INDEX_SHIFT: Fact<u32> = inferred(16);
/// Virtual ports in a block of VPortState.
pub const VPORT_STATES_IN_BLOCK: Fact<u16> = from_header(128);
/// Trap numbers of vendor-specific notices, which are in the last two bytes of their details.
pub const TRAP_VPORT_CHANGES: Fact<u16> = from_header(1144);
pub const TRAP_VPORT_STATE: Fact<u16> = from_header(1146);
pub const TRAP_VPORT_BAD_P_KEY: Fact<u16> = from_header(1257);
pub const TRAP_VPORT_BAD_Q_KEY: Fact<u16> = from_header(1258);

/// Attribute IDs of adaptive routing.
pub const AR_INFO: Fact<u16> = from_header(0xFF20);
pub const AR_GROUP_TABLE: Fact<u16> = from_header(0xFF21);
/// The forwarding table of adaptive routing in its revised form.
pub const AR_LFT: Fact<u16> = from_header(0xFF23);
pub const AR_GROUP_TABLE_COPY: Fact<u16> = from_header(0xFFBD);
/// Attribute modifier of ARInfo.
pub const AR_INFO_MODIFIER: Fact<u32> = inferred(0);
/// Bits of the modifiers of ARGroupTable and ARLinearForwardingTable that hold the number of the block.
/// The bits above select tables, of which this program uses the first one, 0.
pub const AR_BLOCK: Fact<u32> = inferred(0xFFF);
/// Groups in a block of ARGroupTable while groups have no sub-groups.
pub const AR_GROUPS_IN_BLOCK: Fact<usize> = inferred(2);
/// LIDs in a block of the revised ARLinearForwardingTable.
pub const AR_LIDS_IN_BLOCK: Fact<usize> = from_header(16);
/// Bits of the modifier of ARGroupTableCopy that hold the group that is copied.
pub const AR_GROUP_COPY_SOURCE: Fact<u32> = from_header(0xFFF);
/// Entries of ARGroupTableCopy.
pub const AR_GROUP_COPY_ENTRIES: Fact<usize> = from_header(16);

/// Capabilities by number, with the names that the console of the simulator accepts.
pub const CAPABILITIES: [(u8, &str, Certainty); 25] = {
    use Certainty::HeaderOnly;
    [
        (0, "private-lft", HeaderOnly),
        (1, "adaptive-routing", HeaderOnly),
        (2, "adaptive-routing-revised", HeaderOnly),
        (9, "extended-port-info", HeaderOnly),
        (12, "port-sl-to-private-lft", HeaderOnly),
        (13, "extended-node-info", HeaderOnly),
        (14, "slave-virtual-switch", HeaderOnly),
        (15, "virtualization", HeaderOnly),
        (18, "aggregation-node", HeaderOnly),
        (24, "rate-limit", HeaderOnly),
        (25, "vport-rate-limit", HeaderOnly),
        (30, "out-of-order", HeaderOnly),
        (44, "vendor-congestion-control", HeaderOnly),
        (45, "adaptive-timeout", HeaderOnly),
        (48, "router-lids", HeaderOnly),
        (49, "lft-split", HeaderOnly),
        (51, "qos-config-vl", HeaderOnly),
        (52, "fast-recovery", HeaderOnly),
        (53, "credit-watchdog", HeaderOnly),
        (61, "ber-config", HeaderOnly),
        (67, "extended-switch-info", HeaderOnly),
        (72, "chassis-info", HeaderOnly),
        (74, "issu", HeaderOnly),
        (76, "port-recovery-policy", HeaderOnly),
        (81, "auto-retrain", HeaderOnly),
    ]
};
