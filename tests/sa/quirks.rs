//! The MTU of paths to a Tavor, which `enable_quirks` limits.

use std::path::Path;
use std::time::Instant;
use testkit::sa_client::request;
use testkit::snapshot::published;
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::DeviceModel;
use torus_sm::ids::{Gid, PortNum, Sl};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::Address;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{PathRecord, Selector};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// MTU codes.
const MTU_1024: u8 = 3;
const MTU_2048: u8 = 4;

/// A torus of which the host of the second switch is a Tavor.
fn subnet(enable_quirks: bool) -> (Subnet, Gid, Gid) {
    let shape: Shape = "3x3x1".parse().expect("a shape");
    let mut topology = shape.build().expect("a shape that can be built");
    let tavor = shape.host_guid([1, 0, 0], 0);
    let node = topology.nodes.iter_mut().find(|node| node.guid == tavor).expect("the host");
    node.model = DeviceModel { vendor_id: 0x2c9, device_id: 23108, ..Default::default() };
    let local = topology.nodes.iter().position(|node| node.guid == shape.host_guid([0, 0, 0], 0));
    let view = SyntheticView::default();
    let fabric = Fabric::from_topology(&topology, local.expect("a host"), &view);
    let options = Options { qos: true, enable_quirks, ..Options::default() };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    let subnet = published(fabric.expect("a fabric"), options, &config, &partitions);
    let subnet = subnet.expect("it routes");
    let gid = |at| {
        let port = subnet.fabric.port_by_end((shape.host_guid(at, 0), PortNum(1)));
        let port = subnet.fabric.port(port.expect("a host"));
        Gid::new(subnet.options.subnet_prefix, port.guid)
    };
    let tavor = gid([1, 0, 0]);
    let other = gid([2, 0, 0]);
    (subnet, tavor, other)
}

/// The MTU of the path from the subnet manager; `None` without a path.
fn mtu(subnet: &Subnet, to: Gid, asked: Option<(Selector, u8)>) -> Option<u8> {
    let fabric = &subnet.fabric;
    let own = fabric.port(fabric.local()).guid;
    let asker = Address::gsi(subnet.plan.lids.base(fabric.local()).expect("a LID"), Sl(0));
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(subnet.options.subnet_prefix, own));
    wanted.set_dgid(to);
    let mut mask = PathRecord::SGID | PathRecord::DGID;
    if let Some((selector, mtu)) = asked {
        wanted.set_mtu_selector(selector);
        wanted.set_mtu(mtu);
        mask |= PathRecord::MTU_SELECTOR | PathRecord::MTU;
    }
    let mad: Mad = request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted);
    let reply = Responder::default().handle(subnet, &asker, &mad.0, Instant::now());
    let reply = reply.expect("a reply").mad;
    let record = || PathRecord::read(&reply[DATA_OFFSET..]).mtu();
    (Header::read(&reply).status() == 0).then(record)
}

#[test]
fn the_mtu_of_paths_to_a_tavor_is_limited_unless_a_greater_one_is_asked() {
    let (subnet_without, tavor, _) = subnet(false);
    assert_eq!(mtu(&subnet_without, tavor, None), Some(MTU_2048));
    let (subnet, tavor, other) = subnet(true);
    assert_eq!(mtu(&subnet, other, None), Some(MTU_2048));
    for (asked, expected) in [
        (None, Some(MTU_1024)),
        (Some((Selector::Best, MTU_1024)), Some(MTU_2048)),
        (Some((Selector::GreaterThan, 2)), Some(MTU_1024)),
        (Some((Selector::Exactly, MTU_2048)), Some(MTU_2048)),
        (Some((Selector::LessThan, MTU_2048)), Some(MTU_1024)),
        // As in OpenSM, the limit applies before the comparison.
        (Some((Selector::GreaterThan, MTU_1024)), None),
    ] {
        assert_eq!(mtu(&subnet, tavor, asked), expected, "{asked:?}");
    }
}
