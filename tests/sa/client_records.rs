//! Records that clients write: the status of every kind of request, and, with the whole daemon on a
//! simulated fabric, the reports to subscribers and the state after a restart.

mod daemon;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;
use testkit::sa_client::{Client, request, with_sm_key};
use testkit::{SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::daemon::sm_loop::run::Exit;
use torus_sm::ids::{Gid, Guid, Lid, Mlid, Pkey, PortNum, Sl, SmKey};
use torus_sm::observe::traps::{MAX_TRAPS_PER_PERIOD, RATE_PERIOD};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sa::registry::MAX_MISSED_SWEEPS;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::Address;
use torus_sm::wire::attr::{AttrId, SmState, TrapNumber};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::{
    InformInfo, InformInfoRecord, JoinState, McMemberRecord, PathRecord, Record, Selector,
    ServiceRecord,
};
use torus_sm::wire::sa::{DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};

const PREFIX: u64 = 0xfe80_0000_0000_0000;
const SM_KEY: SmKey = SmKey(0x005E_C2E7);

/// The request with our SM_Key.
fn trusted(mad: Mad) -> Mad {
    with_sm_key(mad, SM_KEY)
}

fn status(mad: &[u8]) -> u16 {
    Header::read(mad).status()
}

fn host(shape: &Shape, at: [u16; 3]) -> Guid {
    Guid(shape.host_guid(at, 0).0 + 1)
}

// ---- the status of every kind of request ----

/// A published 3x3 torus with one host at each switch, and the LID of the first host.
fn published() -> (Shape, Subnet, Lid) {
    let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
    let mut subnet = testkit::snapshot::of_shape(&shape, partitions::default);
    subnet.options = Arc::new(Options { sa_key: SM_KEY, ..(*subnet.options).clone() });
    let port = subnet.fabric.port_by_guid(host(&shape, [0, 0, 0])).expect("the host exists");
    let lid = subnet.plan.lids.base(port).expect("it has a LID");
    (shape, subnet, lid)
}

const SERVICE: u64 = ServiceRecord::ID | ServiceRecord::GID;
const IN_PARTITION: u64 = SERVICE | ServiceRecord::PKEY;
const JOIN: u64 = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
const CREATE: u64 = JOIN
    | McMemberRecord::QKEY
    | McMemberRecord::TRAFFIC_CLASS
    | McMemberRecord::PKEY
    | McMemberRecord::FLOW_LABEL
    | McMemberRecord::SL;
const RATE: u64 = McMemberRecord::RATE | McMemberRecord::RATE_SELECTOR;

/// Name, preceding requests, the request, and its status without and with our SM_Key.
type Row = (&'static str, Vec<Mad>, Mad, [u16; 2]);

fn service(method: Method, mask: u64, change: impl Fn(&mut ServiceRecord)) -> Mad {
    let mut record = ServiceRecord::default();
    record.set_id(7);
    record.set_gid(Gid::new(PREFIX, host(&Shape::torus([3, 3, 1]), [0, 0, 0])));
    record.set_pkey(Pkey::DEFAULT_FULL);
    change(&mut record);
    request(SaAttr::SERVICE_RECORD, method, mask, &record)
}

fn service_rows() -> Vec<Row> {
    let same = |_: &mut ServiceRecord| ();
    let get = Method::GET;
    let table = Method::GET_TABLE;
    let set = Method::SET;
    let delete = Method::DELETE;
    let there = || vec![service(set, IN_PARTITION, same)];
    let two = || vec![service(set, SERVICE, same), service(set, SERVICE, |r| r.set_id(8))];
    let unknown = |r: &mut ServiceRecord| r.set_gid(Gid::new(PREFIX, Guid(99)));
    let foreign = |r: &mut ServiceRecord| r.set_pkey(Pkey(0x8123));
    let expired = |r: &mut ServiceRecord| r.set_lease(0);
    vec![
        ("set", vec![], service(set, IN_PARTITION, same), [0, 0]),
        ("set without ID", vec![], service(set, ServiceRecord::GID, same), [0x600; 2]),
        ("set without GID", vec![], service(set, ServiceRecord::ID, same), [0x600; 2]),
        ("set, foreign P_Key", vec![], service(set, IN_PARTITION, foreign), [0x200; 2]),
        ("set, P_Key 0", vec![], service(set, IN_PARTITION, |r| r.set_pkey(Pkey(0))), [0x200; 2]),
        ("set, unknown port", vec![], service(set, IN_PARTITION, unknown), [0x200; 2]),
        ("set for all, unknown port", vec![], service(set, SERVICE, unknown), [0x700, 0]),
        ("get", there(), service(get, IN_PARTITION, same), [0, 0]),
        ("get nothing", vec![], service(get, SERVICE, same), [0x300; 2]),
        ("get another", there(), service(get, SERVICE, |r| r.set_id(9)), [0x300; 2]),
        ("get two", two(), service(get, ServiceRecord::GID, same), [0x400; 2]),
        (
            "get what has expired",
            vec![service(set, SERVICE | ServiceRecord::LEASE, expired)],
            service(get, SERVICE, same),
            [0x300; 2],
        ),
        ("table", two(), service(table, 0, same), [0, 0]),
        ("table of nothing", vec![], service(table, SERVICE, same), [0, 0]),
        ("delete", there(), service(delete, IN_PARTITION, same), [0, 0]),
        ("delete nothing", vec![], service(delete, IN_PARTITION, same), [0x300; 2]),
        ("delete, foreign P_Key", there(), service(delete, IN_PARTITION, foreign), [0x200; 2]),
        ("trace table", vec![], service(Method::GET_TRACE_TABLE, 0, same), [0x0C; 2]),
        ("multi", vec![], service(Method::GET_MULTI, 0, same), [0x0C; 2]),
    ]
}

fn inform(method: Method, change: impl Fn(&mut InformInfo)) -> Mad {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(Lid(0xFFFF));
    info.set_is_generic(1);
    info.set_subscribe(1);
    info.set_notice_type(0xFFFF);
    info.set_trap_number(0xFFFF);
    info.set_resp_time_value(10);
    info.set_producer_type(0xFF_FFFF);
    change(&mut info);
    request(SaAttr::INFORM_INFO, method, 0, &info)
}

fn end(info: &mut InformInfo) {
    info.set_subscribe(0);
    info.set_qpn(1);
}

fn inform_rows() -> Vec<Row> {
    let set = Method::SET;
    let all = |_: &mut InformInfo| ();
    let lids = |first: u16, last: u16| {
        move |info: &mut InformInfo| {
            info.set_lid_range_begin(Lid(first));
            info.set_lid_range_end(Lid(last));
        }
    };
    let trap = |number: u16| move |info: &mut InformInfo| info.set_trap_number(number);
    let of = |gid: Gid| move |info: &mut InformInfo| info.set_gid(gid);
    let here = Gid::new(PREFIX, host(&Shape::torus([3, 3, 1]), [1, 1, 0]));
    let another = |info: &mut InformInfo| {
        end(info);
        info.set_qpn(2);
    };
    let read =
        |method| request(SaAttr::INFORM_INFO_RECORD, method, 0, &InformInfoRecord::default());
    vec![
        ("subscribe", vec![], inform(set, all), [0, 0]),
        ("subscribe twice", vec![inform(set, all)], inform(set, all), [0, 0]),
        ("subscribe 2", vec![], inform(set, |info| info.set_subscribe(2)), [0x200; 2]),
        ("bad M_Keys", vec![], inform(set, trap(256)), [0x200, 0]),
        ("bad P_Keys at switches", vec![], inform(set, trap(259)), [0x200, 0]),
        ("next to the secrets", vec![], inform(set, trap(255)), [0, 0]),
        ("a port", vec![], inform(set, of(here)), [0, 0]),
        ("no port", vec![], inform(set, of(Gid::new(PREFIX, Guid(99)))), [0x200; 2]),
        ("some LIDs", vec![], inform(set, lids(1, 5)), [0, 0]),
        ("one LID", vec![], inform(set, lids(3, 0)), [0, 0]),
        ("no LID", vec![], inform(set, lids(0, 0)), [0, 0]),
        ("LID 0", vec![], inform(set, lids(0, 5)), [0x200; 2]),
        ("LIDs backwards", vec![], inform(set, lids(5, 1)), [0x200; 2]),
        ("LIDs of nobody", vec![], inform(set, lids(5000, 6000)), [0x200; 2]),
        ("end", vec![inform(set, all)], inform(set, end), [0, 0]),
        ("end nothing", vec![], inform(set, end), [0x200; 2]),
        ("end another's", vec![inform(set, all)], inform(set, another), [0x200; 2]),
        ("get InformInfo", vec![], inform(Method::GET, all), [0x0C; 2]),
        ("table of InformInfo", vec![], inform(Method::GET_TABLE, all), [0x0C; 2]),
        ("delete InformInfo", vec![], inform(Method::DELETE, all), [0x0C; 2]),
        ("record", vec![inform(set, all)], read(Method::GET), [0, 0]),
        ("no record", vec![], read(Method::GET), [0x300; 2]),
        (
            "two records",
            vec![inform(set, all), inform(set, trap(64))],
            read(Method::GET),
            [0x400; 2],
        ),
        ("table of no records", vec![], read(Method::GET_TABLE), [0, 0]),
        ("set a record", vec![], read(Method::SET), [0x0C; 2]),
        ("delete a record", vec![], read(Method::DELETE), [0x0C; 2]),
    ]
}

fn own_group() -> Gid {
    Gid([0xFF, 0x12, 0x12, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1])
}

fn member_record(port: Guid, mgid: Gid, state: JoinState) -> McMemberRecord {
    let mut record = McMemberRecord::default();
    record.set_mgid(mgid);
    record.set_port_gid(Gid::new(PREFIX, port));
    record.set_join_state(state);
    record.set_qkey(0x1234);
    record.set_pkey(Pkey::DEFAULT_FULL);
    record
}

fn member(method: Method, mask: u64, change: impl Fn(&mut McMemberRecord)) -> Mad {
    let first = host(&Shape::torus([3, 3, 1]), [0, 0, 0]);
    let mut record = member_record(first, own_group(), JoinState::FULL);
    change(&mut record);
    request(SaAttr::MC_MEMBER_RECORD, method, mask, &record)
}

fn member_rows() -> Vec<Row> {
    let set = Method::SET;
    let delete = Method::DELETE;
    let same = |_: &mut McMemberRecord| ();
    let there = || vec![member(set, CREATE, same)];
    let state = |bits: u8| move |r: &mut McMemberRecord| r.set_join_state(JoinState(bits));
    let mgid = |byte: usize, value: u8| {
        move |r: &mut McMemberRecord| {
            let mut gid = own_group();
            gid.0[byte] = value;
            r.set_mgid(gid);
        }
    };
    let port =
        |prefix, guid| move |r: &mut McMemberRecord| r.set_port_gid(Gid::new(prefix, Guid(guid)));
    let rate = |selector, code: u8| {
        move |r: &mut McMemberRecord| {
            r.set_rate_selector(selector);
            r.set_rate(code);
        }
    };
    let first = host(&Shape::torus([3, 3, 1]), [0, 0, 0]).0;
    let second = host(&Shape::torus([3, 3, 1]), [1, 0, 0]).0;
    let by_proxy = || vec![member(set, CREATE, port(PREFIX, second))];
    let exactly = Selector::Exactly;
    vec![
        ("create", vec![], member(set, CREATE, same), [0, 0]),
        ("create nameless", vec![], member(set, CREATE, |r| r.set_mgid(Gid::default())), [0, 0]),
        ("create by a sender", vec![], member(set, CREATE, state(8)), [0, 0]),
        ("create by a non-member", vec![], member(set, CREATE, state(2)), [0x200; 2]),
        ("create with half", vec![], member(set, JOIN, same), [0x600; 2]),
        ("create a unicast GID", vec![], member(set, CREATE, mgid(0, 0xFE)), [0x200; 2]),
        ("create, reserved flags", vec![], member(set, CREATE, mgid(1, 0x92)), [0x200; 2]),
        (
            "create, rate too high",
            vec![],
            member(set, CREATE | RATE, rate(exactly, 18)),
            [0x200; 2],
        ),
        ("create, no such rate", vec![], member(set, CREATE | RATE, rate(exactly, 63)), [0x200; 2]),
        ("join", there(), member(set, JOIN, same), [0, 0]),
        ("join in three roles", there(), member(set, JOIN, state(7)), [0, 0]),
        ("join in no role", there(), member(set, JOIN, state(0)), [0x200; 2]),
        ("join without MGID", there(), member(set, JOIN & !McMemberRecord::MGID, same), [0x600; 2]),
        ("join from afar", there(), member(set, JOIN, port(1, first)), [0x500; 2]),
        ("join of nobody", there(), member(set, JOIN, port(PREFIX, 99)), [0x200; 2]),
        (
            "join with another Q_Key",
            there(),
            member(set, JOIN | McMemberRecord::QKEY, |r| r.set_qkey(5)),
            [0x200; 2],
        ),
        ("join by proxy", there(), member(set, JOIN, port(PREFIX, second)), [0, 0]),
        ("leave", there(), member(delete, JOIN, same), [0, 0]),
        ("leave what it has not", there(), member(delete, JOIN, state(3)), [0x200; 2]),
        ("leave in no role", there(), member(delete, JOIN, state(0)), [0x200; 2]),
        ("leave nothing", vec![], member(delete, JOIN, same), [0x200; 2]),
        ("leave without state", there(), member(delete, 3, same), [0x600; 2]),
        ("leave from afar", there(), member(delete, JOIN, port(1, first)), [0x500; 2]),
        ("leave by proxy", by_proxy(), member(delete, JOIN, port(PREFIX, second)), [0, 0]),
        ("get", there(), member(Method::GET, McMemberRecord::MGID, same), [0, 0]),
        ("get nothing", vec![], member(Method::GET, McMemberRecord::MGID, same), [0x300; 2]),
        ("table of nothing", vec![], member(Method::GET_TABLE, 0, same), [0, 0]),
        (
            "table, no such rate",
            there(),
            member(Method::GET_TABLE, RATE, rate(exactly, 63)),
            [0x200; 2],
        ),
        ("multi", vec![], member(Method::GET_MULTI, 0, same), [0x0C; 2]),
    ]
}

#[test]
fn every_kind_of_request_has_its_status() {
    let (_, subnet, lid) = published();
    let from = Address::gsi(lid, Sl(0));
    let now = std::time::Instant::now();
    for (name, before, asked, expected) in
        service_rows().into_iter().chain(inform_rows()).chain(member_rows())
    {
        for (key, expected) in [false, true].into_iter().zip(expected) {
            let mut sa = Responder::default();
            for mad in &before {
                let reply = sa.handle(&subnet, &from, &mad.0, now).expect("a reply");
                assert_eq!(status(&reply.mad), 0, "before {name}");
            }
            // Any request removes expired records.
            let any = request(SaAttr::SERVICE_RECORD, Method::GET, 0, &ServiceRecord::default());
            sa.handle(&subnet, &from, &any.0, now);
            let mad = if key { trusted(asked) } else { asked };
            let attribute = SaAttr::name(mad.header().attr_id());
            let changes = sa.registry().changes();
            let reply = sa.handle(&subnet, &from, &mad.0, now).expect("a reply");
            let what = format!("{attribute}: {name}, trusted {key}");
            assert_eq!(status(&reply.mad), expected, "{what}");
            assert_eq!(SaHeader::read(&reply.mad[SA_OFFSET..]).sm_key(), SmKey::NONE, "{what}");
            let writes = matches!(mad.method(), Method::SET | Method::DELETE);
            let changed = sa.registry().changes() != changes;
            assert_eq!(changed, writes && expected == 0, "{what}");
            let is_inform =
                mad.header().attr_id() == SaAttr::INFORM_INFO && mad.method() == Method::SET;
            if is_inform && expected != 0 {
                assert_eq!(reply.mad[DATA_OFFSET + 23], 0, "{what}: subscribed it is not");
            }
        }
    }
}

fn answer<R: Record>(sa: &mut Responder, subnet: &Subnet, lid: Lid, mad: &Mad) -> Vec<R> {
    let from = Address::gsi(lid, Sl(0));
    let reply = sa.handle(subnet, &from, &mad.0, std::time::Instant::now()).expect("a reply");
    assert_eq!(status(&reply.mad), 0);
    let records = reply.mad[DATA_OFFSET..].chunks_exact(R::STRIDE);
    let table = mad.method() == Method::GET_TABLE;
    records.take(if table { usize::MAX } else { 1 }).map(R::parse).collect()
}

#[test]
fn keys_and_queue_pairs_are_for_trusted_clients_only() {
    let (_, subnet, lid) = published();
    let mut sa = Responder::default();
    let mask = IN_PARTITION | ServiceRecord::KEY;
    let set = service(Method::SET, mask, |record| record.set_key([9; 16]));
    let records: Vec<ServiceRecord> = answer(&mut sa, &subnet, lid, &set);
    assert_eq!((records[0].key(), records[0].lease()), ([0; 16], ServiceRecord::NO_END));
    let by_key = service(Method::GET, ServiceRecord::KEY, |record| record.set_key([9; 16]));
    let records: Vec<ServiceRecord> = answer(&mut sa, &subnet, lid, &by_key);
    assert_eq!(records[0].key(), [0; 16], "the key matches and is hidden");
    let records: Vec<ServiceRecord> = answer(&mut sa, &subnet, lid, &trusted(by_key));
    assert_eq!(records[0].key(), [9; 16]);
    let records: Vec<InformInfo> = answer(&mut sa, &subnet, lid, &inform(Method::SET, |_| ()));
    assert_eq!(records[0].subscribe(), 1);
    let all =
        request(SaAttr::INFORM_INFO_RECORD, Method::GET_TABLE, 0, &InformInfoRecord::default());
    let open: Vec<InformInfoRecord> = answer(&mut sa, &subnet, lid, &all);
    let known: Vec<InformInfoRecord> = answer(&mut sa, &subnet, lid, &trusted(all));
    assert_eq!((open[0].inform_info().qpn(), known[0].inform_info().qpn()), (0, 1));
    assert_eq!(known[0].inform_info().resp_time_value(), 10);
}
