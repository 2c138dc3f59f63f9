//! What tests and benchmarks of the subnet administrator share: snapshots as the daemon
//! publishes them, and requests.

#![allow(dead_code, reason = "every test binary uses its own part")]

use std::sync::Arc;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::notes::Note;
use torus_sm::plan::compute::{self, PlanInput};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::partitions::Partition;
use torus_sm::plan::routing::chain::{Chain, Registry};
use torus_sm::publish::Subnet;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::Record;
use torus_sm::wire::sa::{CLASS_VERSION, DATA_OFFSET, SA_OFFSET, SaHeader};

/// The whole plan of a torus, published.
pub fn subnet(
    fabric: Fabric,
    options: Options,
    torus_config: &Result<TorusConfig, Vec<Note>>,
    partitions: &[Partition],
) -> Subnet {
    let chain = Chain::parse("torus-2QoS,no_fallback", &Registry::standard(Arc::default()))
        .expect("the name of an engine");
    let planned = compute::compute(&PlanInput {
        fabric: &fabric,
        options: &options,
        memory: &Memory::default(),
        torus_config,
        partitions,
        observed_pkeys: &[],
        groups: &[],
        aliases: &[],
        previous: None,
        reregister: &|_| false,
        chain: &chain,
        qos_policy: None,
    });
    Subnet {
        generation: 1,
        fabric: Arc::new(fabric),
        plan: Arc::new(planned.expect("the torus routes").plan),
        options: Arc::new(options),
        qos_policy: None,
        summary: Arc::default(),
        failed_sets: 0,
    }
}

/// A request to the subnet administrator.
pub fn request<R: Record>(attribute: u16, method: Method, mask: u64, record: &R) -> Mad {
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(3);
    header.set_class_version(CLASS_VERSION);
    header.set_method(method.0);
    header.set_tid(0x5A);
    header.set_attr_id(attribute);
    let mut mad = Mad::default();
    mad.set_header(&header);
    let mut sa = SaHeader::default();
    sa.set_component_mask(mask);
    sa.write(&mut mad.0[SA_OFFSET..]);
    mad.0[DATA_OFFSET..DATA_OFFSET + R::STRIDE].copy_from_slice(record.bytes());
    mad
}
