//! Vendor-specific attributes on simulated devices: who is asked for capabilities, when, and what
//! becomes of devices that do not answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::reloadable::ReloadableSm;
use testkit::tamper::Tampering;
use testkit::{SimCluster, Sm, settle};
use tokio::time::sleep;
use torus_sm::config::options::{Options, VendorAttributes};
use torus_sm::daemon::messages::SmEvent;
use torus_sm::ids::{Guid, MKey, PortNum};
use torus_sm::sim::{AttributeFault, VendorProfile};
use torus_sm::vendor::status::{CapabilityAnswer, VendorStatus};
use torus_sm::wire::attr::{AttrId, SmState};
use torus_sm::wire::mad::{Mad, Status};
use torus_sm::wire::vendor::capabilities::Capabilities;

const ORIGIN: [u16; 3] = [0, 0, 0];
/// Longer than all transmissions of a request without an answer.
const UNANSWERED: Duration = Duration::from_secs(2);

fn profile(text: &str) -> VendorProfile {
    text.parse().expect("a profile")
}

fn status(sm: &Sm) -> Arc<VendorStatus> {
    sm.management.as_ref().expect("the sources").vendor.load_full()
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

/// All SMPs of a cold start and of a repair, in order, without transaction IDs.
async fn trace(vendor_attributes: VendorAttributes) -> Vec<Mad> {
    let cluster = SimCluster::healthy("3x3x1", 1);
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (log, tampering) = (sent.clone(), Tampering::default());
    tampering.set(move |mad| {
        let mut copy = *mad;
        copy.0[8..16].fill(0);
        log.lock().expect("no panic").push(copy);
    });
    let options = Options { vendor_attributes, ..cluster.options() };
    let same = options.clone();
    let reload = Box::new(move || Ok(same.clone().into()));
    let sm = cluster.start_behind(ORIGIN, options, reload, |port| tampering.wrap(port));
    settle().await;
    assert_eq!(sm.state(), SmState::Master);
    let host = cluster.shape.host_guid([1, 1, 0], 0);
    assert!(cluster.fabric.reboot(host));
    sleep(Duration::from_secs(30)).await;
    sm.stop().await;
    let trace = sent.lock().expect("no panic").clone();
    trace
}

#[tokio::test(start_paused = true)]
async fn without_such_devices_all_smps_are_the_same() {
    let with = trace(VendorAttributes::Auto).await;
    let without = trace(VendorAttributes::Off).await;
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
