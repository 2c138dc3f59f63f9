//! A fabric routed in this process, with its tables by GUID.

use crate::dumps::{Lfts, SlToVls};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Guid, Lid, PortNum};
use torus_sm::notes::Note;
use torus_sm::plan::LidTable;
use torus_sm::plan::compute::{PlanInput, Registrations, compute};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::partitions;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::routing::torus::{Torus, Torus2Qos};
use torus_sm::plan::routing::{Engine, PreviousFabric, Routing, RoutingError, RoutingInput};
use torus_sm::sim::generate::Shape;
use torus_sm::verify::{Checks, Summary, verify};
use torus_sm::wire::attr::NodeKind;

/// The input of both subnet managers.
#[derive(Clone)]
pub struct Case {
    pub topology: Topology,
    /// Index of the channel adapter on which the subnet manager runs.
    pub local: usize,
    /// Text of torus-2QoS.conf.
    pub config: String,
    /// The value of `max_op_vls` in opensm.conf, a code (IBA vol. 1, 14.2.5.6).
    pub max_op_vls: u8,
    /// LMC of end ports.
    pub lmc: u8,
}

impl Case {
    /// A generated fabric, managed from its first channel adapter.
    pub fn of(shape: &Shape) -> Self {
        let topology = shape.build().expect("the shape fits a fabric");
        let local = topology.nodes.iter().position(|node| node.kind == NodeKind::Ca);
        let local = local.expect("a host");
        Self { topology, local, config: shape.torus_conf(), max_op_vls: 5, lmc: 0 }
    }
}

/// A fabric with LIDs and configuration.
pub struct Subnet {
    pub fabric: Fabric,
    pub lids: LidTable,
    pub options: Options,
    pub config: Result<TorusConfig, Vec<Note>>,
}

impl Subnet {
    /// The subnet of a case; LIDs follow the order of GUIDs.
    pub fn new(case: &Case) -> Self {
        let fabric = Fabric::from_topology(&case.topology, case.local, &SyntheticView::default());
        let fabric = fabric.expect("the local port exists");
        let mut lids = LidTable::new(fabric.ports().len());
        let mut next = 1u16 << case.lmc;
        for port in fabric.end_ports() {
            let lmc = if fabric.node_of(port).is_switch() { 0 } else { case.lmc };
            lids.assign(port, Lid(next), lmc);
            next += 1 << case.lmc;
        }
        let defaults = Options::default();
        let options = Options { qos: true, max_op_vls: case.max_op_vls, lmc: case.lmc, ..defaults };
        let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &case.config);
        Self { fabric, lids, options, config }
    }

    /// Gives every end port the LIDs that it has in another subnet.
    pub fn take_lids_of(&mut self, other: &Self) {
        self.lids = LidTable::new(self.fabric.ports().len());
        for port in self.fabric.end_ports() {
            let there = other.fabric.port_by_guid(self.fabric.port(port).guid);
            let base = there.and_then(|port| Some((other.lids.base(port)?, other.lids.lmc(port))));
            let (lid, lmc) = base.expect("an end port with a LID");
            self.lids.assign(port, lid, lmc);
        }
    }

    /// Routes with the previous result `previous`.
    pub fn route(&self, previous: Option<&Routing>) -> Result<Routing, RoutingError> {
        self.route_since(previous, None)
    }

    /// Routes with the previous result `previous` and the changes since, if they are known.
    pub fn route_since(
        &self,
        previous: Option<&Routing>,
        since: Option<PreviousFabric<'_>>,
    ) -> Result<Routing, RoutingError> {
        Torus2Qos.route(&RoutingInput {
            fabric: &self.fabric,
            lids: &self.lids,
            options: &self.options,
            torus_config: &self.config,
            previous,
            previous_fabric: since,
        })
    }

    /// Coordinates by switch GUID.
    pub fn coordinates(&self, routing: &Routing) -> BTreeMap<u64, String> {
        let torus = Torus::of(routing).expect("routed by torus-2QoS");
        let switches = torus.switches();
        switches.map(|(at, id)| (self.fabric.switch(id).guid().0, at.to_string())).collect()
    }

    /// Forwarding tables; all LIDs of a port must have the same output.
    pub fn lfts(&self, routing: &Routing) -> Lfts {
        let mut lfts = Lfts::new();
        for switch in self.fabric.switch_ids() {
            let from = self.fabric.switch(switch).guid().0;
            for (lid, port) in self.lids.iter() {
                let Some(out) = routing.lft(switch).out(lid) else { continue };
                let to = self.fabric.port(port).guid.0;
                let known = lfts.insert((from, to), out);
                assert!(known.is_none_or(|known| known == out), "LIDs of one port differ");
            }
        }
        lfts
    }

    /// The mappings of all (owner, input, output) in `wanted`.
    pub fn sl_to_vls(&self, routing: &Routing, wanted: &SlToVls) -> SlToVls {
        let maps = wanted.keys().filter_map(|&(owner, input, output)| {
            let (input_port, output_port) = self.ports(Guid(owner), input, output)?;
            let map = routing.policy.sl_to_vl(input_port, output_port)?;
            Some(((owner, input, output), map.vls().to_vec()))
        });
        maps.collect()
    }

    fn ports(&self, owner: Guid, input: u8, output: u8) -> Option<(PortId, PortId)> {
        let node = self.fabric.node_by_guid(owner);
        match node.filter(|&id| self.fabric.node(id).is_switch()) {
            Some(node) => {
                let input = self.fabric.port_of(node, PortNum(input))?;
                Some((input, self.fabric.port_of(node, PortNum(output))?))
            }
            None => {
                let port = self.fabric.port_by_guid(owner)?;
                Some((port, port))
            }
        }
    }

    /// Calls `work` with the input for a plan of the subnet.
    pub fn with_input<T>(
        &self,
        memory: &Memory,
        groups: &[GroupMembers],
        work: impl FnOnce(&PlanInput<'_>) -> T,
    ) -> T {
        let registry = EngineRegistry::standard(Arc::default());
        let chain = Chain::parse("torus-2QoS,no_fallback", &registry).expect("an engine's name");
        work(&PlanInput {
            fabric: &self.fabric,
            options: &self.options,
            memory,
            torus_config: &self.config,
            partitions: &partitions::default(&self.options),
            observed_pkeys: &[],
            registrations: Registrations { groups, ..Registrations::default() },
            previous: None,
            reregister: &|_| false,
            chain: &chain,
            qos_policy: None,
        })
    }

    /// Plans and verifies the whole subnet.
    ///
    /// # Errors
    /// A text that states why planning or verification failed.
    pub fn verified(&self) -> Result<Summary, String> {
        self.verified_with(&[])
    }

    /// [`Self::verified`] with multicast groups.
    pub fn verified_with(&self, groups: &[GroupMembers]) -> Result<Summary, String> {
        let planned = self.with_input(&Memory::default(), groups, compute);
        let planned = planned.map_err(|failure| format!("{:?}", failure.routing_errors))?;
        let verified = verify(&self.fabric, planned.plan, &Checks::new(true));
        let summary = verified.map_err(|failure| format!("{failure:?}"))?.summary().clone();
        match &summary.cycle {
            Some(cycle) => Err(format!("credit loop {cycle}")),
            None => Ok(summary),
        }
    }
}
