use super::*;
use crate::config::options::Options;
use crate::wire::congestion::{CongestionAttr, cc_key};
use std::path::Path;

const SWITCH: Guid = Guid(1);
const HOST: Guid = Guid(2);

fn settings(text: &str) -> CongestionSettings {
    let text = format!("congestion_control TRUE\n{text}");
    let (options, findings) = Options::parse(&text, Path::new("opensm.conf"));
    assert!(findings.is_empty(), "{findings:?}");
    CongestionSettings::new(&options).expect("it is enabled")
}

/// Settings of a switch and of an adapter with two blocks.
fn usual() -> CongestionSettings {
    let table = vec!["1:2"; 70].join(",");
    settings(&format!(
        "cc_key 0x77\ncc_sw_cong_setting_control_map 0x10\n\
         cc_sw_cong_setting_marking_rate 9\ncc_ca_cong_setting_control_map 1\n\
         cc_ca_cong_setting_ccti_timer 0 5\ncc_cct {table}\n"
    ))
}

fn seen(restarted: u64) -> [SeenDevice; 2] {
    [device(SWITCH, NodeKind::Switch, restarted), device(HOST, NodeKind::Ca, restarted)]
}

fn device(port_guid: Guid, kind: NodeKind, restarted: u64) -> SeenDevice {
    SeenDevice { port_guid, kind, restarted }
}

/// The devices of one subnet.
fn observed() -> CongestionDevices {
    let mut devices = CongestionDevices::default();
    devices.observe(usual(), 1, seen(1).into_iter());
    devices
}

/// The answer of a device that holds `data`.
fn answer(request: &Mad, status: u16, data: &[u8]) -> Mad {
    let mut mad = *request;
    let mut header = mad.header();
    header.set_method(Method::GET_RESP.0);
    header.set_status(status);
    mad.set_header(&header);
    congestion::set_data(&mut mad, data);
    mad
}

/// Method, attribute and modifier of a request.
fn shape(mad: &Mad) -> (Method, u16, u32) {
    (mad.method(), mad.header().attr_id(), mad.header().attr_mod())
}

/// Lets a device with factory settings acknowledge everything; returns its requests.
fn configure(devices: &mut CongestionDevices, guid: Guid, now: Instant) -> Vec<(Method, u16, u32)> {
    let mut sent = Vec::new();
    while let Some(request) = devices.request(guid) {
        assert_eq!(cc_key(&request), crate::ids::CcKey(0x77));
        sent.push(shape(&request));
        let data = *congestion::data(&request);
        devices.answered(guid, Some(&answer(&request, Status::OK, &data)), now);
    }
    sent
}

#[tokio::test(start_paused = true)]
async fn settings_are_read_once_and_written_if_they_differ() {
    let mut devices = observed();
    let now = Instant::now();
    assert_eq!(devices.due(now), [SWITCH, HOST]);
    let get = Method::GET;
    let set = Method::SET;
    let ca = CongestionAttr::CA_CONGESTION_SETTING;
    let table = CongestionAttr::CONGESTION_CONTROL_TABLE;
    let expected = [
        (get, ca, 0),
        (set, ca, 0),
        (get, table, 0),
        (set, table, 0),
        (get, table, 1),
        (set, table, 1),
    ];
    assert_eq!(configure(&mut devices, HOST, now), expected);
    assert_eq!(configure(&mut devices, SWITCH, now).len(), 2);
    assert!(devices.due(now).is_empty());
    assert_eq!(devices.counts().configured, 2);
    devices.observe(usual(), 2, seen(1).into_iter());
    assert!(devices.due(now).is_empty(), "the next subnet has the same devices");
    devices.clear();
    devices.observe(usual(), 3, seen(3).into_iter());
    let request = devices.request(SWITCH).expect("a request");
    let shown = answer(&request, Status::OK, &[0; 76]);
    assert_eq!(devices.answered(SWITCH, Some(&shown), now), Some(DeviceProgress::More));
    let held = devices.request(SWITCH).expect("a Set");
    devices.clear();
    devices.observe(usual(), 4, seen(4).into_iter());
    let request = devices.request(SWITCH).expect("a Get");
    let shown = answer(&request, Status::OK, congestion::data(&held));
    assert_eq!(devices.answered(SWITCH, Some(&shown), now), Some(DeviceProgress::Done(false)));
}

#[tokio::test(start_paused = true)]
async fn only_restarted_and_new_devices_are_read_again() {
    let mut devices = observed();
    let now = Instant::now();
    for guid in [SWITCH, HOST] {
        configure(&mut devices, guid, now);
    }
    let [switch, host] = seen(1);
    devices.observe(usual(), 5, [switch, SeenDevice { restarted: 5, ..host }].into_iter());
    assert_eq!(devices.due(now), [HOST]);
    configure(&mut devices, HOST, now);
    devices.observe(usual(), 6, [switch, SeenDevice { restarted: 5, ..host }].into_iter());
    assert!(devices.due(now).is_empty(), "the restart of subnet 5 is handled");
    devices.observe(usual(), 7, [host].into_iter());
    devices.observe(usual(), 8, seen(1).into_iter());
    assert_eq!(devices.due(now), [SWITCH], "it was gone");
}

