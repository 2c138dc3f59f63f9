//! The stage's entry: from a fabric to its plan.
//!
//! LIDs come first, since routes lead to LIDs; partitions and links next, for QoS tables are cut
//! to the VLs that links operate with; multicast last, as its trees stand on the routes.

use super::lids::{self, Memory};
use super::links::{self, LinkInput};
use super::multicast::{self, GroupMembers};
use super::partitions::{self, Partition};
use super::qos::{self, QosConfig, QosTables};
use super::routing::chain::Chain;
use super::routing::{Refusal, RoutingInput};
use super::{LidTable, Plan};
use crate::config::options::Options;
use crate::config::torus::TorusConfig;
use crate::fabric::{Fabric, PortId};
use crate::ids::Sl;
use crate::notes::Note;
use crate::wire::attr::tables::PkeyBlock;
use std::sync::Arc;

/// What a plan is made from.
#[derive(Clone, Copy)]
pub struct PlanInput<'a> {
    /// What is.
    pub fabric: &'a Fabric,
    /// The configuration.
    pub options: &'a Options,
    /// What must stay as it was.
    pub memory: &'a Memory,
    /// torus-2QoS.conf as read at the start of this pass.
    pub torus_config: &'a Result<TorusConfig, Vec<Note>>,
    /// The partitions, see [`partitions::default`].
    pub partitions: &'a [Partition],
    /// By port slot: the blocks of the P_Key table that were read.
    pub observed_pkeys: &'a [Vec<PkeyBlock>],
    /// Multicast groups.
    pub groups: &'a [GroupMembers],
    /// The plan before this one, if there was one.
    pub previous: Option<&'a Plan>,
    /// True for end ports whose clients are to register again.
    pub reregister: &'a dyn Fn(PortId) -> bool,
    /// The routing engines in the order in which they are tried.
    pub chain: &'a Chain,
}

/// A plan, and what the next one has to remember.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The plan.
    pub plan: Plan,
    /// Memory for the next plan; its `guid2lid` is to be stored.
    pub memory: Memory,
}

/// Why there is no plan.
#[derive(Clone, Debug)]
pub struct PlanFailure {
    /// What the operator is to hear.
    pub notes: Vec<Note>,
    /// Why the engines refused, in order.
    pub refusals: Vec<Refusal>,
    /// The LIDs that were decided.
    pub lids: Arc<LidTable>,
    /// Memory for the next plan.
    pub memory: Memory,
}

/// Plans a fabric.
///
/// # Errors
/// A [`PlanFailure`] if no engine of the chain can route the fabric.
pub fn compute(input: &PlanInput<'_>) -> Result<Planned, Box<PlanFailure>> {
    let PlanInput { fabric, options, .. } = *input;
    let (table, memory, mut notes) = lids::assign(fabric, options, input.memory);
    let lids = Arc::new(table);
    let routing_input = RoutingInput {
        fabric,
        lids: &lids,
        options,
        torus_config: input.torus_config,
        previous: input.previous.map(|plan| &*plan.routing),
    };
    let routing = match input.chain.route(&routing_input) {
        Ok(routing) => Arc::new(routing),
        Err(refusals) => return Err(Box::new(PlanFailure { notes, refusals, lids, memory })),
    };
    notes.extend(routing.notes.iter().cloned());
    let (partitions, found) =
        partitions::tables(fabric, input.partitions, input.observed_pkeys, options);
    notes.extend(found);
    let qos_config = options.qos.then(|| QosConfig::read(options)).map(|(config, found)| {
        notes.extend(found);
        config
    });
    let ports = links::targets(&LinkInput {
        fabric,
        lids: &lids,
        options,
        sm_sl: &|port| routing.policy.path_sl(port, fabric.local(), Sl(options.sm_sl)),
        vl_high_limit: &|port| qos_config.as_ref().map(|config| config.high_limit(fabric, port)),
        reregister: input.reregister,
        enforcement: &partitions.enforcement,
    });
    let qos = qos_config.map_or_else(QosTables::default, |config| {
        qos::tables(fabric, &config, &*routing.policy, &ports)
    });
    let (multicast, found) = multicast::plan(fabric, &lids, &routing, input.groups, options);
    notes.extend(found);
    let switch_infos = links::switch_targets(fabric, &lids, &multicast, options);
    let plan = Plan { lids, ports, switch_infos, routing, qos, partitions, multicast, notes };
    Ok(Planned { plan, memory })
}
