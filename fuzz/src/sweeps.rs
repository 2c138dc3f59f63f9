//! A sweep of a fabric whose responses are corrupted on the way, and the plan for the snapshot.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::{Hardware, SyntheticView};
use torus_sm::fabric::{DiscoveryFault, Fabric};
use torus_sm::ids::PortNum;
use torus_sm::observe::SweepSettings;
use torus_sm::observe::heavy;
use torus_sm::observe::m_keys::MKeys;
use torus_sm::plan::compute::{self, PlanInput, Registrations};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::routing::chain::{Chain, EngineRegistry};
use torus_sm::plan::{Plan, partitions};
use torus_sm::publish::Subnet;
use torus_sm::sim::SimFabric;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::client::SmpClient;
use torus_sm::transport::demux::MadDemux;
use torus_sm::transport::transactions::SmpLimits;
use torus_sm::transport::{Delivery, MadPort, MadSink};
use torus_sm::verify::{self, Checks};
use torus_sm::wire::attr::tables::PkeyTable;

/// Corrupts received MADs as the input says, in three bytes for each corrupted MAD (number of MADs
/// to pass before it, position, value to add), until the input is used up.
struct Corrupting {
    inner: Arc<MadDemux>,
    changes: Mutex<(Vec<u8>, usize)>,
}

impl MadSink for Corrupting {
    fn deliver(&self, delivery: Delivery<'_>) {
        let mut mad = delivery.mad.to_vec();
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, at) = &mut *changes;
        if let Some([skip, place, value]) = input.get_mut(*at..*at + 3) {
            if *skip % 16 > 0 {
                *skip = *skip % 16 - 1;
            } else {
                // Only status and attribute data: a response needs its transaction ID and route to
                // arrive.
                let place = match *place {
                    0 => 4,
                    1 => 5,
                    place => 64 + usize::from(place) % 64,
                };
                if let Some(byte) = mad.get_mut(place) {
                    *byte = byte.wrapping_add(*value);
                }
                *at += 3;
            }
        }
        drop(changes);
        self.inner.deliver(Delivery { mad: &mad, ..delivery });
    }

    fn idle(&self) {
        self.inner.idle();
    }

    fn closed(&self, reason: &str) {
        self.inner.closed(reason);
    }
}

/// A heavy sweep of a 3x3 torus with corrupted responses; both engines plan the resulting snapshot,
/// and the plans are verified.
pub fn observe(data: &[u8]) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(sweep(data));
}

async fn sweep(data: &[u8]) {
    let shape = Shape::torus([3, 3, 1]);
    let topology = shape.build().expect("a shape that can be built");
    let fabric = SimFabric::new(&topology, Hardware::default(), 1);
    let (demux, _unsolicited) = MadDemux::new(64);
    let changes = Mutex::new((data.to_vec(), 0));
    let sink = Arc::new(Corrupting { inner: Arc::clone(&demux), changes });
    let host = shape.host_guid([0, 0, 0], 0);
    let port = fabric.attach(host, PortNum(1), sink, true).expect("the first host");
    let port: Arc<dyn MadPort> = Arc::new(port);
    let client = SmpClient::new(port, &demux, SmpLimits::default());
    let Ok(seen) = heavy::sweep(&client, &MKeys::default(), &SweepSettings::default()).await else {
        return;
    };
    seen.fabric.faults().iter().map(DiscoveryFault::to_string).for_each(drop);
    for engine in ["torus-2QoS,no_fallback", "minhop"] {
        let options = Options { qos: true, ..Options::default() };
        if let Some(plan) = plan(&seen.fabric, &seen.pkeys, &shape, engine, &options) {
            let verified = verify::verify(&seen.fabric, plan, &Checks::new(true));
            // A failure can be shown.
            verified.map_err(|failure| failure.to_string()).map_or_else(drop, drop);
        }
    }
}

fn plan(
    fabric: &Fabric,
    pkeys: &[PkeyTable],
    shape: &Shape,
    engine: &str,
    options: &Options,
) -> Option<Plan> {
    let chain = Chain::parse(engine, &EngineRegistry::standard(Arc::default())).expect("its name");
    let input = PlanInput {
        fabric,
        options,
        memory: &Memory::default(),
        torus_config: &TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf()),
        partitions: &partitions::default(options),
        registrations: Registrations::default(),
        previous: None,
        observed_pkeys: pkeys,
        reregister: &|_| true,
        chain: &chain,
        qos_policy: None,
    };
    compute::compute(&input).ok().map(|planned| planned.plan)
}

/// A verified and published 3x3 torus.
pub(super) fn small_subnet() -> Subnet {
    let shape = Shape::torus([3, 3, 1]);
    let topology = shape.build().expect("a shape that can be built");
    let view = SyntheticView::default();
    let fabric = Fabric::from_topology(&topology, 9, &view).expect("the first host");
    let options = Options::default();
    let pkeys = vec![PkeyTable::default(); fabric.ports().len()];
    let plan = plan(&fabric, &pkeys, &shape, "minhop", &options).expect("a plan");
    let verified = verify::verify(&fabric, plan, &Checks::of(&options)).expect("no faults");
    Subnet {
        generation: 1,
        fabric: Arc::new(fabric),
        plan: verified.plan().clone(),
        options: Arc::new(options),
        qos_policy: None,
        summary: Arc::new(verified.summary().clone()),
        failed_sets: 0,
        devices: Arc::default(),
        restarts: Arc::default(),
        rate_limits: None,
        repair_view: Arc::default(),
    }
}
