//! MultiPathRecord and TraceRecord queries on a 3x3 torus with two hosts per switch, routed by
//! torus-2QoS.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use testkit::sa_client::request;
use torus_sm::config::options::Options;
use torus_sm::config::qos_policy::QosPolicy;
use torus_sm::config::torus::TorusConfig;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::{Fabric, SwitchId};
use torus_sm::ids::{Gid, Guid, Lid, Pkey, Sl};
use torus_sm::plan::partitions;
use torus_sm::plan::qos::policy::EffectivePolicy;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::Address;
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::attr::tables::LFT_NO_PATH;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{MultiPathRecord, PathRecord, Record, Selector, TraceRecord};
use torus_sm::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader, SaAttr};

const PREFIX: u64 = 0xfe80_0000_0000_0000;

struct Fixture {
    shape: Shape,
    subnet: Subnet,
}

fn fixture(lmc: u8) -> Fixture {
    let shape = Shape { hosts: 2, ..Shape::torus([3, 3, 1]) };
    let topology = shape.build().expect("a torus");
    let fabric =
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0 exists");
    let options = Options { qos: true, lmc, ..Options::default() };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    let subnet = testkit::snapshot::subnet(fabric, options, &config, &partitions);
    Fixture { shape, subnet }
}

impl Fixture {
    fn gid(&self, at: [u16; 2], host: u8) -> Gid {
        let guid = self.shape.host_guid([at[0], at[1], 0], host);
        Gid::new(PREFIX, Guid(guid.0 + 1))
    }

    /// The reply to host 0 of switch 0,0.
    fn ask(&self, mad: &[u8]) -> (Header, Vec<PathRecord>) {
        let asker = self.subnet.fabric.port_by_guid(self.gid([0, 0], 0).guid()).expect("a port");
        let lid = self.subnet.plan.lids.base(asker).expect("a LID");
        let from = Address::gsi(lid, Sl(0));
        let reply = Responder::default().handle(&self.subnet, &from, mad, Instant::now());
        let mad = reply.expect("a reply").mad;
        let header = Header::read(&mad);
        let records = if header.status() == 0 { &mad[DATA_OFFSET..] } else { &[] };
        (header, records.chunks_exact(PathRecord::STRIDE).map(PathRecord::parse).collect())
    }

    /// Sends a GetMulti as RMPP delivers it: without padding.
    fn multi(&self, wanted: &Wanted) -> (u16, Vec<PathRecord>) {
        let (header, paths) = self.ask(&wanted.message());
        assert_eq!(Method(header.method()), Method::GET_MULTI_RESP);
        let answered = header.status() == 0;
        let attribute = if answered { SaAttr::PATH_RECORD } else { SaAttr::MULTI_PATH_RECORD };
        assert_eq!(header.attr_id(), attribute);
        (header.status(), paths)
    }

    /// The PathRecord that a query by the LIDs of a path returns.
    fn single(&self, path: &PathRecord) -> PathRecord {
        let mut wanted = PathRecord::default();
        wanted.set_slid(path.slid());
        wanted.set_dlid(path.dlid());
        let mask = PathRecord::SLID | PathRecord::DLID;
        let mad = request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted);
        let mut found = self.ask(&mad.0).1[0];
        found.set_preference(path.preference());
        found
    }

    /// The switches on a path, from the forwarding tables.
    fn switches(&self, path: &PathRecord) -> Vec<u32> {
        let fabric = &self.subnet.fabric;
        let plan = &self.subnet.plan;
        let end = plan.lids.port(path.dlid()).expect("a port");
        let mut at = plan.lids.port(path.slid()).expect("a port");
        let mut switches = Vec::new();
        while at != end {
            let node = fabric.node_of(at);
            let exit = match node.switch {
                Some(switch) => {
                    switches.push(switch.0);
                    let out = plan.routing.lfts[switch.index()].out(path.dlid()).expect("a way");
                    torus_sm::fabric::PortId(node.first_port.0 + u32::from(out))
                }
                None => at,
            };
            at = fabric.port(exit).peer.expect("a cable");
        }
        switches
    }
}

