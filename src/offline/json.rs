//! Types of the report. Scripts rely on the field names, which are the names in JSON output.

use crate::ids::{Guid, Lid, Sl, Vl};
use crate::notes::Note;
use crate::publish::repair::RepairView;
use serde::{Serialize, Serializer};

/// Report of `torus-sm plan`.
#[derive(Serialize, Debug, Default)]
pub struct PlanReport {
    pub fabric: FabricFacts,
    /// Engines in the order of trial.
    pub engines: Vec<&'static str>,
    /// True if a plan passed verification.
    pub routed: bool,
    /// True if the plan is not of an engine that was asked for, but of the fallback after them.
    pub fallback: bool,
    pub engine: Option<&'static str>,
    /// Ports of channel adapters and routers without a LID, or to which no switch has a route.
    pub unreachable_hosts: usize,
    /// The torus, if one was discovered.
    pub torus: Option<TorusFacts>,
    pub lids: Lids,
    /// Results of the verification.
    pub checks: Option<ChecksFacts>,
    /// The link that most LIDs pass.
    pub worst_link: Option<WorstLink>,
    /// Mean number of LIDs routed over a link between switches, counting each direction.
    pub mean_link: Option<f64>,
    /// Number of directions of links between switches.
    pub links: usize,
    /// The routes around damage that torus-2QoS refuses.
    pub repair: Option<RepairView>,
    /// Ranks, roots and layers that the engine found.
    pub structure: Option<StructureFacts>,
    /// SLs of the paths between hosts.
    pub sls: Vec<u8>,
    /// VLs of these paths on links between switches.
    pub vls: Vec<u8>,
    /// Numbers of paths between hosts by length, ascending.
    pub hops: Vec<HopCount>,
    /// Errors of the engines, if none routed the fabric.
    pub engine_errors: Vec<EngineErrors>,
    /// Faults that verification found in the plan.
    pub faults: Vec<String>,
    /// Messages for the operator.
    pub notes: Vec<Note>,
    /// The path requested by `--path`.
    pub path: Option<PathFacts>,
    /// SLs of all paths between hosts, with `--path-sl`.
    pub path_sl: Option<PathSlMatrix>,
    /// Failure analysis, with `--what-if` or `--what-if-pairs`.
    pub what_if: Option<WhatIf>,
    /// The groups of adaptive routing, if the engine or a key asks for them.
    pub adaptive: Option<AdaptiveFacts>,
    /// The load of cables, with `--traffic`.
    pub traffic: Option<TrafficFacts>,
}

/// Groups of ports for adaptive routing.
#[derive(Serialize, Debug)]
pub struct AdaptiveFacts {
    /// Which ports are equivalent.
    pub rule: &'static str,
    /// Groups of all switches.
    pub groups: usize,
    /// LIDs whose groups are not safe.
    pub static_lids: usize,
    /// Dependencies between cables, whichever port each switch chooses.
    pub dependencies: usize,
}

/// The load of cables between switches under a pattern of traffic.
#[derive(Serialize, Debug)]
pub struct TrafficFacts {
    pub pattern: &'static str,
    /// Number of random patterns.
    pub samples: usize,
    /// With the ports of the forwarding tables.
    pub busiest_static: BusiestCable,
    /// With groups of ports, which share each flow evenly.
    pub busiest_adaptive: Option<BusiestCable>,
    /// If parallel cables shared all flows between their switches evenly: no choice among them gives less.
    pub busiest_shared: BusiestCable,
}

/// Flows on the busiest direction of a cable.
#[derive(Serialize, Debug)]
pub struct BusiestCable {
    /// The median of all patterns.
    pub median: f64,
    /// The highest of all patterns.
    pub highest: f64,
}

/// Report of `torus-sm plan --compare`.
#[derive(Serialize, Debug)]
pub struct EngineComparison {
    pub fabric: FabricFacts,
    /// The report of each engine, in the order of the command line.
    pub compare: Vec<PlanReport>,
}

/// Structure that an engine found in a fabric.
#[derive(Serialize, Debug)]
pub struct StructureFacts {
    /// Numbers of switches by rank, rank 0 first; empty for engines without ranks.
    pub ranks: Vec<usize>,
    /// The root switches.
    pub roots: Vec<RootSwitch>,
    /// Number of layers of paths that have no credit loop each.
    pub layers: Option<usize>,
}

