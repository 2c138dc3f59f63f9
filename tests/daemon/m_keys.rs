//! M_Keys: the daemon on simulated devices that check them.

use std::path::Path;
use std::time::Duration;
use testkit::{Observer, ReloadableSm, SimCluster, settle};
use tokio::time::sleep;
use torus_sm::config::options::Options;
use torus_sm::config::{guid2mkey, neighbors};
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, MKey, PortNum};
use torus_sm::sim::MadKind;
use torus_sm::transport::transactions::SmpRequest;
use torus_sm::wire::attr::{AttrId, NodeKind, PortInfo, SmState};

const A: [u16; 3] = [0, 0, 0];
const B: [u16; 3] = [2, 0, 0];
/// The host that sends requests with wrong keys.
const STRANGER: [u16; 3] = [1, 1, 0];

const OLD: MKey = MKey(0x0123_4567_89AB_CDEF);
const NEW: MKey = MKey(0xFEDC_BA98_7654_3210);

/// Lease period in seconds.
const LEASE: u16 = 60;

fn options(cluster: &SimCluster, m_key: MKey, level: u8, lease: u16) -> Options {
    Options { m_key, m_key_protection_level: level, m_key_lease_period: lease, ..cluster.options() }
}

/// A fabric whose daemons store M_Keys.
fn cluster() -> SimCluster {
    let cluster = SimCluster::healthy("3x3x1", 1);
    for at in [A, B] {
        std::fs::create_dir(cluster.cache_dir(at)).expect("a folder");
    }
    cluster
}

/// PortInfo of all end ports.
fn end_ports(cluster: &SimCluster) -> Vec<(Guid, PortInfo)> {
    let nodes = cluster.topology.nodes.iter();
    let ports = nodes.map(|node| {
        let num = PortNum(u8::from(node.kind != NodeKind::Switch));
        (node.guid, cluster.fabric.port_info(node.guid, num).expect("a port"))
    });
    ports.collect()
}

/// The end ports that do not have this key and protection level, with what they have.
fn others(cluster: &SimCluster, m_key: MKey, level: u8) -> Vec<(Guid, MKey, u8)> {
    let ports = end_ports(cluster).into_iter();
    let held = ports.map(|(guid, info)| (guid, info.m_key(), info.m_key_protect_bits()));
    held.filter(|&(_, key, bits)| (key, bits) != (m_key, level)).collect()
}

/// Requests that ports have refused since their start.
fn violations(cluster: &SimCluster) -> u32 {
    end_ports(cluster).iter().map(|(_, info)| u32::from(info.m_key_violations())).sum()
}

/// Times that links have become ACTIVE.
fn activations(cluster: &SimCluster) -> u64 {
    let hosts = cluster.hosts().filter_map(|host| cluster.fabric.port_events(host, PortNum(1)));
    hosts.map(|events| events.activations).sum()
}

fn stored_keys(cluster: &SimCluster, at: [u16; 3]) -> guid2mkey::Guid2MKey {
    let path = cluster.cache_dir(at).join("guid2mkey");
    let (keys, diagnostics) =
        guid2mkey::parse(&path, &std::fs::read_to_string(&path).expect("the file is written"));
    assert_eq!(diagnostics, []);
    keys
}

