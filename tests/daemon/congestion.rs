//! Congestion control on simulated devices: what is written, when, and to whom.

use std::time::Duration;
use testkit::reloadable::ReloadableSm;
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::{Options, parse::find};
use torus_sm::congestion::status::CongestionStatus;
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::{CcKey, Guid, PortNum, Sl};
use torus_sm::sim::CongestionFault;
use torus_sm::wire::attr::{NodeKind, SmState};
use torus_sm::wire::congestion::{CctEntry, CongestionAttr};
use torus_sm::wire::mad::Status;

const ORIGIN: [u16; 3] = [0, 0, 0];
/// Longer than all transmissions of a request without an answer.
const UNANSWERED: Duration = Duration::from_secs(2);
/// Longer than the delay before a device is asked again.
const RETRY: Duration = Duration::from_secs(33);

const SETTINGS: [(&str, &str); 10] = [
    ("congestion_control", "TRUE"),
    ("cc_sw_cong_setting_control_map", "0x1f"),
    ("cc_sw_cong_setting_victim_mask", "0x1e"),
    ("cc_sw_cong_setting_threshold", "0xf"),
    ("cc_sw_cong_setting_credit_starvation_return_delay", "1:10"),
    ("cc_sw_cong_setting_marking_rate", "100"),
    ("cc_ca_cong_setting_port_control", "1"),
    ("cc_ca_cong_setting_control_map", "0x8001"),
    ("cc_ca_cong_setting_ccti_timer", "15 20"),
    ("cc_cct", "0:0,1:5,2:7"),
];

fn set(options: &mut Options, key: &str, value: &str) {
    find(key).expect("a key").set(options, value).expect("a valid value");
}

fn options(cluster: &SimCluster) -> Options {
    let mut options = cluster.options();
    for (key, value) in SETTINGS {
        set(&mut options, key, value);
    }
    // 70 entries: two blocks.
    let table: Vec<String> = (0..70).map(|at| format!("{}:{at}", at % 4)).collect();
    set(&mut options, "cc_cct", &table.join(","));
    options
}

fn status(sm: &Sm) -> CongestionStatus {
    **sm.management.as_ref().expect("the sources").live.congestion.load()
}

/// Gets and Sets of all attributes that the devices received.
fn requests(cluster: &SimCluster) -> [u64; 2] {
    let attributes = CongestionAttr::CONGESTION_INFO..=CongestionAttr::CONGESTION_CONTROL_TABLE;
    attributes
        .map(|id| cluster.fabric.congestion_requests(id))
        .fold([0, 0], |sum, counted| [sum[0] + counted[0], sum[1] + counted[1]])
}

/// Node GUIDs of the devices of a kind.
fn nodes(cluster: &SimCluster, kind: NodeKind) -> Vec<Guid> {
    let nodes = cluster.topology.nodes.iter().filter(|node| node.kind == kind);
    nodes.map(|node| node.guid).collect()
}

/// True if a switch has the settings of [`options`].
fn is_switch_set(cluster: &SimCluster, guid: Guid) -> bool {
    let held = cluster.fabric.congestion_settings(guid, PortNum(0)).expect("a switch").switch;
    let delay = CctEntry { shift: 1, multiplier: 10 };
    let expected = (0x1f, 0x1e, 0xf, delay, 100);
    let mask = held.victim_mask();
    assert!(mask[..31].iter().all(|&byte| byte == 0));
    let found = (
        held.control_map(),
        mask[31],
        held.threshold(),
        held.cs_return_delay(),
        held.marking_rate(),
    );
    found == expected
}

/// True if a host has the settings of [`options`].
fn is_host_set(cluster: &SimCluster, guid: Guid) -> bool {
    let held = cluster.fabric.congestion_settings(guid, PortNum(1)).expect("a host");
    let ca = held.ca;
    let table = held.table;
    let entries: Vec<CctEntry> = table.iter().flat_map(|block| block.entries()).collect();
    let wanted = (0..128).map(|at: u16| {
        let entry = CctEntry { shift: (at % 4) as u8, multiplier: at };
        if at < 70 { entry } else { CctEntry::default() }
    });
    ca.port_control() == 1
        && ca.control_map() == 0x8001
        && ca.entry(Sl(15)).ccti_timer() == 20
        && table.iter().all(|block| block.ccti_limit() == 69)
        && entries.into_iter().eq(wanted)
}

/// The devices that do not have the settings of [`options`].
fn unset(cluster: &SimCluster) -> Vec<Guid> {
    let switches = nodes(cluster, NodeKind::Switch).into_iter();
    let hosts = nodes(cluster, NodeKind::Ca).into_iter();
    let switches = switches.filter(|&guid| !is_switch_set(cluster, guid));
    switches.chain(hosts.filter(|&guid| !is_host_set(cluster, guid))).collect()
}

