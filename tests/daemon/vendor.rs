//! Vendor-specific attributes on simulated devices: who is asked for capabilities, when, and what
//! becomes of devices that do not answer; rate limits of ports.

use crate::smp_trace::trace;
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use testkit::reloadable::ReloadableSm;
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::{Options, VendorAttributes};
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::{Guid, MKey, PortNum, Sl};
use torus_sm::sim::{AttributeFault, VendorProfile};
use torus_sm::vendor::status::{CapabilityAnswer, VendorStatus};
use torus_sm::wire::attr::{AttrId, SmState};
use torus_sm::wire::mad::{Mad, Status};
use torus_sm::wire::vendor::capabilities::Capabilities;
use torus_sm::wire::vendor::qos_config_sl::{QosConfigSl, SLS};

const ORIGIN: [u16; 3] = [0, 0, 0];
/// Longer than all transmissions of a request without an answer.
const UNANSWERED: Duration = Duration::from_secs(2);

fn profile(text: &str) -> VendorProfile {
    text.parse().expect("a profile")
}

fn status(sm: &Sm) -> Arc<VendorStatus> {
    sm.management.as_ref().expect("the sources").live.vendor.load_full()
}

fn requests(cluster: &SimCluster) -> u64 {
    let [gets, sets] = cluster.fabric.requests(AttrId::GENERAL_INFO);
    assert_eq!(sets, 0);
    gets
}

async fn up(cluster: &SimCluster) -> Sm {
    let sm = cluster.start(ORIGIN, cluster.options());
    settle().await;
    assert_eq!(sm.state(), SmState::Master);
    sm
}

fn heavy_sweep(sm: &Sm) {
    sm.tell(SmEvent::Reload);
}

async fn trace_with(vendor_attributes: VendorAttributes) -> Vec<Mad> {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let options = Options { vendor_attributes, ..cluster.options() };
    trace(cluster, options).await
}

#[tokio::test(start_paused = true)]
async fn without_such_devices_all_smps_are_the_same() {
    let with = trace_with(VendorAttributes::Auto).await;
    let without = trace_with(VendorAttributes::Off).await;
    assert!(with.len() > 500, "{} SMPs", with.len());
    assert!(with == without, "{} and {} SMPs", with.len(), without.len());
    assert!(with.iter().all(|mad| mad.header().attr_id() < 0xFF00));
}

#[tokio::test(start_paused = true)]
async fn each_device_is_asked_once_after_the_first_sweep() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let switch = cluster.shape.switch_guid([2, 0, 0]);
    assert!(cluster.fabric.set_vendor_profile(host, Some(profile("mlnx:rate-limit,99"))));
    assert!(cluster.fabric.set_vendor_profile(switch, Some(profile("mlnx"))));
    let sm = up(&cluster).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    let seen = status(&sm);
    assert!(seen.is_enabled && seen.waiting == 0 && seen.gets == 2);
    let announced = Capabilities::NONE.with(Capabilities::RATE_LIMIT).with(99);
    assert_eq!(seen.nodes[&host], CapabilityAnswer::Capabilities(announced));
    assert_eq!(seen.nodes[&switch], CapabilityAnswer::Capabilities(Capabilities::NONE));
    assert_eq!((seen.nodes.len(), requests(&cluster)), (2, 2));
    for _ in 0..3 {
        heavy_sweep(&sm);
        sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(requests(&cluster), 2, "later sweeps ask nothing");
    assert_eq!(status(&sm).nodes, seen.nodes);
}

#[tokio::test(start_paused = true)]
async fn a_device_that_reappears_is_asked_again() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let port = (host, PortNum(1));
    cluster.fabric.set_vendor_profile(host, Some(profile("mlnx")));
    let sm = up(&cluster).await;
    assert_eq!(requests(&cluster), 1);
    assert!(cluster.fabric.unlink(port.0, port.1));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(status(&sm).nodes.len(), 0, "a device that is gone is forgotten");
    // It returns as another device behind the same GUID.
    cluster.fabric.set_vendor_profile(host, Some(profile("mlnx:virtualization")));
    assert!(cluster.fabric.relink(port.0, port.1));
    sleep(Duration::from_secs(5)).await;
    let announced = CapabilityAnswer::Capabilities(Capabilities::NONE.with(15));
    assert_eq!(status(&sm).nodes[&host], announced);
    assert_eq!(requests(&cluster), 2);
    // A restart loses what the device was told, also while it is never missed.
    assert!(cluster.fabric.reboot(host));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(requests(&cluster), 3);
}

