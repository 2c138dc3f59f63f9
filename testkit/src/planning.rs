//! Plans by the real engines for fabrics that exist as topologies only.

use std::path::Path;
use std::sync::Arc;
use torus_sm::config::files;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::Topology;
use torus_sm::plan::compute::{PlanError, PlanInput, Registrations, compute};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::multicast::GroupMembers;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::{Plan, partitions};
use torus_sm::sim::generate::Shape;
use torus_sm::verify::Checks;
use torus_sm::verify::baseline::{Outcome, plan_and_verify};
use torus_sm::wire::attr::tables::PkeyTable;

/// A fabric with its configuration.
pub struct PlanSetup {
    pub fabric: Fabric,
    pub options: Options,
    /// The LIDs to keep.
    pub memory: Memory,
    /// Text of torus-2QoS.conf.
    pub torus_conf: String,
}

/// The options of `-R <engine>`, with `-Q` if `qos`.
pub fn options(engine: &str, qos: bool) -> Options {
    Options { routing_engine: Some(engine.to_owned()), qos, ..Options::default() }
}

impl PlanSetup {
    /// The snapshot of `topology` from its node `local`.
    pub fn new(topology: &Topology, local: usize, options: Options, torus_conf: String) -> Self {
        let fabric =
            Fabric::from_topology(topology, local, &SyntheticView::default()).expect("node local");
        Self { fabric, options, memory: Memory::default(), torus_conf }
    }

    /// A generated fabric.
    pub fn generated(shape: &Shape, engine: &str, qos: bool) -> Self {
        let topology = shape.build().expect("the shape fits a fabric");
        Self::new(&topology, 0, options(engine, qos), shape.torus_conf())
    }

    /// The daemon's plan, before verification.
    pub fn plan(&self, groups: &[GroupMembers]) -> Result<Plan, Box<PlanError>> {
        self.with_input(groups, |input| Ok(compute(input)?.plan))
    }

    /// The daemon's plan and its verdict.
    pub fn verdict(&self) -> Outcome {
        let checks = Checks::of(&self.options);
        self.with_input(&[], |input| plan_and_verify(input, None, &checks))
    }

    fn with_input<T>(&self, groups: &[GroupMembers], work: impl FnOnce(&PlanInput<'_>) -> T) -> T {
        let (lists, _) = files::guid_lists(&self.options);
        let registry = EngineRegistry::standard(Arc::new(lists));
        let engines = self.options.engines();
        let chain = Chain::parse(engines, &registry).expect("engines that exist");
        let torus_config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &self.torus_conf);
        work(&PlanInput {
            fabric: &self.fabric,
            options: &self.options,
            memory: &self.memory,
            torus_config: &torus_config,
            partitions: &partitions::default(&self.options),
            observed_pkeys: &vec![PkeyTable::default(); self.fabric.ports().len()],
            registrations: Registrations { groups, ..Registrations::default() },
            previous: None,
            reregister: &|_| false,
            chain: &chain,
            qos_policy: None,
        })
    }
}
