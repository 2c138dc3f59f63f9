//! Answers of the subnet administrator to ports of different partitions, and to requesters behind a
//! global route header.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use testkit::sa_client::request;
use torus_sm::config::options::Options;
use torus_sm::config::prefix_routes;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Gid, Guid, Lid, Pkey, Sl};
use torus_sm::plan::partitions::{self, Membership, Partition, PartitionMember, PortSelector};
use torus_sm::publish::Subnet;
use torus_sm::sa::notices::{self, NoticeDispatcher};
use torus_sm::sa::registry::GroupEvent;
use torus_sm::sa::{Reply, Responder};
use torus_sm::sim::generate::Shape;
use torus_sm::transport::{Address, Grh};
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::attr::{Notice, TrapNumber};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::tables::GuidInfoRecord;
use torus_sm::wire::record::{InformInfo, NodeRecord, PathRecord, Record, TraceRecord};
use torus_sm::wire::sa::{DATA_OFFSET, SA_OFFSET, SaAttr};

const PREFIX: u64 = 0xfe80_0000_0000_0000;

/// A 3x3 torus with one host per switch.
fn subnet(partitions: impl Fn(&Shape, &Options) -> Vec<Partition>) -> (Shape, Subnet) {
    let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
    let subnet = testkit::snapshot::of_shape(&shape, |options| partitions(&shape, options));
    (shape, subnet)
}

/// The port of the n-th host of the first column.
fn host(shape: &Shape, n: u16) -> Guid {
    Guid(shape.host_guid([0, n, 0], 0).0 + 1)
}

/// Hosts 0 (full), 1 and 2 (limited) share the partition 0x1234; all others have no partition.
fn small_partition(shape: &Shape, _: &Options) -> Vec<Partition> {
    let member = |n, full| {
        let membership = if full { Membership::Full } else { Membership::Limited };
        PartitionMember::new(PortSelector::Port(host(shape, n)), membership)
    };
    vec![Partition {
        name: "small".into(),
        pkey: Pkey(0x1234),
        members: vec![member(0, true), member(1, false), member(2, false)],
        sl: Sl(0),
        groups: Vec::new(),
    }]
}

fn port(subnet: &Subnet, guid: Guid) -> PortId {
    subnet.fabric.port_by_guid(guid).expect("the port exists")
}

fn lid(subnet: &Subnet, guid: Guid) -> Lid {
    subnet.plan.lids.base(port(subnet, guid)).expect("a LID")
}

fn ask(subnet: &Subnet, from: &Address, mad: &Mad) -> Option<Reply> {
    Responder::default().handle(subnet, from, &mad.0, Instant::now())
}

fn path_request(from: Guid, to: Guid, pkey: Option<Pkey>) -> Mad {
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(PREFIX, from));
    wanted.set_dgid(Gid::new(PREFIX, to));
    wanted.set_pkey(pkey.unwrap_or_default());
    let by_key = if pkey.is_some() { PathRecord::PKEY } else { 0 };
    let mask = PathRecord::SGID | PathRecord::DGID | by_key;
    request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted)
}

/// The P_Key of the path that `asker` gets, or the status.
fn pkey_of_path(
    subnet: &Subnet,
    asker: Guid,
    ends: [Guid; 2],
    key: Option<u16>,
) -> Result<u16, u16> {
    let mad = path_request(ends[0], ends[1], key.map(Pkey));
    let from = Address::gsi(lid(subnet, asker), Sl(0));
    let reply = ask(subnet, &from, &mad).expect("a reply");
    match Header::read(&reply.mad).status() {
        0 => Ok(PathRecord::parse(&reply.mad[DATA_OFFSET..]).pkey().0),
        status => Err(status),
    }
}

