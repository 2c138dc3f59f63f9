//! The settings that the options ask for.

use crate::config::options::{self, Options};
use crate::ids::{CcKey, Sl};
use crate::wire::attr::NodeKind;
use crate::wire::congestion::{
    self, CA_ENTRIES, CCT_BLOCK, CaCongestionEntry, CaCongestionSetting, CctEntry, CongestionAttr,
    CongestionControlTable, CongestionData, SwitchCongestionSetting,
};
use crate::wire::mad::{Mad, Method};

/// A setting: the attribute that one Set writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    Switch(SwitchCongestionSetting),
    Adapter(CaCongestionSetting),
    /// A block of the congestion control table, by its number.
    Table(u32, CongestionControlTable),
}

/// Attribute ID and attribute modifier.
pub type SettingId = (u16, u32);

impl Setting {
    pub fn id(&self) -> SettingId {
        match *self {
            Self::Switch(_) => (CongestionAttr::SWITCH_CONGESTION_SETTING, 0),
            Self::Adapter(_) => (CongestionAttr::CA_CONGESTION_SETTING, 0),
            Self::Table(block, _) => (CongestionAttr::CONGESTION_CONTROL_TABLE, block),
        }
    }

    /// A request for the attribute; a Get has no data.
    pub fn request(&self, method: Method, key: CcKey) -> Mad {
        let (attr_id, modifier) = self.id();
        let data: &[u8] = match self {
            _ if method != Method::SET => &[],
            Self::Switch(setting) => &setting.0,
            Self::Adapter(setting) => &setting.0,
            Self::Table(_, block) => &block.0,
        };
        congestion::request(method, attr_id, modifier, key, data)
    }

    /// True if a device that answers a Get with `data` needs no Set: it holds the setting, and shows
    /// the same control map. Whether a device uses its control map other than in a Set is not
    /// defined, so that all get the one that OpenSM writes.
    pub fn is_shown(&self, data: &CongestionData) -> bool {
        let has_map = match self {
            Self::Switch(wanted) => {
                SwitchCongestionSetting::read(data).control_map() == wanted.control_map()
            }
            Self::Adapter(wanted) => {
                CaCongestionSetting::read(data).control_map() == wanted.control_map()
            }
            Self::Table(..) => true,
        };
        has_map && self.is_held(data)
    }

    /// True if a device that shows `data` holds the setting. Components that the control map does
    /// not select may have any value, as the control map itself.
    pub fn is_held(&self, data: &CongestionData) -> bool {
        match self {
            Self::Switch(wanted) => {
                let held = SwitchCongestionSetting::read(data);
                let mut after = held;
                after.update(wanted);
                after.set_control_map(held.control_map());
                after == held
            }
            Self::Adapter(wanted) => {
                let held = CaCongestionSetting::read(data);
                let mut after = held;
                after.update(wanted);
                after.set_control_map(held.control_map());
                after == held
            }
            Self::Table(_, wanted) => {
                let held = CongestionControlTable::read(data);
                held.ccti_limit() == wanted.ccti_limit() && held.entries().eq(wanted.entries())
            }
        }
    }
}

/// The settings of all devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CongestionSettings {
    /// CC_Key of all requests.
    pub key: CcKey,
    /// Limit of requests in flight, at least 1.
    pub max_outstanding: usize,
    switch: [Setting; 1],
    adapter: Vec<Setting>,
}

impl CongestionSettings {
    /// The settings that the options ask for; `None` unless `congestion_control` is TRUE.
    pub fn new(options: &Options) -> Option<Self> {
        if !options.congestion_control {
            return None;
        }
        let adapter = [Setting::Adapter(adapter(options))];
        let table = table(&options.cc_cct.0).into_iter().zip(0..);
        let table = table.map(|(block, number)| Setting::Table(number, block));
        Some(Self {
            key: options.cc_key,
            max_outstanding: options.cc_max_outstanding_mads.max(1) as usize,
            switch: [Setting::Switch(switch(options))],
            adapter: adapter.into_iter().chain(table).collect(),
        })
    }

    /// The settings of an end port, in the order in which they are written. Routers have none.
    pub fn of(&self, kind: NodeKind) -> &[Setting] {
        match kind {
            NodeKind::Switch => &self.switch,
            NodeKind::Ca => &self.adapter,
            NodeKind::Router | NodeKind::Unknown(_) => &[],
        }
    }
}

fn entry(rate: options::InjectionRate) -> CctEntry {
    CctEntry { shift: rate.shift, multiplier: rate.multiplier }
}

fn switch(options: &Options) -> SwitchCongestionSetting {
    let mut setting = SwitchCongestionSetting::default();
    setting.set_control_map(options.cc_sw_cong_setting_control_map);
    setting.set_victim_mask(&options.cc_sw_cong_setting_victim_mask.0);
    setting.set_credit_mask(&options.cc_sw_cong_setting_credit_mask.0);
    setting.set_threshold(options.cc_sw_cong_setting_threshold);
    setting.set_packet_size(options.cc_sw_cong_setting_packet_size);
    setting.set_cs_threshold(options.cc_sw_cong_setting_credit_starvation_threshold);
    let delay = options.cc_sw_cong_setting_credit_starvation_return_delay;
    setting.set_cs_return_delay(entry(delay));
    setting.set_marking_rate(options.cc_sw_cong_setting_marking_rate);
    setting
}

