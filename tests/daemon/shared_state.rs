//! The shared state of several daemons: a successor has what the master knew, and nothing waits for
//! a connection.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use testkit::memory_network::{MemoryNetwork, Sharing};
use testkit::multicast::MulticastTrees;
use testkit::sa_client::{Client, DEFAULT_PREFIX, joins, request, with_sm_key};
use testkit::{SimCluster, Sm, settle};
use tokio::time::{Instant, sleep};
use torus_sm::config::options::Options;
use torus_sm::ids::{Gid, Guid, MKey, Mlid, Pkey, PortNum, SmKey};
use torus_sm::replication::network::InstanceNetwork as _;
use torus_sm::replication::protocol::{self, Hello, ReplicationMessage};
use torus_sm::replication::status::{PeerStatus, StateTransfer, TransferDirection};
use torus_sm::wire::attr::SmState;
use torus_sm::wire::mad::{Header, Method};
use torus_sm::wire::record::{InformInfo, Record, ServiceRecord};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

const A: [u16; 3] = [0, 0, 0];
const B: [u16; 3] = [2, 0, 0];
/// A host with clients only.
const C: [u16; 3] = [1, 2, 0];

/// Time in which changes reach a standby.
const LAG: Duration = Duration::from_secs(1);

fn options(cluster: &SimCluster, sm_priority: u8) -> Options {
    // Clients are not asked to register, so that what a successor knows is what it was sent.
    let no_clients_rereg = true;
    Options { sm_priority, sminfo_polling_timeout: 1000, no_clients_rereg, ..cluster.options() }
}

/// A daemon with its sessions.
struct Instance {
    sm: Sm,
    sharing: Sharing,
}

impl Instance {
    fn start(
        (cluster, network): (&SimCluster, &MemoryNetwork),
        at: [u16; 3],
        options: Options,
    ) -> Self {
        let name = name(at);
        let sm = cluster.start(at, options);
        let sharing = network.share(&sm.sharing, name, &["a", "b"]);
        Self { sm, sharing }
    }

    async fn kill(self) {
        drop(self.sharing);
        self.sm.kill().await;
    }

    /// The connections with other instances.
    fn peers(&self) -> Vec<PeerStatus> {
        let status = self.sm.sharing.status.load();
        status.peers.iter().map(|(_, peer)| peer.clone()).collect()
    }

    fn is_complete(&self) -> bool {
        self.peers().iter().any(|peer| peer.sharing.is_complete)
    }