#[test]
fn paths_exist_within_partitions() {
    let (shape, subnet) = subnet(small_partition);
    let host = |n| host(&shape, n);
    let stranger = Guid(shape.host_guid([1, 1, 0], 0).0 + 1);
    let none = Err(0x0300);
    let table = [
        // asker, from, to, key -> key of the path
        (host(0), host(0), host(1), None, Ok(0x9234)),
        (host(0), host(1), host(0), None, Ok(0x1234)),
        (host(1), host(1), host(0), Some(0x1234), Ok(0x1234)),
        (host(0), host(0), host(1), Some(0xFFFF), none),
        // Limited members do not reach each other, and must not learn of each other.
        (host(0), host(1), host(2), None, none),
        (host(1), host(0), host(2), None, none),
        (host(0), host(0), stranger, None, none),
        (stranger, host(0), host(1), None, none),
    ];
    for (asker, from, to, key, expected) in table {
        let found = pkey_of_path(&subnet, asker, [from, to], key);
        assert_eq!(found, expected, "{asker} asks for {from} to {to}");
    }
    // A path for raw packets is within a partition only if both ends are.
    for (from, to, expected) in [(1, 1, 0), (1, 2, 0x0300), (0, 1, 0)] {
        let mut wanted = PathRecord::default();
        wanted.set_sgid(Gid::new(PREFIX, host(from)));
        wanted.set_dgid(Gid::new(PREFIX, host(to)));
        wanted.set_raw_traffic(true);
        let mask = PathRecord::SGID | PathRecord::DGID | PathRecord::RAW_TRAFFIC;
        let mad = request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted);
        let by = Address::gsi(lid(&subnet, host(from)), Sl(0));
        let reply = ask(&subnet, &by, &mad).expect("a reply");
        assert_eq!(Header::read(&reply.mad).status(), expected, "raw from {from} to {to}");
    }
}

/// With torus-2QoS the high bit of the partition's SL counts; the others come from the path.
#[test]
fn the_partitions_sl_is_a_hint_for_its_paths() {
    let sl_of_path = |sl, key| {
        let (shape, subnet) = subnet(|shape, options| {
            let mut all = small_partition(shape, options);
            all[0].sl = Sl(sl);
            all
        });
        let ends = [host(&shape, 0), host(&shape, 1)];
        let mad = path_request(ends[0], ends[1], key);
        let from = Address::gsi(lid(&subnet, ends[0]), Sl(0));
        let reply = ask(&subnet, &from, &mad).expect("a reply");
        PathRecord::parse(&reply.mad[DATA_OFFSET..]).sl().0
    };
    let low = sl_of_path(0, None);
    assert!(low < 8);
    assert_eq!(sl_of_path(7, None), low);
    assert_eq!(sl_of_path(8, None), low + 8);
    assert_eq!(sl_of_path(15, Some(Pkey(0x1234))), low + 8);
}

/// The GUIDs of the subscribers to which reports are under way.
fn reported(dispatcher: &mut NoticeDispatcher, subnet: &Subnet) -> Vec<Guid> {
    let patience = notices::report_retry(&subnet.options);
    let mut heard = Vec::new();
    while let Some(report) = dispatcher.next(Instant::now(), patience) {
        let port = subnet.plan.lids.port(report.to.lid).expect("a subscriber");
        heard.push(subnet.fabric.port(port).guid);
        dispatcher.report_completed(report.tid, true, Instant::now());
    }
    heard.sort();
    heard
}

#[test]
fn reports_stay_within_partitions() {
    let (shape, subnet) = subnet(small_partition);
    let hosts = [0, 1, 2].map(|n| host(&shape, n));
    let stranger = Guid(shape.host_guid([1, 1, 0], 0).0 + 1);
    let mut sa = Responder::default();
    let mut subscribe = |port: Guid, trusted: bool, last: u16| {
        let mut info = InformInfo::default();
        info.set_lid_range_begin(Lid(if last > 0 { lid(&subnet, port).0 } else { 0xFFFF }));
        info.set_lid_range_end(Lid(last));
        info.set_is_generic(1);
        info.set_subscribe(1);
        info.set_notice_type(0xFFFF);
        info.set_trap_number(0xFFFF);
        info.set_producer_type(0xFF_FFFF);
        let mut mad = request(SaAttr::INFORM_INFO, Method::SET, 0, &info);
        mad.0[SA_OFFSET + 7] = trusted.into();
        let from = Address::gsi(lid(&subnet, port), Sl(0));
        let reply = sa.handle(&subnet, &from, &mad.0, Instant::now()).expect("a reply");
        Header::read(&reply.mad).status()
    };
    for port in hosts {
        assert_eq!(subscribe(port, false, 0), 0);
    }
    assert_eq!(subscribe(stranger, true, 0), 0);
    assert_eq!(subscribe(hosts[1], false, u16::MAX), 0x0200, "not all of them are its to see");
    let registry = sa.registry_mut();
    let mut dispatcher = NoticeDispatcher::default();
    let mut subscribers = |from: Guid, number: u16| {
        let mut notice = Notice::default();
        notice.set_is_generic(true);
        notice.set_producer_type(1);
        notice.set_trap_number(number);
        notice.set_issuer_lid(lid(&subnet, from));
        let forwarded =
            dispatcher.forward_trap(registry, &subnet, lid(&subnet, from), notice, Instant::now());
        assert_eq!(forwarded, Ok(()));
        reported(&mut dispatcher, &subnet)
    };
    // Limited members get no reports about each other.
    assert_eq!(subscribers(hosts[0], TrapNumber::LOCAL_CHANGES), hosts);
    assert_eq!(subscribers(hosts[1], TrapNumber::LOCAL_CHANGES), [hosts[0]]);
    assert_eq!(subscribers(stranger, TrapNumber::LOCAL_CHANGES), []);
    assert_eq!(
        subscribers(hosts[0], TrapNumber::BAD_P_KEY),
        [],
        "no member of the partition is trusted"
    );
    let event = GroupEvent { created: true, mgid: Gid([0xFF; 16]), pkey: Pkey(0x9234) };
    dispatcher.group_events(registry, &subnet, &[event], Instant::now());
    assert_eq!(reported(&mut dispatcher, &subnet), hosts);
    assert!(
        dispatcher
            .forward_trap(registry, &subnet, Lid(5000), Notice::default(), Instant::now())
            .is_err()
    );
}

