//! The check of a plan for ports that carry no data, while there is no acceptable plan with routes.
//!
//! No Set may change a port that is in use, and no port may get a LID that another one carries. Tables of
//! switches are not part of such a plan.

use crate::fabric::{Fabric, PortId};
use crate::ids::Lid;
use crate::paged_vec::PagedVec;
use crate::plan::Plan;
use crate::plan::idle_ports::is_idle;
use crate::plan::port_targets::PortTargets;
use crate::wire::attr::tables::PkeyBlock;
use std::collections::HashMap;
use std::sync::Arc;

/// A plan of which only the Sets of P_Key tables and PortInfo may be sent, which passed.
#[derive(Clone, Debug)]
pub struct IdlePorts(Arc<Plan>);

impl IdlePorts {
    pub fn plan(&self) -> &Arc<Plan> {
        &self.0
    }
}

/// Checks a plan made by [`compute_idle_ports`](crate::plan::idle_ports::compute_idle_ports).
///
/// # Errors
/// The first port in use that would be changed, or whose LID another port would get.
pub fn verify_idle_ports(fabric: &Fabric, plan: Plan) -> Result<IdlePorts, String> {
    let mut holders: HashMap<Lid, PortId> = HashMap::new();
    for id in fabric.end_ports().filter(|&id| !is_idle(fabric, id)) {
        let Some(base) = fabric.observed_lid(id) else { continue };
        let lmc = fabric.port(id).info().map_or(0, |info| info.lmc());
        for lid in (0..1 << lmc).filter_map(|offset| base.0.checked_add(offset)) {
            holders.entry(Lid(lid)).or_insert(id);
        }
    }
    for id in fabric.port_ids().filter(|a| is_changed(&plan.ports, &plan.partitions.blocks, a)) {
        if !is_idle(fabric, id) {
            return Err(format!("{} is in use", port_name(fabric, id)));
        }
        let base = plan.lids.base(id).map_or(0, |lid| lid.0);
        let lids = (0..1 << plan.lids.lmc(id)).map(|offset| Lid(base + offset));
        for lid in lids.filter(|lid| lid.is_unicast()) {
            if let Some(&holder) = holders.get(&lid) {
                let holder = fabric.describe(holder);
                return Err(format!(
                    "LID {lid} of {holder} would be given to {}",
                    port_name(fabric, id)
                ));
            }
        }
    }
    Ok(IdlePorts(Arc::new(plan)))
}

fn port_name(fabric: &Fabric, id: PortId) -> String {
    fabric.describe(id)
}

fn is_changed(
    ports: &PortTargets,
    plan_partitions_blocks: &PagedVec<Arc<[(u16, PkeyBlock)]>>,
    &id: &PortId,
) -> bool {
    let keys = plan_partitions_blocks.get(id.index()).is_some_and(|blocks| !blocks.is_empty());
    keys || ports.of(id).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::fabric::synthetic::SyntheticView;
    use crate::ids::Guid;
    use crate::plan::idle_ports::compute_idle_ports;
    use crate::plan::lids::Memory;
    use crate::plan::tests::{ring, with_input};
    use crate::wire::attr::PortState;

    /// LIDs of hosts and switches in turn.
    const LIDS: [(u16, u8); 6] = [(10, 0), (11, 0), (12, 0), (13, 0), (14, 0), (15, 0)];

    /// The port of a host of the ring.
    fn host(fabric: &Fabric, index: u64) -> PortId {
        fabric.port_by_guid(Guid(0x10_0001 + 16 * index)).expect("a host")
    }

    /// A ring of three switches in use; the link of host 1 is in `state`, and the host has `lid`.
    fn fabric(state: PortState, lid: u16) -> Fabric {
        let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
        let mut fabric = Fabric::from_topology(&ring(3, &LIDS), 0, &view).expect("a fabric");
        let port = host(&fabric, 1);
        let ends = [port, fabric.port(port).peer.expect("a cable")].map(|id| {
            let mut info = fabric.port(id).info().expect("it answered");
            info.set_port_state(state);
            if id == port {
                info.set_lid(Lid(lid));
            }
            (id, info)
        });
        fabric.acknowledge(&ends, &[]);
        fabric
    }

    fn plan(fabric: &Fabric, memory: &Memory, lmc: u8) -> Plan {
        let options = Options { lmc, ..Options::default() };
        let pkeys = vec![Arc::default(); fabric.ports().len()];
        with_input(fabric, &options, (memory, &pkeys), None, |input| compute_idle_ports(input).0)
    }

    fn planned_ports(fabric: &Fabric, plan: &Plan) -> Vec<PortId> {
        fabric.port_ids().filter(|&id| plan.ports.of(id).is_some()).collect()
    }

    #[test]
    fn ports_in_use_keep_settings_and_lids() {
        let fabric = fabric(PortState::Init, 0);
        let idle = host(&fabric, 1);
        // The file is of another time: it gives the LIDs of a host in use to the one that returns.
        let entries = [(fabric.port(idle).guid, (Lid(14), Lid(14)))];
        let plan = plan(&fabric, &Memory::new(entries.into_iter().collect()), 0);
        let mut ends = vec![idle, fabric.port(idle).peer.expect("a cable")];
        ends.sort_unstable();
        assert_eq!(planned_ports(&fabric, &plan), ends);
        let target = plan.ports.of(idle).expect("a target");
        assert!(!LIDS.contains(&(target.lid().0, 0)), "{}", target.lid());
        verify_idle_ports(&fabric, plan).expect("it passes");
    }

    #[test]
    fn a_port_without_free_lids_is_left_alone() {
        // With LMC 1 the recorded LIDs of the ports in use do not suffice, so that their plan has others.
        let fabric = fabric(PortState::Init, 0);
        let guid = fabric.port(host(&fabric, 1)).guid;
        let entries = [(guid, (Lid(12), Lid(13)))].into_iter().collect();
        let plan = plan(&fabric, &Memory::new(entries), 1);
        verify_idle_ports(&fabric, plan).expect("it passes");
    }

    #[test]
    fn changes_of_ports_in_use_and_their_lids_are_rejected() {
        let idle = fabric(PortState::Init, 12);
        let memory = Memory::default();
        let error = verify_idle_ports(&fabric(PortState::Active, 12), plan(&idle, &memory, 0));
        assert!(error.expect_err("in use").ends_with("is in use"));
        let mut stolen = idle.clone();
        let other = host(&idle, 2);
        let mut info = stolen.port(other).info().expect("it answered");
        info.set_lid(Lid(12));
        stolen.acknowledge(&[(other, info)], &[]);
        let error = verify_idle_ports(&stolen, plan(&idle, &memory, 0)).expect_err("a LID in use");
        assert!(error.starts_with("LID 12 of "), "{error}");
    }
}