#[tokio::test(start_paused = true)]
async fn a_key_is_set_changed_and_removed_without_a_refused_request() {
    for level in 0..=3 {
        let cluster = cluster();
        let sm = ReloadableSm::start(&cluster, A, options(&cluster, MKey::NONE, 0, 0));
        settle().await;
        assert_eq!(cluster.faults(&sm.sm), [""; 0]);
        let before = (cluster.tables(), activations(&cluster));
        for key in [OLD, NEW, MKey::NONE, NEW] {
            let change = |options: &mut Options| {
                options.m_key = key;
                options.m_key_protection_level = level;
            };
            sm.reload(change);
            settle().await;
            let case = format!("level {level}, {:x}", key.0);
            assert_eq!(others(&cluster, key, level), [], "{case}");
            assert_eq!(cluster.faults(&sm.sm), [""; 0], "{case}");
            assert_eq!(violations(&cluster), 0, "{case}");
            assert!(before == (cluster.tables(), activations(&cluster)), "{case}: links stay up");
            assert_eq!(cluster.sets_of_another_sweep(&sm.sm).await, 0, "{case}");
        }
        assert_eq!(sm.sm.state(), SmState::Master);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cold_fabric_gets_the_key_with_its_first_configuration() {
    for hardware in [Hardware::default(), Hardware { enhanced_port0: true, ..Hardware::default() }]
    {
        let mut shape: torus_sm::sim::generate::Shape = "3x3x1".parse().expect("a shape");
        shape.hosts = 1;
        let cluster = SimCluster::new(shape, hardware, 1);
        let sm = cluster.start(A, options(&cluster, OLD, 2, LEASE));
        settle().await;
        assert_eq!(others(&cluster, OLD, 2), []);
        assert_eq!(cluster.faults(&sm), [""; 0]);
        assert_eq!(violations(&cluster), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_packets_during_a_change_leave_no_port_behind() {
    for seed in 0..6 {
        let cluster = cluster();
        let sm = ReloadableSm::start(&cluster, A, options(&cluster, OLD, 2, LEASE));
        settle().await;
        assert_eq!(cluster.faults(&sm.sm), [""; 0]);
        // Lost responses: the repeated request carries the key that the port no longer has.
        cluster.fabric.set_loss_of(MadKind::Response, 0.1 + 0.05 * f64::from(seed));
        sm.reload(|options| options.m_key = NEW);
        settle().await;
        sleep(Duration::from_secs(30)).await;
        cluster.fabric.set_loss_of(MadKind::Response, 0.0);
        sleep(Duration::from_secs(120)).await;
        assert_eq!(others(&cluster, NEW, 2), [], "seed {seed}");
        assert_eq!(cluster.faults(&sm.sm), [""; 0], "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_stored_keys_open_the_fabric_after_a_restart() {
    for (level, configured) in [(2, OLD), (2, NEW), (1, NEW), (3, MKey::NONE)] {
        let cluster = cluster();
        let case = format!("level {level}, {:x}", configured.0);
        let first = cluster.start(A, options(&cluster, OLD, level, 0));
        settle().await;
        first.stop().await;
        let stored = stored_keys(&cluster, A);
        assert_eq!(stored.len(), cluster.topology.nodes.len(), "{case}");
        assert!(stored.values().all(|&key| key == OLD), "{case}");
        let mode = std::os::unix::fs::MetadataExt::mode(
            &std::fs::metadata(cluster.cache_dir(A).join("guid2mkey")).expect("a file"),
        );
        assert_eq!(mode & 0o077, 0, "nobody else may read the keys");
        let before = cluster.tables();
        let second = cluster.start(A, options(&cluster, configured, level, 0));
        settle().await;
        assert_eq!(others(&cluster, configured, level), [], "{case}");
        assert_eq!(cluster.faults(&second), [""; 0], "{case}");
        assert_eq!(violations(&cluster), 0, "{case}");
        assert!(before == cluster.tables(), "{case}");
        second.stop().await;
        assert!(stored_keys(&cluster, A).values().all(|&key| key == configured), "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_cache_costs_only_time() {
    let cluster = cluster();
    let first = cluster.start(A, options(&cluster, OLD, 2, 0));
    settle().await;
    first.stop().await;
    let path = cluster.cache_dir(A).join("neighbors");
    let (cables, diagnostics) =
        neighbors::parse(Path::new("neighbors"), &std::fs::read_to_string(&path).expect("a file"));
    assert_eq!((cables.len(), diagnostics), (2 * cluster.topology.cables.len(), vec![]));
    // Without neighbors, the key of each port is still tried.
    std::fs::remove_file(&path).expect("a file");
    // One port has another key than stored, but that of the others.
    let keys = cluster.cache_dir(A).join("guid2mkey");
    let text = std::fs::read_to_string(&keys).expect("a file");
    let (first_line, rest) = text.split_once('\n').expect("lines");
    let guid = first_line.split(' ').next().expect("a GUID");
    let text = format!("{guid} 0x0000000000000077\n{rest}\nnonsense 5\n");
    std::fs::write(&keys, text).expect("a file");
    let second = cluster.start(A, options(&cluster, NEW, 2, 0));
    sleep(Duration::from_secs(60)).await;
    assert_eq!(others(&cluster, NEW, 2), []);
    assert_eq!(cluster.faults(&second), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn lost_keys_are_recovered_when_their_lease_ends() {
    for level in 1..=3 {
        let cluster = cluster();
        let first = cluster.start(A, options(&cluster, OLD, level, LEASE));
        settle().await;
        first.stop().await;
        for name in ["guid2mkey", "neighbors"] {
            std::fs::remove_file(cluster.cache_dir(A).join(name)).expect("a file");
        }
        let second = cluster.start(A, options(&cluster, NEW, level, LEASE));
        sleep(Duration::from_secs(u64::from(LEASE) / 2)).await;
        assert_eq!(others(&cluster, OLD, level), [], "level {level}: before the lease ends");
        // The first port that shows its key gives access to all others.
        sleep(Duration::from_secs(u64::from(LEASE))).await;
        assert_eq!(others(&cluster, NEW, level), [], "level {level}");
        assert_eq!(cluster.faults(&second), [""; 0], "level {level}");
    }
}

/// Ports show their keys at level 0, so that a lost key is known at once.
#[tokio::test(start_paused = true)]
async fn at_level_0_lost_keys_are_read_from_the_ports() {
    let cluster = cluster();
    let first = cluster.start(A, options(&cluster, OLD, 0, 0));
    settle().await;
    assert_eq!(others(&cluster, OLD, 0), []);
    let before = (cluster.tables(), activations(&cluster));
    first.stop().await;
    for name in ["guid2mkey", "neighbors"] {
        std::fs::remove_file(cluster.cache_dir(A).join(name)).expect("a file");
    }
    let second = cluster.start(A, options(&cluster, NEW, 0, 0));
    settle().await;
    assert_eq!(others(&cluster, NEW, 0), []);
    assert_eq!(cluster.faults(&second), [""; 0]);
    assert_eq!(violations(&cluster), 0);
    assert!(before == (cluster.tables(), activations(&cluster)));
}

#[tokio::test(start_paused = true)]
async fn at_level_0_the_keys_of_ports_follow_the_master() {
    let cluster = cluster();
    let fast = |key, sm_priority| Options {
        sm_priority,
        sminfo_polling_timeout: 1000,
        ..options(&cluster, key, 0, LEASE)
    };
    let first = cluster.start(A, fast(OLD, 5));
    settle().await;
    let before = (cluster.tables(), activations(&cluster));
    let better = cluster.start(B, fast(NEW, 9));
    sleep(Duration::from_secs(2)).await;
    let roles = || (first.state(), better.state());
    for _ in 0..60 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(roles(), (SmState::Standby, SmState::Master));
        assert_eq!(others(&cluster, NEW, 0), []);
    }
    assert_eq!(cluster.faults(&better), [""; 0]);
    better.kill().await;
    sleep(Duration::from_secs(20)).await;
    assert_eq!(first.state(), SmState::Master);
    assert_eq!(others(&cluster, OLD, 0), []);
    assert_eq!(cluster.faults(&first), [""; 0]);
    assert_eq!(violations(&cluster), 0);
    assert!(before == (cluster.tables(), activations(&cluster)));
}

#[tokio::test(start_paused = true)]
async fn without_a_lease_lost_keys_stay_lost_and_cost_bounded_traffic() {
    for level in 1..=3 {
        let cluster = cluster();
        let first = cluster.start(A, options(&cluster, OLD, level, 0));
        settle().await;
        let before = cluster.tables();
        first.stop().await;
        std::fs::remove_file(cluster.cache_dir(A).join("guid2mkey")).expect("a file");
        let second = cluster.start(A, options(&cluster, NEW, level, 0));
        sleep(Duration::from_secs(600)).await;
        let refused = violations(&cluster);
        sleep(Duration::from_secs(600)).await;
        assert_eq!(others(&cluster, OLD, level), [], "level {level}");
        assert!(before == cluster.tables(), "level {level}: nothing was changed");
        let more = violations(&cluster) - refused;
        assert!(more < 2000, "level {level}: {more} refused requests in ten minutes");
        // The administrator enters the key.
        second.stop().await;
        let third = cluster.start(A, options(&cluster, OLD, level, 0));
        settle().await;
        assert_eq!(cluster.faults(&third), [""; 0], "level {level}");
    }
}

#[tokio::test(start_paused = true)]
async fn rebooted_devices_get_their_key_again() {
    let cluster = cluster();
    let sm = cluster.start(A, options(&cluster, OLD, 2, LEASE));
    settle().await;
    for guid in [cluster.shape.switch_guid([1, 1, 0]), cluster.shape.host_guid([1, 2, 0], 0)] {
        assert!(cluster.fabric.reboot(guid));
        sleep(Duration::from_secs(30)).await;
        assert_eq!(others(&cluster, OLD, 2), [], "{guid}");
        assert_eq!(cluster.faults(&sm), [""; 0], "{guid}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_manager_with_another_key_does_not_disturb_the_master() {
    for level in 1..=3 {
        let cluster = cluster();
        let master = cluster.start(A, options(&cluster, OLD, level, LEASE));
        settle().await;
        let before = cluster.tables();
        let better = Options { sm_priority: 9, ..options(&cluster, NEW, level, LEASE) };
        let other = cluster.start(B, better);
        sleep(Duration::from_secs(10 * u64::from(LEASE))).await;
        assert_eq!(others(&cluster, OLD, level), [], "level {level}: the leases are renewed");
        assert!(before == cluster.tables(), "level {level}");
        assert_eq!(cluster.faults(&master), [""; 0], "level {level}");
        assert_eq!(other.state(), SmState::Discovering, "its own port refuses its requests");
        // Without the master, the leases end and the other one takes over.
        master.kill().await;
        sleep(Duration::from_secs(3 * u64::from(LEASE))).await;
        assert_eq!(others(&cluster, NEW, level), [], "level {level}");
        assert_eq!(other.state(), SmState::Master, "level {level}");
        assert_eq!(cluster.faults(&other), [""; 0], "level {level}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_standby_stays_standby_while_the_key_changes() {
    for level in [1, 2] {
        let cluster = cluster();
        let start = |at, sm_priority| {
            let options = options(&cluster, OLD, level, LEASE);
            let options = Options { sm_priority, sminfo_polling_timeout: 1000, ..options };
            ReloadableSm::start(&cluster, at, options)
        };
        let master = start(A, 9);
        settle().await;
        let standby = start(B, 3);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(standby.sm.state(), SmState::Standby, "level {level}");
        for first in [&master, &standby] {
            let second = if std::ptr::eq(first, &master) { &standby } else { &master };
            let key = if std::ptr::eq(first, &master) { NEW } else { OLD };
            first.reload(|options| options.m_key = key);
            settle().await;
            sleep(Duration::from_secs(2)).await;
            second.reload(|options| options.m_key = key);
            settle().await;
            for _ in 0..20 {
                sleep(Duration::from_secs(1)).await;
                assert_eq!(master.sm.state(), SmState::Master, "level {level}");
                assert_eq!(standby.sm.state(), SmState::Standby, "level {level}");
            }
            assert_eq!(others(&cluster, key, level), [], "level {level}");
        }
        assert_eq!(cluster.faults(&master.sm), [""; 0], "level {level}");
        // The standby takes over with the key.
        master.sm.kill().await;
        sleep(Duration::from_secs(20)).await;
        assert_eq!(standby.sm.state(), SmState::Master, "level {level}");
        assert_eq!(cluster.faults(&standby.sm), [""; 0], "level {level}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_renewed_when_a_stranger_tries_keys() {
    for (is_running, is_shown) in
        [(true, None), (true, Some(true)), (true, Some(false)), (false, None)]
    {
        let cluster = cluster();
        let options =
            Options { m_key_in_trap_repress: is_shown, ..options(&cluster, OLD, 1, LEASE) };
        let sm = cluster.start(A, options);
        settle().await;
        let eye = Observer::at(&cluster, STRANGER);
        if !is_running {
            sm.kill().await;
        }
        let route = eye.route(&cluster, [2, 2, 0]);
        let get = SmpRequest::get(route, AttrId::PORT_INFO, 1);
        for _ in 0..12 {
            let forged = SmpRequest::set(route, AttrId::PORT_INFO, 1, [0; 64]);
            assert!(eye.call(&forged.with_m_key(MKey(0x77))).await.is_err());
            sleep(Duration::from_secs(u64::from(LEASE) / 4)).await;
        }
        let reply = eye.call(&get).await.expect("Gets are answered");
        let info = PortInfo::read(&reply.data);
        let shown = (info.m_key(), info.m_key_protect_bits());
        assert_eq!(shown, if is_running { (MKey::NONE, 1) } else { (OLD, 0) });
    }
}
