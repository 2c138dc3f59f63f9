//! Inputs and results of a check: [`Checks`], [`Verified`] with its [`Summary`], and the [`Fault`]s
//! of a [`VerifyFailure`].

use super::held_mappings::HeldMappings;
use super::unrouted::UnroutedPairs;
use crate::config::options::Options;
use crate::fabric::{Fabric, PortId};
use crate::ids::{Guid, Lid, Mlid, PortNum, Sl, Vl};
use crate::notes::Note;
use crate::plan::Plan;
use std::fmt;
use std::sync::Arc;

/// FaultList that a [`VerifyFailure`] describes; all others are only counted.
const MAX_DESCRIBED_FAULTS: usize = 8;

/// Inputs of a check beside fabric and plan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checks {
    /// SLs that a path record request may carry as a hint to
    /// [`crate::plan::routing::RoutingPolicy::path_sl`]. An empty list stands for SL 0.
    pub hints: Vec<Sl>,
    /// True to reject pairs of hosts without a route, and credit loops of all engines whose rules
    /// are meant to exclude them (`refuse_faulty_routes`).
    pub is_strict: bool,
    /// SL to VL mappings that the switches hold, as far as they are known, for plans without any;
    /// `None` if nobody can read them.
    pub held: Option<Arc<HeldMappings>>,
    /// True to accept credit loops even of engines that promise to have none.
    pub(in crate::verify) accepts_loops: bool,
}

impl Checks {
    /// The usual hints: SL 0 without QoS; with QoS both levels of torus-2QoS (SL bit 3).
    pub fn new(qos: bool) -> Self {
        let hints = if qos { vec![Sl(0), Sl(8)] } else { vec![Sl(0)] };
        Self { hints, ..Self::default() }
    }

    /// The checks that the options ask for.
    pub fn of(options: &Options) -> Self {
        Self { is_strict: options.refuse_faulty_routes, ..Self::new(options.qos) }
    }

    /// These checks with the SL to VL mappings of switches that plans without mappings rely on.
    pub fn with_held(self, held: Arc<HeldMappings>) -> Self {
        Self { held: Some(held), ..self }
    }

    /// These checks with the rules of `refuse_faulty_routes`.
    pub fn strict(self) -> Self {
        Self { is_strict: true, ..self }
    }

    pub(super) fn hints(&self) -> &[Sl] {
        if self.hints.is_empty() { &[Sl(0)] } else { &self.hints }
    }
}

/// A plan that passed. Only this module constructs one, so an unchecked plan cannot reach a device.
#[derive(Clone, Debug)]
pub struct Verified {
    pub(super) plan: Arc<Plan>,
    pub(super) summary: Summary,
}

impl Verified {
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub fn summary(&self) -> &Summary {
        &self.summary
    }
}

/// The part of a plan that a check examined.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Extent {
    /// All of it ([`super::full`]).
    #[default]
    Full,
    /// The differences from the verified plan in force ([`super::incremental`]). The dependencies
    /// of both plans together are acyclic, so packets of both may be in flight at the same time.
    /// The summary counts the dependencies of both plans, and its longest path is an upper bound.
    Incremental,
    /// The differences from the last verified plan of a fault-free fabric. The plan is acyclic, but
    /// not necessarily together with the plan in force.
    FaultFree,
    /// Multicast trees and limits of a plan with the routes in force, while plans with new routes are
    /// rejected ([`super::kept_routes`]).
    KeptRoutes,
}

/// The findings of a check in a plan that passed.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub extent: Extent,
    /// Number of unicast LIDs that every source with a route reaches.
    pub lids: usize,
    /// End ports for which no switch has an entry, ascending.
    pub left_out: Vec<PortId>,
    /// Pairs without a route, beside those with `left_out`.
    pub unrouted: UnroutedPairs,
    /// True if a path begins and ends at a later switch without an entry. Otherwise each switch
    /// that has an entry for a LID delivers.
    pub has_cut_off_paths: bool,
    /// Switches on the longest path.
    pub longest_path: u32,
    /// Number of dependencies between (channel, VL) pairs.
    pub dependencies: usize,
    /// A credit loop, if the routing engine does not promise to have none, or if only multicast
    /// groups or packets of switches close it. Any other credit loop is a [`Fault`].
    pub cycle: Option<Cycle>,
    /// True if packets of hosts alone close a credit loop.
    pub has_host_loop: bool,
    /// True if the absence of credit loops depends on SL to VL mappings that the plan does not write
    /// and that are not known: those with VL = SL are assumed.
    pub assumes_mappings: bool,
    /// Messages for the operator.
    pub notes: Vec<Note>,
}

impl Summary {
    /// True if [`Self::longest_path`] and [`Self::dependencies`] are upper bounds, because only the differences
    /// from another plan were checked.
    pub fn has_upper_bounds(&self) -> bool {
        matches!(self.extent, Extent::Incremental | Extent::FaultFree)
    }

