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
//! `statements` has the words, `read` the sections, `fields` and `ulps` their contents. The whole
//! file is read, and everything wrong is reported with its place; with an error there is no
//! policy, since rules after one that is left out would catch what they should not. What a policy
//! means for a fabric is the business of `plan::qos_policy`.

mod fields;
mod ranges;
mod read;
mod statements;
mod ulps;

pub use ranges::Ranges;

use super::Diagnostic;
use crate::ids::Sl;
use crate::notes::Severity;
use std::path::Path;

/// A policy that could be read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosPolicy {
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

/// `vlarb-scope`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VlArbScope {
    /// The line where it begins, from 1.
    pub line: u32,
    /// Groups to whose ports it applies, indexes of [`QosPolicy::groups`].
    pub groups: Vec<usize>,
    /// Groups to the peers of whose ports it applies.
    pub across: Vec<usize>,
    /// Entries (VL, weight) of the high priority table; `None` leaves it as it would be.
    pub high: Option<Vec<(u8, u8)>>,
    /// Entries of the low priority table.
    pub low: Option<Vec<(u8, u8)>>,
    /// Limit of high priority, in 4096 bytes; 255 is unlimited.
    pub high_limit: Option<u8>,
}

/// `sl2vl-scope`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlToVlScope {
    /// The line where it begins, from 1.
    pub line: u32,
    /// Groups to whose ports it applies, as inputs and outputs of their node.
    pub groups: Vec<usize>,
    /// Groups to whose ports' peers it applies, in the same way.
    pub across: Vec<usize>,
    /// Groups on the peers of whose ports the mapping from there applies.
    pub across_from: Vec<usize>,
    /// Groups on the peers of whose ports the mapping to there applies.
    pub across_to: Vec<usize>,
    /// Input ports.
    pub from: PortChoice,
    /// Output ports.
    pub to: PortChoice,
    /// VL by SL; SLs that are not written have VL 0.
    pub vls: [u8; 16],
}

/// Ports of a node by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PortChoice {
    /// Not said.
    #[default]
    Unsaid,
    /// `*`.
    All,
    /// These, ascending.
    These(Vec<u8>),
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
        let is_wrong = findings.iter().any(|found| found.severity == Severity::Error);
        ((!is_wrong).then_some(policy), findings)
    }
}

#[cfg(test)]
mod tests;
