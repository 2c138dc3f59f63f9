//! Adaptive routing and local repair on simulated switches: what is written and when, faults, take-over,
//! and packets meanwhile.

use std::sync::Arc;
use std::time::Duration;
use testkit::reloadable::ReloadableSm;
use testkit::sa_client::{Client, joins};
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::{Options, VendorAttributes};
use torus_sm::daemon::messages::SmEvent;
use torus_sm::fabric::synthetic::Hardware;
use torus_sm::ids::{Guid, PortNum, Sl};
use torus_sm::sim::generate::Shape;
use torus_sm::sim::{
    AdaptiveLimits, AttributeFault, Forwarding, PacketClass, Traffic, TrafficPattern,
    TrafficReport, Transport, VendorProfile,
};
use torus_sm::vendor::status::VendorStatus;
use torus_sm::wire::attr::{AttrId, SmState};
use torus_sm::wire::mad::{Method, Status};
use torus_sm::wire::vendor::adaptive::ArState;

const ORIGIN: [u16; 3] = [0, 0, 0];
const SECOND: [u16; 3] = [1, 1, 0];
const PACKET: PacketClass = PacketClass { transport: Transport::Connection, sl: Sl(0) };
const ALL_TO_ALL: Traffic =
    Traffic { pattern: TrafficPattern::AllToAll, packets: 4, packet: PACKET, seed: 1 };
const TABLES: [u16; 3] = [AttrId::AR_INFO, AttrId::AR_GROUP_TABLE, AttrId::AR_LFT];

/// A torus with parallel cables, whose switches and hosts have adaptive routing.
fn cluster(shape: &str, parallel: u8) -> SimCluster {
    let shape = Shape { hosts: 1, parallel, ..shape.parse().expect("a shape") };
    let cluster = SimCluster::new(shape, Hardware::default(), 1);
    let profile: VendorProfile = "mlnx:adaptive-routing-revised,out-of-order".parse().expect("it");
    cluster.fabric.set_vendor_profiles(profile);
    cluster
}

fn options(cluster: &SimCluster, engine: &str) -> Options {
    Options { routing_engine: Some(engine.to_owned()), ..cluster.options() }
}

fn status(sm: &Sm) -> Arc<VendorStatus> {
    sm.management.as_ref().expect("the sources").live.vendor.load_full()
}

async fn up(cluster: &SimCluster, options: Options) -> Sm {
    let sm = cluster.start(ORIGIN, options);
    settle().await;
    assert_eq!(sm.state(), SmState::Master);
    assert_eq!(cluster.faults(&sm), [""; 0]);
    sm
}

fn switches(cluster: &SimCluster) -> impl Iterator<Item = Guid> {
    cluster.shape.positions().map(|at| cluster.shape.switch_guid(at))
}

/// Numbers of switches with adaptive routing on, and with local repair on.
fn running(cluster: &SimCluster) -> [usize; 2] {
    let views: Vec<_> = switches(cluster)
        .map(|guid| cluster.fabric.adaptive(guid).expect("a switch").info)
        .collect();
    let routing = views.iter().filter(|info| info.adaptive_routing()).count();
    [routing, views.iter().filter(|info| info.fast_recovery()).count()]
}

/// Numbers of Gets and Sets of the tables of adaptive routing.
fn requests(cluster: &SimCluster) -> [[u64; 2]; 3] {
    TABLES.map(|id| cluster.fabric.requests(id))
}

fn send(cluster: &SimCluster, by: Forwarding) -> TrafficReport {
    cluster.fabric.send_traffic(&ALL_TO_ALL, by)
}

/// Asserts that the entries have the static ports of the plain tables.
fn assert_same_static_ports(cluster: &SimCluster) {
    for guid in switches(cluster) {
        let plain = cluster.fabric.lft(guid).expect("a switch");
        let view = cluster.fabric.adaptive(guid).expect("a switch");
        assert!(!view.entries.is_empty());
        for (lid, entry) in view.entries.iter().enumerate() {
            assert_eq!(entry.port, plain.get(lid).copied().unwrap_or(0xFF), "LID {lid}");
        }
    }
}

/// A cable between two switches that carries packets.
fn used_cable(cluster: &SimCluster) -> (Guid, PortNum) {
    *send(cluster, Forwarding::Adaptive).loads.keys().next().expect("a cable")
}