async fn up(cluster: &SimCluster) -> Sm {
    let sm = cluster.start(ORIGIN, options(cluster));
    settle().await;
    assert_eq!(sm.state(), SmState::Master);
    sm
}

#[tokio::test(start_paused = true)]
async fn a_cold_start_configures_every_device_once() {
    let mut shape: torus_sm::sim::generate::Shape = "3x4x1".parse().expect("a shape");
    shape.router = true;
    let cluster = SimCluster::new(shape, Default::default(), 1);
    let sm = up(&cluster).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(unset(&cluster), []);
    let switches = 12;
    let hosts = 12;
    let requested = [switches + 3 * hosts; 2];
    assert_eq!(requests(&cluster), requested, "the router gets none");
    let of = status(&sm);
    assert!(of.is_enabled && !of.is_busy);
    assert_eq!((of.devices.all, of.devices.configured), (25, 25));
    assert_eq!([of.gets, of.sets], requested);
    assert_eq!(cluster.sets_of_another_sweep(&sm).await, 0);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(requests(&cluster), [0, 0], "later sweeps send nothing");
}

#[tokio::test(start_paused = true)]
async fn what_devices_hold_is_not_written_again() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    up(&cluster).await.kill().await;
    cluster.fabric.reset_counters();
    let other = cluster.shape.switch_guid([1, 1, 0]);
    cluster.fabric.change_congestion_settings(other, PortNum(0), |held| {
        held.switch.set_marking_rate(5);
    });
    let sm = up(&cluster).await;
    assert_eq!(unset(&cluster), []);
    assert_eq!(requests(&cluster), [9 + 3 * 9, 1]);
    assert_eq!(status(&sm).devices.configured, 18);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_unless_it_is_enabled() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let mut disabled = options(&cluster);
    set(&mut disabled, "congestion_control", "FALSE");
    let sm = ReloadableSm::start(&cluster, ORIGIN, disabled);
    settle().await;
    assert_eq!(requests(&cluster), [0, 0]);
    assert!(!status(&sm.sm).is_enabled);
    sm.reload(|options| options.congestion_control = true);
    settle().await;
    assert_eq!(unset(&cluster), []);
    let sent = requests(&cluster);
    sm.reload(|options| {
        options.congestion_control = false;
        options.cc_sw_cong_setting_marking_rate = 1;
    });
    settle().await;
    assert_eq!((requests(&cluster), unset(&cluster)), (sent, Vec::new()), "devices keep them");
    assert!(!status(&sm.sm).is_enabled);
}

#[tokio::test(start_paused = true)]
async fn a_reload_writes_what_changed() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = ReloadableSm::start(&cluster, ORIGIN, options(&cluster));
    settle().await;
    cluster.fabric.reset_counters();
    sm.reload(|options| options.cc_sw_cong_setting_marking_rate = 7);
    settle().await;
    assert_eq!(requests(&cluster), [0, 9]);
    for guid in nodes(&cluster, NodeKind::Switch) {
        let held = cluster.fabric.congestion_settings(guid, PortNum(0)).expect("a switch");
        assert_eq!(held.switch.marking_rate(), 7);
    }
    // The limit belongs to both blocks.
    sm.reload(|options| options.cc_cct.0.truncate(69));
    settle().await;
    assert_eq!(requests(&cluster), [0, 9 + 2 * 9]);
}

#[tokio::test(start_paused = true)]
async fn devices_with_a_key_need_it() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let guid = cluster.shape.switch_guid([1, 0, 0]);
    let protect =
        |held: &mut torus_sm::sim::PortCongestionSettings| held.key.set_cc_key(CcKey(0x77));
    cluster.fabric.change_congestion_settings(guid, PortNum(0), protect);
    let sm = ReloadableSm::start(&cluster, ORIGIN, options(&cluster));
    sleep(UNANSWERED).await;
    assert_eq!(unset(&cluster), [guid]);
    assert_eq!(cluster.faults(&sm.sm), [""; 0], "the subnet is up all the same");
    let of = status(&sm.sm);
    assert_eq!((of.devices.configured, of.devices.failed, of.unanswered), (17, 1, 1));
    sm.reload(|options| options.cc_key = CcKey(0x77));
    settle().await;
    assert_eq!(unset(&cluster), []);
    assert_eq!(status(&sm.sm).devices.configured, 18);
    let held = cluster.fabric.congestion_settings(guid, PortNum(0)).expect("a switch");
    // The first transmission and three retries.
    assert_eq!(held.key.violations(), 4);
}