    async fn until_up(&self) {
        for _ in 0..2000 {
            if self.sm.state() == SmState::Master && self.sm.generation() > 0 {
                return settle().await;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("no SUBNET UP in 20 s");
    }
}

/// The last transfer with another instance.
#[track_caller]
fn transfer(instance: &Instance) -> StateTransfer {
    let found =
        instance.peers().into_iter().filter_map(|peer| peer.last_transfer).max_by_key(|t| t.at);
    found.expect("a transfer")
}

/// Both instances have both names as peers, so each finds itself among them, too.
fn name(at: [u16; 3]) -> &'static str {
    if at == A { "a" } else { "b" }
}

/// A master and a standby that is complete.
async fn pair(cluster: &SimCluster, network: &MemoryNetwork) -> [Instance; 2] {
    let first = Instance::start((cluster, network), A, options(cluster, 9));
    settle().await;
    let second = Instance::start((cluster, network), B, options(cluster, 1));
    sleep(Duration::from_secs(10)).await;
    assert_eq!((first.sm.state(), second.sm.state()), (SmState::Master, SmState::Standby));
    assert!(second.is_complete(), "{:?}", second.peers());
    [first, second]
}

fn ok(reply: &[u8]) {
    assert_eq!(Header::read(reply).status(), 0);
}

async fn join(client: &Client, method: Method, group: usize) {
    static TID: AtomicU32 = AtomicU32::new(1);
    let tid = TID.fetch_add(1, Ordering::Relaxed);
    ok(&client.call(&joins::request(method, client.gid().guid(), group, tid)).await);
}

async fn serve(client: &Client, method: Method, id: u64, lease: u32) {
    let mut record = ServiceRecord::default();
    record.set_id(id);
    record.set_gid(client.gid());
    record.set_pkey(Pkey::DEFAULT_FULL);
    record.set_lease(lease);
    let mask = ServiceRecord::ID | ServiceRecord::GID | ServiceRecord::PKEY | ServiceRecord::LEASE;
    ok(&client.call(&request(SaAttr::SERVICE_RECORD, method, mask, &record)).await);
}

/// The remaining lease of a service; `None` if there is no such service.
async fn lease(client: &Client, id: u64) -> Option<u32> {
    let mut record = ServiceRecord::default();
    record.set_id(id);
    let mad = request(SaAttr::SERVICE_RECORD, Method::GET, ServiceRecord::ID, &record);
    let reply = client.call(&with_sm_key(mad, SmKey(1))).await;
    let is_found = Header::read(&reply).status() == 0;
    is_found.then(|| ServiceRecord::parse(&reply[DATA_OFFSET..]).lease())
}

/// Subscribes to all notices.
async fn subscribe(client: &Client) {
    let mut info = InformInfo::default();
    info.set_lid_range_begin(torus_sm::ids::Lid(0xFFFF));
    info.set_is_generic(1);
    info.set_subscribe(1);
    info.set_notice_type(0xFFFF);
    info.set_trap_number(0xFFFF);
    info.set_producer_type(0xFF_FFFF);
    ok(&client.call(&request(SaAttr::INFORM_INFO, Method::SET, 0, &info)).await);
}

/// The multicast trees of the fabric: MLIDs with the hosts that they reach.
fn trees(cluster: &SimCluster) -> Vec<(Mlid, BTreeSet<Guid>)> {
    let trees = MulticastTrees::read(&cluster.fabric, &cluster.topology);
    trees.mlids().into_iter().map(|mlid| (mlid, trees.members(mlid).expect("a tree"))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_takeover_keeps_ten_minutes_of_joins_and_services() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let network = MemoryNetwork::default();
    let [first, second] = pair(&cluster, &network).await;
    let taken = [A, B, C].map(|at| cluster.shape.host_guid(at, 0));
    let hosts: Vec<Guid> = cluster.hosts().filter(|host| !taken.contains(host)).collect();
    let attach = |number: usize| Client::attach(&cluster.fabric, hosts[number]);
    let clients: Vec<Client> = (0..8).map(attach).collect();
    let subscriber = Client::at(&cluster, C, true);
    subscribe(&subscriber).await;
    let start = Instant::now();
    for round in 0..60_usize {
        for (number, client) in clients.iter().enumerate() {
            join(client, Method::SET, (round + number) % 40).await;
            if round >= 10 && number % 2 == 0 {
                join(client, Method::DELETE, (round - 10 + number) % 40).await;
            }
            let id = (round * 100 + number) as u64;
            serve(client, Method::SET, id, [ServiceRecord::NO_END, 7200][number % 2]).await;
            if round >= 5 && number == 3 {
                serve(client, Method::DELETE, id - 500, ServiceRecord::NO_END).await;
            }
        }
        sleep(Duration::from_secs(10)).await;
    }
    assert!(start.elapsed() >= Duration::from_secs(600));
    let before = trees(&cluster);
    let last = 5900;
    assert!(before.len() >= 40, "{}", before.len());
    first.kill().await;
    second.until_up().await;
    assert_eq!(trees(&cluster), before, "MLIDs and members");
    cluster.fabric.reset_counters();
    let client = attach(9);
    for round in 0..60_u64 {
        for number in 0..clients.len() as u64 {
            let id = round * 100 + number;
            let is_deleted = number == 3 && round < 55;
            let remaining = lease(&client, id).await;
            assert_eq!(remaining.is_none(), is_deleted, "service {id}");
            let Some(remaining) = remaining.filter(|&lease| lease != ServiceRecord::NO_END) else {
                continue;
            };
            // 10 s for each round since, and the time of the takeover.
            let elapsed = 10 * (60 - round as u32);
            let expected = 7200 - elapsed;
            assert!((expected - 40..=expected + 1).contains(&remaining), "{id}: {remaining}");
        }
    }
    assert_eq!(lease(&client, last + 50).await, None, "there was none");
    // The subscriber hears of a new group from the new master.
    let _ = subscriber.reports();
    join(&attach(10), Method::SET, 900).await;
    sleep(Duration::from_secs(5)).await;
    let gids: Vec<Gid> = subscriber.reports().into_iter().map(|(_, gid)| gid).collect();
    assert!(gids.contains(&joins::mgid(900)), "{gids:?}");
    assert_eq!(cluster.faults(&second.sm), [""; 0]);
}

/// Registrations reach the standby about when the client has the reply, whatever else is to be sent.
#[tokio::test(start_paused = true)]
async fn a_takeover_keeps_registrations_of_the_last_moment() {
    /// Time between a reply and the end of the master.
    const MOMENT: Duration = Duration::from_millis(20);
    let cluster = SimCluster::healthy("4x4x1", 1);
    let network = MemoryNetwork::default();
    let [first, second] = pair(&cluster, &network).await;
    let client = Client::at(&cluster, C, true);
    for group in 0..20 {
        // At any time of the sessions' intervals.
        sleep(Duration::from_millis(237)).await;
        let start = Instant::now();
        join(&client, Method::SET, group).await;
        serve(&client, Method::SET, group as u64, 3600).await;
        sleep(MOMENT).await;
        let received = transfer(&second);
        assert!(received.at >= start, "registration {group}: {received:?}");
    }
    join(&client, Method::SET, 20).await;
    serve(&client, Method::SET, 20, 3600).await;
    let before = trees(&cluster);
    assert_eq!(before.len(), 21);
    sleep(MOMENT).await;
    first.kill().await;
    second.until_up().await;
    assert_eq!(trees(&cluster), before);
    // It sends to the new master.
    let client = Client::at(&cluster, C, true);
    for id in 0..=20 {
        assert!(lease(&client, id).await.is_some(), "service {id}");
    }
}

/// A registration that the standby did not get is not lost either: all clients are asked to register
/// again.
#[tokio::test(start_paused = true)]
async fn clients_are_asked_to_register_again_although_the_state_is_shared() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let network = MemoryNetwork::default();
    let asking = |priority| Options { no_clients_rereg: false, ..options(&cluster, priority) };
    let first = Instance::start((&cluster, &network), A, asking(9));
    settle().await;
    let second = Instance::start((&cluster, &network), B, asking(1));
    sleep(Duration::from_secs(10)).await;
    assert!(second.is_complete(), "{:?}", second.peers());
    let client = Client::at(&cluster, C, true);
    join(&client, Method::SET, 1).await;
    sleep(LAG).await;
    network.cut(true);
    join(&client, Method::SET, 2).await;
    let asked = || -> Vec<u64> {
        let events = cluster.hosts().map(|host| cluster.fabric.port_events(host, PortNum(1)));
        events.map(|events| events.expect("a port").reregistrations).collect()
    };
    let before = asked();
    first.kill().await;
    second.until_up().await;
    let expected: Vec<u64> = before.iter().map(|count| count + 1).collect();
    assert_eq!(asked(), expected);
    assert_eq!(trees(&cluster).len(), 1, "the network was cut before the second join");
    let client = Client::at(&cluster, C, true);
    join(&client, Method::SET, 2).await;
    assert_eq!(trees(&cluster).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cut_network_delays_nothing_and_is_caught_up_with() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let network = MemoryNetwork::default();
    let [first, second] = pair(&cluster, &network).await;
    let client = Client::at(&cluster, C, true);
    join(&client, Method::SET, 1).await;
    sleep(LAG).await;
    network.cut(true);
    let start = Instant::now();
    let sent = transfer(&first);
    assert_eq!(
        (sent.direction, transfer(&second).direction),
        (TransferDirection::Sent, TransferDirection::Received)
    );
    assert_eq!(sent.generation, transfer(&second).generation);
    assert!(sent.generation > 0 && sent.at.elapsed() <= LAG, "{sent:?}");
    join(&client, Method::SET, 2).await;
    serve(&client, Method::SET, 5, 3600).await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    sleep(Duration::from_secs(120)).await;
    for instance in [&first, &second] {
        let peers = instance.peers();
        assert_eq!(peers.len(), 1, "{peers:?}");
        assert!(!peers[0].is_connected && peers[0].problem.is_some(), "{peers:?}");
        // The silence is noticed 20 s after the last message; the last transfer is remembered.
        let lost = peers[0].since.expect("the start of this state").elapsed();
        assert!((99..=107).contains(&lost.as_secs()), "{lost:?}");
        assert!(transfer(instance).at.elapsed() >= Duration::from_secs(119));
    }
    assert_eq!((first.sm.state(), second.sm.state()), (SmState::Master, SmState::Standby));
    assert_eq!(cluster.faults(&first.sm), [""; 0]);
    network.cut(false);
    sleep(Duration::from_secs(40)).await;
    assert!(second.is_complete(), "{:?}", second.peers());
    assert!(transfer(&second).generation > sent.generation);
    let before = trees(&cluster);
    assert_eq!(before.len(), 2);
    first.kill().await;
    second.until_up().await;
    assert_eq!(trees(&cluster), before);
    let client = Client::at(&cluster, C, true);
    assert!(lease(&client, 5).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn without_a_connection_a_successor_keeps_what_it_got_before() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let network = MemoryNetwork::default();
    let [first, second] = pair(&cluster, &network).await;
    let client = Client::at(&cluster, C, true);
    join(&client, Method::SET, 1).await;
    sleep(LAG).await;
    let before = trees(&cluster);
    network.cut(true);
    sleep(Duration::from_secs(300)).await;
    first.kill().await;
    second.until_up().await;
    assert_eq!(trees(&cluster), before);
}

#[tokio::test(start_paused = true)]
async fn a_standby_that_is_killed_comes_back_and_both_change_roles() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let network = MemoryNetwork::default();
    let [first, second] = pair(&cluster, &network).await;
    let client = Client::at(&cluster, C, true);
    join(&client, Method::SET, 1).await;
    second.kill().await;
    join(&client, Method::SET, 2).await;
    sleep(Duration::from_secs(60)).await;
    let second = Instance::start((&cluster, &network), B, options(&cluster, 1));
    sleep(Duration::from_secs(60)).await;
    assert!(second.is_complete(), "{:?}", second.peers());
    let before = trees(&cluster);
    assert_eq!(before.len(), 2);
    first.kill().await;
    second.until_up().await;
    assert_eq!(trees(&cluster), before);
    let client = Client::at(&cluster, C, true);
    join(&client, Method::SET, 3).await;
    join(&client, Method::DELETE, 1).await;
    // The first one returns, gets the state as standby, and the HANDOVER.
    let first = Instance::start((&cluster, &network), A, options(&cluster, 9));
    sleep(Duration::from_secs(60)).await;
    let masters = [&first, &second].map(|instance| instance.sm.state() == SmState::Master);
    assert_eq!(masters.iter().filter(|&&is_master| is_master).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn different_configurations_are_shown_on_both_sides_before_a_takeover() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let network = MemoryNetwork::default();
    let first = Instance::start((&cluster, &network), A, options(&cluster, 9));
    settle().await;
    let conf = cluster.file("other.conf");
    std::fs::write(&conf, "torus 4 4 1\n").expect("a file");
    let other = Options {
        routing_engine: Some("minhop".into()),
        sa_key: SmKey(0xABCD_EF01),
        torus_config: conf.display().to_string(),
        log_file: "/elsewhere".into(),
        ..options(&cluster, 1)
    };
    let second = Instance::start((&cluster, &network), B, other);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(second.sm.state(), SmState::Standby);
    let expected = |[here, there]: [&str; 2]| {
        [
            format!("routing_engine (here {here}, there {there})"),
            "sa_key".to_owned(),
            "torus_config (contents of the files)".to_owned(),
        ]
        .into_iter()
        .collect::<BTreeSet<String>>()
    };
    for (instance, engines) in
        [(&first, ["torus-2QoS", "minhop"]), (&second, ["minhop", "torus-2QoS"])]
    {
        let peers = instance.peers();
        assert!(!peers.is_empty());
        for peer in peers {
            let found: BTreeSet<String> = peer.differences.iter().cloned().collect();
            assert_eq!(found, expected(engines), "{peer:?}");
        }
    }
    // State is shared all the same: the fabric needs a successor.
    assert!(second.is_complete());
}

#[tokio::test(start_paused = true)]
async fn lids_and_keys_of_the_master_reach_the_cache_of_the_standby() {
    let cluster = SimCluster::healthy("4x4x1", 1);
    let network = MemoryNetwork::default();
    for at in [A, B] {
        std::fs::create_dir(cluster.cache_dir(at)).expect("a folder");
    }
    let with_key = |priority| Options {
        m_key: MKey(0x1234_5678),
        honor_guid2lid_file: true,
        ..options(&cluster, priority)
    };
    let first = Instance::start((&cluster, &network), A, with_key(9));
    sleep(Duration::from_secs(2)).await;
    let second = Instance::start((&cluster, &network), B, with_key(1));
    sleep(Duration::from_secs(20)).await;
    for name in ["guid2lid", "guid2mkey", "neighbors"] {
        let read = |at| std::fs::read_to_string(cluster.cache_dir(at).join(name)).expect("a file");
        assert!(!read(A).is_empty());
        assert_eq!(read(A), read(B), "{name}");
    }
    let tables = cluster.tables();
    first.kill().await;
    second.until_up().await;
    assert!(tables == cluster.tables(), "LIDs and routes stay");
    assert_eq!(cluster.faults(&second.sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn instances_of_another_version_or_subnet_say_so_and_exchange_nothing() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let network = MemoryNetwork::default();
    let first = Instance::start((&cluster, &network), A, options(&cluster, 9));
    settle().await;
    let hello = Hello {
        version: 2,
        software: "torus-sm 99".into(),
        port_guid: 0x99,
        subnet_prefix: DEFAULT_PREFIX,
        state: "STANDBY".into(),
        configuration: Default::default(),
    };
    let stranger = Hello { version: 1, subnet_prefix: 7, ..hello.clone() };
    for (hello, words) in [(hello, "version 2 of the protocol"), (stranger, "another subnet")] {
        let host = network.host("later");
        let mut stream = host.connect("a").await.expect("a connection");
        protocol::send(&mut stream, &ReplicationMessage::Hello(hello)).await.expect("sent");
        protocol::send(&mut stream, &ReplicationMessage::Follow { since: None })
            .await
            .expect("sent");
        let deadline = Instant::now() + Duration::from_secs(3);
        let receiving = async {
            loop {
                let message = protocol::receive(&mut stream).await.expect("a message");
                assert!(
                    matches!(message, ReplicationMessage::Hello(_) | ReplicationMessage::Alive),
                    "no state"
                );
            }
        };
        assert!(tokio::time::timeout_at(deadline, receiving).await.is_err());
        let peers = first.peers();
        let later = peers.iter().find(|peer| peer.port_guid == Some(Guid(0x99)));
        let problem = later.and_then(|peer| peer.problem.clone()).unwrap_or_default();
        assert!(problem.contains(words), "{peers:?}");
        assert!(later.is_some_and(|peer| !peer.sharing.is_follower));
        drop(stream);
        settle().await;
    }
    // Garbage ends the connection, and no more.
    let mut stream = network.host("garbage").connect("a").await.expect("a connection");
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"\0\0\0\x04abcdmore").await.expect("sent");
    let end = async { while protocol::receive(&mut stream).await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(5), end).await.expect("the connection ends");
    assert_eq!(cluster.faults(&first.sm), [""; 0]);
}
