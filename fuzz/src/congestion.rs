//! Attributes of congestion control.

use torus_sm::ids::{PortNum, Sl};
use torus_sm::wire::congestion::{
    self, CaCongestionSetting, CongestionControlTable, CongestionInfo, CongestionKeyInfo,
    SwitchCongestionSetting, SwitchPortCongestionSetting,
};
use torus_sm::wire::mad::{MAD_SIZE, Mad};

/// MADs of class 0x21, read as every attribute. What a device accepts is what it then holds: a
/// second Set changes nothing, and the components that were not selected stay.
pub fn congestion(data: &[u8]) {
    let mut switch = SwitchCongestionSetting::default();
    let mut adapter = CaCongestionSetting::default();
    for chunk in data.chunks(MAD_SIZE).take(64) {
        let mad = Mad::read(chunk);
        let attribute = congestion::data(&mad);
        switch_setting(&mut switch, &SwitchCongestionSetting::read(attribute));
        adapter_setting(&mut adapter, &CaCongestionSetting::read(attribute));
        table(attribute);
        let ports = SwitchPortCongestionSetting::read(attribute);
        let mut copy = SwitchPortCongestionSetting::default();
        for port in (0..=u8::MAX).map(PortNum) {
            copy.set_element(port, &ports.element(port));
        }
        assert_eq!(copy, ports);
        let (info, key) = (CongestionInfo::read(attribute), CongestionKeyInfo::read(attribute));
        let shown = format!("{info:?} {key:?} {:?}", congestion::cc_key(&mad));
        assert!(shown.contains("CcKey("), "{shown}");
        let mut sent = mad;
        congestion::set_data(&mut sent, attribute);
        assert_eq!(sent, mad);
    }
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