#[tokio::test(start_paused = true)]
async fn silent_devices_are_left_alone_until_they_answer() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let guid = cluster.shape.host_guid([1, 0, 0], 0);
    assert!(cluster.fabric.set_congestion_fault(guid, CongestionFault::Silent));
    let sm = up(&cluster).await;
    sleep(UNANSWERED).await;
    assert_eq!(unset(&cluster), [guid]);
    assert_eq!(status(&sm).devices.failed, 1);
    cluster.fabric.reset_counters();
    sm.tell(SmEvent::Reload);
    sleep(UNANSWERED).await;
    assert_eq!(requests(&cluster), [0, 0], "sweeps do not ask it");
    sleep(RETRY).await;
    assert_eq!(requests(&cluster), [4, 0], "one request with three retries");
    cluster.fabric.revive(guid);
    sleep(2 * RETRY).await;
    assert_eq!(unset(&cluster), []);
    assert_eq!(status(&sm).devices.configured, 18);
}

#[tokio::test(start_paused = true)]
async fn devices_without_support_and_refusals_are_told_apart() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let without = cluster.shape.host_guid([2, 0, 0], 0);
    let refusing = cluster.shape.switch_guid([1, 1, 0]);
    cluster.fabric.set_congestion_fault(without, CongestionFault::Unsupported);
    let refusal = CongestionFault::Refuses(Status::BAD_FIELD);
    cluster.fabric.set_congestion_fault(refusing, refusal);
    let sm = up(&cluster).await;
    let of = status(&sm);
    assert_eq!(unset(&cluster), [refusing, without]);
    assert_eq!((of.devices.unsupported, of.devices.failed, of.refused), (1, 1, 2));
    assert_eq!(of.devices.configured, 16);
    assert_eq!(cluster.faults(&sm), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn restarted_devices_get_their_settings_back() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sm = up(&cluster).await;
    cluster.fabric.reset_counters();
    let switch = cluster.shape.switch_guid([1, 1, 0]);
    let host = cluster.shape.host_guid([2, 1, 0], 0);
    for guid in [switch, host] {
        assert!(cluster.fabric.reboot(guid));
        assert_eq!(unset(&cluster), [guid]);
        sleep(Duration::from_secs(20)).await;
        assert_eq!(cluster.faults(&sm), [""; 0]);
        assert_eq!(unset(&cluster), []);
    }
    let [_, sets] = requests(&cluster);
    assert_eq!(sets, 1 + 3, "other devices keep what they hold");
}

#[tokio::test(start_paused = true)]
async fn only_the_master_configures() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let first = Options { sm_priority: 5, ..options(&cluster) };
    let first = cluster.start(ORIGIN, first);
    settle().await;
    let mut other = options(&cluster);
    set(&mut other, "cc_sw_cong_setting_marking_rate", "9");
    let second = cluster.start([2, 2, 0], other);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(second.state(), SmState::Standby);
    assert_eq!(unset(&cluster), []);
    assert!(!status(&second).is_enabled);
    first.kill().await;
    cluster.fabric.reset_counters();
    sleep(Duration::from_secs(90)).await;
    assert_eq!(second.state(), SmState::Master);
    let [_, sets] = requests(&cluster);
    assert_eq!(sets, 9, "only what differs on the switches");
    assert!(status(&second).is_enabled);
}

#[tokio::test(start_paused = true)]
async fn the_window_limits_requests_and_routes_do_not_wait() {
    for (limit, sequential) in [("1", true), ("500", false)] {
        let cluster = SimCluster::healthy("3x3x1", 1);
        let delay = Duration::from_millis(5);
        cluster.fabric.set_delay(delay);
        let mut options = options(&cluster);
        set(&mut options, "cc_max_outstanding_mads", limit);
        let sm = cluster.start(ORIGIN, options);
        let mut subnet = sm.subnet.clone();
        subnet.wait_for(Option::is_some).await.expect("a subnet");
        settle_requests(&sm).await;
        let last = status(&sm).last_round.expect("a round");
        // The SM's own host answers without delay.
        let requests = u32::try_from(last.gets + last.sets - 6).expect("few requests");
        assert_eq!(last.duration >= 2 * delay * requests, sequential, "{last:?}");
        assert_eq!(unset(&cluster), []);
    }
}

/// Waits until a round has ended; the subnet was up when it began.
async fn settle_requests(sm: &Sm) {
    for _ in 0..1000 {
        if status(sm).last_round.is_some() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("no round ended");
}
