//! The contents of a qos-policy.conf.

use super::ranges::Ranges;
use crate::config::span::Span;
use crate::ids::Sl;
use std::path::PathBuf;

/// A QoS policy without errors.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosPolicy {
    /// Path of the file, for diagnostics of later stages.
    pub file: PathBuf,
    /// Port groups. Scopes and rules refer to them by index.
    pub groups: Vec<QosPortGroup>,
    /// VL arbitration scopes. The first scope that applies to a port wins.
    pub vl_arbitration: Vec<VlArbScope>,
    /// SL to VL mapping scopes. The first scope that applies to a pair of ports wins.
    pub sl_to_vl: Vec<SlToVlScope>,
    /// Levels in file order, followed by the levels that rules of `qos-ulps` imply.
    pub levels: Vec<QosLevel>,
    /// Rules in the order of matching: `qos-match-rules`, then `qos-ulps`.
    pub rules: Vec<MatchRule>,
    /// Level of queries that match no rule; an index of [`Self::levels`].
    pub default: usize,
}

impl QosPolicy {
    /// True if the policy has VL arbitration or SL to VL scopes.
    pub fn has_setup(&self) -> bool {
        !self.vl_arbitration.is_empty() || !self.sl_to_vl.is_empty()
    }
}

/// A position in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PolicyPlace {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl From<Span<'_>> for PolicyPlace {
    fn from(span: Span<'_>) -> Self {
        Self { line: span.line, column: span.column() }
    }
}

/// `port-group`: a named set of ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosPortGroup {
    /// First line of the group, from 1.
    pub line: u32,
    pub name: String,
    /// `use`: a description.
    pub purpose: Option<String>,
    /// Port GUIDs.
    pub guids: Ranges,
    /// Ports by node description.
    pub names: Vec<PortName>,
    /// P_Keys (15 bits). The group has all ports of these partitions.
    pub pkeys: Ranges,
    /// Names of partitions. The group has all ports of these partitions.
    pub partitions: Vec<String>,
    /// Node types. The group has all ports of nodes of these types.
    pub kinds: NodeKinds,
}

/// A set of node types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeKinds {
    /// Channel adapters.
    pub ca: bool,
    pub switch: bool,
    pub router: bool,
    /// The node of the subnet manager.
    pub own: bool,
}

/// Ports by node description: `node description/P1`, `vs1/HCA-1/P1`, `vs1/*/*` or `vs1`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortName {
    /// Node description; `*` matches any characters.
    pub node: String,
    /// Port number; `None` for all ports.
    pub port: Option<u8>,
}

/// `vlarb-scope`: VL arbitration tables of some ports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VlArbScope {
    /// Beginning of the scope.
    pub at: PolicyPlace,
    /// Groups of ports that the scope applies to; indexes of [`QosPolicy::groups`].
    pub groups: Vec<usize>,
    /// Groups whose peer ports the scope applies to.
    pub across: Vec<usize>,
    /// High-priority table; `None` takes it from opensm.conf.
    pub high: Option<Vec<VlArbEntry>>,
    /// Low-priority table; `None` takes it from opensm.conf.
    pub low: Option<Vec<VlArbEntry>>,
    /// Limit of high priority in units of 4096 bytes; 255 is unlimited. `None` takes it from
    /// opensm.conf.
    pub high_limit: Option<u8>,
}

/// An entry of a VL arbitration table (IBA vol. 1, 7.6.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VlArbEntry {
    /// Data VL, 0..=14.
    pub vl: u8,
    /// Bytes that the VL may send in its turn, in units of 64; 0 skips the entry.
    pub weight: u8,
    pub at: PolicyPlace,
}

/// `sl2vl-scope`: SL to VL mapping of some pairs of input and output port.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SlToVlScope {
    /// Beginning of the scope.
    pub at: PolicyPlace,
    /// Groups of output ports; indexes of [`QosPolicy::groups`].
    pub groups: Vec<usize>,
    /// Groups whose peer ports are output ports, in addition to [`Self::groups`]. If both are
    /// empty, all ports are output ports.
    pub across: Vec<usize>,
    /// Groups of ports that the input ports must be cabled to; empty for all input ports.
    pub across_from: Vec<usize>,
    /// Groups of ports that the output ports must be cabled to; empty for all output ports.
    pub across_to: Vec<usize>,
    /// Numbers of the input ports.
    pub from: PortChoice,
    /// Numbers of the output ports.
    pub to: PortChoice,
    /// VL by SL; 0 for SLs that the table omits. VL 15 drops the packet.
    pub vls: [u8; 16],
    /// Positions of the VLs in the file, from SL 0 on.
    pub written: Vec<PolicyPlace>,
}

/// Ports of a node by number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum PortChoice {
    /// Not in the file: all ports.
    #[default]
    Unspecified,
    /// `*`: all ports.
    All,
    Ranges(Vec<PortRange>),
}

/// Consecutive port numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortRange {
    pub first: u8,
    pub last: u8,
    pub at: PolicyPlace,
}

impl PortChoice {
    /// True if the choice includes the port with this number.
    pub fn contains(&self, number: u8) -> bool {
        match self {
            Self::Unspecified | Self::All => true,
            Self::Ranges(ranges) => {
                ranges.iter().any(|range| (range.first..=range.last).contains(&number))
            }
        }
    }

    /// The explicit ranges.
    pub fn ranges(&self) -> &[PortRange] {
        match self {
            Self::Unspecified | Self::All => &[],
            Self::Ranges(ranges) => ranges,
        }
    }
}

/// `qos-level`: parameters of paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct QosLevel {
    /// First line of the level, from 1; for a level that `qos-ulps` implies, the line of the rule.
    pub line: u32,
    /// Empty for a level without a name.
    pub name: String,
    /// `use`: a description.
    pub purpose: Option<String>,
    pub sl: Sl,
    /// Largest MTU, as a code.
    pub mtu_limit: Option<u8>,
    /// Largest rate, as a code.
    pub rate_limit: Option<u8>,
    /// Packet lifetime of 4.096 µs * 2^n, 0..=63.
    pub packet_life: Option<u8>,
    /// Allowed low bits of the destination LID; empty for all.
    pub path_bits: Ranges,
    /// Allowed P_Keys (15 bits); empty for all.
    pub pkeys: Ranges,
}

/// A rule. A query that satisfies all of its conditions gets its level.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MatchRule {
    /// First line of the rule, from 1.
    pub line: u32,
    /// `use`: a description.
    pub purpose: Option<String>,
    /// Ports at the source of the path; `None` for any.
    pub source: Option<PortFilter>,
    /// Ports at the destination of the path; `None` for any.
    pub destination: Option<PortFilter>,
    /// Service IDs; empty for any service ID or none.
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

/// Ports at one end of a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortFilter {
    /// Indexes of [`QosPolicy::groups`].
    pub groups: Vec<usize>,
    /// Port GUIDs.
    pub guids: Ranges,
}
