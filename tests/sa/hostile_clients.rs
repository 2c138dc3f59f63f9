//! Clients that attack the subnet or other clients: keys stay secret, records of others are safe,
//! and one port cannot use up what all share.

use std::sync::{Arc, Mutex};
use testkit::sa_client::joins::CREATE_GROUP;
use testkit::sa_client::{Client, request, with_sm_key};
use testkit::{SimCluster, settle};
use tokio::time::Instant;
use torus_sm::config::options::Options;
use torus_sm::ids::{Gid, Guid, Lid, MKey, Pkey, PortNum, Sl, SmKey};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sa::notices::{NoticeDispatcher, report_retry};
use torus_sm::sim::generate::Shape;
use torus_sm::transport::recorded::{MadFate, MadRecorder, RecordedPort};
use torus_sm::transport::{Address, Agent, MadPort};
use torus_sm::wire::attr::TrapNumber;
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::tables::{GuidInfoRecord, PkeyTableRecord};
use torus_sm::wire::record::{
    InformInfo, InformInfoRecord, JoinState, McMemberRecord, Record, ServiceRecord,
};
use torus_sm::wire::sa::{DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};

pub(super) const PREFIX: u64 = 0xfe80_0000_0000_0000;
pub(super) const DENIED: u16 = 0x0700;
/// The secret key of trusted clients.
const SA_KEY: SmKey = SmKey(0x005E_C2E7);
const M_KEY: MKey = MKey(0x1122_3344_5566_7788);
const NO_RESOURCES: u16 = 0x0100;
const NO_RECORDS: u16 = 0x0300;
const REQ_INVALID: u16 = 0x0200;

/// A published 3x3 torus with one host at each switch, and the responder for it.
pub(super) struct Site {
    pub(super) subnet: Subnet,
    shape: Shape,
    pub(super) sa: Responder,
}

impl Site {
    pub(super) fn new(change: impl Fn(&mut Options)) -> Self {
        let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
        let mut subnet = testkit::snapshot::of_shape(&shape, partitions::default);
        let mut options = Options { sa_key: SA_KEY, ..(*subnet.options).clone() };
        change(&mut options);
        subnet.options = Arc::new(options);
        Self { subnet, shape, sa: Responder::default() }
    }

    /// The GUID of the port of the host at x, y.
    pub(super) fn host(&self, [x, y]: [u16; 2]) -> Guid {
        Guid(self.shape.host_guid([x, y, 0], 0).0 + 1)
    }

    pub(super) fn lid(&self, guid: Guid) -> Lid {
        let port = self.subnet.fabric.port_by_guid(guid).expect("a port");
        self.subnet.plan.lids.base(port).expect("a LID")
    }

    /// The status of the reply to a request of a port.
    pub(super) fn ask(&mut self, from: Guid, mad: &Mad) -> u16 {
        self.ask_by(Address::gsi(self.lid(from), Sl(0)), mad)
    }

    pub(super) fn ask_by(&mut self, from: Address, mad: &Mad) -> u16 {
        let now = Instant::now().into_std();
        let reply = self.sa.handle(&self.subnet, &from, &mad.0, now).expect("a reply");
        Header::read(&reply.mad).status()
    }
}

pub(super) fn trusted(mad: Mad) -> Mad {
    with_sm_key(mad, SA_KEY)
}

pub(super) fn service(method: Method, id: u64, guid: Guid, key: u8) -> Mad {
    let mut record = ServiceRecord::default();
    record.set_id(id);
    record.set_gid(Gid::new(PREFIX, guid));
    record.set_key([key; 16]);
    let mask = ServiceRecord::ID | ServiceRecord::GID | ServiceRecord::KEY;
    request(SaAttr::SERVICE_RECORD, method, mask, &record)
}

pub(super) fn join(method: Method, number: u16, port: Guid) -> Mad {
    let mut mgid = [0; 16];
    mgid[..2].copy_from_slice(&[0xFF, 0x12]);
    mgid[14..].copy_from_slice(&number.to_be_bytes());
    let mut record = McMemberRecord::default();
    record.set_mgid(Gid(mgid));
    record.set_port_gid(Gid::new(PREFIX, port));
    record.set_join_state(JoinState::FULL);
    record.set_qkey(0x1234);
    record.set_pkey(Pkey::DEFAULT_FULL);
    request(SaAttr::MC_MEMBER_RECORD, method, CREATE_GROUP, &record)
}