#[derive(Clone)]
struct Wanted {
    mask: u64,
    record: MultiPathRecord,
    gids: Vec<Gid>,
}

impl Wanted {
    fn new(sources: &[Gid], targets: &[Gid]) -> Self {
        let mut record = MultiPathRecord::default();
        record.set_sgid_count(sources.len() as u8);
        record.set_dgid_count(targets.len() as u8);
        let mask = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
        Self { mask, record, gids: [sources, targets].concat() }
    }

    fn with(mut self, mask: u64, change: impl Fn(&mut MultiPathRecord)) -> Self {
        self.mask |= mask;
        change(&mut self.record);
        self
    }

    fn message(&self) -> Vec<u8> {
        let Mad(head) =
            request(SaAttr::MULTI_PATH_RECORD, Method::GET_MULTI, self.mask, &self.record);
        let mut mad = head[..DATA_OFFSET + MultiPathRecord::STRIDE].to_vec();
        self.gids.iter().for_each(|gid| mad.extend_from_slice(&gid.0));
        RmppHeader::message(mad.len() - DATA_OFFSET).write(&mut mad[RMPP_OFFSET..]);
        mad
    }
}

#[test]
fn every_path_equals_that_of_a_path_query() {
    let f = fixture(1);
    let sources = [f.gid([0, 0], 0), f.gid([0, 0], 1)];
    let targets = [f.gid([1, 2], 0), f.gid([2, 1], 1), f.gid([0, 1], 0)];
    let (status, paths) = f.multi(&Wanted::new(&sources, &targets));
    assert_eq!((status, paths.len()), (0, 2 * 3 * 4), "two LIDs at each end");
    for path in &paths {
        assert_eq!(*path, f.single(path));
        assert!(sources.contains(&path.sgid()) && targets.contains(&path.dgid()));
    }
    let mut lids: Vec<_> = paths.iter().map(|path| (path.slid(), path.dlid())).collect();
    lids.sort_unstable();
    lids.dedup();
    assert_eq!(lids.len(), paths.len(), "no path twice");
}

#[test]
fn a_request_of_any_size_is_answered() {
    let f = fixture(7);
    let ports = |host| (0..9).map(move |n| ([n % 3, n / 3], host));
    let all: Vec<Gid> = ports(0).chain(ports(1)).map(|(at, host)| f.gid(at, host)).collect();
    let (status, paths) = f.multi(&Wanted::new(&all, &all));
    assert_eq!((status, paths.len()), (0, 127), "the maximum of NumbPath");
    let from: std::collections::BTreeSet<Gid> = paths.iter().map(|path| path.sgid()).collect();
    assert_eq!(from.len(), all.len(), "every source has a path");
}

#[test]
fn independent_paths_come_first() {
    let f = fixture(0);
    // Both pairs could share a route; 0,0 to 1,0 and 0,2 to 1,2 share nothing.
    let sources = [f.gid([0, 0], 0), f.gid([0, 2], 0)];
    let targets = [f.gid([1, 2], 0), f.gid([1, 0], 0)];
    let (_, paths) = f.multi(&Wanted::new(&sources, &targets));
    assert_eq!(paths.len(), 4);
    let [first, second] = [f.switches(&paths[0]), f.switches(&paths[1])];
    assert!(first.iter().all(|switch| !second.contains(switch)), "{first:?} {second:?}");
    let preferences: Vec<u8> = paths.iter().map(|path| path.preference()).collect();
    assert_eq!(preferences[..2], [0, 0]);
    assert!(preferences[2..].iter().all(|&preference| preference > 0), "{preferences:?}");
    // The first two are the best two.
    let two = |record: &mut MultiPathRecord| record.set_numb_path(2);
    let wanted = Wanted::new(&sources, &targets).with(MultiPathRecord::NUMB_PATH, two);
    assert_eq!(f.multi(&wanted).1, paths[..2]);
    // Ports of one switch share that switch and nothing else.
    let targets = [f.gid([0, 0], 1), f.gid([0, 2], 1)];
    let (_, paths) = f.multi(&Wanted::new(&sources[..1], &[targets[0], sources[0]]));
    assert_eq!(paths.len(), 2);
    assert_eq!((paths[0].preference(), paths[1].preference()), (0, 0), "one needs no cable");
}

