//! Layouts, compared with the tables of annex A10, and round trips.

use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits"))
        .collect()
}

#[test]
fn a_request_has_its_key_at_byte_24_and_its_data_at_byte_64() {
    let key = CcKey(0x0102_0304_0506_0708);
    let attribute = CongestionAttr::CA_CONGESTION_SETTING;
    let mad = request(Method::SET, attribute, 0x0A0B_0C0D, key, &[0xEE; 3]);
    let head = hex("01 21 02 02 0000 0000 0000000000000000 0016 0000 0a0b0c0d 0102030405060708");
    assert_eq!(mad.0[..32], head);
    assert_eq!(mad.0[32..64], [0; 32]);
    assert_eq!(mad.0[64..68], [0xEE, 0xEE, 0xEE, 0]);
    assert_eq!((cc_key(&mad), data(&mad)[..4].to_vec()), (key, vec![0xEE, 0xEE, 0xEE, 0]));
    let longer = request(Method::GET, attribute, 0, CcKey::NONE, &[0x11; 300]);
    assert_eq!(data(&longer), &[0x11; DATA_SIZE]);
}

#[test]
fn layout_of_the_switch_setting() {
    let mut setting = SwitchCongestionSetting::default();
    setting.set_control_map(SwitchControl::ALL);
    let mut victims = [0; 32];
    (victims[0], victims[31]) = (0x40, 0x1E);
    setting.set_victim_mask(&victims);
    setting.set_credit_mask(&[0xA5; 32]);
    setting.set_threshold(0xF);
    setting.set_packet_size(9);
    setting.set_cs_threshold(7);
    setting.set_cs_return_delay(CctEntry { shift: 2, multiplier: 0x1234 });
    setting.set_marking_rate(0xBEEF);
    let mut expected = hex("0000001f 40");
    expected.extend([0; 30]);
    expected.push(0x1E);
    expected.extend([0xA5; 32]);
    expected.extend(hex("f0 09 7000 9234 beef"));
    assert_eq!(setting.0.to_vec(), expected);
    assert_eq!((setting.victim_mask(), setting.credit_mask()), (victims, [0xA5; 32]));
}

#[test]
fn layout_of_the_adapter_setting() {
    let mut setting = CaCongestionSetting::default();
    setting.set_port_control(1);
    setting.set_control_map(0x8001);
    let mut entry = CaCongestionEntry::default();
    entry.set_ccti_timer(0x0102);
    entry.set_ccti_increase(3);
    entry.set_trigger_threshold(4);
    entry.set_ccti_min(5);
    setting.set_entry(Sl(0), &entry);
    setting.set_entry(Sl(15), &entry);
    let entry = hex("0102 03 04 05 00 0000");
    assert_eq!(setting.0[..4], hex("0001 8001"));
    assert_eq!(setting.0[4..12], entry);
    assert_eq!(setting.0[12..124], [0; 112]);
    assert_eq!(setting.0[124..], entry);
    assert_eq!(setting.entry(Sl(15)).ccti_min(), 5);
}

#[test]
fn layout_of_the_congestion_control_table() {
    let mut block = CongestionControlTable::default();
    block.set_ccti_limit(127);
    block.set_entries((0..70).map(entry));
    assert_eq!(block.0[..8], hex("007f 0000 c000 c001"));
    assert_eq!(block.0[130..], hex("c03f"));
    assert_eq!(block.entries().collect::<Vec<_>>(), (0..64).map(entry).collect::<Vec<_>>());
    block.set_entries([entry(9)]);
    assert_eq!(block.0[4..8], hex("c009 0000"));
}

fn entry(multiplier: u16) -> CctEntry {
    CctEntry { shift: 3, multiplier }
}

#[test]
fn layout_of_the_other_attributes() {
    let mut info = CongestionInfo::default();
    info.set_capabilities(CongestionInfo::CREDIT_STARVATION);
    info.set_control_table_cap(2);
    assert_eq!(info.0.to_vec(), hex("0001 02 00"));
    let mut key = CongestionKeyInfo::default();
    key.set_cc_key(CcKey(0x0102_0304_0506_0708));
    key.set_protect(true);
    key.set_lease_period(0x1122);
    key.set_violations(0x3344);
    assert_eq!(key.0.to_vec(), hex("0102030405060708 8000 1122 3344 0000"));
}

#[test]
fn a_set_changes_what_its_control_map_selects() {
    let full = SwitchCongestionSetting([0xFF; 76]);
    for (bit, range) in [(0, 4..36), (1, 36..68), (2, 68..70), (3, 70..74), (4, 74..76)] {
        let mut request = full;
        request.set_control_map(1 << bit);
        let mut held = SwitchCongestionSetting::default();
        held.update(&request);
        assert_eq!(held.control_map(), 1 << bit);
        for at in 4..76 {
            // The reserved bits after the thresholds stay 0.
            let expected = match at {
                68 | 70 if range.contains(&at) => 0xF0,
                71 => 0,
                _ if range.contains(&at) => 0xFF,
                _ => 0,
            };
            assert_eq!(held.0[at], expected, "bit {bit}, byte {at}");
        }
    }
    let mut held = CaCongestionSetting::default();
    let mut request = CaCongestionSetting([0xFF; 132]);
    request.set_control_map(0x0005);
    held.update(&request);
    let changed: Vec<u8> =
        (0..16).filter(|&sl| held.entry(Sl(sl)) != CaCongestionEntry::default()).collect();
    assert_eq!(changed, [0, 2]);
    assert_eq!((held.port_control(), held.control_map()), (0xFFFF, 5));
}

proptest! {
    #[test]
    fn switch_settings_are_read_as_written(
        words in any::<(u32, u16, u16)>(),
        bytes in any::<(u8, u8, u8)>(),
        masks in any::<([u8; 32], [u8; 32])>(),
    ) {
        let delay = CctEntry { shift: bytes.2 & 3, multiplier: words.2 & 0x3FFF };
        let mut setting = SwitchCongestionSetting::default();
        setting.set_control_map(words.0);
        setting.set_victim_mask(&masks.0);
        setting.set_credit_mask(&masks.1);
        setting.set_threshold(bytes.0 & 0xF);
        setting.set_packet_size(bytes.1);
        setting.set_cs_threshold(bytes.2 & 0xF);
        setting.set_cs_return_delay(delay);
        setting.set_marking_rate(words.1);
        let back = SwitchCongestionSetting::read(&setting.0);
        prop_assert_eq!(back.control_map(), words.0);
        prop_assert_eq!((back.victim_mask(), back.credit_mask()), masks);
        prop_assert_eq!((back.threshold(), back.packet_size()), (bytes.0 & 0xF, bytes.1));
        prop_assert_eq!((back.cs_threshold(), back.cs_return_delay()), (bytes.2 & 0xF, delay));
        prop_assert_eq!(back.marking_rate(), words.1);
    }

    #[test]
    fn tables_are_read_as_written(
        limit: u16, raw in prop::collection::vec((0..4u8, 0..0x4000u16), 64)
    ) {
        let entries: Vec<CctEntry> =
            raw.iter().map(|&(shift, multiplier)| CctEntry { shift, multiplier }).collect();
        let mut block = CongestionControlTable::default();
        block.set_ccti_limit(limit);
        block.set_entries(entries.iter().copied());
        let back = CongestionControlTable::read(&block.0);
        prop_assert_eq!(back.ccti_limit(), limit);
        prop_assert_eq!(back.entries().collect::<Vec<_>>(), entries);
    }
}