pub(super) fn subscription(trap: u16) -> Mad {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(Lid(0xFFFF));
    info.set_is_generic(1);
    info.set_subscribe(1);
    info.set_notice_type(0xFFFF);
    info.set_trap_number(trap);
    info.set_resp_time_value(31);
    info.set_producer_type(0xFF_FFFF);
    request(SaAttr::INFORM_INFO, Method::SET, 0, &info)
}

#[test]
fn keyed_services_need_their_key() {
    let mut site = Site::new(|_| ());
    let (owner, other) = (site.host([0, 0]), site.host([1, 0]));
    let (set, delete) = (Method::SET, Method::DELETE);
    assert_eq!(site.ask(owner, &service(set, 1, owner, 9)), 0);
    for key in [0, 8] {
        for who in [owner, other] {
            assert_eq!(site.ask(who, &service(set, 1, owner, key)), DENIED, "key {key}");
        }
        assert_eq!(site.ask(other, &service(delete, 1, owner, key)), DENIED, "key {key}");
    }
    assert_eq!(site.ask(other, &service(set, 1, owner, 9)), 0, "the key suffices");
    assert_eq!(site.ask(owner, &service(delete, 1, owner, 0)), 0, "as osmtest does");
    assert_eq!(site.ask(owner, &service(delete, 1, owner, 9)), NO_RECORDS);
    assert_eq!(site.ask(owner, &service(set, 2, owner, 9)), 0);
    assert_eq!(site.ask(other, &trusted(service(delete, 2, owner, 0))), 0);
}

#[test]
fn services_are_registered_for_own_gids() {
    let mut site = Site::new(|_| ());
    let (owner, other) = (site.host([0, 0]), site.host([1, 0]));
    let (set, delete) = (Method::SET, Method::DELETE);
    assert_eq!(site.ask(owner, &service(set, 1, owner, 0)), 0);
    for guid in [owner, Guid(0x1234)] {
        assert_eq!(site.ask(other, &service(set, 5, guid, 0)), DENIED);
    }
    for method in [set, delete] {
        assert_eq!(site.ask(other, &service(method, 1, owner, 0)), DENIED);
        assert_eq!(site.ask(other, &trusted(service(method, 1, owner, 0))), 0);
    }
    let group = join(set, 1, owner);
    assert_eq!(site.ask(owner, &group), 0);
    let mut record = ServiceRecord::default();
    record.set_gid(McMemberRecord::parse(&group.0[DATA_OFFSET..]).mgid());
    let mask = ServiceRecord::ID | ServiceRecord::GID;
    let of_group = request(SaAttr::SERVICE_RECORD, set, mask, &record);
    assert_eq!([owner, other].map(|guid| site.ask(guid, &of_group)), [0, DENIED]);
}

#[test]
fn proxy_joins_can_be_restricted_to_trusted_clients() {
    for (allowed, expected) in [(true, 0), (false, DENIED)] {
        let mut site = Site::new(|options| options.sa_allow_untrusted_proxy_joins = Some(allowed));
        let (one, other) = (site.host([0, 0]), site.host([1, 0]));
        assert_eq!(site.ask(one, &join(Method::SET, 1, one)), 0, "its own");
        assert_eq!(site.ask(one, &join(Method::SET, 1, other)), expected);
        assert_eq!(site.ask(one, &trusted(join(Method::SET, 1, other))), 0);
        assert_eq!(site.ask(one, &join(Method::DELETE, 1, other)), expected);
    }
}

