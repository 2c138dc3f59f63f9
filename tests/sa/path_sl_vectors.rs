//! PathRecord queries on the fabrics of the torus-2QoS vectors: between any two channel adapters
//! the answer has the SL of OpenSM's answer.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Instant;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, PortId, ibnet};
use torus_sm::ids::{Gid, Guid, Sl};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::transport::Address;
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::mad::{Header, Method};
use torus_sm::wire::record::{PathRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/torus-2qos").join(name)
}

fn json(folder: &Path, file: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(file)).expect("a file of the vector");
    serde_json::from_str(&text).expect("JSON")
}

/// The plan of a vector, published.
fn subnet(folder: &Path) -> Subnet {
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).expect("a file");
    let net = folder.join("fabric.net");
    let topology = ibnet::parse(&net, &read("fabric.net")).expect("a fabric");
    let is_cabled = |node: usize| topology.cables.iter().flatten().any(|end| end.0 == node);
    let local = (0..topology.nodes.len())
        .find(|&node| topology.nodes[node].kind == NodeKind::Ca && is_cabled(node))
        .expect("a channel adapter");
    let fabric =
        Fabric::from_topology(&topology, local, &SyntheticView::default()).expect("it exists");
    let four_vls = json(folder, "meta.json")["data_vls"] == 4;
    let max_op_vls = if four_vls { 3 } else { 5 };
    let options = Options { qos: true, max_op_vls, ..Options::default() };
    let partitions = partitions::default(&options);
    let torus_config = TorusConfig::parse(&folder.join("conf"), &read("torus-2QoS.conf"));
    testkit::snapshot::subnet(fabric, options, &torus_config, &partitions)
}

/// The path from `from` to `to` in the answer to a query by GIDs.
fn path(sa: &mut Responder, subnet: &Subnet, from: PortId, to: PortId) -> Result<PathRecord, u16> {
    let gid = |port| Gid::new(subnet.options.subnet_prefix, subnet.fabric.port(port).guid);
    let mut wanted = PathRecord::default();
    wanted.set_sgid(gid(from));
    wanted.set_dgid(gid(to));
    wanted.set_reversible(true);
    // rdma_cm requests reversible paths only.
    let mask = PathRecord::SGID | PathRecord::DGID | PathRecord::REVERSIBLE;
    let mad = testkit::sa_client::request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted);
    let lid = subnet.plan.lids.base(from).expect("a LID");
    let reply = sa.handle(subnet, &Address::gsi(lid, Sl(0)), &mad.0, Instant::now());
    let reply = reply.expect("a reply");
    match Header::read(&reply.mad).status() {
        0 => Ok(PathRecord::parse(&reply.mad[DATA_OFFSET..])),
        status => Err(status),
    }
}

fn port(fabric: &Fabric, text: &str) -> PortId {
    let guid = u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a GUID");
    fabric.port_by_guid(Guid(guid)).unwrap_or_else(|| panic!("no port {text}"))
}

fn same_sls_as_opensm(name: &str) {
    let folder = folder(name);
    let subnet = subnet(&folder);
    let mut sa = Responder::default();
    let sls = json(&folder, "sl.json");
    let is_adapter = |port: PortId| subnet.fabric.node_of(port).kind() == NodeKind::Ca;
    let mut compared = 0;
    let mut differing = Vec::new();
    for (from_guid, row) in sls.as_object().expect("a table") {
        let from = port(&subnet.fabric, from_guid);
        for (to_guid, sl) in row.as_object().expect("a row") {
            let to = port(&subnet.fabric, to_guid);
            if !is_adapter(from) || !is_adapter(to) {
                continue;
            }
            let answer = path(&mut sa, &subnet, from, to);
            compared += 1;
            if answer.map(|path| u64::from(path.sl().0)) != Ok(sl.as_u64().expect("a number")) {
                differing.push(format!("{from_guid} to {to_guid}: {answer:?}, OpenSM SL {sl}"));
            }
        }
    }
    let adapters = subnet.fabric.end_ports().filter(|&port| is_adapter(port)).count();
    assert_eq!(compared, adapters * adapters, "{name}: every pair has an SL");
    let shown = differing.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(differing.is_empty(), "{name}: {} differ\n{shown}", differing.len());
}

testkit::vector_tests!(same_sls_as_opensm);