fn adapter(options: &Options) -> CaCongestionSetting {
    let mut setting = CaCongestionSetting::default();
    setting.set_port_control(options.cc_ca_cong_setting_port_control);
    setting.set_control_map(options.cc_ca_cong_setting_control_map);
    for sl in 0..CA_ENTRIES {
        let mut entry = CaCongestionEntry::default();
        entry.set_ccti_timer(options.cc_ca_cong_setting_ccti_timer.0[sl]);
        entry.set_ccti_increase(options.cc_ca_cong_setting_ccti_increase.0[sl]);
        entry.set_trigger_threshold(options.cc_ca_cong_setting_trigger_threshold.0[sl]);
        entry.set_ccti_min(options.cc_ca_cong_setting_ccti_min.0[sl]);
        setting.set_entry(Sl(sl as u8), &entry);
    }
    setting
}

/// The blocks of the table. As in OpenSM there is at least one, and a table with the limit 0 is
/// empty: a single entry would delay all packets.
fn table(entries: &[options::InjectionRate]) -> Vec<CongestionControlTable> {
    let limit = entries.len().saturating_sub(1);
    let entries = if limit == 0 { &[] } else { entries };
    match entries {
        [] => vec![control_table(&[], limit)],
        entries => entries.chunks(CCT_BLOCK).map(|entries| control_table(entries, limit)).collect(),
    }
}

fn control_table(entries: &[options::InjectionRate], limit: usize) -> CongestionControlTable {
    let mut block = CongestionControlTable::default();
    block.set_ccti_limit(u16::try_from(limit).unwrap_or(u16::MAX));
    block.set_entries(entries.iter().copied().map(entry));
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn settings(text: &str) -> CongestionSettings {
        let text = format!("congestion_control TRUE\n{text}");
        let (options, findings) = Options::parse(&text, Path::new("opensm.conf"));
        assert!(findings.is_empty(), "{findings:?}");
        CongestionSettings::new(&options).expect("it is enabled")
    }

    fn blocks(settings: &CongestionSettings) -> Vec<(u16, Vec<CctEntry>)> {
        let blocks = settings.of(NodeKind::Ca)[1..].iter().map(|setting| match setting {
            Setting::Table(_, block) => (block.ccti_limit(), block.entries().collect()),
            other => panic!("{other:?}"),
        });
        blocks.collect()
    }

    #[test]
    fn only_what_is_enabled_is_configured() {
        assert_eq!(CongestionSettings::new(&Options::default()), None);
        let settings = settings("cc_max_outstanding_mads 0\n");
        assert_eq!(settings.max_outstanding, 1);
        assert_eq!(settings.of(NodeKind::Router), []);
        assert_eq!(settings.of(NodeKind::Switch), [Setting::Switch(Default::default())]);
    }

    #[test]
    fn tables_have_blocks_of_64_entries() {
        let empty = vec![(0, vec![CctEntry::default(); 64])];
        assert_eq!(blocks(&settings("")), empty);
        assert_eq!(blocks(&settings("cc_cct 1:5\n")), empty);
        for (count, used) in [(2, &[2][..]), (64, &[64]), (65, &[64, 1]), (128, &[64, 64])] {
            let entries: Vec<String> = (0..count).map(|at| format!("{}:{at}", at % 4)).collect();
            let blocks = blocks(&settings(&format!("cc_cct {}\n", entries.join(","))));
            assert_eq!(blocks.len(), used.len(), "{count}");
            for (number, (limit, entries)) in blocks.iter().enumerate() {
                assert_eq!(*limit, count - 1);
                for (at, entry) in entries.iter().enumerate() {
                    let multiplier = (number * 64 + at) as u16;
                    let wanted = CctEntry { shift: (multiplier % 4) as u8, multiplier };
                    let wanted = if at < used[number] { wanted } else { CctEntry::default() };
                    assert_eq!(*entry, wanted, "{count} {number} {at}");
                }
            }
        }
    }

    #[test]
    fn components_that_are_not_selected_may_have_any_value() {
        let settings = settings(
            "cc_sw_cong_setting_control_map 0x14\ncc_sw_cong_setting_threshold 9\n\
             cc_sw_cong_setting_marking_rate 7\ncc_sw_cong_setting_victim_mask 0xff\n\
             cc_ca_cong_setting_control_map 0x2\ncc_ca_cong_setting_ccti_timer 1 5\n\
             cc_ca_cong_setting_ccti_timer 3 6\n",
        );
        let [switch, ..] = *settings.of(NodeKind::Switch) else { panic!("a setting") };
        let mut held = SwitchCongestionSetting::default();
        held.set_credit_mask(&[0x55; 32]);
        held.set_threshold(9);
        assert!(!switch.is_held(&shows(&held.0)));
        held.set_marking_rate(7);
        assert!(switch.is_held(&shows(&held.0)) && !switch.is_shown(&shows(&held.0)));
        held.set_control_map(0x14);
        assert!(switch.is_shown(&shows(&held.0)));
        let adapter = settings.of(NodeKind::Ca)[0];
        let mut held = CaCongestionSetting::default();
        let mut entry = CaCongestionEntry::default();
        entry.set_ccti_timer(5);
        held.set_entry(Sl(1), &entry);
        assert!(adapter.is_held(&shows(&held.0)) && !adapter.is_shown(&shows(&held.0)));
        held.set_entry(Sl(3), &entry);
        assert!(adapter.is_held(&shows(&held.0)));
        held.set_port_control(1);
        assert!(!adapter.is_held(&shows(&held.0)));
    }

    fn shows(held: &[u8]) -> [u8; 192] {
        let mut data = [0; congestion::DATA_SIZE];
        data[..held.len()].copy_from_slice(held);
        data
    }
}
