//! Routing engines, and the chain in which they are tried.
//!
//! An engine is a pure function from a [`RoutingInput`] to a [`Routing`] or a [`RoutingError`]. It
//! keeps no state between calls: the previous routing is part of the input.

pub mod balancing;
pub mod chain;
pub mod dnup;
pub mod dor;
mod engine_hints;
pub mod file;
pub mod ftree;
pub mod kept_routes;
pub mod lash;
mod lft;
mod lft_columns;
mod link_rate;
pub mod minhop;
pub mod nue;
mod path_sources;
pub mod port_hops;
pub mod pqft;
pub mod sssp;
pub mod structure;
pub mod switch_graph;
pub mod torus;
pub mod unicast_cache;
pub mod unicast_steps;
pub mod updn;
mod virtual_lanes;
pub mod vport_lids;
mod weighted_paths;

use super::LidTable;
use crate::config::guid_lists::HopWeight;
use crate::config::options::Options;
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Lid, Mlid, Sl};
use crate::notes::{Note, Severity};
use crate::wire::attr::tables::{SlToVl, VlArbBlock};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use structure::EngineStructure;

pub use lft::Lft;
pub use lft_columns::LftColumns;
pub use path_sources::PathSources;

/// The input of a routing engine.
#[derive(Clone, Copy)]
pub struct RoutingInput<'a> {
    pub fabric: &'a Fabric,
    pub lids: &'a LidTable,
    pub options: &'a Options,
    /// torus-2QoS.conf as read at the start of this reconfiguration; the error is reported by the
    /// engine if it needs the file.
    pub torus_config: &'a Result<crate::config::torus::TorusConfig, Vec<Note>>,
    /// The routing before this one.
    pub previous: Option<&'a Routing>,
    /// The fabric that `previous` routes, if it has the same nodes with the same capabilities and
    /// the same LIDs; `None` if it does not or this is unknown.
    pub previous_fabric: Option<PreviousFabric<'a>>,
}

/// An earlier snapshot with the same nodes, and its difference from the present one.
#[derive(Clone, Copy)]
pub struct PreviousFabric<'a> {
    pub fabric: &'a Fabric,
    pub difference: &'a Difference,
}

/// A routing engine.
pub trait Engine: Send + Sync {
    /// The name of the engine in `-R` and `routing_engine`.
    fn name(&self) -> &'static str;

    /// Routes the fabric.
    ///
    /// # Errors
    /// Returns a [`RoutingError`] with the reasons why this engine cannot route the fabric.
    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError>;
}

/// The failure of an engine to route a fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutingError {
    /// Name of the engine.
    pub engine: &'static str,
    /// All messages of the engine, errors and others, in order.
    pub notes: Vec<Note>,
    /// The engine's intermediate state, for diagnosis.
    pub dump: Option<Dump>,
}

impl RoutingError {
    /// A rejection for one reason, without a dump.
    pub(crate) fn new(engine: &'static str, note: Note) -> Self {
        Self { engine, notes: vec![note], dump: None }
    }
    /// The first error, else the first warning, else the first message of the engine.
    pub fn reason(&self) -> Option<&Note> {
        first_of(&self.notes, Severity::Error)
            .or_else(|| first_of(&self.notes, Severity::Warning))
            .or(self.notes.first())
    }
}

fn first_of(notes: &[Note], severity: Severity) -> Option<&Note> {
    notes.iter().find(move |note| note.severity == severity)
}

/// The contents of a dump file of an engine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dump {
    /// File name without directory.
    pub file: Cow<'static, str>,
    pub text: String,
}

/// The routes of a fabric.
#[derive(Clone)]
pub struct Routing {
    /// Name of the engine that computed them.
    pub engine: &'static str,
    /// Linear forwarding tables, by [`SwitchId`].
    pub lfts: Vec<Arc<Lft>>,
    /// Path SLs, SL to VL mappings and multicast trees of the engine.
    pub policy: Arc<dyn RoutingPolicy>,
    /// Messages for the operator.
    pub notes: Vec<Note>,
    /// The errors of the engines tried before this one.
    pub routing_errors: Vec<RoutingError>,
}

impl fmt::Debug for Routing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Routing({}, {} switches)", self.engine, self.lfts.len())
    }
}