    /// The words before a number that may be an upper bound: "at most ", or none.
    pub fn bound(&self) -> &'static str {
        if self.has_upper_bounds() { "at most " } else { "" }
    }

    /// True if routes are better than others by loops of hosts' traffic and hosts without routes:
    /// better in one respect and not worse in any.
    pub(super) fn is_better_than(&self, other: &Self) -> bool {
        let own = self.measures();
        let others = other.measures();
        own != others && own.iter().zip(others).all(|(&own, other)| own <= other)
    }

    fn measures(&self) -> [usize; 3] {
        [usize::from(self.has_host_loop), self.unrouted.hosts, self.left_out.len()]
    }

    /// Adds the warnings about end ports and pairs without routes.
    pub(super) fn add_route_notes(&mut self, fabric: &Fabric, plan: &Plan) {
        self.notes.extend(self.unrouted.note(fabric, plan));
        let Some(&first) = self.left_out.first() else { return };
        let first = fabric.describe(first);
        self.notes.push(Note::warning(match self.left_out.len() {
            1 => format!("end port {first} has no routes and stays unreachable"),
            count => format!(
                "{count} end ports have no routes and stay unreachable, the first is {first}"
            ),
        }));
    }
}

/// One channel and VL of a credit loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelRef {
    /// NodeDescription of the sending switch.
    pub description: String,
    /// GUID of the sending switch.
    pub guid: Guid,
    /// Output port of the sending switch.
    pub port: PortNum,
    pub vl: Vl,
}

impl fmt::Display for ChannelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" {} port {} VL {}", self.description, self.guid, self.port, self.vl)
    }
}

/// A credit loop: each channel waits for the next one, the last for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cycle(pub Vec<ChannelRef>);

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for channel in &self.0 {
            write!(f, "{channel} -> ")?;
        }
        f.write_str("the first again")
    }
}

/// A reason to reject a plan.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// Packets from an end port do not arrive at a LID.
    #[error("no path from {source_port} to LID {lid} of {destination}: {end}")]
    Unreachable {
        source_port: String,
        lid: Lid,
        /// The end port that owns the LID.
        destination: String,
        /// Description of the end of the path, such as a switch without an entry.
        end: String,
    },
    /// A switch forwards packets to a LID to which it has no route by the account of the engine.
    #[error(
        "{switch} has an entry for LID {lid} of {destination}, which the plan lists as without a route"
    )]
    ListedAsUnrouted {
        switch: String,
        lid: Lid,
        /// The end port that owns the LID.
        destination: String,
    },
    /// A path in use meets an SL to VL mapping to VL 15, which drops its packets.
    #[error("{switch} drops SL {sl} from port {input} to port {output}: it is mapped to VL 15")]
    Dropped {
        switch: String,
        /// Input port; 0 stands for all end ports of the switch.
        input: u8,
        output: u8,
        sl: Sl,
    },
    /// The channel dependency graph has a cycle.
    #[error("credit loop: {0}")]
    CreditLoop(Cycle),
    /// The multicast forwarding tables of a group have a loop.
    #[error("multicast group {mlid} loops: a packet returns to {switch}")]
    MulticastLoop {
        mlid: Mlid,
        /// A switch on the loop.
        switch: String,
    },
    /// A table exceeds a capacity of its device.
    #[error("{device}: {what} {value} is beyond its limit of {limit}")]
    Limit {
        /// Description of the switch or port.
        device: String,
        /// The limited quantity, for the message.
        what: &'static str,
        value: u32,
        /// The largest value that the device supports.
        limit: u32,
    },
}

/// The faults for which a plan was rejected.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VerifyFailure {
    /// The first faults of each stage of the check.
    pub faults: Vec<Fault>,
    /// Number of all faults.
    pub total: usize,
    /// The cause and the remedy of the faults, if the routing engine knows them.
    pub cause: Option<String>,
}

impl VerifyFailure {
    /// The credit loop, if the plan has one.
    pub fn credit_loop(&self) -> Option<&Fault> {
        self.faults.iter().find(|fault| matches!(fault, Fault::CreditLoop(_)))
    }

    /// Adds the faults of one stage of the check.
    pub(super) fn add(&mut self, faults: FaultList) {
        self.faults.extend(faults.described);
        self.total += faults.total;
    }

    pub(super) fn add_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
        self.total += 1;
    }
}

impl fmt::Display for VerifyFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.total == 1 { "" } else { "s" };
        write!(f, "the plan has {} fault{plural}", self.total)?;
        for fault in &self.faults {
            write!(f, "; {fault}")?;
        }
        let more = self.total.saturating_sub(self.faults.len());
        if more > 0 {
            write!(f, "; and {more} more")?;
        }
        self.cause.as_ref().map_or(Ok(()), |cause| write!(f, "; {cause}"))
    }
}

impl std::error::Error for VerifyFailure {}

/// FaultList found by one stage of a check: descriptions of the first ones, and the number of all.
#[derive(Default, Debug)]
pub(super) struct FaultList {
    pub described: Vec<Fault>,
    pub total: usize,
}

impl FaultList {
    /// Counts a fault, and calls `describe` while fewer than [`MAX_DESCRIBED_FAULTS`] are
    /// described.
    pub(super) fn add(&mut self, describe: impl FnOnce() -> Fault) {
        if self.described.len() < MAX_DESCRIBED_FAULTS {
            self.described.push(describe());
        }
        self.total += 1;
    }

    /// Appends faults of a later part of the same stage.
    pub(super) fn append(&mut self, later: Self) {
        let room = MAX_DESCRIBED_FAULTS.saturating_sub(self.described.len());
        self.described.extend(later.described.into_iter().take(room));
        self.total += later.total;
    }
}
