//! Alias GUIDs: the status of every kind of request, the queries that find a port by its alias,
//! and, with the whole daemon on a simulated fabric, the tables of the devices and the state after
//! a restart.

use std::path::Path;
use std::time::Instant;
use testkit::sa_client::Client;
use testkit::sa_client::request;
use testkit::{SimCluster, Sm, settle};
use torus_sm::config::options::Options;
use torus_sm::config::torus::TorusConfig;
use torus_sm::daemon::sm_loop::run::Exit;
use torus_sm::fabric::Fabric;
use torus_sm::fabric::synthetic::SyntheticView;
use torus_sm::ids::{Gid, Guid, Lid, Pkey, PortNum, Sl, SmKey};
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sim::generate::Shape;
use torus_sm::transport::Address;
use torus_sm::wire::attr::tables::{GUID_BLOCK, GuidBlock};
use torus_sm::wire::attr::{AttrId, SmState};
use torus_sm::wire::mad::{Header, Mad, Method};
use torus_sm::wire::record::tables::GuidInfoRecord;
use torus_sm::wire::record::{
    ClassCap2, ClassPortInfo, JoinState, McMemberRecord, PathRecord, Record, ServiceRecord,
};
use torus_sm::wire::sa::{DATA_OFFSET, SA_OFFSET, SaAttr, SaHeader};

const PREFIX: u64 = 0xfe80_0000_0000_0000;
const SM_KEY: SmKey = SmKey(1);
const PORT_AND_BLOCK: u64 = GuidInfoRecord::LID | GuidInfoRecord::BLOCK;

/// The first GUID that the subnet manager assigns with `sm_assigned_guid` 0x5A.
const MADE_UP: u64 = 0x14_055A_0000_0001;

// ---- a published subnet ----

struct ResponderFixture {
    shape: Shape,
    subnet: Subnet,
    sa: Responder,
}

/// A 3x3 torus with one host at each switch.
fn fixture() -> ResponderFixture {
    let shape = Shape { hosts: 1, ..Shape::torus([3, 3, 1]) };
    let topology = shape.build().expect("a torus");
    let fabric =
        Fabric::from_topology(&topology, 0, &SyntheticView::default()).expect("node 0 exists");
    let options = Options {
        qos: true,
        sm_assigned_guid: 0x5A,
        sa_allow_untrusted_guidinfo: true,
        ..Options::default()
    };
    let config = TorusConfig::parse(Path::new("torus-2QoS.conf"), &shape.torus_conf());
    let partitions = partitions::default(&options);
    let subnet = testkit::snapshot::subnet(fabric, options, &config, &partitions);
    ResponderFixture { shape, subnet, sa: Responder::default() }
}

impl ResponderFixture {
    fn guid(&self, at: [u16; 2]) -> Guid {
        Guid(self.shape.host_guid([at[0], at[1], 0], 0).0 + 1)
    }

    fn lid(&self, at: [u16; 2]) -> Lid {
        let port = self.subnet.fabric.port_by_guid(self.guid(at)).expect("a port");
        self.subnet.plan.lids.base(port).expect("a LID")
    }

    /// Sends a request from a host; the status and the records of the reply.
    fn ask<R: Record>(&mut self, at: [u16; 2], mad: &Mad) -> (u16, Vec<R>) {
        let from = Address::gsi(self.lid(at), Sl(0));
        let reply = self.sa.handle(&self.subnet, &from, &mad.0, Instant::now()).expect("a reply");
        let status = Header::read(&reply.mad).status();
        let most = match (status, mad.method()) {
            (0, Method::GET_TABLE) => usize::MAX,
            (0, _) => 1,
            _ => 0,
        };
        let records = reply.mad[DATA_OFFSET..].chunks_exact(R::STRIDE).take(most);
        (status, records.map(R::parse).collect())
    }