#[tokio::test(start_paused = true)]
async fn devices_without_an_answer_have_no_capabilities_and_delay_nothing() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    cluster.fabric.set_vendor_profiles(profile("mlnx:rate-limit"));
    let silent = cluster.shape.host_guid([1, 1, 0], 0);
    let refusing = cluster.shape.host_guid([2, 1, 0], 0);
    let unable = cluster.shape.switch_guid([2, 2, 0]);
    let set =
        |guid: Guid, fault| cluster.fabric.set_attribute_fault(guid, AttrId::GENERAL_INFO, fault);
    assert!(set(silent, Some(AttributeFault::Silent)));
    assert!(set(refusing, Some(AttributeFault::Refused(Status::BAD_FIELD))));
    assert!(set(unable, Some(AttributeFault::Refused(Status::BAD_METHOD_ATTR))));
    let sm = up(&cluster).await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    assert_eq!(sm.generation(), 1, "the subnet is up while a device is silent");
    sleep(UNANSWERED).await;
    let seen = status(&sm);
    assert_eq!(seen.nodes[&silent], CapabilityAnswer::Unanswered);
    assert_eq!(seen.nodes[&refusing], CapabilityAnswer::Refused(Status::BAD_FIELD));
    assert_eq!(seen.nodes[&unable], CapabilityAnswer::Unsupported);
    let answered = seen.nodes.values().filter(|answer| answer.capabilities() != Capabilities::NONE);
    assert_eq!((answered.count(), seen.nodes.len(), seen.waiting), (15, 18, 0));
    for _ in 0..3 {
        heavy_sweep(&sm);
        sleep(Duration::from_secs(20)).await;
    }
    assert_eq!(status(&sm).gets, 18, "no device is asked again");
    // It answers when it is asked after its next restart.
    assert!(set(silent, None));
    assert!(cluster.fabric.reboot(silent));
    sleep(Duration::from_secs(5)).await;
    let announced = Capabilities::NONE.with(Capabilities::RATE_LIMIT);
    assert_eq!(status(&sm).nodes[&silent], CapabilityAnswer::Capabilities(announced));
}

#[tokio::test(start_paused = true)]
async fn a_silent_attribute_is_requested_twice_at_most() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let silent = cluster.shape.host_guid([1, 1, 0], 0);
    cluster.fabric.set_vendor_profile(silent, Some(profile("mlnx")));
    cluster.fabric.set_attribute_fault(silent, AttrId::GENERAL_INFO, Some(AttributeFault::Silent));
    let options = Options { transaction_retries: 5, ..cluster.options() };
    let sm = cluster.start(ORIGIN, options);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(status(&sm).nodes[&silent], CapabilityAnswer::Unanswered);
    assert_eq!(requests(&cluster), 2, "one request and one repetition");
}

#[tokio::test(start_paused = true)]
async fn devices_with_m_keys_are_asked_with_their_keys() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    cluster.fabric.set_vendor_profiles(profile("mlnx:rate-limit"));
    let options = Options { m_key: MKey(0x77), m_key_protection_level: 2, ..cluster.options() };
    let sm = cluster.start(ORIGIN, options);
    sleep(UNANSWERED).await;
    let seen = status(&sm);
    let answered = |answer: &&CapabilityAnswer| matches!(answer, CapabilityAnswer::Capabilities(_));
    assert_eq!(seen.nodes.values().filter(answered).count(), 18);
}