/// o13-17.1.2: a subscription to LIDs ends when its subscriber shares no partition with them any
/// more.
#[test]
fn a_subscription_beyond_its_partition_ends() {
    let (shape, before) = subnet(|shape, options| {
        let mut all = small_partition(shape, options);
        all[0].members.truncate(2);
        all.extend(partitions::default(options));
        all
    });
    let (_, after) = subnet(small_partition);
    let first = host(&shape, 0);
    let stranger = Guid(shape.host_guid([1, 1, 0], 0).0 + 1);
    let mut info = InformInfo::default();
    info.set_lid_range_begin(lid(&before, stranger));
    info.set_is_generic(1);
    info.set_subscribe(1);
    info.set_notice_type(0xFFFF);
    info.set_trap_number(0xFFFF);
    info.set_producer_type(0xFF_FFFF);
    let mad = request(SaAttr::INFORM_INFO, Method::SET, 0, &info);
    let from = Address::gsi(lid(&before, first), Sl(0));
    let mut sa = Responder::default();
    sa.handle(&before, &from, &mad.0, Instant::now()).expect("a reply");
    let registry = sa.registry_mut();
    let mut dispatcher = NoticeDispatcher::default();
    let mut notice = Notice::default();
    notice.set_is_generic(true);
    notice.set_producer_type(1);
    notice.set_issuer_lid(lid(&before, stranger));
    for (subnet, heard) in [(&before, vec![first]), (&after, vec![])] {
        let from = lid(subnet, stranger);
        assert_eq!(dispatcher.forward_trap(registry, subnet, from, notice, Instant::now()), Ok(()));
        assert_eq!(reported(&mut dispatcher, subnet), heard);
        assert_eq!(registry.subscriptions().is_empty(), heard.is_empty());
    }
}

#[test]
fn nodes_are_seen_within_partitions() {
    let (shape, subnet) = subnet(small_partition);
    let all = request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &NodeRecord::default());
    let stranger = Guid(shape.host_guid([1, 1, 0], 0).0 + 1);
    for (asker, seen) in [(host(&shape, 0), 3), (host(&shape, 1), 2), (stranger, 1)] {
        let reply = ask(&subnet, &Address::gsi(lid(&subnet, asker), Sl(0)), &all);
        let records = (reply.expect("a reply").mad.len() - DATA_OFFSET) / NodeRecord::STRIDE;
        assert_eq!(records, seen, "{asker}");
    }
}