/// Switches without an entry for a LID drop its packets: no record has that path, whether the other
/// pairs of the request have a route or not.
#[test]
fn a_pair_without_a_route_has_no_record() {
    let mut f = fixture(0);
    let here = f.gid([0, 0], 0);
    let lost = f.gid([1, 1], 0);
    let there = f.gid([2, 1], 0);
    assert_eq!(f.multi(&Wanted::new(&[here], &[lost])).0, 0, "with a route");
    let port = f.subnet.fabric.port_by_guid(lost.guid()).expect("a port");
    let own = f.subnet.fabric.switch_behind(port).expect("a switch");
    let plan = Arc::make_mut(&mut f.subnet.plan);
    let lid = plan.lids.base(port).expect("a LID");
    let routing = Arc::make_mut(&mut plan.routing);
    for (switch, lft) in routing.lfts.iter_mut().enumerate() {
        if switch != own.index() {
            Arc::make_mut(lft).set(lid, LFT_NO_PATH);
        }
    }
    // A new snapshot, as after a sweep.
    f.subnet.generation += 1;
    assert_eq!(f.multi(&Wanted::new(&[here], &[lost])), (0, vec![]), "no records, as OpenSM");
    let (status, paths) = f.multi(&Wanted::new(&[here], &[lost, there]));
    assert_eq!((status, paths.len()), (0, 1));
    assert_eq!(paths[0].dgid(), there);
    let neighbour = f.gid([1, 1], 1);
    assert_eq!(f.multi(&Wanted::new(&[neighbour], &[lost])).0, 0, "at the same switch");
}

/// torus-2QoS leaves a few pairs of switches of a damaged torus without a route: exactly these get no
/// record.
#[test]
fn pairs_that_a_repaired_torus_lists_have_no_record() {
    let missing_switches = vec![[7, 6, 0], [2, 6, 0]];
    let shape = Shape { missing_switches, ..Shape::torus([8, 8, 1]) };
    let subnet = testkit::snapshot::of_shape(&shape, partitions::default);
    let f = Fixture { shape, subnet };
    let fabric = &f.subnet.fabric;
    let listed = f.subnet.plan.routing.policy.unrouted_switches().expect("a list");
    assert_eq!(listed.len(), 4);
    let host = |switch: SwitchId| {
        let mut hosts = fabric.end_ports().filter(|&port| !fabric.node_of(port).is_switch());
        let port = hosts.find(|&port| fabric.switch_behind(port) == Some(switch)).expect("a host");
        Gid::new(PREFIX, fabric.port(port).guid)
    };
    let all: Vec<Gid> = fabric.switch_ids().map(host).collect();
    for &[from, to] in listed {
        let source = host(from);
        let others = all.iter().filter(|&&gid| gid != host(to));
        assert_eq!(f.multi(&Wanted::new(&[source], &[host(to)])), (0, vec![]), "no records");
        let others: Vec<Gid> = others.copied().collect();
        let (status, paths) = f.multi(&Wanted::new(&[source], &others));
        let listed_here = listed.iter().filter(|pair| pair[0] == from).count() - 1;
        assert_eq!((status, paths.len()), (0, others.len() - listed_here));
    }
}