#[tokio::test(start_paused = true)]
async fn a_reload_switches_the_requests_on_and_off() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    cluster.fabric.set_vendor_profiles(profile("mlnx"));
    let options = Options { vendor_attributes: VendorAttributes::Off, ..cluster.options() };
    let sm = ReloadableSm::start(&cluster, ORIGIN, options);
    settle().await;
    assert_eq!(requests(&cluster), 0);
    sm.reload(|options| options.vendor_attributes = VendorAttributes::Auto);
    sleep(UNANSWERED).await;
    assert_eq!((requests(&cluster), status(&sm.sm).nodes.len()), (18, 18));
    sm.reload(|options| options.vendor_attributes = VendorAttributes::Off);
    sleep(UNANSWERED).await;
    let seen = status(&sm.sm);
    assert!(!seen.is_enabled && seen.nodes.is_empty());
    assert_eq!(requests(&cluster), 18);
}

/// Options with this rate limit policy.
fn limited(cluster: &SimCluster, policy: &str) -> Options {
    let path = cluster.file("rates.conf");
    fs::write(&path, policy).expect("a file");
    let enhanced_qos_policy_file = Some(path.display().to_string());
    Options { enhanced_qos_policy_file, ..cluster.options() }
}

/// The rate limits that a host's port has.
fn rates(cluster: &SimCluster, host: Guid) -> [u32; SLS] {
    cluster.fabric.qos_config_sl(host, PortNum(1)).expect("a port").rate_limits()
}

fn rate_requests(cluster: &SimCluster) -> [u64; 2] {
    cluster.fabric.requests(AttrId::QOS_CONFIG_SL)
}

const POLICY: &str = "BW_NAMES\nbw1 = 50\nbw2 = 25\nBW_RULES\ndefault = 1:bw1\n";

#[tokio::test(start_paused = true)]
async fn rate_limits_reach_ports_with_the_capability_by_differences() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    cluster.fabric.set_vendor_profiles(profile("mlnx:rate-limit"));
    let hosts: Vec<Guid> = cluster.hosts().collect();
    cluster.fabric.set_vendor_profile(hosts[8], Some(profile("mlnx")));
    let special = format!("{POLICY}0x{:x} = SL1:bw2, all:bw1\n", hosts[3].0 + 1);
    let sm = ReloadableSm::start(&cluster, ORIGIN, limited(&cluster, &special));
    settle().await;
    assert_eq!(cluster.faults(&sm.sm), [""; 0]);
    let with = |others: u32, sl1: u32| {
        let mut limits = [others; SLS];
        limits[1] = sl1;
        limits
    };
    for (index, &host) in hosts.iter().enumerate() {
        let expected = match index {
            3 => with(50, 25),
            8 => with(0, 0),
            _ => with(0, 50),
        };
        assert_eq!(rates(&cluster, host), expected, "host {index}");
    }
    assert_eq!(rate_requests(&cluster), [8, 8]);
    assert_eq!(status(&sm.sm).rates.configured, 8);
    assert!(cluster.fabric.vendor_sets().iter().all(|set| set.status == Status::OK));
    // Another sweep sends nothing, another file its differences.
    heavy_sweep(&sm.sm);
    sleep(Duration::from_secs(20)).await;
    assert_eq!(rate_requests(&cluster), [8, 8]);
    fs::write(cluster.file("rates.conf"), POLICY).expect("a file");
    sm.reload(|_| ());
    sleep(UNANSWERED).await;
    assert_eq!(rates(&cluster, hosts[3]), with(0, 50));
    assert_eq!(rate_requests(&cluster), [8, 9]);
    // A file with an error keeps the limits, switching off clears them.
    fs::write(cluster.file("rates.conf"), "BW_RULE\n").expect("a file");
    sm.reload(|_| ());
    sleep(UNANSWERED).await;
    assert_eq!((rates(&cluster, hosts[3]), rate_requests(&cluster)), (with(0, 50), [8, 9]));
    sm.reload(|options| options.enhanced_qos_policy_file = Some("null".into()));
    sleep(UNANSWERED).await;
    assert!(hosts.iter().all(|&host| rates(&cluster, host) == [0; SLS]));
    assert_eq!(rate_requests(&cluster), [8, 17]);
    assert_eq!(status(&sm.sm).rates.configured, 0);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_lost_its_limits_gets_them_again() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    cluster.fabric.set_vendor_profiles(profile("mlnx:rate-limit"));
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    let sm = cluster.start(ORIGIN, limited(&cluster, POLICY));
    settle().await;
    assert_eq!(rates(&cluster, host)[1], 50);
    assert!(cluster.fabric.reboot(host));
    assert_eq!(rates(&cluster, host)[1], 0);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(rates(&cluster, host)[1], 50);
    // The bandwidth share of another program stays.
    let mut config = QosConfigSl::default();
    config.0[4] = 0x12;
    cluster.fabric.reboot(host);
    cluster.fabric.change_qos_config_sl(host, PortNum(1), config);
    sleep(Duration::from_secs(5)).await;
    let held = cluster.fabric.qos_config_sl(host, PortNum(1)).expect("a port");
    assert_eq!((held.rate_limit(Sl(1)), held.bandwidth_share(Sl(1))), (50, 0x120));
    drop(sm);
}

