//! Configuration files with errors, and missing ones, at a reload: the last valid ones stay in force.

use super::*;
use torus_sm::wire::attr::tables::SlToVl;

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
        sm.tell(SmEvent::Reroute);
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