#[test]
fn alias_guids_are_set_by_their_port() {
    for (allowed, expected) in [(false, DENIED), (true, 0)] {
        let mut site = Site::new(|options| options.sa_allow_untrusted_guidinfo = allowed);
        let (one, other) = (site.host([0, 0]), site.host([1, 0]));
        let mut record = GuidInfoRecord::default();
        record.set_lid(site.lid(one));
        let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK;
        for method in [Method::SET, Method::DELETE] {
            let mad = request(SaAttr::GUID_INFO_RECORD, method, mask, &record);
            assert_eq!(site.ask(one, &mad), 0, "its own");
            assert_eq!(site.ask(other, &trusted(mad)), 0);
            assert_eq!(site.ask(other, &mad), expected, "another port's");
        }
    }
}

#[test]
fn registrations_of_a_port_are_limited() {
    let mut site = Site::new(|options| {
        options.sa_max_services_per_port = 3;
        options.sa_max_groups_per_port = 3;
        options.sa_max_subscriptions_per_port = 3;
    });
    let (greedy, other) = (site.host([0, 0]), site.host([1, 0]));
    let services = |guid| move |number: u16| service(Method::SET, number.into(), guid, 0);
    let groups = |guid| move |number: u16| join(Method::SET, number, guid);
    let subscriptions = |_| |number: u16| subscription(64 + number);
    fn check<F: Fn(u16) -> Mad>(site: &mut Site, ports: [Guid; 2], of: impl Fn(Guid) -> F) {
        let [greedy, other] = ports;
        let statuses = [1, 2, 3, 4, 1].map(|number| site.ask(greedy, &of(greedy)(number)));
        assert_eq!(statuses, [0, 0, 0, NO_RESOURCES, 0], "renewing is no registration");
        assert_eq!(site.ask(other, &of(other)(9)), 0, "others are not affected");
    }
    check(&mut site, [greedy, other], services);
    check(&mut site, [greedy, other], groups);
    check(&mut site, [greedy, other], subscriptions);
    assert_eq!(site.ask(greedy, &join(Method::DELETE, 1, greedy)), 0);
    assert_eq!(site.ask(greedy, &join(Method::SET, 4, greedy)), 0, "one less, one more");
    assert_eq!(site.ask(greedy, &service(Method::DELETE, 1, greedy, 0)), 0);
    assert_eq!(site.ask(greedy, &service(Method::SET, 4, greedy, 0)), 0);
}

/// With the published default of `sa_key`, which any client can send, the key gives access to
/// records only.
#[test]
fn the_published_key_gives_no_privileges() {
    let published = Options::default().sa_key;
    let mut site = Site::new(|options| {
        options.sa_key = published;
        options.sa_max_services_per_port = 3;
        options.sa_max_groups_per_port = 3;
        options.sa_max_memberships_per_port = 2;
        options.m_key = M_KEY;
    });
    let (hostile, other) = (site.host([0, 0]), site.host([1, 0]));
    let (set, delete) = (Method::SET, Method::DELETE);
    let keyed = |mad| with_sm_key(mad, published);
    let services = [1, 2, 3, 4].map(|id| site.ask(hostile, &keyed(service(set, id, hostile, 0))));
    assert_eq!(services, [0, 0, 0, NO_RESOURCES]);
    let groups = [1, 2, 3].map(|number| site.ask(hostile, &keyed(join(set, number, hostile))));
    assert_eq!(groups, [0, 0, NO_RESOURCES]);
    assert_eq!(site.ask(other, &service(set, 9, other, 9)), 0);
    for mad in [service(set, 9, other, 8), service(delete, 9, other, 8), service(set, 8, other, 0)]
    {
        assert_eq!(site.ask(hostile, &keyed(mad)), DENIED);
    }
    let mut aliases = GuidInfoRecord::default();
    aliases.set_lid(site.lid(other));
    let mask = GuidInfoRecord::LID | GuidInfoRecord::BLOCK;
    let aliases = request(SaAttr::GUID_INFO_RECORD, set, mask, &aliases);
    assert_eq!(site.ask(hostile, &keyed(aliases)), DENIED);
    assert_eq!(site.ask(hostile, &keyed(subscription(TrapNumber::BAD_M_KEY))), REQ_INVALID);
    let all = PkeyTableRecord::default();
    let pkeys = request(SaAttr::PKEY_TABLE_RECORD, Method::GET_TABLE, 0, &all);
    assert_eq!(site.ask(hostile, &keyed(pkeys)), 0, "saquery --smkey 1");
    assert_eq!(site.ask(hostile, &pkeys), REQ_INVALID);
}