impl Routing {
    /// True if the routes are those of the unicast cache, and not of a run of the engine.
    pub fn is_from_cache(&self) -> bool {
        unicast_cache::is_reused(self)
    }

    /// True if the unicast cache has these routes for later fabrics.
    pub fn has_cache(&self) -> bool {
        self.policy.unicast_cache().is_some()
    }

    /// Tables without entries, which stand for those of an engine that failed.
    pub fn without_routes(engine: &'static str, switches: usize, max: Lid) -> Self {
        /// Leaves SLs, VLs and trees to the defaults.
        struct NoRoutes;
        impl RoutingPolicy for NoRoutes {
            fn as_any(&self) -> &dyn std::any::Any {
                self
            }
        }
        let empty = Arc::new(Lft::empty(max));
        Self {
            engine,
            lfts: vec![empty; switches],
            policy: Arc::new(NoRoutes),
            notes: Vec::new(),
            routing_errors: Vec::new(),
        }
    }

    /// The linear forwarding table of a switch.
    pub fn lft(&self, switch: SwitchId) -> &Lft {
        &self.lfts[switch.index()]
    }
}

/// Advice about pairs of hosts without a route.
const DEFAULT_UNROUTED_REMEDY: &str =
    "repair the cables between them, or choose an engine that reaches them, such as nue or minhop";

/// The decisions of an engine apart from forwarding tables. Port ids are those of the routed
/// fabric. The default methods suit engines that do not control SLs and VLs.
pub trait RoutingPolicy: Send + Sync {
    /// The SL of the path from one end port to another. `hint` is the requested SL, or that of the
    /// QoS level or partition.
    fn path_sl(&self, _source: PortId, _destination: PortId, hint: Sl) -> Sl {
        hint
    }

    /// The SL of the path to one LID of an end port. An engine whose SLs differ between the LIDs
    /// of a port defines it, and [`Self::path_sl`] is then that of the base LID.
    fn path_sl_to_lid(&self, source: PortId, destination: PortId, _lid: Lid, hint: Sl) -> Sl {
        self.path_sl(source, destination, hint)
    }

    /// What [`Self::path_sls_to_lid`] has to know of a source, if the engine defines it.
    fn source_key(&self, _source: PortId) -> u64 {
        0
    }

    /// Writes to `sls` what [`Self::path_sl_to_lid`] returns for each of `sources`. An engine that is faster with
    /// all of them at once defines it.
    fn path_sls_to_lid(
        &self,
        sources: &PathSources,
        destination: PortId,
        lid: Lid,
        hint: Sl,
        sls: &mut [Sl],
    ) {
        for (sl, &source) in sls.iter_mut().zip(sources.ports()) {
            *sl = self.path_sl_to_lid(source, destination, lid, hint);
        }
    }

    /// The SL to VL mapping between two ports of a switch, or of an end port (`input == output`),
    /// before it is limited to the operational VLs; `None` leaves it to the configuration.
    fn sl_to_vl(&self, _input: PortId, _output: PortId) -> Option<SlToVl> {
        None
    }

    /// True if [`Self::sl_to_vl`] gives a mapping for all pairs of ports, so that the configured
    /// mappings are unused.
    fn decides_sl_to_vl(&self) -> bool {
        false
    }