#[tokio::test(start_paused = true)]
async fn packets_spread_over_parallel_cables() {
    let cluster = cluster("4x4x1", 2);
    let sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    assert_eq!(running(&cluster), [16, 16]);
    let counts = status(&sm).adaptive;
    assert_eq!((counts.configured, counts.failed, counts.groups), (16, 0, 64));
    assert_same_static_ports(&cluster);
    // Blocks of 2 groups up to number 7, and of 16 LIDs up to LID 32.
    assert_eq!(requests(&cluster), [[16, 16], [0, 16 * 4], [0, 16 * 3]]);
    let plain = send(&cluster, Forwarding::Plain);
    let adaptive = send(&cluster, Forwarding::Adaptive);
    assert_eq!((plain.lost, adaptive.lost), (0, 0));
    assert_eq!(plain.delivered, adaptive.delivered);
    assert!(adaptive.highest() < plain.highest(), "{adaptive:?}");
    assert_eq!(adaptive.loads.len(), 16 * 4 * 2, "all cables in both directions");
    assert_eq!(cluster.fabric.unreached(PACKET), []);
    // Datagrams are not routed adaptively unless ar_transport_mask says so.
    let packet = PacketClass { transport: Transport::Datagram, ..PACKET };
    let datagrams = Traffic { packet, ..ALL_TO_ALL };
    let fixed = cluster.fabric.send_traffic(&datagrams, Forwarding::Adaptive);
    assert_eq!(fixed.loads, plain.loads);
    // Sweeps ask for ARInfo, and write nothing.
    cluster.fabric.reset_counters();
    sm.tell(SmEvent::Reload);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(requests(&cluster)[1..], [[0, 0], [0, 0]]);
    assert_eq!(requests(&cluster)[0][1], 0);
}

/// Without the capability, a subnet manager with groups sends what one without them sends.
#[tokio::test(start_paused = true)]
async fn switches_without_the_capability_stay_static() {
    let cluster = cluster("3x3x1", 2);
    cluster.fabric.set_vendor_profiles("mlnx".parse().expect("a profile"));
    let sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    assert_eq!(requests(&cluster), [[0; 2]; 3]);
    assert_eq!(status(&sm).adaptive.configured, 0);
}

#[tokio::test(start_paused = true)]
async fn engines_without_groups_send_nothing_but_a_question() {
    let cluster = cluster("3x3x1", 2);
    let _sm = up(&cluster, options(&cluster, "torus-2QoS,no_fallback")).await;
    assert_eq!(requests(&cluster), [[9, 0], [0, 0], [0, 0]]);
    assert_eq!(running(&cluster), [0, 0]);
}

/// A cut cable loses packets until the sweep, unless switches repair routes themselves.
#[tokio::test(start_paused = true)]
async fn local_repair_loses_no_packet_before_the_sweep() {
    for shield_mode in [0, 1] {
        let cluster = cluster("4x4x1", 2);
        let options =
            Options { ar_mode: 0, shield_mode, ..options(&cluster, "torus-2QoS,no_fallback") };
        let sm = up(&cluster, options).await;
        let expected = if shield_mode == 1 { 16 } else { 0 };
        assert_eq!(running(&cluster), [0, expected]);
        let before = send(&cluster, Forwarding::Adaptive);
        assert_eq!(
            before.loads,
            send(&cluster, Forwarding::Plain).loads,
            "no choice without faults"
        );
        for (guid, port) in before.loads.keys().step_by(7).take(3) {
            let generation = sm.generation();
            assert!(cluster.fabric.unlink(*guid, *port));
            let meanwhile = send(&cluster, Forwarding::Adaptive);
            assert_eq!(sm.generation(), generation, "the sweep comes later");
            assert_eq!(meanwhile.lost == 0, shield_mode == 1, "{meanwhile:?}");
            sleep(Duration::from_secs(10)).await;
            assert!(sm.generation() > generation);
            assert_eq!(send(&cluster, Forwarding::Adaptive).lost, 0);
            assert_eq!(running(&cluster), [0, expected]);
            assert!(cluster.fabric.relink(*guid, *port));
            sleep(Duration::from_secs(10)).await;
            assert_eq!(running(&cluster), [0, expected]);
            assert_eq!(send(&cluster, Forwarding::Adaptive).lost, 0);
        }
    }
}

