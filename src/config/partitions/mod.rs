//! partitions.conf: who may talk to whom, and the multicast groups that are always there.
//!
//! ```text
//! # name [= P_Key] [, flag]… : port [= membership] [, …] ;
//! Storage = 0x10, ipoib, mtu=4096, defmember=full : 0x2c9000001, 0x2c9000002, ALL_CAS=limited ;
//! ```
//!
//! The grammar is that of opensm(8), "Partition configuration", with what OpenSM reads without
//! telling: keywords may be cut short (`=limi`), several definitions may stand on a line, ports
//! on as many lines as they need. [`parse`] has it; `piece` has the text with its places, `value`
//! what numbers mean. Beyond OpenSM's, MTUs and rates may be written as what they are
//! (`mtu=4096`, `rate=100Gbps`), the names of flags in any case, and flags behind the first
//! colon if a second one ends them (so an example of opensm(8) has it, which OpenSM refuses).
//!
//! The whole file is read, and everything wrong in it is reported with its place. As in
//! opensm.conf, a wrong value is an error, and a word that OpenSM ignores a warning. A file with
//! an error is not used at all: with some definitions left out, ports would be cut off, or, worse,
//! not be.
//!
//! What a file means for a subnet (keys that it leaves out, partitions of which it speaks in
//! several places, the default partition) is the business of `plan::partitions`.

mod parse;

use super::Diagnostic;
use crate::ids::{Gid, Guid, Pkey, Sl};
use crate::notes::Severity;
use std::path::Path;

/// The contents of a partitions.conf; without any definition it stands for no file at all, as in
/// OpenSM.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PartitionsConfig {
    /// In the order of the file.
    pub definitions: Vec<Definition>,
}

/// A definition, or a part of one: those of the same P_Key or name add up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Definition {
    /// The line where it begins, from 1.
    pub line: u32,
    /// The partition's name; may be empty.
    pub name: String,
    /// The number of the partition, 1..=0x7FFF; `None` if one is to be generated.
    pub pkey: Option<Pkey>,
    /// `indx0`: the ports named here have the key at index 0.
    pub index0: bool,
    /// `ipoib`: the partition has a broadcast group.
    pub ipoib: bool,
    /// Parameters of the broadcast group, which the other groups inherit.
    pub flags: GroupFlags,
    /// True if the definition says `sl`.
    pub says_sl: bool,
    /// Who belongs to it, in order: the later entry for a port counts.
    pub members: Vec<MemberEntry>,
    /// Its `mgid` groups.
    pub groups: Vec<GroupEntry>,
}

/// How a port belongs to a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Membership {
    /// It talks to full members only.
    Limited,
    /// It talks to all members.
    Full,
    /// It has both keys, where `allow_both_pkeys` is set; else as [`Self::Full`].
    Both,
}

/// An entry of a port list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberEntry {
    /// Which ports.
    pub who: Who,
    /// How they belong to the partition.
    pub membership: Membership,
}

/// A choice of end ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Who {
    /// `ALL`.
    All,
    /// `ALL_CAS`: those of channel adapters.
    ChannelAdapters,
    /// `ALL_SWITCHES`: ports 0 of switches.
    Switches,
    /// `ALL_ROUTERS`.
    Routers,
    /// `ALL_VCAS`: virtual ports, of which this subnet manager knows none.
    Virtual,
    /// `SELF`: the subnet manager's.
    Own,
    /// The one with this GUID.
    Port(Guid),
}

/// An `mgid` line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupEntry {
    /// Its line, from 1.
    pub line: u32,
    /// The MGID as written; the scope and, for IP groups, the P_Key are put into it later.
    pub mgid: Gid,
    /// Its parameters.
    pub flags: GroupFlags,
}

/// Parameters of multicast groups, as codes of the standard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupFlags {
    /// MTU code, 1..=5.
    pub mtu: u8,
    /// Rate code.
    pub rate: u8,
    /// Service level.
    pub sl: Sl,
    /// A bit for each scope for which there is to be a group; 0 stands for link-local alone.
    pub scopes: u16,
    /// Q_Key; 0 stands for 0x0b1b in IP groups.
    pub q_key: u32,
    /// Traffic class.
    pub tclass: u8,
    /// Flow label, 20 bits.
    pub flow_label: u32,
}

impl Default for GroupFlags {
    /// 2048 bytes, 10 Gb/s, SL 0.
    fn default() -> Self {
        Self { mtu: 4, rate: 3, sl: Sl(0), scopes: 0, q_key: 0, tclass: 0, flow_label: 0 }
    }
}

/// True for MGIDs of IPoIB: those with the signature of IPv4 or IPv6 (RFC 4391, 4).
pub fn is_ip(mgid: &Gid) -> bool {
    matches!(mgid.0, [_, _, 0x40 | 0x60, 0x1B, ..])
}

/// The P_Key within the MGID of an IP group.
pub fn pkey_of_ip_group(mgid: &Gid) -> Pkey {
    Pkey(u16::from_be_bytes([mgid.0[4], mgid.0[5]]))
}

/// The MGID of the IPv4 broadcast group of the default partition, ff12:401b:ffff::ffff:ffff. It
/// may be written for the broadcast group of any partition.
pub const BROADCAST: Gid =
    Gid([0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]);

impl PartitionsConfig {
    /// Reads the text of `file`. The findings are in the order of their places; with an error
    /// among them there is no configuration.
    pub fn parse(file: &Path, text: &str) -> (Option<Self>, Vec<Diagnostic>) {
        let (config, findings) = parse::parse(file, text);
        let is_wrong = findings.iter().any(|found| found.severity == Severity::Error);
        ((!is_wrong).then_some(config), findings)
    }
}