    /// Sets or deletes entries of a block of the port at `of`, requested by `by`.
    fn edit(
        &mut self,
        method: Method,
        [by, of]: [[u16; 2]; 2],
        block: u8,
        entries: &[(usize, u64)],
    ) -> Result<[u64; GUID_BLOCK], u16> {
        let mad = guid_info(method, self.lid(of), block, entries);
        match self.ask::<GuidInfoRecord>(by, &mad) {
            (0, records) => {
                assert_eq!((records[0].lid(), records[0].block()), (self.lid(of), block));
                Ok(records[0].guids().0.map(|guid| guid.0))
            }
            (status, _) => Err(status),
        }
    }

    fn set(&mut self, at: [u16; 2], entries: &[(usize, u64)]) -> [u64; GUID_BLOCK] {
        self.edit(Method::SET, [at, at], 0, entries).expect("the entries can be set")
    }
}

fn guid_info(method: Method, lid: Lid, block: u8, entries: &[(usize, u64)]) -> Mad {
    let mut record = GuidInfoRecord::default();
    let mut guids = GuidBlock::default();
    let mut mask = PORT_AND_BLOCK;
    for &(index, guid) in entries {
        guids.0[index] = Guid(guid);
        mask |= GuidInfoRecord::GID0 << index;
    }
    record.set_lid(lid);
    record.set_block(block);
    record.set_guids(&guids);
    request(SaAttr::GUID_INFO_RECORD, method, mask, &record)
}

const HERE: [u16; 2] = [0, 0];
const THERE: [u16; 2] = [2, 1];

