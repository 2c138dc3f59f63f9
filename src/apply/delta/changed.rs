//! The nodes that may need Sets.
//!
//! Most reconfigurations change little, and a comparison of all ports of a large fabric with the
//! plan takes longer than all Sets. A node needs none (forwarding tables and SwitchInfo aside, which
//! are compared for all switches) if it needed none after the last reconfiguration and nothing has
//! changed since: its attributes and those of its neighbours, its part of the plan, and the M_Keys.
//! If any exception is known, such as a Set that failed, all nodes are looked at.

use super::Delta;
use super::scope::{Scope, Settled};
use crate::apply::acknowledged::Acknowledged;
use crate::fabric::difference::Difference;
use crate::fabric::{Fabric, NodeId, PortId};
use crate::ids::Guid;
use crate::observe::Observation;
use crate::observe::m_keys::MKeys;
use crate::plan::Plan;
use crate::wire::attr::PortState;
use crate::wire::attr::tables::PkeyTable;
use rayon::prelude::*;
use std::collections::HashSet;
use std::sync::Arc;

/// If more than one in this many nodes is to be looked at, all are.
const MAX_SHARE: usize = 2;

/// The state after a reconfiguration that sent Sets to the nodes `touched`.
pub(in crate::apply) fn settled_after(
    delta: &Delta<'_>,
    pkeys: &Arc<Vec<PkeyTable>>,
    touched: &HashSet<NodeId>,
) -> Settled {
    let unsettled = touched.par_iter().copied().filter(|&node| needs_sets(delta, node));
    let unsettled = unsettled.collect();
    Settled { pkeys: pkeys.clone(), keys: delta.keys.clone(), unsettled }
}

/// The nodes that may need Sets, ascending; `None` stands for all.
pub(in crate::apply) fn changed_nodes(
    acknowledged: &Acknowledged,
    observation: &Observation,
    plan: &Plan,
    keys: &MKeys,
) -> Option<Vec<NodeId>> {
    let settled = acknowledged.settled()?;
    let (last, last_plan) = acknowledged.last()?;
    let fabric = &*observation.fabric;
    let has_same_lids = Arc::ptr_eq(&last_plan.lids, &plan.lids) || last_plan.lids == plan.lids;
    if !settled.keys.is_same(keys) || !has_same_lids {
        return None;
    }
    let (slots, (difference, pkeys)) = rayon::join(
        || changed_slots(last_plan, plan),
        || {
            let difference = Difference::between(last, fabric);
            (difference, changed_pkeys(&settled.pkeys, &observation.pkeys))
        },
    );
    let difference = difference?;
    let mut nodes: Vec<NodeId> = settled.unsettled.clone();
    nodes.extend(difference.nodes);
    let ports = difference.ports.into_iter().map(PortId::index).chain(slots?).chain(pkeys?);
    nodes.extend(ports.filter_map(|slot| Some(fabric.ports().get(slot)?.node)));
    let mappings = last_plan.qos.sl_to_vl.differences(&plan.qos.sl_to_vl);
    nodes.extend(mappings.map(|index| NodeId(index as u32)));
    nodes.extend(changed_switches(
        &Wanted { fabric: last, plan: last_plan },
        &Wanted { fabric, plan },
    )?);
    if acknowledged.remembers_raised() {
        nodes.extend(with_link_in_init(fabric));
    }
    let nodes = with_neighbours(nodes, last, fabric);
    (nodes.len() <= fabric.nodes().len() / MAX_SHARE).then_some(nodes)
}