/// A privileged client sees the M_Keys of ports and the keys of services; with the published key,
/// nobody does.
#[test]
fn keys_are_shown_to_privileged_clients_only() {
    const KEY: [u8; 16] = [9; 16];
    for (sa_key, is_shown) in [(Options::default().sa_key, false), (SA_KEY, true)] {
        let mut site = Site::new(|options| options.sa_key = sa_key);
        let (owner, other) = (site.host([0, 0]), site.host([1, 0]));
        assert_eq!(site.ask(owner, &service(Method::SET, 1, owner, KEY[0])), 0);
        let query = request(SaAttr::SERVICE_RECORD, Method::GET, 0, &ServiceRecord::default());
        let from = Address::gsi(site.lid(other), Sl(0));
        let now = Instant::now().into_std();
        let mad = with_sm_key(query, sa_key);
        let reply = site.sa.handle(&site.subnet, &from, &mad.0, now).expect("a reply");
        let key = ServiceRecord::parse(&reply.mad[DATA_OFFSET..]).key();
        assert_eq!(key == KEY, is_shown, "{sa_key:?}");
    }
}

/// Groups of others, and memberships that a port asks for in the name of others, count for it.
#[test]
fn memberships_of_a_requester_are_limited() {
    let mut site = Site::new(|options| options.sa_max_memberships_per_port = 3);
    let (greedy, other) = (site.host([0, 0]), site.host([1, 0]));
    (1..=3).for_each(|number| assert_eq!(site.ask(other, &join(Method::SET, number, other)), 0));
    let mine = |number| join(Method::SET, number, greedy);
    let theirs = join(Method::SET, 4, site.host([2, 2]));
    assert_eq!(
        [mine(1), mine(2), theirs, mine(3)].map(|mad| site.ask(greedy, &mad)),
        [0, 0, 0, NO_RESOURCES]
    );
    assert_eq!(site.ask(greedy, &mine(1)), 0, "a membership that exists");
    assert_eq!(site.ask(greedy, &join(Method::DELETE, 4, site.host([2, 2]))), 0);
    assert_eq!(site.ask(greedy, &mine(3)), 0, "one less, one more");
}

/// A port whose queue pairs subscribe to everything and never respond gets its share, and a
/// subscriber that responds gets its reports.
#[test]
fn silent_subscribers_are_limited() {
    let mut site = Site::new(|_| ());
    let (hostile, honest) = (site.host([0, 0]), site.host([1, 0]));
    let subscribe = subscription(0xFFFF);
    let limit = site.subnet.options.sa_max_subscriptions_per_port;
    let statuses: Vec<u16> = (0..4000)
        .map(|qpn| {
            let from = Address { qpn: 100 + qpn, ..Address::gsi(site.lid(hostile), Sl(0)) };
            site.ask_by(from, &subscribe)
        })
        .collect();
    assert_eq!(statuses.iter().filter(|&&status| status == 0).count(), limit as usize);
    assert_eq!(site.ask(honest, &subscribe), 0);
    let (subnet, mut dispatcher) = (Arc::new(site.subnet), NoticeDispatcher::default());
    let (now, retry) = (Instant::now().into_std(), report_retry(&subnet.options));
    dispatcher.subnet_published(site.sa.registry_mut(), &subnet, now);
    let ports = subnet.fabric.end_ports().count();
    let mut answered = 0;
    while let Some(report) = dispatcher.next(now, retry) {
        if report.to.qpn == 1 {
            answered += 1;
            dispatcher.report_completed(report.tid, true, now);
        }
    }
    assert_eq!(answered, ports, "every port was reported to the honest subscriber at once");
}

/// The MADs that a port sent.
#[derive(Default)]
pub(super) struct Sent(pub(super) Mutex<Vec<Mad>>);

impl MadRecorder for Sent {
    fn record(&self, _fate: MadFate, _agent: Agent, _peer: &Address, mad: &[u8]) {
        self.0.lock().expect("no panic").push(Mad::read(mad));
    }
}