/// The plan after a local repair writes the switches at the cut cable, and moves no other traffic.
#[tokio::test(start_paused = true)]
async fn a_cut_cable_changes_only_the_groups_at_its_ends() {
    let cluster = cluster("4x4x1", 3);
    for guid in switches(&cluster) {
        let limits = AdaptiveLimits { survives_plain_tables: true, ..AdaptiveLimits::default() };
        assert!(cluster.fabric.set_adaptive_limits(guid, limits));
    }
    let _sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    let (guid, port) = used_cable(&cluster);
    let before: Vec<_> = switches(&cluster).map(|guid| cluster.fabric.adaptive(guid)).collect();
    cluster.fabric.reset_counters();
    assert!(cluster.fabric.unlink(guid, port));
    assert_eq!(send(&cluster, Forwarding::Adaptive).lost, 0);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(send(&cluster, Forwarding::Adaptive).lost, 0);
    assert_eq!(cluster.fabric.unreached(PACKET), []);
    let after: Vec<_> = switches(&cluster).map(|guid| cluster.fabric.adaptive(guid)).collect();
    let groups = |view: &Option<torus_sm::sim::AdaptiveView>| view.clone().expect("it").groups;
    let changed = before.iter().zip(&after).filter(|(a, b)| groups(a) != groups(b)).count();
    assert_eq!(changed, 2);
    let [[_, infos], [_, groups], _] = requests(&cluster);
    assert_eq!((infos, groups), (0, 2), "one block at each end");
    assert_same_static_ports(&cluster);
}

#[tokio::test(start_paused = true)]
async fn switching_off_leads_back_to_static_tables() {
    let cluster = cluster("3x3x1", 2);
    let sm = ReloadableSm::start(&cluster, ORIGIN, options(&cluster, "ar_torus,no_fallback"));
    settle().await;
    assert_eq!(running(&cluster), [9, 9]);
    sm.reload(|options| options.shield_mode = 0);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(running(&cluster), [9, 0]);
    sm.reload(|options| options.ar_mode = 0);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(running(&cluster), [0, 0]);
    let plain = send(&cluster, Forwarding::Plain);
    assert_eq!(send(&cluster, Forwarding::Adaptive).loads, plain.loads);
    cluster.fabric.reset_counters();
    sm.reload(|options| options.ar_mode = 3);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(running(&cluster), [9, 0]);
    assert_eq!(requests(&cluster)[1..], [[0, 0], [0, 0]], "the tables are still there");
    sm.reload(|options| options.vendor_attributes = VendorAttributes::Off);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(running(&cluster), [0, 0], "before the attributes are given up");
}

/// A switch that refuses a table, or does not answer, forwards by its plain table; others do not wait.
#[tokio::test(start_paused = true)]
async fn refusal_and_silence_leave_a_switch_static() {
    let faults = [AttributeFault::Silent, AttributeFault::Refused(Status::BAD_FIELD)];
    for attr_id in TABLES {
        for fault in faults {
            let cluster = cluster("3x3x1", 2);
            let bad = cluster.shape.switch_guid([2, 2, 0]);
            assert!(cluster.fabric.set_attribute_fault(bad, attr_id, Some(fault)));
            let sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
            sleep(Duration::from_secs(5)).await;
            let name = format!("{} {fault:?}", AttrId::name(attr_id));
            assert_eq!(running(&cluster), [8, 8], "{name}");
            let counts = status(&sm).adaptive;
            assert_eq!((counts.configured, counts.failed), (8, 1), "{name}");
            assert_eq!(send(&cluster, Forwarding::Adaptive).lost, 0, "{name}");
            assert_eq!(cluster.fabric.unreached(PACKET), [], "{name}");
            // Silence gets another chance with the next change, a refusal does not.
            assert!(cluster.fabric.set_attribute_fault(bad, attr_id, None));
            sm.tell(SmEvent::Reload);
            sleep(Duration::from_secs(20)).await;
            let expected = if fault == AttributeFault::Silent { 9 } else { 8 };
            assert_eq!(running(&cluster), [expected; 2], "{name}");
        }
    }
}