#[test]
fn rejected_requests_and_requests_without_paths() {
    use MultiPathRecord as M;
    let f = fixture(0);
    let here = f.gid([0, 0], 0);
    let there = f.gid([1, 1], 0);
    let good = Wanted::new(&[here], &[there]);
    let stranger = Gid::new(PREFIX, Guid(0xdead));
    let foreign = Gid::new(0x1234, there.guid());
    let group = Gid([0xff; 16]);
    let mut only_sources = good.clone();
    only_sources.mask = M::SGID_COUNT;
    let mut short = good.clone();
    short.gids.pop();
    let table = [
        ("good", good.clone(), (0, 1)),
        ("itself", Wanted::new(&[here], &[here]), (0, 1)),
        ("the same twice", Wanted::new(&[here, here], &[there, there]), (0, 1)),
        ("no count of targets", only_sources, (0x0600, 0)),
        ("no source", Wanted::new(&[], &[there]), (0x0200, 0)),
        ("fewer GIDs than counted", short, (0x0200, 0)),
        ("unknown source", Wanted::new(&[stranger], &[there]), (0x0500, 0)),
        ("unknown target", Wanted::new(&[here], &[there, stranger]), (0x0500, 0)),
        ("another subnet", Wanted::new(&[here], &[foreign]), (0x0500, 0)),
        ("a group", Wanted::new(&[here], &[group]), (0x0500, 0)),
        ("half a service", good.clone().with(M::SERVICE_ID_LSB, |_| ()), (0x0600, 0)),
        ("no MTU", good.clone().with(M::MTU_SELECTOR | M::MTU, |r| r.set_mtu(9)), (0x0200, 0)),
        ("no rate", good.clone().with(M::RATE_SELECTOR | M::RATE, |r| r.set_rate(1)), (0x0200, 0)),
        ("raw", good.clone().with(M::RAW_TRAFFIC, |r| r.set_raw_traffic(true)), (0, 1)),
        ("none", good.clone().with(M::NUMB_PATH, |r| r.set_numb_path(0)), (0, 0)),
        ("no such key", good.clone().with(M::PKEY, |r| r.set_pkey(Pkey(0x8001))), (0, 0)),
        ("our key", good.clone().with(M::PKEY, |r| r.set_pkey(Pkey(0xFFFF))), (0, 1)),
        ("both ways", good.clone().with(M::REVERSIBLE, |r| r.set_reversible(true)), (0, 1)),
        (
            "more than there is",
            good.clone().with(M::MTU_SELECTOR | M::MTU, |r| r.set_mtu(5)),
            (0, 0),
        ),
    ];
    for (name, wanted, expected) in table {
        let (status, paths) = f.multi(&wanted);
        assert_eq!((status, paths.len()), expected, "{name}");
    }
}

#[test]
fn selectors_and_the_engines_sl() {
    use MultiPathRecord as M;
    let f = fixture(0);
    let wanted = Wanted::new(&[f.gid([0, 0], 0)], &[f.gid([2, 2], 0)]);
    let exactly = |r: &mut M| {
        r.set_mtu_selector(Selector::Exactly);
        r.set_mtu(2);
    };
    let path = f.multi(&wanted.clone().with(M::MTU_SELECTOR | M::MTU, exactly)).1[0];
    assert_eq!(path.mtu(), 2);
    let sl = f.multi(&wanted).1[0].sl();
    let asked = |sl: u8| {
        let wanted = wanted.clone().with(M::SL, |r| r.set_sl(Sl(sl)));
        f.multi(&wanted).1.iter().map(|path| path.sl().0).collect::<Vec<_>>()
    };
    assert_eq!(asked(sl.0), [sl.0]);
    assert!(asked(sl.0 ^ 1).is_empty(), "the engine has no such path");
}