/// A root switch.
#[derive(Serialize, Debug)]
pub struct RootSwitch {
    #[serde(serialize_with = "text")]
    pub guid: Guid,
    pub description: String,
}

/// Numbers of nodes and cables.
#[derive(Serialize, Debug, Default)]
pub struct FabricFacts {
    pub switches: usize,
    pub channel_adapters: usize,
    pub routers: usize,
    pub cables: usize,
}

/// A discovered torus.
#[derive(Serialize, Debug)]
pub struct TorusFacts {
    /// Radices of x, y, z.
    pub radices: [u32; 3],
    /// Whether x, y, z wrap around.
    pub looped: [bool; 3],
    /// Placed switches, x running fastest.
    pub placed: Vec<Placed>,
    /// Coordinates without a switch.
    pub missing_switches: Vec<[u32; 3]>,
    /// Neighbours without a cable between them.
    pub missing_cables: Vec<MissingTorusLink>,
    /// Number of rings and lines.
    pub rings: usize,
    /// Rings that are interrupted.
    pub broken_rings: Vec<BrokenRing>,
}

/// A placed switch.
#[derive(Serialize, Debug)]
pub struct Placed {
    pub coordinates: [u32; 3],
    #[serde(serialize_with = "text")]
    pub guid: Guid,
    pub description: String,
}

/// Neighbours without a cable between them.
#[derive(Serialize, Debug)]
pub struct MissingTorusLink {
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
    /// Coordinates of its first position.
    pub first: [u32; 3],
    /// Coordinates of the last switch before each gap.
    pub gaps: Vec<[u32; 3]>,
}

/// LIDs in use.
#[derive(Serialize, Debug, Default)]
pub struct Lids {
    pub count: usize,
    pub highest: u16,
}

/// Results of the verification.
#[derive(Serialize, Debug)]
pub struct ChecksFacts {
    /// LIDs that all hosts with a route to them reach.
    pub reached_lids: usize,
    /// Pairs of hosts without a route.
    pub unrouted_hosts: usize,
    /// Pairs without a route in which at least one end is a switch.
    pub unrouted_with_switches: usize,
    /// End ports without a route.
    pub left_out: Vec<String>,
    /// Length of the longest path in switches.
    pub longest_path: u32,
    /// Number of dependencies between channels.
    pub dependencies: usize,
    /// A credit loop, channel by channel.
    pub credit_loop: Option<String>,
}

/// The link that most LIDs pass.
#[derive(Serialize, Debug)]
pub struct WorstLink {
    /// The sending port.
    pub port: String,
    /// Number of LIDs routed over it.
    pub lids: usize,
}

/// Number of paths of one length.
#[derive(Serialize, Debug, PartialEq, Eq)]
pub struct HopCount {
    /// Length in switches.
    pub switches: usize,
    /// Number of paths.
    pub paths: u64,
}

/// The failure of an engine to route the fabric.
#[derive(Serialize, Debug)]
pub struct EngineErrors {
    pub engine: &'static str,
    pub notes: Vec<Note>,
}

/// A path between two end ports.
#[derive(Serialize, Debug)]
pub struct PathFacts {
    /// The source port.
    pub from: String,
    /// The destination port.
    pub to: String,
    /// The destination LID.
    #[serde(serialize_with = "number")]
    pub lid: Lid,
    #[serde(serialize_with = "level")]
    pub sl: Sl,
    /// Switches passed.
    pub hops: Vec<PathHop>,
    /// True if packets reach the destination.
    pub delivered: bool,
    /// The end of the path in words.
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
    /// Coordinates in the torus.
    pub coordinates: Option<[u32; 3]>,
    /// Input port.
    pub input: u8,
    /// Output port.
    pub output: u8,
    /// The other ports that the switch may choose for the destination, by adaptive routing or local repair.
    pub alternatives: Vec<u8>,
    /// VL on the output port; `None` if the plan sets no SL to VL mapping.
    #[serde(serialize_with = "lane")]
    pub vl: Option<Vl>,
}

/// SLs of the paths between hosts.
#[derive(Serialize, Debug)]
pub struct PathSlMatrix {
    /// Host ports, in the order of rows and columns.
    pub hosts: Vec<HostFacts>,
    /// By source, then destination.
    pub sl: Vec<Vec<u8>>,
}