#[tokio::test(start_paused = true)]
async fn the_m_key_is_sent_with_trap_repress_to_ports_that_hold_it_only() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { m_key: M_KEY, ..cluster.options() };
    let (same, sent) = (options.clone(), Arc::new(Sent::default()));
    let recorder = sent.clone();
    let wrap = |port| -> Arc<dyn MadPort> { Arc::new(RecordedPort::new(port, recorder)) };
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind([0; 3], options, reload, wrap);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let client = Client::at(&cluster, [1, 1, 0], true);
    client.trap(77, |notice| notice.set_trap_number(TrapNumber::LOCAL_CHANGES));
    settle().await;
    let mads = sent.0.lock().expect("no panic");
    let represses: Vec<&Mad> =
        mads.iter().filter(|mad| mad.method() == Method::TRAP_REPRESS).collect();
    assert!(!represses.is_empty(), "the trap is repressed");
    for mad in represses {
        assert_eq!(mad.smp().m_key(), M_KEY, "the key of the port: {mad:?}");
    }
}

/// Traps that claim another origin than the device that sent them reach no subscriber.
#[tokio::test(start_paused = true)]
async fn forged_traps_are_not_reported() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let _sm = cluster.start([0; 3], cluster.options());
    settle().await;
    let (client, hostile) = (Client::at(&cluster, [1, 1, 0], true), [2, 2, 0]);
    let own = cluster.host_lid(hostile);
    let hostile = Client::at(&cluster, hostile, true);
    let reply = client.call(&subscription(0xFFFF)).await;
    assert_eq!(Header::read(&reply).status(), 0);
    let manager = client.sa.lid;
    let victim = cluster.host_lid([1, 0, 0]);
    let cases: [(u16, Lid, u32); 7] = [
        (TrapNumber::GID_IN, manager, 4),
        (TrapNumber::GID_OUT, manager, 1),
        (TrapNumber::GID_OUT, own, 4),
        (TrapNumber::LOCAL_CHANGES, victim, 1),
        (TrapNumber::LINK_STATE, own, 1),
        (TrapNumber::LINK_STATE, own, 2),
        (TrapNumber::LOCAL_CHANGES, own, 2),
    ];
    for (tid, (number, issuer, producer)) in (1..).zip(cases) {
        hostile.trap(tid, |notice| {
            notice.set_trap_number(number);
            notice.set_producer_type(producer);
            notice.set_issuer_lid(issuer);
            notice.set_subject_lid(issuer);
        });
    }
    hostile.trap(20, |notice| {
        notice.set_trap_number(TrapNumber::LOCAL_CHANGES);
        notice.set_issuer_lid(own);
        notice.set_subject_lid(victim);
    });
    settle().await;
    assert_eq!(client.reports(), []);
    hostile.trap(30, |notice| {
        notice.set_trap_number(TrapNumber::LOCAL_CHANGES);
        notice.set_issuer_lid(own);
        notice.set_subject_lid(own);
    });
    settle().await;
    let numbers: Vec<u16> = client.reports().into_iter().map(|(number, _)| number).collect();
    assert_eq!(numbers, [TrapNumber::LOCAL_CHANGES], "its own trap is reported");
}

/// A port that sends traps of ever changing contents has some of them reported, and others have
/// theirs reported meanwhile.
#[tokio::test(start_paused = true)]
async fn a_flood_of_traps_is_limited() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let _sm = cluster.start([0; 3], cluster.options());
    settle().await;
    let (client, hostile, honest) = ([1, 1, 0], [2, 2, 0], [1, 0, 0]);
    let (own, other) = (cluster.host_lid(hostile), cluster.host_lid(honest));
    let client = Client::at(&cluster, client, true);
    let [hostile, honest] = [hostile, honest].map(|at| Client::at(&cluster, at, true));
    let reply = client.call(&subscription(TrapNumber::LINK_INTEGRITY)).await;
    assert_eq!(Header::read(&reply).status(), 0);
    let send = |from: &Client, lid: Lid, tid: u64, port: u8| {
        from.trap(tid, |notice| {
            notice.set_trap_number(TrapNumber::LINK_INTEGRITY);
            notice.set_issuer_lid(lid);
            notice.set_subject_lid(lid);
            notice.set_port(PortNum(port));
        });
    };
    let mut reported = 0;
    for round in 0..20 {
        (0..200).for_each(|port| send(&hostile, own, 1 + round * 200 + u64::from(port), port));
        settle().await;
        reported += client.reports().len();
        send(&honest, other, 1 + round, round as u8);
        settle().await;
        assert_eq!(client.reports().len(), 1, "round {round}: the honest device's");
    }
    assert!((1..=256).contains(&reported), "{reported}");
}