#[test]
fn only_messages_of_rmpp_are_answered() {
    let f = fixture(0);
    let wanted = Wanted::new(&[f.gid([0, 0], 0)], &[f.gid([1, 0], 0)]);
    let mut single = Mad::default();
    let message = wanted.message();
    single.0[..message.len()].copy_from_slice(&message);
    RmppHeader::default().write(&mut single.0[RMPP_OFFSET..]);
    assert_eq!(f.ask(&single.0).0.status(), 0x0200);
    let unknown = Address::gsi(Lid(0xBEEF), Sl(0));
    let mut sa = Responder::default();
    assert_eq!(sa.handle(&f.subnet, &unknown, &message, Instant::now()), None);
    assert_eq!(sa.handle(&f.subnet, &unknown, &message[..40], Instant::now()), None);
    assert_eq!(sa.counters().drops().count(), 2);
}

const POLICY: &str = "
qos-levels
    qos-level
        name: DEFAULT
        sl: 0
    end-qos-level
    qos-level
        name: gold
        sl: 8
        mtu-limit: 1024
        packet-life: 9
        path-bits: 1
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        qos-class: 1
        qos-level-name: gold
    end-qos-match-rule
end-qos-match-rules
";

#[test]
fn paths_have_the_level_of_the_policy() {
    use MultiPathRecord as M;
    let mut f = fixture(1);
    let (policy, findings) = QosPolicy::parse(Path::new("qos-policy.conf"), POLICY);
    let policy = Arc::new(policy.unwrap_or_else(|| panic!("{findings:?}")));
    let keys = &f.subnet.plan.partitions.keys;
    let (made, _) = EffectivePolicy::new(policy, &f.subnet.fabric, keys, &[], None);
    f.subnet.qos_policy = Some(Arc::new(made));
    let wanted = Wanted::new(&[f.gid([0, 0], 0)], &[f.gid([1, 2], 0), f.gid([2, 1], 1)]);
    let (_, usual) = f.multi(&wanted);
    let gold = wanted.clone().with(M::QOS_CLASS, |r| r.set_qos_class(1));
    let (_, paths) = f.multi(&gold);
    // With two LIDs at each end, the paths whose bit equals that of the target.
    assert_eq!((usual.len(), paths.len()), (8, 4));
    for path in &paths {
        assert_eq!((path.mtu(), path.packet_life(), path.sl().0 & 8), (3, 9, 8));
        assert_eq!(path.dlid().0 & 1, 1);
    }
    let other_sl = gold.with(M::SL, |r| r.set_sl(Sl(0)));
    assert_eq!(f.multi(&other_sl), (0, vec![]), "the level has another SL");
}

const BY_GIDS: u64 = PathRecord::SGID | PathRecord::DGID;
const BY_LIDS: u64 = PathRecord::SLID | PathRecord::DLID;

impl Fixture {
    /// The trace of a path: status and records.
    fn trace(&self, mask: u64, path: &PathRecord) -> (u16, Vec<TraceRecord>) {
        let mad = request(SaAttr::TRACE_RECORD, Method::GET_TRACE_TABLE, mask, path);
        let asker = self.subnet.fabric.port_by_guid(self.gid([0, 0], 0).guid()).expect("a port");
        let from = Address::gsi(self.subnet.plan.lids.base(asker).expect("a LID"), Sl(0));
        let mut sa = Responder::default();
        let reply = sa.handle(&self.subnet, &from, &mad.0, Instant::now()).expect("a reply").mad;
        let header = Header::read(&reply);
        assert_eq!((header.method(), header.attr_id()), (0x92, SaAttr::TRACE_RECORD));
        let records = if header.status() == 0 { &reply[DATA_OFFSET..] } else { &[] };
        let records = records.chunks_exact(TraceRecord::STRIDE).map(TraceRecord::parse);
        (header.status(), records.collect())
    }
}