#[test]
fn requesters_are_identified_by_lid_and_forged_gids_are_dropped() {
    let (shape, subnet) = subnet(|_, options| partitions::default(options));
    let mad = path_request(host(&shape, 1), host(&shape, 2), None);
    let from = |lid: Lid, prefix: u64, guid: Guid| {
        let gid = Gid::new(prefix, guid);
        let grh = Grh { gid, gid_index: 0, hop_limit: 63, traffic_class: 7, flow_label: 0x12345 };
        Address { grh: Some(grh), qpn: 0x77, ..Address::gsi(lid, Sl(3)) }
    };
    let nobody = Lid(0xBFFE);
    let own = lid(&subnet, host(&shape, 1));
    assert_eq!(ask(&subnet, &Address::gsi(nobody, Sl(0)), &mad), None, "no port has that LID");
    assert_eq!(ask(&subnet, &from(nobody, PREFIX, host(&shape, 1)), &mad), None);
    assert_eq!(ask(&subnet, &from(own, PREFIX, host(&shape, 2)), &mad), None, "another port's GID");
    for (prefix, guid) in [
        (PREFIX, host(&shape, 1)),
        // A GUID of a virtual port that is not registered.
        (PREFIX, Guid(0xABCD)),
        // A client of another subnet, behind the router at this LID.
        (0xfec0_0000_0000_0001, host(&shape, 2)),
    ] {
        let from = from(own, prefix, guid);
        let reply = ask(&subnet, &from, &mad).expect("a reply");
        assert_eq!(Header::read(&reply.mad).status(), 0);
        assert_eq!(reply.to, from);
    }
}

#[test]
fn paths_to_other_subnets_lead_to_routers() {
    let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
    let mut topology = shape.build().expect("a torus");
    let near = shape.host_guid([1, 1, 0], 0);
    let far = shape.host_guid([2, 2, 0], 0);
    for node in topology.nodes.iter_mut().filter(|node| [near, far].contains(&node.guid)) {
        node.kind = NodeKind::Router;
    }
    let fabric =
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0 exists");
    let options = Options { qos: true, ..Options::default() };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    let subnet = testkit::snapshot::subnet(fabric, options, &config, &partitions);
    let near = Guid(near.0 + 1);
    let far = Guid(far.0 + 1);
    let text = format!("fec0000000000001 {far}\nfec0000000000002 *\nfec0000000000003 0x77\n");
    let parsed = prefix_routes::parse(Path::new("prefix-routes.conf"), &text);
    assert_eq!(parsed.diagnostics, []);
    let mut responder = Responder::default();
    responder.set_prefix_routes(parsed.entries);
    let asker = host(&shape, 1);
    let mut ask = |prefix: u64| {
        let mut wanted = PathRecord::default();
        wanted.set_sgid(Gid::new(PREFIX, asker));
        wanted.set_dgid(Gid::new(prefix, Guid(0x1234)));
        let mask = PathRecord::SGID | PathRecord::DGID;
        let mad = request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted);
        let from = Address::gsi(lid(&subnet, asker), Sl(0));
        let reply = responder.handle(&subnet, &from, &mad.0, Instant::now()).expect("a reply");
        let record = PathRecord::parse(&reply.mad[DATA_OFFSET..]);
        match Header::read(&reply.mad).status() {
            0 => Ok((record.dlid(), record.dgid(), record.hop_limit())),
            status => Err(status),
        }
    };
    let answer = |prefix, router| Ok((lid(&subnet, router), Gid::new(prefix, Guid(0x1234)), 255));
    let first = 0xfec0_0000_0000_0001;
    assert_eq!(ask(first), answer(first, far));
    let lowest = [near, far].into_iter().min_by_key(|guid| guid.0.swap_bytes());
    assert_eq!(ask(first + 1), answer(first + 1, lowest.expect("one of two")));
    assert_eq!(ask(first + 2), Err(0x0500), "no router has this GUID");
    assert_eq!(ask(first + 3), Err(0x0500), "no line fits");
    beyond_routers_paths_are_as_configured(subnet, asker, &text);
}