/// A running switch that begins to refuse is switched off: its plain table is right.
#[tokio::test(start_paused = true)]
async fn a_running_switch_that_refuses_is_switched_off() {
    let cluster = cluster("3x3x1", 3);
    for guid in switches(&cluster) {
        let limits = AdaptiveLimits { survives_plain_tables: true, ..AdaptiveLimits::default() };
        cluster.fabric.set_adaptive_limits(guid, limits);
    }
    let sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    let (bad, port) = used_cable(&cluster);
    let fault = Some(AttributeFault::Refused(Status::BAD_FIELD));
    cluster.fabric.set_attribute_fault(bad, AttrId::AR_GROUP_TABLE, fault);
    assert!(cluster.fabric.unlink(bad, port));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(running(&cluster), [8, 8]);
    assert!(!cluster.fabric.adaptive(bad).expect("a switch").info.adaptive_routing());
    assert_eq!(status(&sm).adaptive.failed, 1);
    assert_eq!(cluster.fabric.unreached(PACKET), []);
}

/// Sets of the plain table switch adaptive routing off in old firmware; it comes back.
#[tokio::test(start_paused = true)]
async fn plain_tables_do_not_end_adaptive_routing() {
    let cluster = cluster("4x4x1", 2);
    let _sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    let host = cluster.shape.host_guid([2, 2, 0], 0);
    assert!(cluster.fabric.unlink(host, PortNum(1)));
    sleep(Duration::from_secs(10)).await;
    assert!(cluster.fabric.relink(host, PortNum(1)));
    sleep(Duration::from_secs(10)).await;
    let switch = cluster.shape.switch_guid([2, 1, 0]);
    let port = (1..20).map(PortNum).find(|&port| cluster.fabric.unlink(switch, port));
    sleep(Duration::from_secs(10)).await;
    assert!(port.is_some());
    assert_eq!(running(&cluster), [16, 16]);
    assert_same_static_ports(&cluster);
    assert_eq!(cluster.fabric.unreached(PACKET), []);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_switch_gets_its_tables_again() {
    let cluster = cluster("3x3x1", 2);
    let _sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    let switch = cluster.shape.switch_guid([2, 2, 0]);
    assert!(cluster.fabric.reboot(switch));
    assert_eq!(running(&cluster), [8, 8]);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(running(&cluster), [9, 9]);
    assert_same_static_ports(&cluster);
}

/// A standby that takes over reads the tables of running switches, and writes only differences.
#[tokio::test(start_paused = true)]
async fn a_new_master_writes_only_differences() {
    let cluster = cluster("3x3x1", 3);
    let options = options(&cluster, "ar_torus,no_fallback");
    let first = cluster.start(ORIGIN, Options { sm_priority: 9, ..options.clone() });
    settle().await;
    let second = cluster.start(SECOND, options);
    settle().await;
    assert_eq!(running(&cluster), [9, 9]);
    cluster.fabric.reset_counters();
    first.kill().await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(second.state(), SmState::Master);
    assert_eq!(running(&cluster), [9, 9]);
    let [[_, infos], [group_gets, groups], [entry_gets, entries]] = requests(&cluster);
    assert_eq!((infos, groups, entries), (0, 0, 0), "the same tables");
    assert!(group_gets > 0 && entry_gets > 0, "they were read");
    assert_eq!(status(&second).adaptive.configured, 9);
    // With a fault, only the block of the cut cable's ends.
    let (guid, port) = used_cable(&cluster);
    assert!(cluster.fabric.unlink(guid, port));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(cluster.fabric.unreached(PACKET), []);
    assert_eq!(requests(&cluster)[1][1], 2);
}

/// A master without adaptive routing ends that of another one, with which its tables would be ignored.
#[tokio::test(start_paused = true)]
async fn a_new_master_without_groups_switches_them_off() {
    let cluster = cluster("3x3x1", 2);
    let first = cluster
        .start(ORIGIN, Options { sm_priority: 9, ..options(&cluster, "ar_torus,no_fallback") });
    settle().await;
    assert_eq!(running(&cluster), [9, 9]);
    let second = cluster.start(SECOND, options(&cluster, "torus-2QoS,no_fallback"));
    settle().await;
    first.kill().await;
    sleep(Duration::from_secs(60)).await;
    assert_eq!(second.state(), SmState::Master);
    assert_eq!(running(&cluster), [0, 0]);
    assert_eq!(send(&cluster, Forwarding::Adaptive).lost, 0);
}

#[tokio::test(start_paused = true)]
async fn destinations_that_need_order_and_excluded_sls_stay_static() {
    let cluster = cluster("3x3x1", 2);
    let plain: VendorProfile = "mlnx".parse().expect("a profile");
    let host = cluster.shape.host_guid([2, 1, 0], 0);
    assert!(cluster.fabric.set_vendor_profile(host, Some(plain)));
    let options = Options { ar_sl_mask: 0x00FE, ..options(&cluster, "ar_torus,no_fallback") };
    let _sm = up(&cluster, options).await;
    let lid = cluster.host_lid([2, 1, 0]).index();
    let other = cluster.host_lid([2, 2, 0]).index();
    let states = |lid: usize| {
        let entry = |guid| cluster.fabric.adaptive(guid).expect("a switch").entries[lid];
        let entries = switches(&cluster).map(entry).filter(|entry| entry.group > 0);
        entries.map(|entry| entry.state).collect::<Vec<_>>()
    };
    assert_eq!(states(lid), [ArState::Static; 8]);
    assert_eq!(states(other), [ArState::Free; 8]);
    let plain = send(&cluster, Forwarding::Plain);
    assert_eq!(send(&cluster, Forwarding::Adaptive).loads, plain.loads, "SL 0 is excluded");
    let packet = PacketClass { sl: Sl(1), ..PACKET };
    let sent = cluster.fabric.send_traffic(&Traffic { packet, ..ALL_TO_ALL }, Forwarding::Adaptive);
    assert_ne!(sent.loads, plain.loads);
}

/// Over the limit of a table, the most used groups are written, and the rest stays static.
#[tokio::test(start_paused = true)]
async fn small_tables_get_the_most_used_groups() {
    let cluster = cluster("4x4x1", 2);
    for guid in switches(&cluster) {
        let limits = AdaptiveLimits { group_cap: 3, ..AdaptiveLimits::default() };
        cluster.fabric.set_adaptive_limits(guid, limits);
    }
    let sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    let counts = status(&sm).adaptive;
    assert_eq!((counts.configured, counts.failed, counts.groups), (16, 0, 32));
    assert_eq!(cluster.fabric.unreached(PACKET), []);
}

/// The console of the simulator shows the same packets.
#[tokio::test(start_paused = true)]
async fn the_console_counts_packets_static_and_adaptive() {
    let cluster = cluster("4x4x1", 2);
    let _sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    let run = |line| torus_sm::sim::console::run_line(&cluster.fabric, line).expect(line);
    let text = run("traffic all-to-all json");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let counts = |name: &str| {
        let number = |key: &str| json[name][key].as_u64().expect("a number");
        [number("delivered"), number("lost"), number("busiest")]
    };
    let [delivered, lost, fixed] = counts("static");
    assert_eq!((delivered, lost), (16 * 15 * 64, 0));
    let [delivered, lost, adaptive] = counts("adaptive");
    assert_eq!((delivered, lost), (16 * 15 * 64, 0));
    assert!(adaptive < fixed, "{text}");
    let text = run("traffic hot-spot 3");
    assert!(text.starts_with("static    960 packets delivered, 0 lost, "), "{text}");
}

/// Groups do not depend on multicast groups: a join asks and writes nothing.
#[tokio::test(start_paused = true)]
async fn joins_ask_no_switch() {
    let cluster = cluster("3x3x1", 2);
    let sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    cluster.fabric.reset_counters();
    let generation = sm.generation();
    let client = Client::at(&cluster, SECOND, false);
    client.call(&joins::request(Method::SET, client.gid().guid(), 1, 7)).await;
    sleep(Duration::from_secs(10)).await;
    assert!(sm.generation() > generation, "a new tree was published");
    assert_eq!(requests(&cluster), [[0; 2]; 3]);
    assert_eq!(running(&cluster), [9, 9]);
}

/// Without a second cable there is nothing to choose: the plain tables are enough.
#[tokio::test(start_paused = true)]
async fn switches_without_groups_stay_static() {
    let cluster = cluster("3x3x1", 1);
    let sm = up(&cluster, options(&cluster, "ar_torus,no_fallback")).await;
    assert_eq!(requests(&cluster), [[9, 0], [0, 0], [0, 0]]);
    assert_eq!(running(&cluster), [0, 0]);
    let counts = status(&sm).adaptive;
    assert_eq!((counts.configured, counts.failed), (0, 0));
}