#[test]
fn a_trace_follows_the_forwarding_tables() {
    let f = fixture(1);
    let fabric = &f.subnet.fabric;
    for (at, lid_bit) in [([0, 0], 0), ([1, 0], 1), ([2, 2], 0), ([1, 2], 1)] {
        let mut path = PathRecord::default();
        let [from, to] = [f.gid([0, 0], 0), f.gid(at, 1)];
        path.set_sgid(from);
        path.set_dgid(to);
        let lid = |gid: Gid| {
            let port = fabric.port_by_guid(gid.guid()).expect("a port");
            f.subnet.plan.lids.base(port).expect("a LID")
        };
        path.set_slid(lid(from));
        path.set_dlid(Lid(lid(to).0 + lid_bit));
        let (status, trace) = f.trace(BY_GIDS | BY_LIDS, &path);
        assert_eq!(status, 0);
        let (source, rest) = trace.split_first().expect("the source");
        let (destination, between) = rest.split_last().expect("the destination");
        let ends = [(source, from), (destination, to)];
        for (end, gid) in ends {
            assert_eq!((end.node_type(), end.gid_prefix()), (NodeKind::Ca, PREFIX));
            assert_eq!(Guid(end.node_id() + 1), gid.guid());
        }
        assert_eq!((source.entry_port_id(), source.entry_port()), (0, 0));
        assert_eq!((source.exit_port_id(), source.exit_port()), (from.guid().0, 1));
        assert_eq!((destination.entry_port_id(), destination.entry_port()), (to.guid().0, 1));
        assert_eq!((destination.exit_port_id(), destination.exit_port()), (0, 0));
        let switch = |number: &u32| fabric.node(fabric.switches()[*number as usize]).guid().0;
        let switches: Vec<u64> = f.switches(&path).iter().map(switch).collect();
        assert_eq!(between.iter().map(TraceRecord::node_id).collect::<Vec<_>>(), switches);
        for pair in trace.windows(2) {
            let port = |id: u64, num: u8| {
                let guid = Guid(id);
                let node = fabric.node_ids().find(|node| fabric.node(*node).guid() == guid);
                fabric.port_of(node.expect("a node"), torus_sm::ids::PortNum(num)).expect("a port")
            };
            let exit = port(pair[0].node_id(), pair[0].exit_port());
            let entry = port(pair[1].node_id(), pair[1].entry_port());
            assert_eq!(fabric.port(exit).peer, Some(entry), "a cable");
        }
        let ids: Vec<u64> = trace
            .iter()
            .flat_map(|hop| [hop.entry_port_id(), hop.exit_port_id()])
            .filter(|id| *id != 0)
            .collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(ids.len(), unique.len());
        let by_gids = f.trace(BY_GIDS, &path);
        path.set_dlid(lid(to));
        assert_eq!(by_gids, f.trace(BY_LIDS, &path), "the first of its paths");
    }
}

#[test]
fn rejected_traces() {
    let f = fixture(0);
    let mut path = PathRecord::default();
    path.set_sgid(f.gid([0, 0], 0));
    path.set_dgid(f.gid([1, 0], 0));
    path.set_mtu(9);
    let mtu = PathRecord::MTU | PathRecord::MTU_SELECTOR;
    let table = [
        (BY_GIDS, 0, 4),
        (PathRecord::SGID, 0x600, 0),
        (PathRecord::DGID | PathRecord::DLID, 0x600, 0),
        (0, 0x600, 0),
        (BY_GIDS | mtu, 0x200, 0),
        (BY_GIDS | PathRecord::PKEY, 0, 0),
        (BY_GIDS | PathRecord::REVERSIBLE, 0, 4),
    ];
    for (mask, status, count) in table {
        let (got, trace) = f.trace(mask, &path);
        assert_eq!((got, trace.len()), (status, count), "{mask:#x}");
    }
    path.set_dgid(Gid::new(PREFIX, Guid(1)));
    assert_eq!(f.trace(BY_GIDS, &path), (0x500, vec![]));
    path.set_dgid(path.sgid());
    let (_, own) = f.trace(BY_GIDS, &path);
    assert_eq!((own.len(), own[0].entry_port(), own[0].exit_port()), (1, 0, 0));
}