/// A host's port.
#[derive(Serialize, Debug)]
pub struct HostFacts {
    #[serde(serialize_with = "text")]
    pub port_guid: Guid,
    #[serde(serialize_with = "number")]
    pub lid: Lid,
    pub description: String,
}

/// Failure analysis.
#[derive(Serialize, Debug)]
pub struct WhatIf {
    /// Number of components that fail together: 1 or 2.
    pub at_a_time: usize,
    /// Number of switches removed in turn.
    pub switches: usize,
    /// Number of cables between switches removed in turn.
    pub cables: usize,
    /// Number of failures after which the same engine routes the fabric.
    pub routed: usize,
    /// Number of failures after which another engine routes the fabric.
    pub fallback: usize,
    /// Number of failures without a verified plan.
    pub unrouted: usize,
    /// Seed of samples.
    pub seed: u64,
    /// The results by kind of failure.
    pub kinds: Vec<KindFacts>,
    /// The failures that cost most routes although the same engine routes the fabric, worst first.
    pub worst: Vec<FailureFacts>,
    /// Causes of failures with fallback or without a plan, most frequent first.
    pub causes: Vec<FailureCause>,
    /// A change of torus-2QoS.conf with which more failures are routed.
    pub cure: Option<Cure>,
    /// Results of all failures that were tried.
    pub failures: Vec<FailureFacts>,
}

/// A kind of failure.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    Switch,
    Cable,
    TwoSwitches,
    SwitchAndCable,
    TwoCables,
}

/// The results of one kind of failure.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct KindFacts {
    pub kind: FailureKind,
    /// Number of such failures of the fabric.
    pub possible: usize,
    /// Number of those that were tried: all, or a sample.
    pub tried: usize,
    /// Number after which the same engine routes everything that is left.
    pub complete: usize,
    /// Number after which the same engine routes the fabric, but not all pairs or ports that are
    /// left.
    pub partial: usize,
    /// Number after which another engine routes the fabric.
    pub fallback: usize,
    /// Number without a verified plan.
    pub unrouted: usize,
    /// Number after which torus-2QoS routes around damage that its rules exclude.
    pub repaired: usize,
}

/// A cause of failures with fallback or without a plan.
#[derive(Serialize, Debug)]
pub struct FailureCause {
    /// OpenSM's `ERR` number, or `fault` for faults in a plan.
    pub code: Option<String>,
    /// Number of failures with this cause.
    pub failures: usize,
    /// The reason of the first such failure.
    pub example: String,
}

/// A seed to add, tried with the failures with fallback or without a plan.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Cure {
    /// Number of seeds of the configuration now.
    pub seeds: usize,
    /// Lines to append to torus-2QoS.conf.
    pub config: String,
    /// Number of these failures that the engine routes with it.
    pub routed: usize,
    /// Number of failures that it was tried with.
    pub failures: usize,
}

/// The result of a failure.
#[derive(Serialize, Clone, Debug)]
pub struct FailureFacts {
    /// Failed components.
    pub components: Vec<FailedComponent>,
    pub result: FailureResult,
    /// Number of end ports that lose their routes, besides those of failed switches and their
    /// hosts.
    pub cut_off: usize,
    /// Number of pairs of hosts without a route, beside those of ports that are cut off.
    pub unrouted_pairs: usize,
    /// True if torus-2QoS routes around damage that its rules exclude.
    pub is_repaired: bool,
    /// Length of the longest path in switches.
    pub longest_path: Option<u32>,
    /// Why it is not routed by the same engine.
    pub reason: Option<Reason>,
}

impl FailureFacts {
    /// End ports and pairs of hosts without a route.
    pub fn loss(&self) -> (usize, usize) {
        (self.cut_off, self.unrouted_pairs)
    }
}

/// Result for the fabric.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum FailureResult {
    /// Routed by the same engine.
    Routed,
    /// Routed by another engine.
    Fallback,
    /// Not routed.
    Unrouted,
}

/// A message of an engine, or a fault in the plan.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct Reason {
    pub code: Option<String>,
    pub text: String,
}

/// A component that can fail.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FailedComponent {
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
        ends: [FailedCableEnd; 2],
    },
}

/// An end of a cable.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
pub struct FailedCableEnd {
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
