//! qos-policy.conf: which traffic gets which quality of service.
//!
//! ```text
//! port-groups
//!     port-group
//!         name: Storage
//!         port-guid: 0x1000000000000001, 0x1000000000000005-0x1000000000000FFA
//!     end-port-group
//! end-port-groups
//! qos-levels
//!     qos-level
//!         name: DEFAULT
//!         sl: 0
//!     end-qos-level
//! end-qos-levels
//! qos-match-rules
//!     qos-match-rule
//!         destination: Storage
//!         qos-level-name: DEFAULT
//!     end-qos-match-rule
//! end-qos-match-rules
//! qos-ulps
//!     sdp, port-num 30000 : 3
//! end-qos-ulps
//! ```
//!
//! The grammar is that of OpenSM with what the 2007 proposal has beyond it: levels by sequence
//! number, names of ports with wildcards, and `qos-setup`, which OpenSM reads and ignores. Section
//! words stand by themselves; `use` takes the rest of its line; other values end at the next
//! keyword, so that a file may also stand on one line; lists go on over lines with a comma between.
//! A `#` begins a comment wherever it stands. Names are compared without regard to case and
//! blanks. MTUs and rates may be written as codes or as what they are.
//!
//! `statements` has the words, `read` the sections, `draft`, `fields` and `ulps` their contents,
//! `values` and `port_names` what stands behind keywords. The whole file is read, and everything wrong is reported with its place; with an error there is no
//! policy, since rules after one that is left out would catch what they should not. What a policy
//! means for a fabric is the business of `plan::qos::policy`.

mod draft;
mod fields;
mod port_names;
mod ranges;
mod read;
mod statements;
mod ulps;
mod values;

pub use ranges::Ranges;

use super::Diagnostic;
use super::piece::Piece;
use crate::ids::Sl;
use crate::notes::Severity;
use std::path::{Path, PathBuf};

/// A policy that could be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosPolicy {
    /// The file, for what is found out about it later.
    pub file: PathBuf,
    /// Port groups, which scopes and rules name by index.
    pub groups: Vec<PortGroup>,
    /// VL arbitration by groups of ports.
    pub vl_arbitration: Vec<VlArbScope>,
    /// SL to VL mappings by groups of ports; of several for a port the first counts.
    pub sl_to_vl: Vec<SlToVlScope>,
    /// Levels, in file order; those that rules of `qos-ulps` need come last.
    pub levels: Vec<QosLevel>,
    /// Rules in the order in which they are tried: those of `qos-match-rules`, then `qos-ulps`.
    pub rules: Vec<MatchRule>,
    /// The level of queries that match no rule, an index of [`Self::levels`].
    pub default: usize,
}

/// Where something stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl From<Piece<'_>> for Place {
    fn from(piece: Piece<'_>) -> Self {
        Self { line: piece.number, column: piece.column() }
    }
}

/// A set of ports with a name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortGroup {
    /// The line where it begins, from 1.
    pub line: u32,
    /// Its name as written.
    pub name: String,
    /// What it is for, in words.
    pub purpose: Option<String>,
    /// Port GUIDs.
    pub guids: Ranges,
    /// Ports by the description of their node.
    pub names: Vec<PortName>,
    /// P_Keys (15 bits) of whose partitions it has all ports.
    pub pkeys: Ranges,
    /// Names of partitions of which it has all ports.
    pub partitions: Vec<String>,
    /// Kinds of nodes of which it has all ports.
    pub kinds: NodeKinds,
}

/// Kinds of nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeKinds {
    /// Channel adapters.
    pub ca: bool,
    /// Switches.
    pub switch: bool,
    /// Routers.
    pub router: bool,
    /// The subnet manager's own node.
    pub own: bool,
}

/// `node description/P1`, `vs1/HCA-1/P1`, `vs1/*/*` or `vs1`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortName {
    /// The description; `*` stands for any characters.
    pub node: String,
    /// The port's number; `None` for all ports.
    pub port: Option<u8>,
}

/// `vlarb-scope`: VL arbitration of some ports. Of several scopes for a port the first counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VlArbScope {
    /// Where it begins.
    pub at: Place,
    /// Groups to whose ports it applies, indexes of [`QosPolicy::groups`].
    pub groups: Vec<usize>,
    /// Groups to the peers of whose ports it applies.
    pub across: Vec<usize>,
    /// The high priority table; `None` leaves it to the options.
    pub high: Option<Vec<Weight>>,
    /// The low priority table; `None` leaves it to the options.
    pub low: Option<Vec<Weight>>,
    /// Limit of high priority, in 4096 bytes; 255 is unlimited. `None` leaves it to the options.
    pub high_limit: Option<u8>,
}

