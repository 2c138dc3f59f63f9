//! Clients of the SA on vports.

use super::*;
use testkit::sa_client::{Client, DEFAULT_PREFIX, joins, path_query, request};
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::{Gid, Pkey};
use torus_sm::sim::FIRST_VPORT_GID;
use torus_sm::transport::Grh;
use torus_sm::wire::mad::{Header, Method, Status};
use torus_sm::wire::record::{JoinState, McMemberRecord, PathRecord, Record};
use torus_sm::wire::sa::{DATA_OFFSET, SaAttr};

/// A client of the SA on a vport of a host.
pub(super) fn client_on_vport(cluster: &SimCluster, at: [u16; 3], index: u8) -> Client {
    let mut client = Client::at(cluster, at, true);
    let sm = cluster.shape.host_guid(ORIGIN, 0);
    client.sa.grh = Some(Grh {
        gid: Gid::new(DEFAULT_PREFIX, Guid(sm.0 + 1)),
        gid_index: if index == 0 { 0 } else { FIRST_VPORT_GID + index },
        hop_limit: 1,
        traffic_class: 0,
        flow_label: 0,
    });
    client
}

pub(super) fn path(reply: &[u8]) -> Result<PathRecord, u16> {
    let status = Header::read(reply).status();
    if status == Status::OK { Ok(PathRecord::parse(&reply[DATA_OFFSET..])) } else { Err(status) }
}

#[tokio::test(start_paused = true)]
async fn paths_to_vports_need_a_global_route_header() {
    let cluster = cluster_with_vports(3);
    let [here, there] = [[1, 1, 0], [2, 2, 0]];
    let [host, far] = [here, there].map(|at| cluster.shape.host_guid(at, 0));
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let client = client_on_vport(&cluster, here, 1);
    let own = vport_guid(host, 1);
    let lid = |host: Guid| cluster.fabric.port_info(host, PORT).expect("a port").lid();
    let query = |to| path_query(DEFAULT_PREFIX, [own, to]);
    // To another vport, to a physical port, and to another vport of the same port.
    for (to, lid) in [
        (vport_guid(far, 2), lid(far)),
        (Guid(far.0 + 1), lid(far)),
        (vport_guid(host, 2), lid(host)),
    ] {
        let found = path(&client.call(&query(to)).await).expect("a path");
        assert_eq!((found.hop_limit(), found.dlid()), (2, lid), "{to}");
        assert_eq!(found.dgid(), Gid::new(DEFAULT_PREFIX, to));
    }
    let physical = Client::at(&cluster, there, true);
    let between_ports = path_query(DEFAULT_PREFIX, [Guid(far.0 + 1), Guid(host.0 + 1)]);
    let found = path(&physical.call(&between_ports).await).expect("a path");
    assert_eq!(found.hop_limit(), 0, "no vport");
    assert!(path(&client.call(&query(Guid(0x77))).await).is_err());
    drop(sm);
}

