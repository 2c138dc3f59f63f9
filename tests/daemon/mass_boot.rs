//! A mass boot: all hosts of a fabric come up within two seconds and join the groups of IPoIB. With
//! TORUS_SM_MASS_BOOT these are the 1,024 hosts of 8x8x8, else the 256 hosts of 4x4x4.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::multicast::MulticastTrees;
use testkit::sa_client::{Client, DEFAULT_PREFIX, joins, request, with_tid};
use testkit::tamper::{Tampering, begins_heavy_sweep};
use testkit::{SimCluster, Sm, settle};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use torus_sm::ids::{Gid, Guid, Mlid, Pkey, PortNum};
use torus_sm::sim::SimFabric;
use torus_sm::wire::attr::PortState;
use torus_sm::wire::mad::{Header, Mad, Method, Status};
use torus_sm::wire::record::{JoinState, McMemberRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

const P1: PortNum = PortNum(1);
/// Time within which all hosts come up.
const BOOT_PERIOD: Duration = Duration::from_secs(2);
/// Maximum time from the first host to the last join.
const MAX_SETTLING: Duration = Duration::from_secs(5);
const MAX_HEAVY_SWEEPS: usize = 3;
/// Interval at which a host looks at the state of its port.
const POLL: Duration = Duration::from_millis(5);

/// Distances in the list of hosts of the pairs that are tested.
const PEERS: [usize; 6] = [1, 2, 17, 130, 201, 777];

/// MGIDs of IPoIB with the default P_Key (RFC 4391): broadcast, 224.0.0.1 and ff02::1.
const GROUPS: [[u8; 16]; 3] = [
    [0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF],
    [0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
    [0xFF, 0x12, 0x60, 0x1B, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
];

/// A request to join a group, which creates it if it does not exist.
fn join_request(port: Guid, mgid: [u8; 16], tid: u32) -> Mad {
    let mut record = McMemberRecord::default();
    record.set_mgid(Gid(mgid));
    record.set_port_gid(Gid::new(DEFAULT_PREFIX, port));
    record.set_join_state(JoinState::FULL);
    record.set_qkey(0x0B1B);
    record.set_pkey(Pkey::DEFAULT_FULL);
    let mad = request(SaAttr::MC_MEMBER_RECORD, Method::SET, joins::CREATE_GROUP, &record);
    with_tid(mad, tid.into())
}

/// Boots a host: its link comes up, its driver sets the node description, and it joins the groups
/// with the retries of Linux. Returns the MLIDs of the groups.
async fn boot(fabric: SimFabric, host: Guid, index: usize, at: Instant) -> Vec<Mlid> {
    let policy = joins::RetryPolicy::LINUX;
    sleep_until(at).await;
    assert!(fabric.relink(host, P1));
    while fabric.port_info(host, P1).expect("a port").port_state() != PortState::Active {
        sleep(POLL).await;
    }
    assert!(fabric.set_description(host, &format!("node{index} HCA-1")));
    let client = Client::attach(&fabric, host);
    let mut mlids = Vec::new();
    let mut tid = 0;
    for mgid in GROUPS {
        let mut failures = 0;
        let mlid = loop {
            tid += 1;
            client.send(&join_request(client.guid, mgid, tid), policy.timeout, policy.retries);
            let (_, mad) = client.reply().await;
            if let Some(mad) = mad.filter(|mad| Header::read(mad).status() == Status::OK) {
                break McMemberRecord::parse(&mad[DATA_OFFSET..]).mlid();
            }
            sleep(policy.pause(failures, index, mlids.len())).await;
            failures += 1;
        };
        mlids.push(mlid);
    }
    mlids
}

/// A daemon on a fabric whose other hosts are off, and the number of its heavy sweeps.
async fn start_alone(cluster: &SimCluster, own: Guid) -> (Sm, Arc<AtomicUsize>) {
    for host in cluster.hosts().filter(|&host| host != own) {
        assert!(cluster.fabric.unlink(host, P1));
    }
    let tampering = Tampering::default();
    let port = tampering.clone();
    let options = cluster.options();
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind([0; 3], options, reload, move |inner| port.wrap(inner));
    settle().await;
    let sweeps = Arc::<AtomicUsize>::default();
    let counter = sweeps.clone();
    tampering.set(move |mad| {
        counter.fetch_add(usize::from(begins_heavy_sweep(mad)), Ordering::Relaxed);
    });
    (sm, sweeps)
}

/// Differences between the plan and the devices' tables, and hosts that do not reach each other; of
/// all pairs, [`PEERS`] for each host.
fn faults(cluster: &SimCluster, sm: &Sm) -> Vec<String> {
    let mut faults = Vec::new();
    let subnet = sm.subnet.borrow().clone().expect("it is up");
    if subnet.failed_sets > 0 {
        faults.push(format!("{} Sets failed", subnet.failed_sets));
    }
    cluster.compare_tables(&subnet, &mut faults);
    let hosts: Vec<Guid> = cluster.hosts().collect();
    for (index, &from) in hosts.iter().enumerate() {
        for distance in PEERS {
            let to = hosts[(index + distance) % hosts.len()];
            let lid = cluster.fabric.port_info(to, P1).expect("a port").lid();
            if !cluster.fabric.reaches(from, P1, lid, true) {
                faults.push(format!("nothing from {from} reaches {to} (LID {lid})"));
            }
        }
    }
    faults
}

async fn boots(shape: &str, hosts: u8) {
    let cluster = SimCluster::healthy(shape, hosts);
    let own = cluster.shape.host_guid([0; 3], 0);
    let (sm, sweeps) = start_alone(&cluster, own).await;
    let start = Instant::now();
    let count = cluster.hosts().count() as u32;
    let mut booting = JoinSet::new();
    for (index, host) in cluster.hosts().enumerate() {
        // Neighbours boot at different times.
        let at = start + BOOT_PERIOD * (index as u32 * 617 % count) / count;
        booting.spawn(boot(cluster.fabric.clone(), host, index, at));
    }
    let mut mlids: BTreeMap<usize, BTreeSet<Mlid>> = BTreeMap::new();
    while let Some(joined) = booting.join_next().await {
        for (group, mlid) in joined.expect("no panic").into_iter().enumerate() {
            mlids.entry(group).or_default().insert(mlid);
        }
    }
    let took = start.elapsed();
    assert!(took <= MAX_SETTLING, "settled after {took:?}");
    settle().await;
    assert_eq!(faults(&cluster, &sm), [""; 0]);
    let trees = MulticastTrees::read(&cluster.fabric, &cluster.topology);
    let all: BTreeSet<Guid> = cluster.hosts().collect();
    for (group, mlids) in &mlids {
        let [mlid] = Vec::from_iter(mlids)[..] else { panic!("group {group} has {mlids:?}") };
        assert_eq!(trees.members(*mlid).as_ref(), Ok(&all), "group {group}");
    }
    assert_eq!(mlids.len(), GROUPS.len());
    sleep(Duration::from_secs(10)).await;
    let sweeps = sweeps.load(Ordering::Relaxed);
    assert!(sweeps <= MAX_HEAVY_SWEEPS, "{sweeps} heavy sweeps");
    println!("{count} hosts: settled after {took:?} with {sweeps} heavy sweeps");
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn all_hosts_boot_within_two_seconds() {
    match std::env::var_os("TORUS_SM_MASS_BOOT") {
        Some(_) => boots("8x8x8", 2).await,
        None => boots("4x4x4", 4).await,
    }
}
