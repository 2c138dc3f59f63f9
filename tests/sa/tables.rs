//! Tables in many segments, and requests in segments, of the whole daemon on a simulated fabric: a
//! client that acknowledges is never refused, and one that does not cannot fill the memory.

use std::time::Duration;
use testkit::sa_client::{Client, DEFAULT_PREFIX, SilentClient, request, with_tid};
use testkit::{SimCluster, settle};
use tokio::time::{Instant, sleep};
use torus_sm::ids::{Gid, Guid};
use torus_sm::transport::{Agent, MadPort, Outgoing};
use torus_sm::wire::mad::{Header, MAD_SIZE, Mad, Method, Status};
use torus_sm::wire::record::{MultiPathRecord, NodeRecord, PathRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

const ORIGIN: [u16; 3] = [0, 0, 0];
const CLIENT: [u16; 3] = [2, 1, 0];
/// Hosts at each switch of the fabric.
const HOSTS: u8 = 6;
/// Longer than the daemon's `max_msg_fifo_timeout`.
const TIMEOUT: Duration = Duration::from_secs(60);

async fn cluster() -> SimCluster {
    SimCluster::healthy("4x4x1", HOSTS)
}

/// The number of nodes of the fabric.
fn nodes() -> usize {
    16 * (1 + usize::from(HOSTS))
}

/// The request for all nodes, of which the table has 60 segments.
fn all_nodes(tid: u64) -> Mad {
    let wanted = NodeRecord::default();
    with_tid(request(SaAttr::NODE_RECORD, Method::GET_TABLE, 0, &wanted), tid)
}

fn assert_is_complete(table: &[u8]) {
    assert_eq!(Header::read(table).status(), Status::OK, "BUSY is 1");
    assert_eq!(table.len(), DATA_OFFSET + nodes() * NodeRecord::STRIDE);
}

/// 1,500 tables of 12 KB, one after the other, within less than a second of the paused clock: more
/// than any quota for replies that are not acknowledged.
#[tokio::test(start_paused = true)]
async fn a_client_that_asks_for_one_table_after_the_other_gets_all() {
    let cluster = cluster().await;
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    let client = Client::at(&cluster, CLIENT, false);
    let start = Instant::now();
    for tid in 0..1500 {
        assert_is_complete(&client.call(&all_nodes(tid)).await);
    }
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    sm.stop().await;
}

/// A kernel before 3.17 does not tell that all tables were acknowledged: they are complete, and
/// those above the quota get BUSY.
#[tokio::test(start_paused = true)]
async fn an_old_kernel_divides_tables_itself() {
    let cluster = cluster().await;
    let sm = cluster.start_on_old_kernel(ORIGIN, cluster.options());
    settle().await;
    let client = Client::at(&cluster, CLIENT, false);
    let mut complete = 0;
    let mut busy = 0;
    for tid in 0..1500 {
        let reply = client.call(&all_nodes(tid)).await;
        if Header::read(&reply).status() == Status::BUSY {
            busy += 1;
        } else {
            assert_is_complete(&reply);
            complete += 1;
        }
    }
    let length = DATA_OFFSET + nodes() * NodeRecord::STRIDE;
    assert_eq!((complete, busy), ((16 << 20) / length + 1, 1500 - (16 << 20) / length - 1));
    sleep(Duration::from_secs(9)).await;
    assert_is_complete(&client.call(&all_nodes(2000)).await);
    sm.stop().await;
}

/// 2,000 tables at once, of which the acknowledgements take 10 ms each: the requests wait.
#[tokio::test(start_paused = true)]
async fn a_client_that_asks_for_all_tables_at_once_gets_all() {
    let cluster = cluster().await;
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    cluster.fabric.set_delay(Duration::from_millis(5));
    let client = Client::at(&cluster, CLIENT, false);
    const TABLES: u64 = 2000;
    (0..TABLES).for_each(|tid| client.send(&all_nodes(tid), TIMEOUT, 0));
    let mut answered = std::collections::BTreeSet::new();
    for _ in 0..TABLES {
        let (tid, reply) = client.reply().await;
        assert_is_complete(&reply.expect("a reply before the timeout"));
        assert!(answered.insert(tid));
    }
    sm.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_acknowledges_nothing_gets_busy_and_others_their_tables() {
    let cluster = cluster().await;
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    let node = cluster.shape.host_guid([1, 2, 0], 0);
    let silent = SilentClient::attach(&cluster.fabric, node, cluster.host_lid(ORIGIN));
    let honest = Client::at(&cluster, CLIENT, false);
    (0..50).for_each(|tid| silent.send(&all_nodes(tid)));
    sleep(Duration::from_secs(8)).await;
    assert_eq!(silent.arrived(), (50, 0), "they are within the quota of a new port");
    (1000..1400).for_each(|tid| silent.send(&all_nodes(tid)));
    assert_is_complete(&honest.call(&all_nodes(1)).await);
    sleep(Duration::from_secs(1)).await;
    let (tables, busy) = silent.arrived();
    let length = DATA_OFFSET + nodes() * NodeRecord::STRIDE;
    // A batch of requests is admitted together.
    let most = (256 << 10) / length + 1 + 16;
    assert!((1..=most).contains(&tables), "{tables} of {most} tables");
    // Of each batch, 64 requests get BUSY, and the others nothing.
    assert!(busy >= 64, "{busy} BUSY replies");
    assert_is_complete(&honest.call(&all_nodes(2)).await);
    // It has been quiet for a while.
    sleep(Duration::from_secs(30)).await;
    silent.arrived();
    silent.send(&all_nodes(2000));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(silent.arrived(), (1, 0));
    sm.stop().await;
}

/// Packets are lost, repeated and reordered: clients get the whole table or, at worst, a timeout of
/// their own.
#[tokio::test(start_paused = true)]
async fn tables_arrive_whole_over_a_faulty_fabric() {
    let cluster = cluster().await;
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    cluster.fabric.set_loss(0.02);
    cluster.fabric.set_duplication(0.05);
    cluster.fabric.set_delay(Duration::from_micros(20));
    cluster.fabric.set_jitter(Duration::from_micros(100));
    let client = Client::at(&cluster, CLIENT, false);
    let mut timeouts = 0;
    for tid in 0..40 {
        client.send(&all_nodes(tid), Duration::from_secs(20), 2);
        let (answered, reply) = client.reply().await;
        assert_eq!(u64::from(answered), tid);
        match reply {
            Some(table) => assert_is_complete(&table),
            None => timeouts += 1,
        }
    }
    assert!(timeouts <= 1, "{timeouts} of 40 requests timed out");
    cluster.fabric.set_loss(0.0);
    sm.stop().await;
}

/// A request of 4 KB arrives in segments, and its reply leaves in segments, over a fabric that loses
/// packets.
#[tokio::test(start_paused = true)]
async fn requests_in_segments_are_answered() {
    let cluster = cluster().await;
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    let client = Client::at(&cluster, CLIENT, false);
    // The port GUID of a host is its node GUID plus 1.
    let gid = |node: Guid| Gid::new(DEFAULT_PREFIX, Guid(node.0 + 1));
    let targets: Vec<Gid> = cluster.hosts().map(gid).collect();
    let mut record = MultiPathRecord::default();
    record.set_sgid_count(1);
    record.set_dgid_count(targets.len() as u8);
    let mask = MultiPathRecord::SGID_COUNT | MultiPathRecord::DGID_COUNT;
    let head = request(SaAttr::MULTI_PATH_RECORD, Method::GET_MULTI, mask, &record);
    for (tid, loss) in [(1, 0.0), (2, 0.0), (3, 0.03), (4, 0.03), (5, 0.03)] {
        cluster.fabric.set_loss(loss);
        let mut mad = with_tid(head, tid).0[..DATA_OFFSET + MultiPathRecord::STRIDE].to_vec();
        mad.extend_from_slice(&gid(cluster.shape.host_guid(CLIENT, 0)).0);
        targets.iter().for_each(|gid| mad.extend_from_slice(&gid.0));
        assert!(mad.len() > 5 * MAD_SIZE, "{}", mad.len());
        let to = client.sa;
        let timeout = Some(Duration::from_secs(30));
        let retries = 3;
        let out = Outgoing { agent: Agent::Sa, to, timeout, retries, mad: &mad };
        client.port.post(&out).expect("it is sent");
        let (answered, reply) = client.reply().await;
        let reply = reply.expect("a reply before the timeout");
        assert_eq!((u64::from(answered), Header::read(&reply).status()), (tid, Status::OK));
        assert_eq!(reply.len(), DATA_OFFSET + targets.len() * PathRecord::STRIDE);
    }
    cluster.fabric.set_loss(0.0);
    sm.stop().await;
}