/// An entry of a VL arbitration table (IBA vol. 1, 7.6.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weight {
    /// VL, 0..=14.
    pub vl: u8,
    /// What may be sent from it in turn, in 64 bytes; 0 skips the entry.
    pub weight: u8,
    /// Where it stands.
    pub at: Place,
}

/// `sl2vl-scope`: the SL to VL mapping of some pairs of input and output port of a node. Of
/// several scopes for a pair the first counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlToVlScope {
    /// Where it begins.
    pub at: Place,
    /// Groups with whose ports as outputs it applies, indexes of [`QosPolicy::groups`].
    pub groups: Vec<usize>,
    /// Groups with the peers of whose ports as outputs it applies, beside [`Self::groups`]. With
    /// neither, all ports are outputs.
    pub across: Vec<usize>,
    /// Groups to whose ports the inputs must be cabled; empty for all inputs.
    pub across_from: Vec<usize>,
    /// Groups to whose ports the outputs must be cabled; empty for all outputs.
    pub across_to: Vec<usize>,
    /// Numbers of the inputs.
    pub from: PortChoice,
    /// Numbers of the outputs.
    pub to: PortChoice,
    /// VL by SL; SLs that are not written have VL 0. VL 15 drops.
    pub vls: [u8; 16],
    /// Where the VLs that are written stand, from SL 0 on.
    pub written: Vec<Place>,
}

/// Ports of a node by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PortChoice {
    /// Not said: all.
    #[default]
    Unsaid,
    /// `*`.
    All,
    /// These.
    These(Vec<PortRange>),
}

/// Consecutive port numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    /// The first.
    pub first: u8,
    /// The last.
    pub last: u8,
    /// Where they stand.
    pub at: Place,
}

impl PortChoice {
    /// True if the port with this number is meant.
    pub fn contains(&self, number: u8) -> bool {
        match self {
            Self::Unsaid | Self::All => true,
            Self::These(ranges) => {
                ranges.iter().any(|range| (range.first..=range.last).contains(&number))
            }
        }
    }

    /// The ranges that are written.
    pub fn ranges(&self) -> &[PortRange] {
        match self {
            Self::Unsaid | Self::All => &[],
            Self::These(ranges) => ranges,
        }
    }
}

/// `qos-level`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosLevel {
    /// The line where it begins, from 1; of one that a rule of `qos-ulps` needs, the rule's.
    pub line: u32,
    /// Its name; empty if it has none.
    pub name: String,
    /// What it is for, in words.
    pub purpose: Option<String>,
    /// Service level.
    pub sl: Sl,
    /// Largest MTU, as code.
    pub mtu_limit: Option<u8>,
    /// Largest rate, as code.
    pub rate_limit: Option<u8>,
    /// Packet lifetime, 4.096 µs times 2 to this, 0..=63.
    pub packet_life: Option<u8>,
    /// Low bits of the destination LIDs that paths may have; empty for all.
    pub path_bits: Ranges,
    /// P_Keys (15 bits) that paths may have; empty for all.
    pub pkeys: Ranges,
}

/// A rule: a query that fits everything it says gets its level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MatchRule {
    /// The line where it begins, from 1.
    pub line: u32,
    /// What it is for, in words.
    pub purpose: Option<String>,
    /// Where the path begins; `None` for anywhere.
    pub source: Option<Ports>,
    /// Where it ends.
    pub destination: Option<Ports>,
    /// Service IDs; empty for all, and for queries that say none.
    pub service_ids: Ranges,
    /// QoS classes, 12 bits.
    pub qos_classes: Ranges,
    /// P_Keys, 15 bits.
    pub pkeys: Ranges,
    /// True for rules for IPoIB, whose partition should have a broadcast group.
    pub is_ipoib: bool,
    /// Index of [`QosPolicy::levels`].
    pub level: usize,
}

/// Ports of a rule.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ports {
    /// Indexes of [`QosPolicy::groups`].
    pub groups: Vec<usize>,
    /// Port GUIDs.
    pub guids: Ranges,
}

impl QosPolicy {
    /// Reads the text of `file`. The findings are in the order of their places; with an error
    /// among them there is no policy.
    pub fn parse(file: &Path, text: &str) -> (Option<Self>, Vec<Diagnostic>) {
        let (policy, findings) = read::read(file, text);
        let policy = Self { file: file.to_path_buf(), ..policy };
        let is_wrong = findings.iter().any(|found| found.severity == Severity::Error);
        ((!is_wrong).then_some(policy), findings)
    }

    /// True if it has scopes: tables of its own.
    pub fn has_setup(&self) -> bool {
        !self.vl_arbitration.is_empty() || !self.sl_to_vl.is_empty()
    }
}

#[cfg(test)]
mod tests;
