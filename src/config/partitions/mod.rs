//! partitions.conf: membership of ports in partitions, and permanent multicast groups.
//!
//! ```text
//! # name [= P_Key] [, flag]… : port [= membership] [, …] ;
//! Storage = 0x10, ipoib, mtu=4096, defmember=full : 0x2c9000001, 0x2c9000002, ALL_CAS=limited ;
//! ```
//!
//! The grammar is that of opensm(8), "Partition configuration", and of what OpenSM accepts beyond
//! it: keywords may be abbreviated (`=limi`), a line may contain several definitions, a list of
//! ports may have several lines. In addition, MTUs and rates may have units (`mtu=4096`,
//! `rate=100Gbps`), names of flags ignore case, and flags may follow the first colon if a second
//! one ends them, as in an example of opensm(8) that OpenSM rejects.
//!
//! The parser reads the whole file and reports every error with its position. As in opensm.conf, a
//! wrong value is an error, and a word that OpenSM ignores a warning. A file with an error is not
//! used: to omit definitions would isolate ports, or connect ports that must be isolated.
//!
//! [`crate::plan::partitions`] applies the definitions to a subnet: it generates missing P_Keys,
//! merges definitions, and adds the default partition.

mod parse;

use super::Diagnostic;
use crate::ids::{Gid, Guid, Pkey, Sl};
use crate::notes::Severity;
use std::path::Path;

/// The contents of a partitions.conf. As in OpenSM, a file without definitions is the same as no
/// file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionsConfig {
    /// Definitions in file order.
    pub definitions: Vec<Definition>,
}

/// A definition. Definitions with the same P_Key or name are parts of one partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// First line, from 1.
    pub line: u32,
    /// Name of the partition; may be empty.
    pub name: String,
    /// P_Key without the membership bit, 1..=0x7FFF; `None` to generate one.
    pub pkey: Option<Pkey>,
    /// `indx0`: the members have the P_Key at index 0.
    pub index0: bool,
    /// `ipoib`: the partition has a broadcast group.
    pub ipoib: bool,
    /// Parameters of the broadcast group, which the other groups inherit.
    pub flags: GroupFlags,
    /// True if the definition sets `sl`.
    pub has_sl: bool,
    /// Members in file order. The last entry for a port applies.
    pub members: Vec<MemberEntry>,
    /// Groups of its `mgid` lines.
    pub groups: Vec<GroupEntry>,
}

/// Membership of a port in a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Membership {
    /// The port communicates with full members only.
    Limited,
    /// The port communicates with all members.
    Full,
    /// The port has both P_Keys if `allow_both_pkeys` is set, else the full one.
    Both,
}

/// An entry of a port list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberEntry {
    pub ports: PortSelector,
    pub membership: Membership,
}

/// A set of end ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum PortSelector {
    /// `ALL`, virtual ports included.
    All,
    /// `ALL_CAS`: ports of channel adapters.
    ChannelAdapters,
    /// `ALL_SWITCHES`: port 0 of every switch.
    Switches,
    /// `ALL_ROUTERS`.
    Routers,
    /// `ALL_VCAS`: virtual ports that are no physical port's own.
    Virtual,
    /// `SELF`: the port of the subnet manager.
    SmPort,
    /// The port with this GUID.
    Port(Guid),
}

/// An `mgid` line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupEntry {
    /// Line, from 1.
    pub line: u32,
    /// MGID in the file; planning inserts the scope and, for IP groups, the P_Key.
    pub mgid: Gid,
    pub flags: GroupFlags,
}

/// Parameters of multicast groups, as codes of the InfiniBand specification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFlags {
    /// MTU code, 1..=5.
    pub mtu: u8,
    /// Rate code, 2..=24.
    pub rate: u8,
    pub sl: Sl,
    /// Bit n requests a group of scope n; 0 requests link-local scope only.
    pub scopes: u16,
    /// Q_Key; 0 becomes 0x0b1b in IP groups.
    pub q_key: u32,
    pub tclass: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl Default for GroupFlags {
    /// MTU 2048 bytes, rate 10 Gb/s, SL 0.
    fn default() -> Self {
        Self { mtu: 4, rate: 3, sl: Sl(0), scopes: 0, q_key: 0, tclass: 0, flow_label: 0 }
    }
}

/// True for MGIDs with the IPoIB signature of IPv4 or IPv6 (RFC 4391, 4).
pub fn is_ip(mgid: &Gid) -> bool {
    matches!(mgid.0, [_, _, 0x40 | 0x60, 0x1B, ..])
}

/// P_Key within the MGID of an IP group.
pub fn pkey_of_ip_group(mgid: &Gid) -> Pkey {
    mgid.ipoib_pkey()
}

/// MGID of the IPv4 broadcast group of the default partition, ff12:401b:ffff::ffff:ffff. In a
/// definition it stands for the broadcast group of that partition.
pub const BROADCAST: Gid =
    Gid([0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);

impl PartitionsConfig {
    /// Parses the text of `file`. The diagnostics are in file order. If one of them is an error,
    /// there is no configuration.
    pub fn parse(file: &Path, text: &str) -> (Option<Self>, Vec<Diagnostic>) {
        let (config, diagnostics) = parse::parse(file, text);
        let has_error = diagnostics.iter().any(|found| found.severity == Severity::Error);
        ((!has_error).then_some(config), diagnostics)
    }
}