#[tokio::test(start_paused = true)]
async fn vports_of_a_port_are_told_apart() {
    let cluster = cluster_with_vports(3);
    let [here, there] = [[1, 1, 0], [2, 2, 0]];
    let [host, far] = [here, there].map(|at| cluster.shape.host_guid(at, 0));
    let text = format!(
        "Default=0x7fff: ALL=limited, SELF=full;\nred=0x10: {:#x}=full, {:#x}=full;\n",
        vport_guid(host, 1).0,
        vport_guid(far, 1).0
    );
    let sm = cluster.start(ORIGIN, with_partitions(&cluster, &text));
    sleep(QUIET).await;
    assert_eq!(keys(&cluster, host, 2), [0x7FFF]);
    let query = |from, to| {
        let mut wanted = PathRecord::default();
        wanted.set_sgid(Gid::new(DEFAULT_PREFIX, from));
        wanted.set_dgid(Gid::new(DEFAULT_PREFIX, to));
        wanted.set_numb_path(1);
        let mask = PathRecord::SGID | PathRecord::DGID | PathRecord::NUMB_PATH;
        request(SaAttr::PATH_RECORD, Method::GET, mask, &wanted)
    };
    let member = client_on_vport(&cluster, here, 1);
    let found = path(&member.call(&query(vport_guid(host, 1), vport_guid(far, 1))).await);
    assert_eq!(found.expect("a path").pkey().base(), 0x10);
    // Another vport and the physical port have the same LID, but no member's P_Keys.
    for index in [2, 0] {
        let other = client_on_vport(&cluster, here, index);
        let from = vport_guid(host, index.into());
        let found = path(&other.call(&query(from, vport_guid(far, 1))).await);
        assert!(found.is_err(), "vport {index}: {found:?}");
        let joined = other.call(&join(from, 0x8010)).await;
        assert_ne!(Header::read(&joined).status(), Status::OK, "vport {index}");
    }
    let joined = member.call(&join(vport_guid(host, 1), 0x8010)).await;
    assert_eq!(Header::read(&joined).status(), Status::OK);
    let joined = McMemberRecord::parse(&joined[DATA_OFFSET..]);
    assert_eq!(joined.port_gid(), Gid::new(DEFAULT_PREFIX, vport_guid(host, 1)));
    sleep(QUIET).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

/// A request to create a group of a partition.
pub(super) fn join(port: Guid, pkey: u16) -> Mad {
    let mut wanted = McMemberRecord::default();
    wanted.set_mgid(joins::mgid(1));
    wanted.set_port_gid(Gid::new(DEFAULT_PREFIX, port));
    wanted.set_join_state(JoinState::FULL);
    wanted.set_qkey(0xB1B);
    wanted.set_pkey(Pkey(pkey));
    let mask = McMemberRecord::MGID
        | McMemberRecord::PORT_GID
        | McMemberRecord::JOIN_STATE
        | McMemberRecord::QKEY
        | McMemberRecord::PKEY
        | McMemberRecord::SL
        | McMemberRecord::FLOW_LABEL
        | McMemberRecord::TRAFFIC_CLASS;
    request(SaAttr::MC_MEMBER_RECORD, Method::SET, mask, &wanted)
}

#[tokio::test(start_paused = true)]
async fn the_gid_of_a_vport_of_another_port_is_forged() {
    let cluster = cluster_with_vports(2);
    let [host, far] = [[1, 1, 0], [2, 2, 0]].map(|at| cluster.shape.host_guid(at, 0));
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let client = client_on_vport(&cluster, [1, 1, 0], 1);
    // The hypervisor takes over the GID, which is in use elsewhere.
    let victim = vport_guid(far, 1);
    let steal = move |spec: &mut VportSpec| spec.guid = victim;
    assert!(cluster.fabric.change_virtual_port(host, PORT, 1, true, steal));
    sleep(QUIET).await;
    let query = path_query(DEFAULT_PREFIX, [victim, Guid(far.0 + 1)]);
    client.send(&query, Duration::from_secs(1), 0);
    assert_eq!(client.reply().await.1, None);
    drop(sm);
}

/// Members on vports stay in their groups over sweeps that read the fabric anew.
#[tokio::test(start_paused = true)]
async fn memberships_of_vports_last() {
    let cluster = cluster_with_vports(2);
    let [host, far] = [[1, 1, 0], [2, 2, 0]].map(|at| cluster.shape.host_guid(at, 0));
    let sm = cluster.start(ORIGIN, enabled(&cluster));
    sleep(QUIET).await;
    let client = client_on_vport(&cluster, [1, 1, 0], 1);
    let joined = client.call(&join(vport_guid(host, 1), 0xFFFF)).await;
    assert_eq!(Header::read(&joined).status(), Status::OK);
    let mlid = McMemberRecord::parse(&joined[DATA_OFFSET..]).mlid();
    let is_routed = || {
        let subnet = sm.subnet.borrow().clone().expect("a subnet");
        subnet.plan.multicast.by_switch.iter().flatten().any(|&(planned, _)| planned == mlid)
    };
    sleep(QUIET).await;
    assert!(is_routed());
    assert!(cluster.fabric.unlink(far, PORT));
    sm.tell(SmEvent::Reload);
    sleep(POLLED).await;
    assert!(is_routed(), "another host left");
    let down = |spec: &mut VportSpec| spec.is_up = false;
    assert!(cluster.fabric.change_virtual_port(host, PORT, 1, true, down));
    sleep(QUIET).await;
    sm.tell(SmEvent::Reload);
    sleep(POLLED).await;
    assert!(!is_routed(), "the vport left");
}
