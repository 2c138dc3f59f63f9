//! Rate limits of vports (`VPORT_BW_RULES`).

use super::*;
use torus_sm::wire::vendor::qos_config_sl::SLS;

const RULES: &str = "BW_NAMES\nbw1=50\nbw2=25\nbw3=15\nbw4=10\nBW_RULES\ndefault= 1:bw1\n\
                     VPORT_BW_RULES\ndefault= all:bw3\n";

/// Hosts with three vports, all of which take rate limits.
fn cluster_with_limits() -> SimCluster {
    let cluster = cluster_with_vports(3);
    let profile = "mlnx:virtualization,rate-limit,vport-rate-limit".parse().expect("a profile");
    cluster.hosts().for_each(|host| {
        assert!(cluster.fabric.set_vendor_profile(host, Some(profile)));
    });
    cluster
}

fn limited(cluster: &SimCluster, rules: &str) -> Options {
    let path = cluster.file("rates.conf");
    fs::write(&path, rules).expect("a file");
    let enhanced_qos_policy_file = Some(path.display().to_string());
    Options { enhanced_qos_policy_file, ..enabled(cluster) }
}

fn rates(cluster: &SimCluster, host: Guid, index: u16) -> [u32; SLS] {
    held(cluster, host, index).0.qos.rate_limits()
}

#[tokio::test(start_paused = true)]
async fn vports_get_the_limits_of_their_rules() {
    let cluster = cluster_with_limits();
    let hosts: Vec<Guid> = cluster.hosts().collect();
    let named = vport_guid(hosts[3], 2);
    let rules = format!("{RULES}{:#x}= 3:bw4\n", named.0);
    let sm = ReloadableSm::start(&cluster, ORIGIN, limited(&cluster, &rules));
    sleep(QUIET).await;
    let mut own = [15; SLS];
    own[3] = 10;
    for &host in &hosts {
        assert_eq!(rates(&cluster, host, 0), [0; SLS], "the port itself");
        assert_eq!(rates(&cluster, host, 1), [15; SLS]);
        assert_eq!(rates(&cluster, host, 2), if host == hosts[3] { own } else { [15; SLS] });
        assert_eq!(state(&cluster, host, 2), PortState::Active);
    }
    // Vport 0 is one of many.
    sm.reload(|options| options.enhanced_qos_vport0_unlimit_default_rl = false);
    sleep(QUIET).await;
    assert_eq!(rates(&cluster, hosts[1], 0), [15; SLS]);
    // A vport that comes later, and one that returns without its limits.
    let change = |up| {
        let set = move |spec: &mut VportSpec| spec.is_up = up;
        assert!(cluster.fabric.change_virtual_port(hosts[3], PORT, 2, true, set));
    };
    change(false);
    sleep(QUIET).await;
    change(true);
    sleep(QUIET).await;
    assert_eq!(rates(&cluster, hosts[3], 2), own);
    assert!(cluster.fabric.reboot(hosts[4]));
    sleep(POLLED).await;
    assert_eq!(rates(&cluster, hosts[4], 1), [15; SLS]);
    // Switched off, all are cleared.
    sm.reload(|options| options.enhanced_qos_policy_file = None);
    sleep(QUIET).await;
    for &host in &hosts {
        assert!((0..3).all(|index| rates(&cluster, host, index) == [0; SLS]));
    }
}

#[tokio::test(start_paused = true)]
async fn vports_without_the_capability_or_rules_get_no_request() {
    let cluster = cluster_with_vports(3);
    let sm = cluster.start(ORIGIN, limited(&cluster, RULES));
    sleep(QUIET).await;
    assert_eq!(cluster.fabric.requests(AttrId::QOS_CONFIG_SL), [0, 0]);
    drop(sm);
    let cluster = cluster_with_limits();
    let only_ports = RULES.split("VPORT_BW_RULES").next().expect("a part");
    let sm = cluster.start(ORIGIN, limited(&cluster, only_ports));
    sleep(QUIET).await;
    assert_eq!(cluster.fabric.requests(AttrId::QOS_CONFIG_SL), [9, 9]);
    drop(sm);
}
