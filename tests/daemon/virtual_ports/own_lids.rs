//! Vports that require a LID of their own.

use super::sa::{client_on_vport, join, path};
use super::*;
use std::collections::BTreeSet;
use testkit::sa_client::{Client, DEFAULT_PREFIX, path_query, request};
use torus_sm::config::guid2lid::Guid2Lid;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::{Gid, Lid, Pkey};
use torus_sm::sim::{DataDrop, DataPacket, DataReceiver};
use torus_sm::wire::mad::{Header, Method, Status};
use torus_sm::wire::record::{NodeRecord, PortInfoRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// The hosts have three vports, the second of which requires a LID.
fn cluster_with_own_lids() -> SimCluster {
    let cluster = cluster_with_vports(3);
    for host in cluster.hosts() {
        require(&cluster, host, 1, true);
    }
    // For guid2lid.
    fs::create_dir(cluster.cache_dir(ORIGIN)).expect("a folder");
    cluster
}

fn require(cluster: &SimCluster, host: Guid, index: u16, lid_required: bool) {
    let set = |spec: &mut VportSpec| spec.lid_required = lid_required;
    assert!(cluster.fabric.change_virtual_port(host, PORT, index, true, set));
}

fn base(cluster: &SimCluster, host: Guid) -> Lid {
    cluster.fabric.port_info(host, PORT).expect("a port").lid()
}

fn lid(cluster: &SimCluster, host: Guid, index: u16) -> Lid {
    held(cluster, host, index).0.lid
}

/// The receiver of a packet of the default partition from a host.
fn walk(
    cluster: &SimCluster,
    from: Guid,
    to: Lid,
    gid: Option<Guid>,
) -> Result<Option<u16>, DataDrop> {
    let gid = gid.map(|guid| Gid::new(DEFAULT_PREFIX, guid));
    let packet = DataPacket { to, gid, pkey: Pkey::DEFAULT_FULL };
    let walked = cluster.fabric.walk_data(from, PORT, packet).expect("a port");
    walked.map(|receiver: DataReceiver| receiver.vport)
}

/// Asserts that every host reaches every vport in the right way.
fn assert_all_reach_all(cluster: &SimCluster) {
    for from in cluster.hosts() {
        for to in cluster.hosts() {
            let own = lid(cluster, to, 1);
            assert_eq!(walk(cluster, from, own, None), Ok(Some(1)), "{from} to {to}");
            let shared = base(cluster, to);
            assert_eq!(walk(cluster, from, shared, None), Ok(None));
            assert_eq!(walk(cluster, from, shared, Some(vport_guid(to, 2))), Ok(Some(2)));
            let elsewhere = Some(Guid(0x77));
            assert_eq!(walk(cluster, from, shared, elsewhere), Err(DataDrop::UnknownGid));
        }
    }
}

fn guid2lid(cluster: &SimCluster) -> String {
    fs::read_to_string(cluster.cache_dir(ORIGIN).join("guid2lid")).expect("guid2lid")
}

fn all_lids(cluster: &SimCluster) -> Vec<Lid> {
    cluster.hosts().map(|host| lid(cluster, host, 1)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_required_lid_is_assigned_routed_and_stored() {
    let cluster = cluster_with_own_lids();
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let lids = all_lids(&cluster);
    let taken: BTreeSet<Lid> =
        lids.iter().copied().chain(cluster.hosts().map(|host| base(&cluster, host))).collect();
    assert_eq!(taken.len(), 18, "{lids:?}");
    assert_all_reach_all(&cluster);
    let text = guid2lid(&cluster);
    for (host, lid) in cluster.hosts().zip(&lids) {
        assert_eq!(state(&cluster, host, 1), PortState::Active);
        let line = format!("0x{:016x} 0x{:04x} 0x{:04x}", vport_guid(host, 1).0, lid.0, lid.0);
        assert!(text.contains(&line), "{line} in {text}");
        assert!(!text.contains(&format!("0x{:016x}", vport_guid(host, 2).0)), "{text}");
        assert_eq!(held(&cluster, host, 1).0.reregistrations, 1);
    }
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let shown = &status(&sm).ports[&Guid(host.0 + 1)].vports;
    assert_eq!([shown[1].lid, shown[2].lid], [lid(&cluster, host, 1), Lid(0)]);
    // Nothing changes in a sweep that reads everything.
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
}

#[tokio::test(start_paused = true)]
async fn the_sa_knows_vports_by_their_lids() {
    let cluster = cluster_with_own_lids();
    let [here, there] = [[1, 1, 0], [2, 2, 0]];
    let [host, far] = [here, there].map(|at| cluster.shape.host_guid(at, 0));
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let client = client_on_vport(&cluster, here, 1);
    let own = vport_guid(host, 1);
    let query = path_query(DEFAULT_PREFIX, [own, vport_guid(far, 1)]);
    let found = path(&client.call(&query).await).expect("a path");
    assert_eq!([found.slid(), found.dlid()], [host, far].map(|it| lid(&cluster, it, 1)));
    let query = path_query(DEFAULT_PREFIX, [own, vport_guid(far, 2)]);
    let found = path(&client.call(&query).await).expect("a path");
    assert_eq!([found.slid(), found.dlid()], [lid(&cluster, host, 1), base(&cluster, far)]);
    let joined = client.call(&join(own, 0xFFFF)).await;
    assert_eq!(Header::read(&joined).status(), Status::OK);
    drop(sm);
}

/// A standby that does not honour guid2lid keeps the LIDs of vports, and all entries for them.
#[tokio::test(start_paused = true)]
async fn a_new_master_keeps_lids_and_routes_of_vports() {
    let cluster = cluster_with_own_lids();
    let options = enabled(&cluster);
    let first = cluster.start(ORIGIN, Options { sm_priority: 9, ..options.clone() });
    settle().await;
    let second = cluster.start([2, 2, 0], options);
    sleep(QUIET).await;
    assert_eq!((first.state(), second.state()), (SmState::Master, SmState::Standby));
    let before = all_lids(&cluster);
    cluster.fabric.reset_counters();
    first.kill().await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(second.state(), SmState::Master);
    let [_, lft_sets] = cluster.fabric.requests(AttrId::LINEAR_FT);
    assert_eq!((all_lids(&cluster), lft_sets), (before, 0));
    assert_all_reach_all(&cluster);
    assert_eq!(cluster.faults(&second), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn guid2lid_decides_on_lids_of_vports() {
    let cluster = cluster_with_own_lids();
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let wanted = Lid(0x155);
    let entries: Guid2Lid = [(vport_guid(host, 1), (wanted, wanted))].into_iter().collect();
    let text = torus_sm::config::guid2lid::emit(&entries);
    fs::write(cluster.cache_dir(ORIGIN).join("guid2lid"), text).expect("a file");
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    assert_eq!(lid(&cluster, host, 1), wanted);
    assert_all_reach_all(&cluster);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_guid_that_moves_takes_its_lid_along() {
    let cluster = cluster_with_own_lids();
    let [from, to] = [[1, 1, 0], [2, 2, 0]].map(|at| cluster.shape.host_guid(at, 0));
    let moved = vport_guid(from, 1);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let before = lid(&cluster, from, 1);
    let down = |spec: &mut VportSpec| spec.is_up = false;
    assert!(cluster.fabric.change_virtual_port(from, PORT, 1, true, down));
    sleep(QUIET).await;
    assert_eq!(walk(&cluster, to, before, None), Err(DataDrop::NoRoute));
    let take = |spec: &mut VportSpec| spec.guid = moved;
    assert!(cluster.fabric.change_virtual_port(to, PORT, 1, true, take));
    sleep(QUIET).await;
    assert_eq!((state(&cluster, to, 1), lid(&cluster, to, 1)), (PortState::Active, before));
    assert_eq!(walk(&cluster, from, before, None), Ok(Some(1)));
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_vport_may_gain_and_lose_its_lid() {
    let cluster = cluster_with_own_lids();
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let from = cluster.shape.host_guid([2, 2, 0], 0);
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    require(&cluster, host, 2, true);
    sleep(QUIET).await;
    let gained = lid(&cluster, host, 2);
    assert_eq!(walk(&cluster, from, gained, None), Ok(Some(2)));
    assert_eq!(held(&cluster, host, 2).0.reregistrations, 2, "clients learn the LID");
    let lost = lid(&cluster, host, 1);
    require(&cluster, host, 1, false);
    sleep(QUIET).await;
    assert_eq!(state(&cluster, host, 1), PortState::Active);
    assert_eq!(held(&cluster, host, 1).0.reregistrations, 2);
    assert_eq!(walk(&cluster, from, lost, None), Err(DataDrop::NoRoute));
    assert_eq!(walk(&cluster, from, base(&cluster, host), Some(vport_guid(host, 1))), Ok(Some(1)));
    let text = guid2lid(&cluster);
    assert!(!text.contains(&format!("0x{:016x}", vport_guid(host, 1).0)), "{text}");
    assert_eq!(cluster.faults(&sm), [""; 0]);
    // Routes stay while the host restarts with other vports.
    assert!(cluster.fabric.reboot(host));
    sleep(POLLED).await;
    assert_eq!(lid(&cluster, host, 2), gained);
    assert_eq!(walk(&cluster, from, gained, None), Ok(Some(2)));
    sm.tell(SmEvent::Reload);
    sleep(QUIET).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// A vport that shares its LID with another vport that has one of its own.
#[tokio::test(start_paused = true)]
async fn a_vport_may_share_the_lid_of_another_one() {
    let cluster = cluster_with_own_lids();
    let [host, far] = [[1, 1, 0], [2, 2, 0]].map(|at| cluster.shape.host_guid(at, 0));
    let share = |spec: &mut VportSpec| spec.lid_by_vport_index = 1;
    assert!(cluster.fabric.change_virtual_port(far, PORT, 2, true, share));
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let own = lid(&cluster, far, 1);
    assert_eq!(walk(&cluster, host, own, Some(vport_guid(far, 2))), Ok(Some(2)));
    let client = client_on_vport(&cluster, [1, 1, 0], 1);
    let query = path_query(DEFAULT_PREFIX, [vport_guid(host, 1), vport_guid(far, 2)]);
    let found = path(&client.call(&query).await).expect("a path");
    assert_eq!((found.dlid(), found.hop_limit()), (own, 2));
    drop(sm);
}

/// The records of nodes and ports whose LID is that of a vport, with and without `enable_virt_rec_ext`.
#[tokio::test(start_paused = true)]
async fn records_show_vports_with_lids_on_request() {
    for enable_virt_rec_ext in [false, true] {
        let cluster = cluster_with_own_lids();
        let host = cluster.shape.host_guid([1, 1, 0], 0);
        let sm = cluster.start(ORIGIN, Options { enable_virt_rec_ext, ..enabled(&cluster) });
        sleep(QUIET).await;
        let client = Client::at(&cluster, [2, 2, 0], true);
        let own = lid(&cluster, host, 1);
        let mut wanted = NodeRecord::default();
        wanted.set_lid(own);
        let query = request(SaAttr::NODE_RECORD, Method::GET, NodeRecord::LID, &wanted);
        let found = NodeRecord::parse(&client.call(&query).await[DATA_OFFSET..]);
        let mut wanted = PortInfoRecord::default();
        wanted.set_lid(own);
        let query = request(SaAttr::PORT_INFO_RECORD, Method::GET, PortInfoRecord::LID, &wanted);
        let reply = client.call(&query).await;
        let port = PortInfoRecord::parse(&reply[DATA_OFFSET..]);
        let vport = vport_guid(host, 1);
        let guids = [found.node_info().node_guid(), found.node_info().port_guid()];
        let expected = if enable_virt_rec_ext {
            assert_eq!((found.lid(), port.lid(), port.port_info().lid()), (own, own, own));
            assert_eq!(port.port_info().port_state(), PortState::Active);
            assert_eq!(found.description().to_string(), "vf1");
            [Guid(vport.0 | 0xF0_0000), vport]
        } else {
            assert_eq!((found.lid(), port.lid()), (base(&cluster, host), base(&cluster, host)));
            [host, Guid(host.0 + 1)]
        };
        assert_eq!(guids, expected);
        drop(sm);
    }
}
