//! Configuration files with errors, and missing ones, at a reload: the last valid ones stay in force.

use super::*;
use testkit::sa_client::{self, Client};
use torus_sm::ids::Gid;
use torus_sm::manage::action::{OperatorAction, RequestId};
use torus_sm::wire::attr::tables::SlToVl;
use torus_sm::wire::record::{JoinState, McMemberRecord};
use torus_sm::wire::sa::SaAttr;

type Tables = Vec<(Guid, Vec<u8>, Vec<Option<SlToVl>>)>;

/// The engine in force and the tables of the devices.
fn state(cluster: &SimCluster, sm: &Sm) -> (String, Tables) {
    let subnet = sm.subnet.borrow().clone().expect("SUBNET UP");
    (subnet.plan.routing.engine.to_string(), cluster.tables())
}

/// Writes each text to `file`, or removes it for `None`, and reloads: nothing changes, now or with
/// the next plan.
async fn survives(cluster: &SimCluster, options: Options, file: &str, bad: &[Option<&str>]) {
    let path = cluster.file(file);
    let good = std::fs::read_to_string(&path).expect("a file");
    let sm = cluster.start(ORIGIN, options);
    settle().await;
    let before = state(cluster, &sm);
    for text in bad {
        match text {
            Some(text) => std::fs::write(&path, text).expect("a file"),
            None => std::fs::remove_file(&path).expect("the file is there"),
        }
        cluster.fabric.reset_counters();
        sm.tell(SmEvent::Reload);
        settle().await;
        assert!(state(cluster, &sm) == before, "{file}: {text:?}");
        assert_eq!(cluster.fabric.requests(AttrId::LINEAR_FT)[1], 0, "{text:?}");
        // A new plan uses the files in force, too.
        sm.tell(SmEvent::Operator(RequestId(1), OperatorAction::Reroute));
        settle().await;
        assert_eq!(state(cluster, &sm).0, before.0, "{file}: {text:?}");
        assert_eq!(cluster.faults(&sm), [""; 0]);
        std::fs::write(&path, &good).expect("a file");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_in_torus_2qos_conf_do_not_move_the_fabric() {
    let cluster = SimCluster::healthy("4x3x1", 1);
    // Without an error in itself: only the fabric shows that there is no such switch.
    let conf = std::fs::read_to_string(cluster.file("torus-2QoS.conf")).expect("a file");
    let seed = format!("{:#x}", cluster.shape.switch_guid([0, 0, 0]).0);
    let wrong_seed = conf.replace(&seed, "0x00000000dead0000");
    assert_ne!(wrong_seed, conf);
    let bad = [
        Some("torsu 4 3 1\n"),
        Some("torus 4 3 1\nxp_link 0x1\n"),
        Some(""),
        Some(&wrong_seed),
        None,
    ];
    survives(&cluster, cluster.options(), "torus-2QoS.conf", &bad).await;
}

#[tokio::test(start_paused = true)]
async fn errors_in_the_files_of_a_chain_do_not_move_the_fabric() {
    for file in ["rch.conf", "pgrp.conf", "topo.conf", "updn.conf", "roots"] {
        let cluster = SimCluster::healthy("4x3x1", 1);
        let name = |file: &str| Some(cluster.file(file).display().to_string());
        let write = |file: &str, text: &str| {
            std::fs::write(cluster.file(file), text).expect("a file");
        };
        write("pgrp.conf", "port-group\nname: all\nport-guid: 0x1\nend-port-group\n");
        write("topo.conf", "");
        let root = cluster.shape.switch_guid([0, 0, 0]);
        write("roots", &format!("{root}\n"));
        let roots = cluster.file("roots").display().to_string();
        write("updn.conf", &format!("root_guid_file {roots}\n"));
        let updn = cluster.file("updn.conf").display().to_string();
        let step = format!("unicast-step\nid: 1\nengine: updn\nconfig: {updn}\nend-unicast-step\n");
        write("rch.conf", &step);
        let options = Options {
            routing_engine: Some("chain".into()),
            rch_policy_file: name("rch.conf"),
            pgrp_policy_file: name("pgrp.conf"),
            topo_policy_file: name("topo.conf"),
            ..cluster.options()
        };
        let bad = [Some("no-such-key: 1\n"), None];
        survives(&cluster, options, file, &bad).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_partitions_file_keeps_the_partitions() {
    let cluster = SimCluster::healthy("3x1x1", 1);
    let file = cluster.file("partitions.conf");
    std::fs::write(&file, "Default=0x7fff: ALL=full;\nA=0x10: ALL=full;\n").expect("a file");
    let options =
        Options { partition_config_file: Some(file.display().to_string()), ..cluster.options() };
    let sm = cluster.start(ORIGIN, options);
    settle().await;
    let host = cluster.hosts().next().expect("a host");
    let keys = || cluster.fabric.pkeys(host, PortNum(1), 0);
    let before = keys();
    for text in [Some("A=0x10, mtu=9000: ALL;\n"), None] {
        match text {
            Some(text) => std::fs::write(&file, text).expect("a file"),
            None => std::fs::remove_file(&file).expect("the file is there"),
        }
        sm.tell(SmEvent::Reload);
        settle().await;
        assert_eq!(keys(), before, "{text:?}");
    }
    std::fs::write(&file, "").expect("a file");
    sm.tell(SmEvent::Reload);
    settle().await;
    assert_ne!(keys(), before, "an empty file has no partitions");
}

/// The MGID of the IPoIB broadcast group of a partition.
fn broadcast(pkey: u16) -> Gid {
    let mut mgid = [0xFF; 16];
    mgid[1..4].copy_from_slice(&[0x12, 0x40, 0x1B]);
    mgid[4..6].copy_from_slice(&pkey.to_be_bytes());
    mgid[6..12].fill(0);
    Gid(mgid)
}

/// Joins the broadcast group of a partition; returns the status and the record.
async fn join(client: &Client, pkey: u16) -> (u16, McMemberRecord) {
    let mut record = McMemberRecord::default();
    record.set_mgid(broadcast(pkey));
    record.set_port_gid(client.gid());
    record.set_join_state(JoinState::FULL);
    let mask = McMemberRecord::MGID | McMemberRecord::PORT_GID | McMemberRecord::JOIN_STATE;
    let mad = sa_client::request(SaAttr::MC_MEMBER_RECORD, Method::SET, mask, &record);
    let reply = client.call(&mad).await;
    let record = torus_sm::wire::record::Record::parse(&reply[torus_sm::wire::sa::DATA_OFFSET..]);
    (u16::from_be_bytes([reply[4], reply[5]]), record)
}

#[tokio::test(start_paused = true)]
async fn changed_parameters_of_a_partition_take_effect() {
    let cluster = SimCluster::healthy("3x1x1", 1);
    let file = cluster.file("partitions.conf");
    let write = |flags: &str| {
        let text = format!("Default=0x7fff: ALL=full;\nA=0x10, ipoib{flags}: ALL=full;\n");
        std::fs::write(&file, text).expect("a file");
    };
    write("");
    let options =
        Options { partition_config_file: Some(file.display().to_string()), ..cluster.options() };
    let sm = cluster.start(ORIGIN, options);
    settle().await;
    let client = Client::at(&cluster, [1, 0, 0], false);
    let (status, before) = join(&client, 0x8010).await;
    assert_eq!((status, before.mtu(), before.rate(), before.sl().0), (0, 4, 3, 0));
    write(", mtu=3, rate=2, sl=8");
    sm.tell(SmEvent::Reload);
    settle().await;
    let (status, after) = join(&client, 0x8010).await;
    assert_eq!((status, after.mtu(), after.rate(), after.sl().0), (0, 3, 2, 8));
    assert_eq!(after.mlid(), before.mlid());
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn partitions_beyond_the_multicast_tables_have_no_groups() {
    let shape: Shape = "3x1x1".parse().expect("a shape");
    let shape = Shape { hosts: 1, ..shape };
    let cluster =
        SimCluster::new(shape, Hardware { multicast_fdb_cap: 16, ..Hardware::default() }, 1);
    let file = cluster.file("partitions.conf");
    let lines = (1..=20).map(|key| format!("={key}, ipoib: ALL=full;\n"));
    std::fs::write(&file, lines.collect::<String>()).expect("a file");
    let options =
        Options { partition_config_file: Some(file.display().to_string()), ..cluster.options() };
    let _sm = cluster.start(ORIGIN, options);
    settle().await;
    let client = Client::at(&cluster, [1, 0, 0], false);
    let (status, record) = join(&client, 0x8001).await;
    assert!(status == 0 && record.mlid() <= torus_sm::ids::Mlid(0xC00F), "{:?}", record.mlid());
    let (status, _) = join(&client, 0x8014).await;
    assert_ne!(status, 0, "no switch could forward the group");
}