#[tokio::test(start_paused = true)]
async fn changed_settings_are_written_without_reading() {
    let mut devices = observed();
    let now = Instant::now();
    for guid in [SWITCH, HOST] {
        configure(&mut devices, guid, now);
    }
    let changed =
        settings("cc_sw_cong_setting_control_map 0x10\ncc_sw_cong_setting_marking_rate 3\n");
    devices.observe(changed, 2, seen(1).into_iter());
    let request = devices.request(SWITCH).expect("a request");
    let attribute = CongestionAttr::SWITCH_CONGESTION_SETTING;
    assert_eq!(shape(&request), (Method::SET, attribute, 0));
    // The round ends before the answer: the Set may have arrived.
    devices.abandoned(SWITCH);
    devices.observe(usual(), 3, seen(1).into_iter());
    let request = devices.request(SWITCH).expect("a request");
    assert_eq!(shape(&request), (Method::GET, attribute, 0));
}

#[tokio::test(start_paused = true)]
async fn failed_devices_are_named_once_and_tried_less_and_less() {
    let mut devices = observed();
    let start = Instant::now();
    configure(&mut devices, HOST, start);
    let mut now = start;
    let mut delays = Vec::new();
    for attempt in 0..9 {
        assert_eq!(devices.due(now), [SWITCH]);
        let progress = devices.answered(SWITCH, None, now);
        let failed = DeviceProgress::Failed(FailureReason::Unanswered, attempt == 0);
        assert_eq!(progress, Some(failed));
        assert!(devices.due(now).is_empty());
        let next = devices.next_retry().expect("a retry");
        delays.push((next - now).as_secs());
        now = next;
    }
    assert_eq!(delays, [30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
    assert_eq!((devices.counts().failed, devices.counts().configured), (1, 1));
    let request = devices.request(SWITCH).expect("a request");
    let shown = answer(&request, Status::OK, &[0; 76]);
    assert!(matches!(devices.answered(SWITCH, Some(&shown), now), Some(DeviceProgress::More)));
    let request = devices.request(SWITCH).expect("a request");
    let data = *congestion::data(&request);
    let taken = answer(&request, Status::OK, &data);
    assert_eq!(devices.answered(SWITCH, Some(&taken), now), Some(DeviceProgress::Done(true)));
    assert_eq!(devices.next_retry(), None);
    assert_eq!(devices.answered(SWITCH, None, now), None);
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_apart() {
    let now = Instant::now();
    for (status, expected) in [
        (Status::BAD_VERSION, FailureReason::Unsupported),
        (Status::BAD_METHOD, FailureReason::Unsupported),
        (Status::BAD_METHOD_ATTR, FailureReason::Unsupported),
        (Status::BAD_FIELD, FailureReason::Refused(Status::BAD_FIELD)),
        (Status::BUSY, FailureReason::Refused(Status::BUSY)),
        (0x0100, FailureReason::Refused(0x0100)),
    ] {
        let mut devices = observed();
        let request = devices.request(SWITCH).expect("a request");
        let refusal = answer(&request, status, &[]);
        let progress = devices.answered(SWITCH, Some(&refusal), now);
        assert_eq!(progress, Some(DeviceProgress::Failed(expected, true)), "0x{status:04x}");
        let counts = devices.counts();
        let is_unsupported = expected == FailureReason::Unsupported;
        assert_eq!(
            (counts.unsupported, counts.failed),
            (is_unsupported.into(), (!is_unsupported).into())
        );
    }
    let mut devices = observed();
    let request = devices.request(SWITCH).expect("a Get");
    devices.answered(SWITCH, Some(&answer(&request, Status::OK, &[0; 76])), now);
    let request = devices.request(SWITCH).expect("a Set");
    let altered = devices.answered(SWITCH, Some(&answer(&request, Status::OK, &[0; 76])), now);
    assert_eq!(altered, Some(DeviceProgress::Failed(FailureReason::Altered, true)));
}

#[tokio::test(start_paused = true)]
async fn new_settings_end_the_delay_of_failed_devices() {
    let mut devices = observed();
    let now = Instant::now();
    devices.answered(SWITCH, None, now);
    configure(&mut devices, HOST, now);
    devices.observe(usual(), 2, seen(1).into_iter());
    assert!(devices.due(now).is_empty());
    devices.observe(settings("cc_key 5\n"), 3, seen(1).into_iter());
    assert_eq!(devices.due(now), [SWITCH, HOST]);
}
