//! What is reported. The names of the fields are those in JSON: scripts rely on them.

use crate::ids::{Guid, Lid, Sl, Vl};
use crate::notes::Note;
use serde::{Serialize, Serializer};

/// The report.
#[derive(Serialize, Debug)]
pub struct Report {
    /// What the fabric consists of.
    pub fabric: FabricFacts,
    /// The engines in the order in which they are tried.
    pub engines: Vec<&'static str>,
    /// True if there is a plan that passed all checks.
    pub routed: bool,
    /// The engine that routed the fabric.
    pub engine: Option<&'static str>,
    /// The torus, if one could be placed.
    pub torus: Option<TorusFacts>,
    /// LIDs.
    pub lids: Lids,
    /// What the checks found in a plan that passed.
    pub checks: Option<ChecksFacts>,
    /// The link that most LIDs pass.
    pub worst_link: Option<WorstLink>,
    /// Paths between hosts by length, ascending.
    pub hops: Vec<HopCount>,
    /// Engines that would not route the fabric, if none did.
    pub refusals: Vec<RefusalFacts>,
    /// Faults in the plan.
    pub faults: Vec<String>,
    /// What the operator would hear.
    pub notes: Vec<Note>,
    /// The path asked for.
    pub path: Option<PathFacts>,
    /// Service levels of all paths between hosts, if asked for.
    pub path_sl: Option<PathSls>,
    /// What failures do, if asked for.
    pub what_if: Option<WhatIf>,
}

/// What a fabric consists of.
#[derive(Serialize, Debug)]
pub struct FabricFacts {
    pub switches: usize,
    pub channel_adapters: usize,
    pub routers: usize,
    pub cables: usize,
}

/// A placed torus.
#[derive(Serialize, Debug)]
pub struct TorusFacts {
    /// Radices of x, y, z.
    pub radices: [u32; 3],
    /// Whether x, y, z wrap around.
    pub looped: [bool; 3],
    /// Switches with their places, x running fastest.
    pub placed: Vec<Placed>,
    /// Places without a switch.
    pub missing_switches: Vec<[u32; 3]>,
    /// Neighbours without a cable between them.
    pub missing_cables: Vec<MissingCable>,
    /// Number of rings and lines.
    pub rings: usize,
    /// Those that are interrupted.
    pub broken_rings: Vec<BrokenRing>,
}

/// A switch in its place.
#[derive(Serialize, Debug)]
pub struct Placed {
    pub coordinates: [u32; 3],
    #[serde(serialize_with = "text")]
    pub guid: Guid,
    pub description: String,
}

/// Neighbours without a cable between them.
#[derive(Serialize, Debug)]
pub struct MissingCable {
    pub from: [u32; 3],
    pub to: [u32; 3],
    /// `x`, `y` or `z`.
    pub axis: char,
}

/// A ring or line that is interrupted.
#[derive(Serialize, Debug)]
pub struct BrokenRing {
    /// `x`, `y` or `z`.
    pub axis: char,
    /// Its first place.
    pub first: [u32; 3],
    /// The last places before the gaps.
    pub gaps: Vec<[u32; 3]>,
}

/// LIDs in use.
#[derive(Serialize, Debug)]
pub struct Lids {
    pub count: usize,
    pub highest: u16,
}

/// What the checks found.
#[derive(Serialize, Debug)]
pub struct ChecksFacts {
    /// LIDs that every host reaches.
    pub reached_lids: usize,
    /// End ports that nobody reaches.
    pub left_out: Vec<String>,
    /// Switches on the longest path.
    pub longest_path: u32,
    /// Dependencies between channels.
    pub dependencies: usize,
    /// A credit loop, channel by channel.
    pub credit_loop: Option<String>,
}

/// The link that most LIDs pass.
#[derive(Serialize, Debug)]
pub struct WorstLink {
    /// The port that sends on it.
    pub port: String,
    /// LIDs that pass.
    pub lids: usize,
}

/// Paths of a length.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct HopCount {
    /// Switches passed.
    pub switches: usize,
    /// Paths between hosts.
    pub paths: u64,
}

/// An engine's "no".
#[derive(Serialize, Debug)]
pub struct RefusalFacts {
    pub engine: &'static str,
    pub notes: Vec<Note>,
}

