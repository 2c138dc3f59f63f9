//! Queries to the subnet administrator on a 3x3 torus with one host per switch.

mod joins;

use proptest::prelude::*;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use torus_sm::config::options::Options;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::fabric::topology::{Topology, TopologyNode};
use torus_sm::fabric::{Fabric, PortId};
use torus_sm::ids::{Gid, Guid, Lid, Mlid, Pkey, PortNum, Sl, SmKey};
use torus_sm::plan::partitions;
use torus_sm::plan::port_targets::PortTargets;
use torus_sm::plan::routing::{Lft, Routing, RoutingPolicy};
use torus_sm::plan::{LidTable, Plan};
use torus_sm::publish::Subnet;
use torus_sm::sa::{GroupSpec, Responder};
use torus_sm::transport::Address;
use torus_sm::wire::attr::{NodeKind, PortInfo, PortState, SmInfo, SmState};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::tables::*;
use torus_sm::wire::record::*;
use torus_sm::wire::sa::{RmppHeader, SaAttr, SaHeader};

const PREFIX: u64 = 0xfe80_0000_0000_0000;
const HOSTS: u64 = 0x1_0000;

/// SL 1 between hosts of different parity, else 0; bit 3 as requested.
struct Parity;

impl RoutingPolicy for Parity {
    fn path_sl(&self, source: PortId, destination: PortId, hint: Sl) -> Sl {
        Sl(((source.0 ^ destination.0) & 1) as u8 | hint.0 & 8)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn node(kind: NodeKind, guid: u64, num_ports: u8) -> TopologyNode {
    TopologyNode::new(kind, Guid(guid), num_ports).described(format!("node {guid:x}"))
}

/// Switches 1..=9 in rows of three, each with the host `HOSTS * n` at port 5.
fn torus() -> Topology {
    let mut topology = Topology::default();
    for n in 0..9u64 {
        topology.nodes.push(node(NodeKind::Switch, n + 1, 5));
    }
    for n in 0..9u64 {
        topology.nodes.push(node(NodeKind::Ca, HOSTS * (n + 1), 1));
    }
    for n in 0..9usize {
        let right = n / 3 * 3 + (n + 1) % 3;
        let below = (n + 3) % 9;
        topology.cables.push([(n, PortNum(1)), (right, PortNum(2))]);
        topology.cables.push([(n, PortNum(3)), (below, PortNum(4))]);
        topology.cables.push([(n, PortNum(5)), (n + 9, PortNum(1))]);
    }
    topology
}

/// Shortest paths by breadth-first search from every end port.
fn route(fabric: &Fabric, lids: &LidTable) -> Vec<Arc<Lft>> {
    let mut lfts = vec![Lft::empty(lids.max()); fabric.switches().len()];
    for (lid, port) in lids.iter() {
        let mut queue = VecDeque::new();
        let mut seen = vec![false; fabric.switches().len()];
        if let Some(switch) = fabric.node_of(port).switch {
            lfts[switch.index()].set(lid, 0);
            seen[switch.index()] = true;
            queue.push_back(switch);
        } else if let Some(peer) = fabric.port(port).peer
            && let Some(switch) = fabric.node_of(peer).switch
        {
            lfts[switch.index()].set(lid, fabric.port(peer).num.0);
            seen[switch.index()] = true;
            queue.push_back(switch);
        }
        while let Some(switch) = queue.pop_front() {
            for port in fabric.ports_of(fabric.switches()[switch.index()]) {
                let Some(peer) = port.peer else { continue };
                let Some(next) = fabric.node_of(peer).switch else { continue };
                if !seen[next.index()] {
                    seen[next.index()] = true;
                    lfts[next.index()].set(lid, fabric.port(peer).num.0);
                    queue.push_back(next);
                }
            }
        }
    }
    lfts.into_iter().map(Arc::new).collect()
}

/// The settings of each port: links with an MTU of 2048.
fn planned(mut info: PortInfo) -> PortInfo {
    info.set_neighbor_mtu(4);
    info
}

fn subnet(lmc: u8) -> Subnet {
    let view = SyntheticView { state: PortState::Active, ..SyntheticView::default() };
    let mut fabric = Fabric::from_topology(&torus(), 9, &view).expect("the first host is there");
    let ports = fabric.port_ids().zip(fabric.ports());
    let ports = ports.filter_map(|(id, port)| Some((id, planned(port.info()?))));
    let ports: Vec<_> = ports.collect();
    fabric.acknowledge(&ports, &[]);
    let mut lids = LidTable::new(fabric.ports().len());
    let mut next = 1u16 << lmc;
    for port in fabric.end_ports() {
        let own = if fabric.node_of(port).is_switch() { 0 } else { lmc };
        lids.assign(port, Lid(next), own);
        next += 1 << lmc;
    }
    let routing = Routing {
        engine: "test",
        lfts: route(&fabric, &lids),
        policy: Arc::new(Parity),
        notes: Vec::new(),
        routing_errors: Vec::new(),
    };
    let plan = Plan {
        ports: PortTargets::collect(fabric.ports().iter().map(|port| (port.num, port.info()))),
        switch_infos: fabric.switch_ids().map(|id| fabric.switch(id).switch_info).collect(),
        aliases: Vec::new(),
        vport_aliases: Vec::new(),
        lids: Arc::new(lids),
        routing: Arc::new(routing),
        qos: Default::default(),
        partitions: Default::default(),
        multicast: Default::default(),
        notes: Vec::new(),
    };
    Subnet {
        generation: 1,
        fabric: Arc::new(fabric),
        plan: Arc::new(plan),
        options: Arc::new(Options::default()),
        qos_policy: None,
        summary: Default::default(),
        failed_sets: 0,
        devices: Arc::default(),
        restarts: Arc::default(),
        rate_limits: None,
        repair_view: Arc::default(),
    }
}

/// The base LID of host `n`, 1..=9.
fn lid(subnet: &Subnet, n: u64) -> Lid {
    subnet.plan.lids.base(port(subnet, n)).expect("hosts have LIDs")
}

fn port(subnet: &Subnet, n: u64) -> PortId {
    subnet.fabric.port_by_guid(Guid(HOSTS * n + 1)).expect("the host exists")
}

fn gid(n: u64) -> Gid {
    Gid::new(PREFIX, Guid(HOSTS * n + 1))
}

struct Asked {
    attribute: u16,
    method: Method,
    modifier: u32,
    key: u64,
    mask: u64,
}

fn ask(attribute: u16, method: Method, mask: u64) -> Asked {
    Asked { attribute, method, modifier: 0, key: 0, mask }
}

impl Asked {
    fn trusted(mut self) -> Self {
        self.key = 1;
        self
    }

    fn mad<R: Record>(&self, record: &R) -> Mad {
        let mut mad = Mad::default();
        let mut header = Header::default();
        header.set_base_version(1);
        header.set_class(3);
        header.set_class_version(2);
        header.set_method(self.method.0);
        header.set_tid(0x1234_5678);
        header.set_attr_id(self.attribute);
        header.set_attr_mod(self.modifier);
        mad.set_header(&header);
        let mut sa = SaHeader::default();
        sa.set_sm_key(SmKey(self.key));
        sa.set_component_mask(self.mask);
        sa.write(&mut mad.0[36..]);
        mad.0[56..56 + R::STRIDE].copy_from_slice(record.bytes());
        mad
    }

    /// Status and records of the reply to host 1.
    fn of<R: Record>(self, sa: &mut Responder, subnet: &Subnet, record: &R) -> (u16, Vec<R>) {
        self.by(sa, subnet, 1, record)
    }

    fn by<R: Record>(
        self,
        sa: &mut Responder,
        subnet: &Subnet,
        host: u64,
        record: &R,
    ) -> (u16, Vec<R>) {
        let from = Address::gsi(lid(subnet, host), Sl(0));
        let mad = self.mad(record);
        let reply = sa.handle(subnet, &from, &mad.0, Instant::now()).expect("a reply");
        let header = Header::read(&reply.mad);
        assert_eq!(header.tid(), 0x1234_5678);
        assert!(Method(header.method()).is_response());
        let sa_header = SaHeader::read(&reply.mad[36..]);
        assert_eq!(sa_header.sm_key(), SmKey::NONE, "keys do not go back");
        let stride = usize::from(sa_header.attribute_offset()) * 8;
        if header.status() != 0 || stride == 0 {
            return (header.status(), Vec::new());
        }
        assert_eq!(stride, R::STRIDE);
        if self.method != Method::GET_TABLE {
            assert_eq!(reply.mad.len(), 256);
            return (0, vec![R::parse(&reply.mad[56..])]);
        }
        assert!(RmppHeader::read(&reply.mad[24..]).active());
        (0, reply.mad[56..].chunks_exact(stride).map(R::parse).collect())
    }
}

fn by_gids(from: u64, to: u64) -> PathRecord {
    let mut record = PathRecord::default();
    record.set_sgid(gid(from));
    record.set_dgid(gid(to));
    record
}

const BY_GIDS: u64 = PathRecord::SGID | PathRecord::DGID;

#[test]
fn a_path_by_gids_and_by_lids_is_the_same() {
    let subnet = subnet(0);
    let mut sa = Responder::default();
    for (from, to) in [(1, 2), (1, 9), (5, 3)] {
        let get = ask(SaAttr::PATH_RECORD, Method::GET, BY_GIDS);
        let (status, paths) = get.of(&mut sa, &subnet, &by_gids(from, to));
        assert_eq!(status, 0);
        let path = paths[0];
        assert_eq!((path.slid(), path.dlid()), (lid(&subnet, from), lid(&subnet, to)));
        let expected = (port(&subnet, from).0 ^ port(&subnet, to).0) & 1;
        assert_eq!(path.sl(), Sl(expected as u8));
        assert_eq!(path.pkey(), Pkey::DEFAULT_FULL);
        assert_eq!(path.packet_life(), 18);
        assert!(path.reversible() && path.rate() > 2 && path.mtu() >= 4);
        let mut wanted = PathRecord::default();
        wanted.set_slid(path.slid());
        wanted.set_dlid(path.dlid());
        let get = ask(SaAttr::PATH_RECORD, Method::GET, PathRecord::SLID | PathRecord::DLID);
        assert_eq!(get.of(&mut sa, &subnet, &wanted), (0, vec![path]));
    }
}

#[test]
fn rejected_paths() {
    let subnet = subnet(0);
    let mut sa = Responder::default();
    type Change = fn(&mut PathRecord);
    let table: [(u64, Change, u16); 13] = [
        (0, |r| r.set_dgid(Gid::new(PREFIX, Guid(0xdead))), 0x0500),
        (0, |r| r.set_dgid(Gid::new(0x1234, Guid(HOSTS + 1))), 0x0500),
        (PathRecord::DLID, |r| r.set_dlid(Lid(999)), 0x0300),
        (PathRecord::DLID, |r| r.set_dlid(Lid(1)), 0x0200),
        // An unknown LID is reported before one that does not belong to the GID.
        (
            PathRecord::SLID | PathRecord::DLID,
            |r| {
                r.set_slid(Lid(999));
                r.set_dlid(Lid(1));
            },
            0x0300,
        ),
        (PathRecord::SL, |r| r.set_sl(Sl(6)), 0x0300),
        (PathRecord::PKEY, |r| r.set_pkey(Pkey(0x8001)), 0x0300),
        (PathRecord::SERVICE_ID_MSB, |_| (), 0x0600),
        (1 << 40, |_| (), 0),
        (PathRecord::MTU_SELECTOR | PathRecord::MTU, |r| r.set_mtu(9), 0x0200),
        (PathRecord::RATE_SELECTOR | PathRecord::RATE, |r| r.set_rate(1), 0x0200),
        (PathRecord::MTU_SELECTOR | PathRecord::MTU, |r| r.set_mtu(5), 0x0300),
        (PathRecord::RAW_TRAFFIC, |r| r.set_raw_traffic(true), 0),
    ];
    let mut reasons = Vec::new();
    let from = Address::gsi(lid(&subnet, 1), Sl(0));
    for (row, (mask, change, status)) in table.into_iter().enumerate() {
        let mut wanted = by_gids(1, 2);
        change(&mut wanted);
        let get = ask(SaAttr::PATH_RECORD, Method::GET, BY_GIDS | mask);
        let mad = get.mad(&wanted);
        assert_eq!(get.of(&mut sa, &subnet, &wanted).0, status, "row {row}");
        let reason = sa.refused_path(&subnet, &from, &mad.0, Instant::now());
        reasons.extend(reason.map(|reason| (row, reason)));
    }
    assert_eq!(reasons.len(), 2, "the others are the client's: {reasons:?}");
    let (row, reason) = &reasons[0];
    assert!(
        *row == 5 && reason.starts_with("ERR 1F2A: Requested SL (6) doesn't match"),
        "{reason}"
    );
    let (row, reason) = &reasons[1];
    assert!(*row == 6 && reason.starts_with("ERR 1F1A: Ports 0x"), "{reason}");
    assert!(reason.ends_with(" do not share specified PKey 0x8001"), "{reason}");
    assert_eq!(reason.matches("\"[1])").count(), 2, "{reason}");
}

#[test]
fn tables_of_paths() {
    let subnet = subnet(1);
    let mut sa = Responder::default();
    let table = ask(SaAttr::PATH_RECORD, Method::GET_TABLE, BY_GIDS);
    let (_, paths) = table.of(&mut sa, &subnet, &by_gids(1, 2));
    let preferences: Vec<u8> = paths.iter().map(|path| path.preference()).collect();
    assert_eq!(preferences, [0, 0, 2, 2]);
    let mut wanted = by_gids(1, 2);
    wanted.set_numb_path(3);
    let table = ask(SaAttr::PATH_RECORD, Method::GET_TABLE, BY_GIDS | PathRecord::NUMB_PATH);
    assert_eq!(table.of(&mut sa, &subnet, &wanted).1.len(), 3);
    // From one host (2 LIDs) to 9 hosts with 2 and 9 switches with 1 LID each.
    let table = ask(SaAttr::PATH_RECORD, Method::GET_TABLE, PathRecord::SGID);
    assert_eq!(table.of(&mut sa, &subnet, &by_gids(1, 2)).1.len(), 9 * 4 + 9 * 2);
}

#[test]
fn records_read_off_the_fabric() {
    let subnet = subnet(0);
    let mut sa = Responder::default();
    let all = |attribute| ask(attribute, Method::GET_TABLE, 0);
    let nodes = all(SaAttr::NODE_RECORD).of(&mut sa, &subnet, &NodeRecord::default()).1;
    assert_eq!(nodes.len(), 18);
    let ports = all(SaAttr::PORT_INFO_RECORD).of(&mut sa, &subnet, &PortInfoRecord::default()).1;
    assert_eq!(ports.len(), 9 + 9 * 6);
    let links = all(SaAttr::LINK_RECORD).of(&mut sa, &subnet, &LinkRecord::default()).1;
    assert_eq!(links.len(), 27 * 2);
    let lfts = all(SaAttr::LINEAR_FT_RECORD).of(&mut sa, &subnet, &LinearFtRecord::default()).1;
    assert_eq!(lfts.len(), 9);
    assert_eq!(&lfts[0].0[8..], subnet.plan.routing.lfts[0].block(0));
    let get = ask(SaAttr::NODE_RECORD, Method::GET, 0);
    assert_eq!(get.of(&mut sa, &subnet, &NodeRecord::default()).0, 0x0400);
    let mut wanted = NodeRecord::default();
    wanted.set_lid(lid(&subnet, 3));
    let get = ask(SaAttr::NODE_RECORD, Method::GET, NodeRecord::LID);
    let (_, found) = get.of(&mut sa, &subnet, &wanted);
    assert_eq!(found[0].node_info().port_guid(), Guid(HOSTS * 3 + 1));
}

#[test]
fn tables_of_guids_and_of_service_levels() {
    let subnet = subnet(0);
    let mut sa = Responder::default();
    let all = |attribute| ask(attribute, Method::GET_TABLE, 0);
    let guids = all(SaAttr::GUID_INFO_RECORD).of(&mut sa, &subnet, &GuidInfoRecord::default()).1;
    assert_eq!(guids.len(), 9 * 4 + 9, "32 GUIDs at a host, 1 at a switch");
    let own = guids.iter().filter(|record| record.block() == 0);
    for record in own {
        let port = subnet.plan.lids.port(record.lid()).expect("a port");
        let guid = subnet.fabric.port(port).guid.0.to_be_bytes();
        assert_eq!((&record.0[8..16], &record.0[16..]), (&guid[..], &[0; 56][..]));
    }
    let mut wanted = GuidInfoRecord::default();
    wanted.set_lid(lid(&subnet, 4));
    wanted.set_block(1);
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK;
    let get = || ask(SaAttr::GUID_INFO_RECORD, Method::GET, mask);
    assert_eq!(get().of(&mut sa, &subnet, &wanted).1, [wanted]);
    wanted.set_block(4);
    assert_eq!(get().of(&mut sa, &subnet, &wanted).0, 0x0300);
    // Without QoS no mapping is written, but every table exists.
    let maps = all(SaAttr::SL_TO_VL_RECORD).of(&mut sa, &subnet, &SlToVlRecord::default()).1;
    assert_eq!(maps.len(), 9 + 9 * 36);
    let mut wanted = SlToVlRecord::default();
    wanted.set_lid(lid(&subnet, 2));
    wanted.set_out_port(PortNum(1));
    let mask = SlToVlRecord::LID | SlToVlRecord::OUT_PORT;
    let get = ask(SaAttr::SL_TO_VL_RECORD, Method::GET, mask);
    assert_eq!(get.of(&mut sa, &subnet, &wanted).0, 0, "a host has one table");
    let table = all(SaAttr::VL_ARBITRATION_RECORD);
    let blocks = table.of(&mut sa, &subnet, &VlArbitrationRecord::default()).1;
    assert_eq!(blocks.len(), 4 * (9 + 9 * 6));
}

#[test]
fn class_port_info_and_managers() {
    let subnet = subnet(0);
    let mut sa = Responder::default();
    let get = ask(SaAttr::CLASS_PORT_INFO, Method::GET, 0);
    let info = get.of(&mut sa, &subnet, &ClassPortInfo::default()).1[0];
    assert_eq!((info.class_version(), info.resp_time_value()), (2, 16));
    let mut own = SmInfo::default();
    own.set_guid(Guid(HOSTS + 1));
    own.set_sm_key(SmKey(7));
    own.set_state(SmState::Master);
    sa.set_managers(vec![own]);
    let get = ask(SaAttr::SM_INFO_RECORD, Method::GET, 0);
    let found = get.of(&mut sa, &subnet, &SmInfoRecord::default()).1[0];
    assert_eq!(found.lid(), lid(&subnet, 1));
    assert_eq!(found.sm_info().sm_key(), SmKey::NONE);
}

#[test]
fn unsupported_requests_get_the_specified_status() {
    let subnet = subnet(0);
    let mut sa = Responder::default();
    let table = [
        (0x7777, Method::GET, 0x0C),
        (SaAttr::NODE_RECORD, Method::SET, 0x0C),
        (SaAttr::PATH_RECORD, Method(0x44), 0x08),
        (SaAttr::PKEY_TABLE_RECORD, Method::GET_TABLE, 0x0200),
        (SaAttr::RANDOM_FT_RECORD, Method::GET_TABLE, 0),
        (SaAttr::RANDOM_FT_RECORD, Method::GET, 0x0300),
        (SaAttr::MULTI_PATH_RECORD, Method::GET_TABLE, 0x0C),
        (SaAttr::TRACE_RECORD, Method::GET_TABLE, 0x0C),
        (SaAttr::PATH_RECORD, Method::GET_TRACE_TABLE, 0x0C),
    ];
    for (attribute, method, status) in table {
        let asked = ask(attribute, method, 0);
        assert_eq!(asked.of(&mut sa, &subnet, &NodeRecord::default()).0, status);
    }
    let from = Address::gsi(lid(&subnet, 1), Sl(0));
    let good = ask(SaAttr::NODE_RECORD, Method::GET_TABLE, 0);
    let mut old = good.mad(&NodeRecord::default());
    old.0[2] = 1;
    let reply = sa.handle(&subnet, &from, &old.0, Instant::now()).expect("a reply");
    assert_eq!(Header::read(&reply.mad).status(), 0x04);
    let mut wrong_key = ask(SaAttr::NODE_RECORD, Method::GET_TABLE, 0);
    wrong_key.key = 99;
    let wrong_key = wrong_key.mad(&NodeRecord::default());
    let mad = good.mad(&NodeRecord::default());
    let stranger = Address::gsi(Lid(4000), Sl(0));
    for (from, mad) in [(from, &mad.0[..100]), (from, &wrong_key.0[..]), (stranger, &mad.0[..])] {
        assert_eq!(sa.handle(&subnet, &from, mad, Instant::now()), None);
    }
    assert_eq!(sa.counters().drops().map(|(_, count)| count).sum::<u64>(), 3);
}

fn broadcast() -> GroupSpec {
    GroupSpec::from(&partitions::default(&Options::default())[0].groups[0])
}

fn member(n: u64, mgid: Gid, state: JoinState) -> McMemberRecord {
    let mut record = McMemberRecord::default();
    record.set_mgid(mgid);
    record.set_port_gid(gid(n));
    record.set_join_state(state);
    record
}

const JOIN: u64 = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        mut mad in prop::collection::vec(any::<u8>(), 0..400),
        attribute in prop::sample::select(vec![
            0x01u16, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x20, 0x30, 0x33, 0x35, 0x36,
            0x38, 0x3A,
        ]),
        method in prop::sample::select(vec![1u8, 2, 0x12, 0x14, 0x15]),
        mask in any::<u64>(),
    ) {
        let subnet = subnet(1);
        let mut sa = Responder::default();
        sa.registry_mut().set_permanent(&[broadcast()], Mlid::LAST);
        let from = Address::gsi(lid(&subnet, 1), Sl(0));
        sa.handle(&subnet, &from, &mad, Instant::now());
        // RMPP segments may be shorter than a MAD.
        if mad.len() >= 56 {
            mad[26] |= 1;
            mad[..4].copy_from_slice(&[1, 3, 2, method]);
            mad[16..18].copy_from_slice(&attribute.to_be_bytes());
            mad[36..44].fill(0);
            let mask = mask & 0x7F_FFFF;
            mad[48..56].copy_from_slice(&mask.to_be_bytes());
            prop_assert!(sa.handle(&subnet, &from, &mad, Instant::now()).is_some());
        }
    }
}
