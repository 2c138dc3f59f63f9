//! Attributes of congestion control, and answers to its requests.

use std::path::Path;
use torus_sm::config::options::Options;
use torus_sm::congestion::devices::{CongestionDevices, DeviceProgress, SeenDevice};
use torus_sm::congestion::settings::CongestionSettings;
use torus_sm::ids::{Guid, Sl};
use torus_sm::wire::attr::NodeKind;
use torus_sm::wire::congestion::{
    self, CaCongestionSetting, CongestionControlTable, CongestionInfo, CongestionKeyInfo,
    SwitchCongestionSetting, SwitchPortCongestionSetting,
};
use torus_sm::wire::mad::{MAD_SIZE, Mad};

/// MADs of class 0x21, read as every attribute. What a device accepts is what it then holds: a
/// second Set changes nothing, and the components that were not selected stay.
pub fn congestion(data: &[u8]) {
    answers(data);
    let mut switch = SwitchCongestionSetting::default();
    let mut adapter = CaCongestionSetting::default();
    for chunk in data.chunks(MAD_SIZE).take(64) {
        let mad = Mad::read(chunk);
        let attribute = congestion::data(&mad);
        switch_setting(&mut switch, &SwitchCongestionSetting::read(attribute));
        adapter_setting(&mut adapter, &CaCongestionSetting::read(attribute));
        table(attribute);
        let ports = SwitchPortCongestionSetting::read(attribute);
        assert_eq!(ports.0[..], attribute[..SwitchPortCongestionSetting::SIZE]);
        let info = CongestionInfo::read(attribute);
        let key = CongestionKeyInfo::read(attribute);
        let shown = format!("{info:?} {key:?} {:?}", congestion::cc_key(&mad));
        assert!(shown.contains("CcKey("), "{shown}");
        let mut sent = mad;
        congestion::set_data(&mut sent, attribute);
        assert_eq!(sent, mad);
    }
}

/// The MADs as answers of devices: each device is done, or has failed, after few requests.
fn answers(data: &[u8]) {
    let text = "congestion_control TRUE\ncc_sw_cong_setting_control_map 0x10\n\
                cc_sw_cong_setting_marking_rate 9\ncc_ca_cong_setting_control_map 1\n\
                cc_cct 0:0,1:5\n";
    let (options, _) = Options::parse(text, Path::new("opensm.conf"));
    let settings = CongestionSettings::new(&options).expect("it is enabled");
    let now = tokio::time::Instant::now();
    let mut devices = CongestionDevices::default();
    let kinds = [NodeKind::Switch, NodeKind::Ca];
    let seen = kinds.iter().zip(1..).map(|(&kind, guid)| SeenDevice {
        port_guid: Guid(guid),
        kind,
        restarted: 0,
    });
    devices.observe(settings, 1, seen);
    for guid in [Guid(1), Guid(2)] {
        let mut answers = data.chunks(MAD_SIZE).map(Mad::read);
        let mut requests = 0;
        while devices.request(guid).is_some() {
            requests += 1;
            assert!(requests <= 2 * 2, "a Get and a Set of each attribute");
            let progress = devices.answered(guid, answers.next().as_ref(), now);
            if !matches!(progress, Some(DeviceProgress::More)) {
                break;
            }
        }
    }
    let counts = devices.counts();
    assert_eq!(counts.configured + counts.unsupported + counts.failed, counts.all);
}

fn switch_setting(held: &mut SwitchCongestionSetting, wanted: &SwitchCongestionSetting) {
    let before = *held;
    held.update(wanted);
    let after = *held;
    held.update(wanted);
    assert_eq!(*held, after);
    let mut back = after;
    back.update(&before);
    if wanted.control_map() & !before.control_map() == 0 {
        assert_eq!(back, before, "only selected components change");
    }
}

fn adapter_setting(held: &mut CaCongestionSetting, wanted: &CaCongestionSetting) {
    let before = *held;
    held.update(wanted);
    for sl in (0..16).map(Sl) {
        let is_selected = wanted.control_map() & 1 << sl.0 != 0;
        let source = if is_selected { wanted } else { &before };
        assert_eq!(held.entry(sl), source.entry(sl));
    }
}

fn table(attribute: &[u8]) {
    let block = CongestionControlTable::read(attribute);
    let mut copy = CongestionControlTable(block.0);
    copy.set_entries(block.entries());
    assert_eq!(copy, block);
    assert!(block.entries().all(|entry| entry.shift < 4 && entry.multiplier < 0x4000));
}