#[test]
fn every_kind_of_request_has_its_status() {
    type Outcome = Result<[u64; GUID_BLOCK], u16>;
    // Block, entries, and the results of a Set and of a Delete: the status, or the entries
    // afterwards.
    type Row = (&'static str, u8, Vec<(usize, u64)>, Outcome, Outcome);
    let own = fixture().guid(THERE).0;
    let block0 = |entries: [u64; 3]| Ok([own, entries[0], entries[1], entries[2], 0, 0, 0, 0]);
    let rows: Vec<Row> = vec![
        ("nothing", 0, vec![], block0([9, 0, 0]), block0([9, 0, 0])),
        ("a free GUID", 0, vec![(2, 7)], block0([9, 7, 0]), block0([9, 0, 0])),
        ("in place of another", 0, vec![(1, 7)], block0([7, 0, 0]), block0([0, 0, 0])),
        ("the same again", 0, vec![(1, 9)], block0([9, 0, 0]), block0([0, 0, 0])),
        ("at two places", 0, vec![(2, 7), (3, 7)], block0([9, 7, 0]), block0([9, 0, 0])),
        ("the neighbour's", 0, vec![(1, 9), (2, 9)], block0([9, 0, 0]), block0([0, 0, 0])),
        ("a port's own", 0, vec![(2, own)], block0([9, 0, 0]), block0([9, 0, 0])),
        ("made up", 0, vec![(3, 0)], block0([9, 0, MADE_UP]), block0([9, 0, 0])),
        ("made up where one is", 0, vec![(1, 0)], block0([9, 0, 0]), block0([0, 0, 0])),
        ("the port's own place", 0, vec![(0, 7)], Err(0x200), Err(0x200)),
        ("with the port's own place", 0, vec![(0, own), (1, 7)], Err(0x200), Err(0x200)),
        ("another block", 3, vec![(0, 7)], Ok([7, 0, 0, 0, 0, 0, 0, 0]), Ok([0; 8])),
        ("beyond the table", 4, vec![(0, 7)], Err(0x300), Err(0x300)),
        ("far beyond the table", 255, vec![], Err(0x300), Err(0x300)),
    ];
    for (name, block, entries, set, deleted) in rows {
        for (method, expected) in [(Method::SET, set), (Method::DELETE, deleted)] {
            for by in [HERE, THERE] {
                let mut fixture = fixture();
                assert_eq!(fixture.set(THERE, &[(1, 9)])[1], 9);
                let got = fixture.edit(method, [by, THERE], block, &entries);
                assert_eq!(got, expected, "{name}: {method} by {by:?}");
            }
        }
    }
    let mut fixture = fixture();
    for method in [Method::SET, Method::DELETE] {
        for mask in [0, GuidInfoRecord::LID, GuidInfoRecord::BLOCK] {
            let record = GuidInfoRecord::default();
            let mad = request(SaAttr::GUID_INFO_RECORD, method, mask, &record);
            assert_eq!(fixture.ask::<GuidInfoRecord>(HERE, &mad).0, 0x600, "{method} {mask:#x}");
        }
        let nobody = guid_info(method, Lid(0xBEEF), 0, &[]);
        assert_eq!(fixture.ask::<GuidInfoRecord>(HERE, &nobody).0, 0x300, "{method}");
        let switch = fixture.subnet.fabric.node(fixture.subnet.fabric.switches()[0]).first_port;
        let lid = fixture.subnet.plan.lids.base(switch).expect("a LID");
        let own = guid_info(method, lid, 0, &[(1, 7)]);
        let (status, records) = fixture.ask::<GuidInfoRecord>(HERE, &own);
        assert_eq!((status, records[0].guids().0[1]), (0, Guid(0)), "a table of one entry");
    }
    let any = request(SaAttr::CLASS_PORT_INFO, Method::GET, 0, &ClassPortInfo::default());
    let info = fixture.ask::<ClassPortInfo>(HERE, &any).1[0];
    assert_ne!(info.capability_mask2() & ClassCap2::ALIAS_GUIDS, 0);
}

#[test]
fn aliases_are_listed_as_set() {
    let mut fixture = fixture();
    fixture.set(THERE, &[(1, 0xA1), (5, 0xA5)]);
    fixture.edit(Method::SET, [HERE, THERE], 1, &[(7, 0)]).expect("an assigned GUID");
    let table = |mask, record: &GuidInfoRecord| {
        request(SaAttr::GUID_INFO_RECORD, Method::GET_TABLE, mask, record)
    };
    let mut wanted = GuidInfoRecord::default();
    wanted.set_lid(fixture.lid(THERE));
    let (_, found) = fixture.ask::<GuidInfoRecord>(HERE, &table(GuidInfoRecord::LID, &wanted));
    let guids: Vec<Guid> = found.iter().flat_map(|record| record.guids().0).collect();
    assert_eq!(guids.len(), 32);
    assert_eq!([guids[0], guids[1], guids[5]], [fixture.guid(THERE), Guid(0xA1), Guid(0xA5)]);
    assert_eq!(guids[15], Guid(MADE_UP));
    wanted.set_guids(&GuidBlock([Guid(0xA5); GUID_BLOCK]));
    let (_, found) = fixture.ask::<GuidInfoRecord>(HERE, &table(GuidInfoRecord::GID5, &wanted));
    assert_eq!(found.len(), 1, "the port by its alias");
    let fabric = fixture.subnet.fabric.clone();
    let blocks = fixture.sa.registry().alias_blocks(&fabric);
    let planned = torus_sm::plan::aliases::tables(&fabric, &blocks);
    assert_eq!(planned.iter().map(|block| block.block).collect::<Vec<_>>(), [0, 1]);
    assert_eq!(planned[0].guids.0[..], guids[..8]);
}

fn path(mask: u64, fill: impl Fn(&mut PathRecord)) -> impl Fn(Method) -> Mad {
    let mut record = PathRecord::default();
    fill(&mut record);
    move |method| request(SaAttr::PATH_RECORD, method, mask, &record)
}

#[test]
fn paths_lead_to_aliases() {
    let mut fixture = fixture();
    fixture.set(THERE, &[(1, 0xA1), (2, 0xA2)]);
    let here = Gid::new(PREFIX, fixture.guid(HERE));
    let there = Gid::new(PREFIX, fixture.guid(THERE));
    let alias = |n| Gid::new(PREFIX, Guid(n));
    let slid = fixture.lid(HERE);
    let dlid = fixture.lid(THERE);
    let by_gids = path(PathRecord::SGID | PathRecord::DGID, |record| {
        record.set_sgid(here);
        record.set_dgid(alias(0xA1));
    });
    for method in [Method::GET, Method::GET_TABLE] {
        let (status, found) = fixture.ask::<PathRecord>(HERE, &by_gids(method));
        assert_eq!((status, found.len()), (0, 1));
        assert_eq!((found[0].dgid(), found[0].dlid()), (alias(0xA1), dlid));
    }
    let by_lids = path(PathRecord::SLID | PathRecord::DLID, |record| {
        record.set_slid(slid);
        record.set_dlid(dlid);
    });
    let (_, found) = fixture.ask::<PathRecord>(HERE, &by_lids(Method::GET_TABLE));
    let names: Vec<Gid> = found.iter().map(PathRecord::dgid).collect();
    assert_eq!(names, [there, alias(0xA1), alias(0xA2)], "a record for each name");
    let (status, found) = fixture.ask::<PathRecord>(HERE, &by_lids(Method::GET));
    assert_eq!((status, found[0].dgid()), (0, there));
    let unknown = path(PathRecord::SGID | PathRecord::DGID, |record| {
        record.set_sgid(here);
        record.set_dgid(alias(0xA3));
    });
    assert_eq!(fixture.ask::<PathRecord>(HERE, &unknown(Method::GET)).0, 0x500);
    fixture.edit(Method::DELETE, [THERE, THERE], 0, &[(1, 0)]).expect("it has one");
    assert_eq!(fixture.ask::<PathRecord>(HERE, &by_gids(Method::GET)).0, 0x500);
}

/// A group that clients create.
fn group() -> Gid {
    Gid([0xFF, 0x12, 0xA0, 0x1C, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9])
}

fn member(method: Method, name: Guid, state: JoinState) -> Mad {
    let mut record = McMemberRecord::default();
    record.set_mgid(group());
    record.set_port_gid(Gid::new(PREFIX, name));
    record.set_join_state(state);
    record.set_pkey(Pkey::DEFAULT_FULL);
    let name = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let to_create = McMemberRecord::QKEY
        | McMemberRecord::TRAFFIC_CLASS
        | McMemberRecord::PKEY
        | McMemberRecord::FLOW_LABEL
        | McMemberRecord::SL;
    request(SaAttr::MC_MEMBER_RECORD, method, name | to_create, &record)
}

/// Port GUIDs of the group's members, as a trusted client sees them.
fn names(fixture: &mut ResponderFixture) -> Vec<Guid> {
    let mut record = McMemberRecord::default();
    record.set_mgid(group());
    let mask = McMemberRecord::MGID;
    let mut mad = request(SaAttr::MC_MEMBER_RECORD, Method::GET_TABLE, mask, &record);
    let mut sa = SaHeader::read(&mad.0[SA_OFFSET..]);
    sa.set_sm_key(SM_KEY);
    sa.write(&mut mad.0[SA_OFFSET..]);
    fixture.ask::<McMemberRecord>(HERE, &mad).1.iter().map(|one| one.port_gid().guid()).collect()
}

#[test]
fn aliases_are_members_of_groups() {
    let mut fixture = fixture();
    let alias = Guid(0xA1);
    let own = fixture.guid(THERE);
    let by =
        |fixture: &mut ResponderFixture, at, mad: Mad| fixture.ask::<McMemberRecord>(at, &mad).0;
    let full = JoinState::FULL;
    assert_eq!(by(&mut fixture, THERE, member(Method::SET, alias, full)), 0x200, "it has none yet");
    fixture.set(THERE, &[(1, alias.0), (2, 0xA2)]);
    for name in [alias, own] {
        let (status, records) =
            fixture.ask::<McMemberRecord>(THERE, &member(Method::SET, name, full));
        assert_eq!((status, records.first().map(|one| one.port_gid().guid())), (0, Some(name)));
        assert!(!records[0].proxy_join(), "the port joins itself");
    }
    assert_eq!(names(&mut fixture), [alias, own]);
    let groups = fixture.sa.registry().groups(&fixture.subnet.fabric);
    assert_eq!(groups[0].members.len(), 1, "the port is in the tree once");
    let clear = |fixture: &mut ResponderFixture| {
        fixture.edit(Method::DELETE, [THERE, THERE], 0, &[(1, 0), (2, 0)])
    };
    assert_eq!(clear(&mut fixture), Err(0x700), "a member keeps its alias");
    assert_eq!(by(&mut fixture, HERE, member(Method::DELETE, alias, full)), 0x200, "a stranger");
    assert_eq!(by(&mut fixture, THERE, member(Method::DELETE, Guid(0xA2), full)), 0x200);
    assert_eq!(by(&mut fixture, THERE, member(Method::DELETE, own, full)), 0);
    assert_eq!(names(&mut fixture), [alias]);
    assert_eq!(fixture.sa.registry().groups(&fixture.subnet.fabric)[0].members.len(), 1);
    let to_group = path(PathRecord::SGID | PathRecord::DGID, |record| {
        record.set_sgid(Gid::new(PREFIX, alias));
        record.set_dgid(group());
    });
    assert_eq!(fixture.ask::<PathRecord>(THERE, &to_group(Method::GET)).0, 0);
    assert_eq!(by(&mut fixture, THERE, member(Method::DELETE, alias, full)), 0);
    assert_eq!(names(&mut fixture), []);
    assert!(clear(&mut fixture).is_ok());
    let proxy = fixture.edit(Method::SET, [HERE, THERE], 0, &[(1, alias.0)]);
    assert!(proxy.is_ok());
    let (_, records) = fixture.ask::<McMemberRecord>(HERE, &member(Method::SET, alias, full));
    assert!(records[0].proxy_join());
}

#[test]
fn services_are_offered_by_aliases() {
    let mut fixture = fixture();
    let mut record = ServiceRecord::default();
    record.set_id(7);
    record.set_gid(Gid::new(PREFIX, Guid(0xA1)));
    record.set_pkey(Pkey::DEFAULT_FULL);
    let mask = ServiceRecord::ID | ServiceRecord::GID | ServiceRecord::PKEY;
    let set = request(SaAttr::SERVICE_RECORD, Method::SET, mask, &record);
    assert_eq!(fixture.ask::<ServiceRecord>(THERE, &set).0, 0x200);
    fixture.set(THERE, &[(1, 0xA1)]);
    assert_eq!(fixture.ask::<ServiceRecord>(THERE, &set).0, 0);
}

// ---- the whole daemon ----

const AT: [u16; 3] = [1, 1, 0];

async fn up(cluster: &SimCluster, options: Options) -> Sm {
    let sm = cluster.start([0, 0, 0], options);
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(sm.state(), SmState::Master);
    sm
}

/// Block 0 as the client's device holds it.
fn held(cluster: &SimCluster) -> Vec<u64> {
    let guids = cluster.fabric.guids(cluster.shape.host_guid(AT, 0), PortNum(1)).expect("a host");
    guids[..GUID_BLOCK].iter().map(|guid| guid.0).collect()
}

async fn call(
    cluster: &SimCluster,
    client: &Client,
    method: Method,
    entries: &[(usize, u64)],
) -> Vec<u64> {
    let mad = guid_info(method, cluster.host_lid(AT), 0, entries);
    let reply = client.call(&mad).await;
    assert_eq!(Header::read(&reply).status(), 0, "{method}");
    let guids = GuidInfoRecord::parse(&reply[DATA_OFFSET..]).guids();
    guids.0.iter().map(|guid| guid.0).collect()
}

/// The status of a Get for the path from the client to an alias, and the LID that it leads to.
async fn path_to(client: &Client, alias: u64) -> (u16, Lid) {
    let by_gids = path(PathRecord::SGID | PathRecord::DGID, |record| {
        record.set_sgid(Gid::new(PREFIX, client.guid));
        record.set_dgid(Gid::new(PREFIX, Guid(alias)));
    });
    let reply = client.call(&by_gids(Method::GET)).await;
    (Header::read(&reply).status(), PathRecord::parse(&reply[DATA_OFFSET..]).dlid())
}

fn block(client: &Client, rest: [u64; 2]) -> Vec<u64> {
    vec![client.guid.0, rest[0], rest[1], 0, 0, 0, 0, 0]
}

#[tokio::test(start_paused = true)]
async fn devices_hold_what_clients_set() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { sm_assigned_guid: 0x5A, ..cluster.options() };
    let sm = up(&cluster, options).await;
    let client = Client::at(&cluster, AT, true);
    assert_eq!(
        cluster.fabric.requests(AttrId::GUID_INFO),
        [0, 0],
        "no GUIDInfo is read or written"
    );
    let both = block(&client, [0xA1, MADE_UP]);
    let set = Method::SET;
    let get = Method::GET;
    assert_eq!(call(&cluster, &client, set, &[(1, 0xA1), (2, 0)]).await, both);
    settle().await;
    assert_eq!(
        (held(&cluster), cluster.fabric.requests(AttrId::GUID_INFO)),
        (both.clone(), [0, 1])
    );
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    assert_eq!(call(&cluster, &client, get, &[]).await, both, "kept over sweeps");
    let other = Client::at(&cluster, [2, 0, 0], true);
    for alias in [0xA1, MADE_UP] {
        assert_eq!(path_to(&other, alias).await, (0, cluster.host_lid(AT)));
    }

    // A port that was down for a moment may have been replaced by another device.
    let node = cluster.shape.host_guid(AT, 0);
    cluster.fabric.reset_counters();
    assert!(cluster.fabric.unlink(node, PortNum(1)) && cluster.fabric.relink(node, PortNum(1)));
    settle().await;
    assert_eq!(held(&cluster), both);
    assert!(cluster.fabric.requests(AttrId::GUID_INFO)[1] > 0, "written again");
    assert!(cluster.fabric.reboot(node));
    settle().await;
    assert_eq!(held(&cluster), both);

    assert_eq!(
        call(&cluster, &client, Method::DELETE, &[(1, 0)]).await,
        block(&client, [0, MADE_UP])
    );
    settle().await;
    assert_eq!(held(&cluster), block(&client, [0, MADE_UP]));
    assert_eq!(path_to(&other, 0xA1).await.0, 0x500, "no port has that alias any more");
    assert_eq!(path_to(&other, MADE_UP).await, (0, cluster.host_lid(AT)));

    // A port that leaves loses its aliases, and gets the same assigned one when it returns.
    assert!(cluster.fabric.unlink(node, PortNum(1)));
    settle().await;
    assert!(cluster.fabric.relink(node, PortNum(1)));
    settle().await;
    assert_eq!(call(&cluster, &client, get, &[]).await, block(&client, [0, 0]));
    assert_eq!(call(&cluster, &client, set, &[(2, 0)]).await, block(&client, [0, MADE_UP]));
    settle().await;
    assert_eq!(held(&cluster), block(&client, [0, MADE_UP]));
    assert_eq!(sm.stop().await, Exit::Clean);
}

