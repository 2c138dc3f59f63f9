//! What tests and benchmarks of the subnet administrator share: snapshots as the daemon
//! publishes them, and requests.

#![allow(dead_code, reason = "every test binary uses its own part")]

use std::path::Path;
use std::sync::Arc;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::picture::View;
use torus_sm::ids::{Gid, Guid, Pkey};
use torus_sm::notes::Note;
use torus_sm::plan::compute::{self, PlanInput};
use torus_sm::plan::lids::Memory;
use torus_sm::plan::partitions;
use torus_sm::plan::partitions::Partition;
use torus_sm::plan::routing::chain::{Chain, Registry};
use torus_sm::publish::Subnet;
use torus_sm::sim::generate::Shape;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::PathRecord;
use torus_sm::wire::record::Record;
use torus_sm::wire::sa::SaAttr;
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

/// A torus with so many hosts at each switch, published.
pub fn torus(radix: [u16; 3], hosts: u8) -> Subnet {
    let shape = Shape { hosts, ..Shape::torus(radix) };
    let topology = shape.build().expect("the shape fits a fabric");
    let fabric = Fabric::from_topology(&topology, 0, &View::default()).expect("node 0 exists");
    let options = Options { qos: true, ..Options::default() };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    subnet(fabric, options, &config, &partitions)
}

/// As rdma_cm asks for the path between two ports.
pub fn path_query(prefix: u64, [from, to]: [Guid; 2]) -> Mad {
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(prefix, from));
    wanted.set_dgid(Gid::new(prefix, to));
    wanted.set_reversible(true);
    wanted.set_numb_path(1);
    wanted.set_pkey(Pkey::DEFAULT_FULL);
    let mask = PathRecord::SGID
        | PathRecord::DGID
        | PathRecord::REVERSIBLE
        | PathRecord::NUMB_PATH
        | PathRecord::PKEY;
    request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted)
}