#[tokio::test(start_paused = true)]
async fn ports_that_refuse_or_ignore_limits_delay_nothing() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    cluster.fabric.set_vendor_profiles(profile("mlnx:rate-limit"));
    let refusing = cluster.shape.host_guid([1, 1, 0], 0);
    let silent = cluster.shape.host_guid([2, 1, 0], 0);
    let set = |guid, fault| {
        assert!(cluster.fabric.set_attribute_fault(guid, AttrId::QOS_CONFIG_SL, fault));
    };
    set(refusing, Some(AttributeFault::Refused(Status::BAD_FIELD)));
    set(silent, Some(AttributeFault::Silent));
    let sm = cluster.start(ORIGIN, limited(&cluster, POLICY));
    settle().await;
    assert_eq!(cluster.faults(&sm), [""; 0]);
    sleep(UNANSWERED).await;
    let counts = status(&sm).rates;
    assert_eq!((counts.configured, counts.failed), (7, 2));
    // The silent one is asked again with the next change of the subnet, the other one is not.
    set(silent, None);
    set(refusing, None);
    cluster.fabric.reset_counters();
    heavy_sweep(&sm);
    sleep(Duration::from_secs(5)).await;
    assert_eq!((rates(&cluster, silent)[1], rates(&cluster, refusing)[1]), (50, 0));
    assert_eq!(rate_requests(&cluster), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_new_master_with_the_same_policy_reads_once_and_writes_nothing() {
    let cluster = SimCluster::healthy("3x3x1", 1);
    cluster.fabric.set_vendor_profiles(profile("mlnx:rate-limit"));
    let options = limited(&cluster, POLICY);
    let first = cluster.start(ORIGIN, Options { sm_priority: 9, ..options.clone() });
    settle().await;
    let second = cluster.start([2, 2, 0], options);
    sleep(Duration::from_secs(5)).await;
    assert_eq!((first.state(), second.state()), (SmState::Master, SmState::Standby));
    assert_eq!(rate_requests(&cluster), [9, 9]);
    first.kill().await;
    sleep(Duration::from_secs(120)).await;
    assert_eq!(second.state(), SmState::Master);
    assert_eq!(rate_requests(&cluster), [18, 9]);
    assert_eq!(status(&second).rates.configured, 9);
}

/// Without QoS, and without the permission to use vendor-specific attributes, nothing is sent.
#[tokio::test(start_paused = true)]
async fn rate_limits_need_qos_and_vendor_attributes() {
    for is_qos in [false, true] {
        let cluster = SimCluster::healthy("3x3x1", 1);
        cluster.fabric.set_vendor_profiles(profile("mlnx:rate-limit"));
        let mut options = limited(&cluster, POLICY);
        if is_qos {
            options.vendor_attributes = VendorAttributes::Off;
        } else {
            options = Options { qos: false, routing_engine: Some("minhop".into()), ..options };
        }
        let _sm = cluster.start(ORIGIN, options);
        sleep(UNANSWERED).await;
        assert_eq!(rate_requests(&cluster), [0, 0], "qos {is_qos}");
    }
}