#[tokio::test(start_paused = true)]
async fn aliases_survive_a_restart() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { sa_db_dump: true, ..cluster.options() };
    let sm = up(&cluster, options.clone()).await;
    let client = Client::at(&cluster, AT, true);
    let both = call(&cluster, &client, Method::SET, &[(1, 0xA1), (2, 0xA2)]).await;
    let join = member(Method::SET, Guid(0xA2), JoinState::FULL);
    assert_eq!(Header::read(&client.call(&join).await).status(), 0);
    settle().await;
    assert_eq!(sm.stop().await, Exit::Clean);
    let file = cluster.file("opensm-sa.dump");
    let text = std::fs::read_to_string(&file).expect("it is written at the end");
    assert_eq!(text.matches("GUIDInfo Record:").count(), 1, "{text}");
    assert!(text.contains("0x00000000000000a2 scope_state"), "{text}");

    // The device has lost its table.
    assert!(cluster.fabric.reboot(cluster.shape.host_guid(AT, 0)));
    let options = Options { sa_db_file: Some(file.display().to_string()), ..options };
    let sm = up(&cluster, options).await;
    assert_eq!(held(&cluster), both);
    assert_eq!(call(&cluster, &client, Method::GET, &[]).await, both);
    let leave = member(Method::DELETE, Guid(0xA2), JoinState::FULL);
    assert_eq!(Header::read(&client.call(&leave).await).status(), 0, "a member still");
    assert_eq!(sm.stop().await, Exit::Clean);
}