/// The nodes and those that are or were cabled to them, ascending.
fn with_neighbours(mut nodes: Vec<NodeId>, last: &Fabric, now: &Fabric) -> Vec<NodeId> {
    for index in 0..nodes.len() {
        for fabric in [last, now] {
            let peers = fabric.ports_of(nodes[index]).filter_map(|port| port.peer);
            nodes.extend(peers.map(|peer| fabric.port(peer).node));
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The port slots whose part of the plan differs; `None` if the plans are for other fabrics.
fn changed_slots(last: &Plan, plan: &Plan) -> Option<Vec<usize>> {
    if lengths(last) != lengths(plan) {
        return None;
    }
    let (mut slots, others) = rayon::join(
        || last.partitions.blocks.differences(&plan.partitions.blocks).collect::<Vec<_>>(),
        || {
            let arbitration = last.qos.vl_arbitration.differences(&plan.qos.vl_arbitration);
            last.ports
                .differences(&plan.ports)
                .map(PortId::index)
                .chain(arbitration)
                .collect::<Vec<_>>()
        },
    );
    slots.extend(others);
    Some(slots)
}

fn lengths(plan: &Plan) -> (usize, usize, usize, (usize, usize)) {
    let qos = &plan.qos;
    let nodes = (qos.sl_to_vl.len(), plan.switch_infos.len());
    (plan.ports.len(), plan.partitions.blocks.len(), qos.vl_arbitration.len(), nodes)
}

/// The port slots whose P_Key table was read or answered otherwise than before.
fn changed_pkeys(last: &Arc<Vec<PkeyTable>>, now: &Arc<Vec<PkeyTable>>) -> Option<Vec<usize>> {
    if Arc::ptr_eq(last, now) {
        return Some(Vec::new());
    }
    let is_same_fabric = last.len() == now.len();
    is_same_fabric.then(|| (0..now.len()).filter(|&slot| last[slot] != now[slot]).collect())
}

/// The switches whose SwitchInfo, wanted or observed, differs; `None` if the switches do.
fn changed_switches(last: &Wanted<'_>, now: &Wanted<'_>) -> Option<Vec<NodeId>> {
    if last.fabric.switches() != now.fabric.switches() {
        return None;
    }
    let mut changed = Vec::new();
    for (index, &node) in now.fabric.switches().iter().enumerate() {
        let wanted = now.plan.switch_infos.get(index);
        let observed = now.fabric.node(node).switch_info;
        if last.plan.switch_infos.get(index) != wanted
            || last.fabric.node(node).switch_info != observed
        {
            changed.push(node);
        }
    }
    Some(changed)
}

/// A fabric and its plan.
struct Wanted<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
}

/// The switches with a link in INIT. Whether they have lost their tables depends on the time, too
/// (see [`Acknowledged::raised_at`]).
fn with_link_in_init(fabric: &Fabric) -> impl Iterator<Item = NodeId> {
    let ports = fabric.ports().iter().filter(|port| port.state() == PortState::Init);
    ports.map(|port| port.node).filter(|&node| fabric.node(node).is_switch())
}

/// The GUIDs of the nodes of the scope for which `holds` is true.
pub(in crate::apply) fn guids(
    delta: &Delta<'_>,
    holds: impl Fn(NodeId) -> bool,
) -> impl Iterator<Item = Guid> {
    let nodes = delta.scope.nodes(delta.fabric).filter(move |&node| holds(node));
    nodes.map(|node| delta.fabric.node(node).guid())
}

/// True if a comparison of all nodes finds no Sets for nodes outside of the scope. Slow: for the
/// checks of debug builds.
pub(in crate::apply) fn is_complete(delta: &Delta<'_>) -> bool {
    let Scope::Nodes(nodes) = delta.scope else { return true };
    let others = delta.fabric.node_ids().filter(|node| nodes.binary_search(node).is_err());
    let others: Vec<NodeId> = others.collect();
    !others.par_iter().any(|&node| needs_sets(delta, node))
}

fn needs_sets(delta: &Delta<'_>, node: NodeId) -> bool {
    Delta { scope: Scope::Nodes(&[node]), ..*delta }.needs_sets()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::set_id::SetId;
    use crate::config::options::Options;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::{Pkey, PortNum};
    use crate::plan::compute::compute;
    use crate::plan::lids::Memory;
    use crate::plan::tests::{ring, with_input};
    use crate::wire::attr::AttrId;
    use crate::wire::attr::tables::PkeyBlock;

    /// A ring of 20 switches with a host each, its plan, and what the devices acknowledged.
    struct AppliedRing {
        observation: Observation,
        plan: Arc<Plan>,
        acknowledged: Acknowledged,
    }

    const KEYS: fn() -> MKeys = MKeys::default;

    impl AppliedRing {
        fn new(touched: &[NodeId]) -> Self {
            let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
            let fabric = Fabric::from_topology(&ring(20, &[]), 0, &view).expect("a fabric");
            let pkeys = vec![PkeyTable::default(); fabric.ports().len()];
            let inputs = (&Memory::default(), &pkeys[..]);
            let plan = with_input(&fabric, &Options::default(), inputs, None, |input| {
                compute(input).expect("a plan").plan
            });
            let observation = Observation {
                fabric: Arc::new(fabric),
                pkeys: Arc::new(pkeys),
                managers: Vec::new(),
                changed_switches: Vec::new(),
                unconfirmed: Vec::new(),
                is_unresolved: false,
            };
            let plan = Arc::new(plan);
            let mut acknowledged = Acknowledged::default();
            acknowledged.replace(&observation.fabric, &plan, &[]);
            let keys = KEYS();
            let delta = Delta::new(&observation, &plan, &acknowledged, &keys);
            let touched = touched.iter().copied().collect();
            let settled = settled_after(&delta, &observation.pkeys, &touched);
            acknowledged.settle(settled);
            Self { observation, plan, acknowledged }
        }

        fn changed(&self) -> Option<Vec<NodeId>> {
            changed_nodes(&self.acknowledged, &self.observation, &self.plan, &KEYS())
        }

        /// The node of this switch and its neighbours.
        fn around(&self, node: NodeId) -> Vec<NodeId> {
            let fabric = &self.observation.fabric;
            let peers = fabric.ports_of(node).filter_map(|port| port.peer);
            let mut nodes: Vec<NodeId> = peers.map(|peer| fabric.port(peer).node).collect();
            nodes.push(node);
            nodes.sort_unstable();
            nodes
        }
    }

    #[test]
    fn nothing_is_compared_if_nothing_changed() {
        assert_eq!(AppliedRing::new(&[]).changed(), Some(Vec::new()));
        let mut subnet = AppliedRing::new(&[]);
        subnet.plan = Arc::new(Plan::clone(&subnet.plan));
        assert_eq!(subnet.changed(), Some(Vec::new()));
    }

    #[test]
    fn a_changed_node_is_compared_with_its_neighbours() {
        let subnet = AppliedRing::new(&[]);
        let fabric = &subnet.observation.fabric;
        let node = fabric.switches()[7];
        let first = fabric.node(node).first_port;
        let expected = Some(subnet.around(node));
        assert_eq!(expected.as_ref().map(Vec::len), Some(4));

        let mut other = AppliedRing::new(&[]);
        let mut info = other.observation.fabric.port(PortId(first.0 + 2)).info().expect("a port");
        info.set_port_state(PortState::Init);
        let fabric = Arc::make_mut(&mut other.observation.fabric);
        fabric.acknowledge(&[(PortId(first.0 + 2), info)], &[]);
        assert_eq!(other.changed(), expected, "PortInfo");

        let mut other = AppliedRing::new(&[]);
        let mut table = PkeyBlock::default();
        table.0[3] = Pkey(0x8001);
        Arc::make_mut(&mut other.observation.pkeys)[first.index()] = [table].into();
        assert_eq!(other.changed(), expected, "P_Keys");

        let mut other = AppliedRing::new(&[]);
        let mut plan = Plan::clone(&other.plan);
        plan.ports.replace(PortId(first.0 + 1), None);
        other.plan = Arc::new(plan);
        assert_eq!(other.changed(), expected, "planned PortInfo");

        let mut other = AppliedRing::new(&[]);
        let mut plan = Plan::clone(&other.plan);
        plan.switch_infos[7].set_linear_fdb_top(9);
        other.plan = Arc::new(plan);
        assert_eq!(other.changed(), expected, "planned SwitchInfo");
    }

    #[test]
    fn nodes_that_do_not_hold_what_they_acknowledged_are_compared_again() {
        // The devices have no LIDs.
        let node = AppliedRing::new(&[]).observation.fabric.switches()[3];
        let subnet = AppliedRing::new(&[node]);
        assert_eq!(subnet.changed(), Some(subnet.around(node)));
    }

    #[test]
    fn all_nodes_are_compared_after_a_failure() {
        let mut subnet = AppliedRing::new(&[]);
        let fabric = subnet.observation.fabric.clone();
        let set = SetId {
            node: fabric.switches()[0],
            port: PortNum(1),
            attr_id: AttrId::PORT_INFO,
            attr_mod: 1,
        };
        subnet.acknowledged.doubt(&fabric, set);
        assert_eq!(subnet.changed(), None);
    }

    #[test]
    fn all_nodes_are_compared_if_many_changed() {
        let mut subnet = AppliedRing::new(&[]);
        let mut plan = Plan::clone(&subnet.plan);
        (0..10).for_each(|index| plan.switch_infos[index].set_linear_fdb_top(9));
        subnet.plan = Arc::new(plan);
        assert_eq!(subnet.changed(), None);
    }
}