/// A path.
#[derive(Serialize, Debug)]
pub struct PathFacts {
    /// The port it starts at.
    pub from: String,
    /// The port that owns the LID.
    pub to: String,
    /// Where it leads.
    #[serde(serialize_with = "number")]
    pub lid: Lid,
    /// Service level.
    #[serde(serialize_with = "level")]
    pub sl: Sl,
    /// Switches passed.
    pub hops: Vec<PathHop>,
    /// True if it arrives.
    pub delivered: bool,
    /// How it ends, in words.
    pub end: String,
}

/// A switch on a path.
#[derive(Serialize, Debug)]
pub struct PathHop {
    /// Node GUID.
    #[serde(serialize_with = "text")]
    pub guid: Guid,
    /// Node description.
    pub description: String,
    /// Place in the torus.
    pub coordinates: Option<[u32; 3]>,
    /// Port it comes in by.
    pub input: u8,
    /// Port it leaves by.
    pub output: u8,
    /// Virtual lane on which it leaves; none where the plan sets none up.
    #[serde(serialize_with = "lane")]
    pub vl: Option<Vl>,
}

/// Service levels of paths.
#[derive(Serialize, Debug)]
pub struct PathSls {
    /// The hosts' ports: rows and columns.
    pub hosts: Vec<Host>,
    /// By source, then destination.
    pub sl: Vec<Vec<u8>>,
}

/// A host's port.
#[derive(Serialize, Debug)]
pub struct Host {
    #[serde(serialize_with = "text")]
    pub port_guid: Guid,
    #[serde(serialize_with = "number")]
    pub lid: Lid,
    pub description: String,
}

/// What failures do.
#[derive(Serialize, Debug)]
pub struct WhatIf {
    /// Components at a time: 1 or 2.
    pub at_a_time: usize,
    /// Switches taken out.
    pub switches: usize,
    /// Cables between switches taken out.
    pub cables: usize,
    /// Failures that leave the fabric routed by the same engine.
    pub routed: usize,
    /// Failures after which another engine has to take over.
    pub fallback: usize,
    /// Failures after which no engine routes the fabric, or faultily.
    pub refused: usize,
    /// Why, most frequent first.
    pub causes: Vec<Cause>,
    /// All of them.
    pub failures: Vec<FailureFacts>,
}

/// Why failures end badly.
#[derive(Serialize, Debug)]
pub struct Cause {
    /// OpenSM's `ERR` number, or `fault` for faults in a plan.
    pub code: Option<String>,
    /// How many.
    pub failures: usize,
    /// The reason of the first.
    pub example: String,
}

/// A failure.
#[derive(Serialize, Debug)]
pub struct FailureFacts {
    /// What is taken out.
    pub components: Vec<Component>,
    /// What becomes of the fabric.
    pub result: FailureResult,
    /// End ports that are cut off, besides those of switches taken out and their hosts.
    pub cut_off: usize,
    /// The first reason, unless it is routed.
    pub reason: Option<Reason>,
}

/// What becomes of a fabric after a failure.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum FailureResult {
    /// Routed by the same engine.
    Routed,
    /// Routed by another engine.
    Fallback,
    /// Not routed.
    Refused,
}

/// Why a failure ends badly.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    pub code: Option<String>,
    pub text: String,
}

/// Something that can fail.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Component {
    /// A switch.
    Switch {
        /// Node GUID.
        #[serde(serialize_with = "text")]
        guid: Guid,
        /// Node description.
        description: String,
    },
    /// A cable between switches.
    Cable {
        /// Its ends.
        ends: [CableEnd; 2],
    },
}

/// An end of a cable.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct CableEnd {
    #[serde(serialize_with = "text")]
    pub guid: Guid,
    pub port: u8,
    pub description: String,
}

fn text<S: Serializer>(value: &impl ToString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

fn number<S: Serializer>(lid: &Lid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(lid.0)
}

fn level<S: Serializer>(sl: &Sl, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(sl.0)
}

fn lane<S: Serializer>(vl: &Option<Vl>, serializer: S) -> Result<S::Ok, S::Error> {
    match vl {
        Some(vl) => serializer.serialize_some(&vl.0),
        None => serializer.serialize_none(),
    }
}