    /// A warning about a configured VL arbitration table for `port` that conflicts with the
    /// engine's use of VLs. `weights` are the sums of the table's weights by VL.
    fn vl_arbitration_warning(&self, _port: PortId, _weights: &[u32; 16]) -> Option<&'static str> {
        None
    }

    /// Adapts a configured VL arbitration block for `port` to the engine's use of VLs.
    fn vl_arbitration(&self, _port: PortId, configured: VlArbBlock) -> VlArbBlock {
        configured
    }

    /// The tree of a multicast group; `None` leaves it to [`crate::plan::multicast`].
    fn multicast_tree(&self, _mlid: Mlid, _members: &[PortId]) -> Option<MulticastTree> {
        None
    }

    /// The cost in hops of ports for the multicast trees of [`crate::plan::multicast`]; 1 for others.
    fn hop_weights(&self) -> &[HopWeight] {
        &[]
    }

    /// The hops by which multicast trees of [`crate::plan::multicast`] differ from shortest paths.
    fn port_hops(&self) -> Option<&port_hops::PortHops> {
        None
    }

    /// The class of a port: [`Self::path_sl`] must depend only on the classes of source and
    /// destination and on the hint. Fewer classes make verification faster. By default every port
    /// is its own class.
    fn sl_group(&self, port: PortId) -> u32 {
        port.0
    }

    /// The class of an end port's LID as a destination, of which [`Self::path_sl_to_lid`] must
    /// depend.
    fn destination_group(&self, port: PortId, _lid: Lid) -> u32 {
        self.sl_group(port)
    }

    /// Compares this policy with `before`, an earlier one for a fabric with the same nodes and
    /// ports. Returns the ports (inputs or outputs) at which SL to VL mappings and VL arbitration
    /// may differ if all path SLs and SL groups are the same; `None` if more may differ or this is
    /// unknown.
    fn changes_since(&self, _before: &dyn RoutingPolicy) -> Option<Vec<PortId>> {
        None
    }

    /// True if this policy is known to give the same path SLs as the earlier policy `before` to
    /// ports of the same groups ([`Self::sl_group`]), even if the port ids differ.
    fn same_path_sls_as(&self, _before: &dyn RoutingPolicy) -> bool {
        false
    }

    /// True if this policy is known to give every group the same tree and notes as `before`, an
    /// earlier one for a fabric with the same nodes and ports.
    fn same_multicast_trees_as(&self, _before: &dyn RoutingPolicy) -> bool {
        false
    }

    /// True if the engine guarantees routes without credit loops between hosts. A credit loop then
    /// rejects the plan; otherwise it is reported as a warning.
    fn guarantees_no_credit_loops(&self) -> bool {
        false
    }

    /// True if the rules of the engine exclude credit loops in the fabrics that it is made for, or
    /// in all. With `refuse_faulty_routes`, a credit loop rejects the plan.
    fn avoids_credit_loops(&self) -> bool {
        self.guarantees_no_credit_loops()
    }

    /// The cause and the remedy of a credit loop of an engine that guarantees to have none, if it
    /// knows them.
    fn credit_loop_cause(&self) -> Option<String> {
        None
    }

    /// The reason why an SL does not suit multicast groups with these routes, if there is one.
    fn multicast_sl_problem(&self, _sl: Sl) -> Option<&'static str> {
        None
    }

    /// True if some switches have no entry for some LIDs by design, and there is no warning as long
    /// as hosts reach each other. It concerns packets from switches and to LIDs of switches only,
    /// which are management packets.
    fn may_omit_switch_routes(&self) -> bool {
        false
    }

    /// The pairs of switches (source, destination) whose end ports have no route to each other, by the
    /// engine's own account, ascending. A plan that leaves out more or fewer pairs is rejected. `None`
    /// for engines without such an account: any pairs may lack a route, with a warning.
    fn unrouted_switches(&self) -> Option<&[[SwitchId; 2]]> {
        None
    }

    /// True if the trees of groups with suitable SLs ([`Self::multicast_sl_problem`]) close no credit loop
    /// with unicast routes. One that they close rejects the plan; otherwise it is a warning.
    fn guarantees_multicast(&self) -> bool {
        false
    }

    /// True if entries may lead to ports without a cable, because the administrator gave the tables.
    /// The pairs of hosts behind them count as without a route.
    fn may_use_uncabled_ports(&self) -> bool {
        false
    }

    /// False for an end port that joined the fabric, or moved in it, after the routes were computed.
    /// No packets are sent to it, and no SL suits those that it would send.
    fn has_routes(&self, _port: PortId) -> bool {
        true
    }

    /// Advice for the operator about pairs of hosts without a route.
    fn unrouted_remedy(&self) -> &'static str {
        DEFAULT_UNROUTED_REMEDY
    }

    /// True if the engine knows hops of its own routes only: OpenSM's `opensm-lid-matrix.dump` then
    /// has the routes to all LIDs instead of the hops between switches through each port.
    fn lists_own_routes(&self) -> bool {
        false
    }

    /// The dump files of the engine for these routes, which the log flag 0x40 enables.
    fn dumps(&self, _fabric: &Fabric, _lids: &LidTable) -> Vec<Dump> {
        Vec::new()
    }

    /// Those of [`Self::dumps`] that are written whatever the log flags are, as by OpenSM.
    fn standing_dumps(&self) -> Vec<Dump> {
        Vec::new()
    }

    /// The structure that the engine found in the fabric.
    fn structure(&self) -> EngineStructure {
        EngineStructure::default()
    }

    /// The QoS level that an SL of a QoS level or of a query stands for: two SLs of one level ask for
    /// the same service.
    fn qos_level(&self, sl: Sl) -> Sl {
        sl
    }

    /// True if paths of different SLs must stay on different VLs, so that they close no credit loop.
    fn separates_paths_by_sl(&self) -> bool {
        self.structure().layers.is_some_and(|layers| layers > 1)
    }

    /// The routed parts of a routing chain, which have dump files of their own. Arguments are the
    /// routed fabric and its LIDs.
    fn parts<'a>(&'a self, _fabric: &'a Fabric, _lids: &'a LidTable) -> Vec<RoutedPart<'a>> {
        Vec::new()
    }

    /// The cache that these routes come from or are kept in.
    fn unicast_cache(&self) -> Option<&Arc<unicast_cache::UnicastCache>> {
        None
    }

    /// The concrete policy, for reports and for later calls of the same engine.
    fn as_any(&self) -> &dyn std::any::Any;
}