fn beyond_routers_paths_are_as_configured(mut subnet: Subnet, asker: Guid, routes: &str) {
    let parsed = prefix_routes::parse(Path::new("prefix-routes.conf"), routes);
    let mut responder = Responder::default();
    responder.set_prefix_routes(parsed.entries);
    let mut wanted = PathRecord::default();
    wanted.set_sgid(Gid::new(PREFIX, asker));
    wanted.set_dgid(Gid::new(0xfec0_0000_0000_0001, Guid(0x1234)));
    let mask = PathRecord::SGID | PathRecord::DGID;
    let mut ask = |subnet: &Subnet, mask, wanted: &PathRecord| {
        let mad = request(SaAttr::PATH_RECORD, Method::GET, mask, wanted);
        let from = Address::gsi(lid(subnet, asker), Sl(0));
        let reply = responder.handle(subnet, &from, &mad.0, Instant::now()).expect("a reply");
        let record = PathRecord::parse(&reply.mad[DATA_OFFSET..]);
        (Header::read(&reply.mad).status(), record)
    };
    let (_, usual) = ask(&subnet, mask, &wanted);
    assert_eq!((usual.flow_label(), usual.traffic_class(), usual.mtu()), (0, 0, 4));
    subnet.options = Arc::new(Options {
        rtr_pr_flow_label: 0x12345,
        rtr_pr_tclass: 7,
        rtr_pr_sl: 8,
        rtr_pr_mtu: 2,
        rtr_pr_rate: 2,
        ..Options::clone(&subnet.options)
    });
    let (status, record) = ask(&subnet, mask, &wanted);
    assert_eq!((status, record.flow_label(), record.traffic_class()), (0, 0x12345, 7));
    // torus-2QoS takes the highest bit.
    assert_eq!((record.sl().0, record.mtu(), record.rate()), (usual.sl().0 | 8, 2, 2));
    // The MTU is limited by the path to the router, and paths within the subnet are not affected.
    let generous = Options { rtr_pr_mtu: 5, rtr_pr_rate: 24, ..Options::clone(&subnet.options) };
    subnet.options = Arc::new(generous);
    let (_, record) = ask(&subnet, mask, &wanted);
    assert_eq!((record.mtu(), record.rate()), (usual.mtu(), usual.rate()));
    wanted.set_dgid(Gid::new(PREFIX, asker));
    let (_, record) = ask(&subnet, mask, &wanted);
    assert_eq!((record.flow_label(), record.traffic_class(), record.sl()), (0, 0, Sl(0)));
}

#[test]
fn only_partners_set_alias_guids() {
    let (shape, mut subnet) = subnet(small_partition);
    let options = Options { sa_allow_untrusted_guidinfo: true, ..(*subnet.options).clone() };
    subnet.options = Arc::new(options);
    let stranger = Guid(shape.host_guid([1, 1, 0], 0).0 + 1);
    let owner = host(&shape, 0);
    let mut record = GuidInfoRecord::default();
    record.set_lid(lid(&subnet, owner));
    let mut guids = record.guids();
    guids.0[1] = Guid(0xA1);
    record.set_guids(&guids);
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK | GuidInfoRecord::GID1;
    // Limited members can talk to the full member only.
    let askers = [(host(&shape, 1), owner, 0), (stranger, owner, 0x0300)];
    let limited = (host(&shape, 1), host(&shape, 2), 0x0300);
    for (asker, of, status) in askers.into_iter().chain([limited]) {
        record.set_lid(lid(&subnet, of));
        for method in [Method::SET, Method::DELETE] {
            let mad = request(SaAttr::GUID_INFO_RECORD, method, mask, &record);
            let from = Address::gsi(lid(&subnet, asker), Sl(0));
            let reply = ask(&subnet, &from, &mad).expect("a reply");
            assert_eq!(Header::read(&reply.mad).status(), status, "{method} by {asker} of {of}");
        }
    }
}

#[test]
fn a_trace_hides_nodes_of_other_partitions() {
    let (shape, subnet) = subnet(small_partition);
    let [from, to] = [host(&shape, 0), host(&shape, 1)];
    let mut path = PathRecord::default();
    path.set_sgid(Gid::new(PREFIX, from));
    path.set_dgid(Gid::new(PREFIX, to));
    let mask = PathRecord::SGID | PathRecord::DGID;
    let mad = request(SaAttr::TRACE_RECORD, Method::GET_TRACE_TABLE, mask, &path);
    let trace = |asker: Guid| {
        let reply = ask(&subnet, &Address::gsi(lid(&subnet, asker), Sl(0)), &mad).expect("a reply");
        assert_eq!(Header::read(&reply.mad).status(), 0);
        let records = reply.mad[DATA_OFFSET..].chunks_exact(TraceRecord::STRIDE);
        records.map(TraceRecord::parse).collect::<Vec<_>>()
    };
    let records = trace(from);
    let nodes: Vec<u64> = records.iter().map(TraceRecord::node_id).collect();
    assert_eq!(nodes, [from.0 - 1, 0, 0, to.0 - 1]);
    let mut unnamed = TraceRecord::default();
    unnamed.set_gid_prefix(PREFIX);
    unnamed.set_id_generation(1);
    unnamed.set_node_type(NodeKind::Switch);
    assert_eq!(records[1..3], [unnamed; 2]);
    let stranger = Guid(shape.host_guid([1, 1, 0], 0).0 + 1);
    assert_eq!(trace(stranger), [], "it does not see the ends");
}