/// Subscriptions of queue pairs that respond to no report end, those of others do not.
#[tokio::test(start_paused = true)]
async fn subscriptions_of_silent_queue_pairs_end() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { sa_max_subscriber_silence: 300, ..cluster.options() };
    let _sm = cluster.start([0; 3], options);
    settle().await;
    let source = [1, 0, 0];
    let lid = cluster.host_lid(source);
    let honest = Client::at(&cluster, [1, 1, 0], true);
    let silent = Client::at(&cluster, [2, 2, 0], false);
    let source = Client::at(&cluster, source, true);
    for client in [&honest, &silent] {
        let reply = client.call(&subscription(TrapNumber::LINK_INTEGRITY)).await;
        assert_eq!(Header::read(&reply).status(), 0);
    }
    let list = request(SaAttr::INFORM_INFO_RECORD, Method::GET_TABLE, 0, &InformInfo::default());
    for minute in 0..8_u8 {
        source.trap(100 + u64::from(minute), |notice| {
            notice.set_trap_number(TrapNumber::LINK_INTEGRITY);
            notice.set_issuer_lid(lid);
            notice.set_subject_lid(lid);
            notice.set_port(PortNum(minute));
        });
        tokio::time::sleep(std::time::Duration::from_secs(60)).await;
        assert_eq!(honest.reports().len(), 1, "minute {minute}");
        let table = honest.call(&list).await;
        let count = (table.len() - DATA_OFFSET) / InformInfoRecord::STRIDE;
        assert_eq!(count, if minute < 5 { 2 } else { 1 }, "minute {minute}");
        assert_eq!(silent.reports().is_empty(), minute > 5, "minute {minute}");
    }
}

/// The registrations of a port that has left end, although few sweeps follow.
#[tokio::test(start_paused = true)]
async fn registrations_of_a_port_that_left_end() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { sa_max_services_per_port: 4, ..cluster.options() };
    let _sm = cluster.start([0; 3], options);
    settle().await;
    let leaving = [2, 2, 0];
    let guid = cluster.shape.host_guid(leaving, 0);
    let (hostile, other) =
        (Client::at(&cluster, leaving, true), Client::at(&cluster, [1, 1, 0], true));
    let wanted = [
        service(Method::SET, 1, hostile.guid, 0),
        join(Method::SET, 1, hostile.guid),
        subscription(TrapNumber::GID_IN),
    ];
    for mad in &wanted {
        assert_eq!(Header::read(&hostile.call(mad).await).status(), 0);
    }
    let left = async |seconds| {
        tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
        let get = |attribute| request(attribute, Method::GET, 0, &ServiceRecord::default());
        let services = Header::read(&other.call(&get(SaAttr::SERVICE_RECORD)).await).status();
        let group = join(Method::GET, 1, hostile.guid);
        let mut mask = SaHeader::read(&group.0[SA_OFFSET..]);
        mask.set_component_mask(McMemberRecord::MGID);
        let mut group = group;
        mask.write(&mut group.0[SA_OFFSET..]);
        [services, Header::read(&other.call(&group).await).status()]
    };
    assert_eq!(left(1).await, [0, 0]);
    assert!(cluster.fabric.unlink(guid, PortNum(1)));
    // The sweep that follows is complete, and ends memberships.
    assert_eq!(left(200).await, [0, NO_RECORDS], "a host that restarts keeps its services");
    assert_eq!(left(200).await, [NO_RECORDS, NO_RECORDS]);
}