/// The routes of a part of the fabric by one step of a routing chain.
#[derive(Clone, Copy)]
pub struct RoutedPart<'a> {
    /// ID of the step.
    pub id: u64,
    pub engine: &'static str,
    /// The nodes and links of the part.
    pub fabric: &'a Fabric,
    pub lids: &'a LidTable,
    /// `None` if the engine failed and a fallback replaced it.
    pub routing: Option<&'a Routing>,
    /// The error of an engine that failed.
    pub error: Option<&'a RoutingError>,
}

impl RoutedPart<'_> {
    /// The name of a dump file with step and engine: `opensm-lfts.2.ftree.dump`,
    /// `opensm.fdbs.2.ftree`.
    pub fn file(&self, name: &str) -> String {
        step_file(self.id, self.engine, name)
    }
}

/// [`RoutedPart::file`] of a step.
fn step_file(id: u64, engine: &str, name: &str) -> String {
    match name.strip_suffix(".dump").map(|stem| (stem, ".dump")) {
        Some((stem, suffix)) => format!("{stem}.{id}.{engine}{suffix}"),
        None => match name.strip_suffix(".lst") {
            Some(stem) => format!("{stem}.{id}.{engine}.lst"),
            None => format!("{name}.{id}.{engine}"),
        },
    }
}

/// The tree of a multicast group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MulticastTree {
    /// Switches with the ports to which they forward the group, ascending.
    pub switches: Vec<(SwitchId, PortMask)>,
    /// Messages about members that the tree does not reach.
    pub notes: Vec<Note>,
}

/// A set of port numbers 0 to 255.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct PortMask(pub [u64; 4]);

impl PortMask {
    /// The set of one port.
    pub fn only(port: u8) -> Self {
        let mut mask = Self::default();
        mask.insert(port);
        mask
    }

    pub fn insert(&mut self, port: u8) {
        self.0[usize::from(port) / 64] |= 1 << (port % 64);
    }

    pub fn remove(&mut self, port: u8) {
        self.0[usize::from(port) / 64] &= !(1 << (port % 64));
    }

    pub fn contains(&self, port: u8) -> bool {
        self.0[usize::from(port) / 64] >> (port % 64) & 1 == 1
    }

    /// The ports in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        self.0.into_iter().zip([0, 64, 128, 192]).flat_map(|(mut word, first)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as u8)?;
                word &= word - 1;
                Some(first + bit)
            })
        })
    }

    /// The 16 ports of one position of a multicast forwarding table (IBA vol. 1, 14.2.5.12), lowest
    /// port in bit 0.
    pub fn position(&self, position: u8) -> u16 {
        (self.0[usize::from(position) / 4] >> (position % 4 * 16)) as u16
    }

    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

impl fmt::Debug for PortMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
