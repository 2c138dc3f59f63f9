use super::*;
use crate::fabric::synthetic::Hardware;
use crate::ids::{CcKey, Guid, PortNum, Sl};
use crate::sim::generate::Shape;
use crate::wire::congestion::{CaCongestionEntry, CctEntry, SwitchControl};

const SWITCH: (Guid, u8) = (Guid(0x20_0000), 7);
const HOST: (Guid, u8) = (Guid(0x1000_0000), 1);
const KEY: CcKey = CcKey(0x77);

/// The devices of a small fabric, and their agents.
struct TestAgents {
    devices: Devices,
    agents: CongestionAgents,
    fault: Option<CongestionFault>,
}

impl TestAgents {
    fn new() -> Self {
        let shape: Shape = "2x1".parse().expect("a shape");
        let devices = Devices::new(&shape.build().expect("it fits"), Hardware::default());
        Self { devices, agents: CongestionAgents::default(), fault: None }
    }

    fn send(&mut self, to: (Guid, u8), mad: &mut Mad) -> GmpAction {
        let slot = self.devices.find(to.0, PortNum(to.1)).expect("a port");
        self.agents.process(&self.devices, slot, self.fault, mad)
    }

    /// Status and response.
    fn ask(
        &mut self,
        to: (Guid, u8),
        with: (Method, CcKey),
        attribute: (u16, u32),
        data: &[u8],
    ) -> (u16, Mad) {
        let (method, key) = with;
        let (attr_id, modifier) = attribute;
        let mut mad = congestion::request(method, attr_id, modifier, key, data);
        assert_eq!(self.send(to, &mut mad), GmpAction::Respond);
        assert_eq!(mad.method(), Method::GET_RESP);
        (mad.header().status(), mad)
    }
}

fn switch_setting() -> SwitchCongestionSetting {
    let mut setting = SwitchCongestionSetting::default();
    setting.set_control_map(SwitchControl::THRESHOLD);
    setting.set_threshold(8);
    setting.set_marking_rate(5);
    setting
}

#[test]
fn settings_are_held_by_device() {
    let mut net = TestAgents::new();
    let set = (Method::SET, CcKey::NONE);
    let get = (Method::GET, CcKey::NONE);
    let attribute = (CongestionAttr::SWITCH_CONGESTION_SETTING, 0);
    let (status, reply) = net.ask(SWITCH, set, attribute, &switch_setting().0);
    let held = SwitchCongestionSetting::read(congestion::data(&reply));
    assert_eq!((status, held.threshold(), held.marking_rate()), (Status::OK, 8, 0));
    // The agent of a switch is the same at all ports.
    let (_, reply) = net.ask((SWITCH.0, 1), get, attribute, &[]);
    assert_eq!(SwitchCongestionSetting::read(congestion::data(&reply)), held);
    let mut ca = CaCongestionSetting::default();
    let mut entry = CaCongestionEntry::default();
    entry.set_ccti_timer(7);
    ca.set_control_map(2);
    ca.set_entry(Sl(1), &entry);
    let attribute = (CongestionAttr::CA_CONGESTION_SETTING, 0);
    assert_eq!(net.ask(HOST, set, attribute, &ca.0).0, Status::OK);
    let slot = net.devices.find(HOST.0, PortNum(1)).expect("a port");
    assert_eq!(net.agents.settings(slot).ca, ca);
    net.agents.reset(slot);
    assert_eq!(net.agents.settings(slot), PortCongestionSettings::default());
    assert_eq!(net.agents.requests[&CongestionAttr::SWITCH_CONGESTION_SETTING], [1, 1]);
}

#[test]
fn all_blocks_of_a_table_have_one_limit() {
    let mut net = TestAgents::new();
    let set = (Method::SET, CcKey::NONE);
    let mut block = CongestionControlTable::default();
    block.set_ccti_limit(100);
    block.set_entries([CctEntry { shift: 1, multiplier: 2 }]);
    let table = CongestionAttr::CONGESTION_CONTROL_TABLE;
    assert_eq!(net.ask(HOST, set, (table, 1), &block.0).0, Status::OK);
    let (_, first) = net.ask(HOST, (Method::GET, CcKey::NONE), (table, 0), &[]);
    let first = CongestionControlTable::read(congestion::data(&first));
    assert_eq!((first.ccti_limit(), first.entries().next()), (100, Some(CctEntry::default())));
    assert_eq!(net.ask(HOST, set, (table, 2), &block.0).0, Status::BAD_FIELD);
    block.set_ccti_limit(128);
    assert_eq!(net.ask(HOST, set, (table, 0), &block.0).0, Status::BAD_FIELD);
}

#[test]
fn sets_need_the_key_of_the_device() {
    let mut net = TestAgents::new();
    let mut key = CongestionKeyInfo::default();
    key.set_cc_key(KEY);
    key.set_protect(true);
    let info = (CongestionAttr::CONGESTION_KEY_INFO, 0);
    assert_eq!(net.ask(SWITCH, (Method::SET, CcKey::NONE), info, &key.0).0, Status::OK);
    let setting = CongestionAttr::SWITCH_CONGESTION_SETTING;
    let mut wrong = congestion::request(Method::SET, setting, 0, CcKey(1), &switch_setting().0);
    assert_eq!(net.send(SWITCH, &mut wrong), GmpAction::Ignore);
    assert_eq!(shown(&info, &mut net, CcKey(1)), (CcKey::NONE, 1));
    assert_eq!(shown(&info, &mut net, KEY), (KEY, 1));
    let set = (Method::SET, KEY);
    assert_eq!(net.ask(SWITCH, set, (setting, 0), &switch_setting().0).0, Status::OK);
}

fn shown(info: &(u16, u32), net: &mut TestAgents, key: CcKey) -> (CcKey, u16) {
    let (_, reply) = net.ask(SWITCH, (Method::GET, key), *info, &[]);
    let info = CongestionKeyInfo::read(congestion::data(&reply));
    (info.cc_key(), info.violations())
}

#[test]
fn requests_that_a_device_does_not_support_get_an_error_status() {
    let get = Method::GET;
    let set = Method::SET;
    let port_setting = CongestionAttr::SWITCH_PORT_CONGESTION_SETTING;
    for (to, method, attr_id, modifier, wanted) in [
        (SWITCH, get, AttrId::CLASS_PORT_INFO, 0, Status::OK),
        (SWITCH, get, CongestionAttr::CONGESTION_INFO, 0, Status::OK),
        (SWITCH, set, CongestionAttr::CONGESTION_INFO, 0, Status::BAD_METHOD_ATTR),
        (SWITCH, get, CongestionAttr::CONGESTION_INFO, 1, Status::BAD_FIELD),
        (SWITCH, get, CongestionAttr::CA_CONGESTION_SETTING, 0, Status::BAD_METHOD_ATTR),
        (SWITCH, get, CongestionAttr::CONGESTION_CONTROL_TABLE, 0, Status::BAD_METHOD_ATTR),
        (SWITCH, set, port_setting, 7, Status::OK),
        (SWITCH, set, port_setting, 8, Status::BAD_FIELD),
        (SWITCH, set, port_setting, 256, Status::BAD_FIELD),
        (SWITCH, Method::SEND, port_setting, 0, Status::BAD_METHOD),
        (HOST, get, CongestionAttr::CONGESTION_LOG, 0, Status::BAD_METHOD_ATTR),
        (HOST, get, CongestionAttr::SWITCH_CONGESTION_SETTING, 0, Status::BAD_METHOD_ATTR),
        (HOST, get, CongestionAttr::CONGESTION_CONTROL_TABLE, u32::MAX, Status::BAD_FIELD),
    ] {
        let (status, _) =
            TestAgents::new().ask(to, (method, CcKey::NONE), (attr_id, modifier), &[]);
        assert_eq!(status, wanted, "{to:?} {method} 0x{attr_id:04x} {modifier}");
    }
    let mut old = congestion::request(get, CongestionAttr::CONGESTION_INFO, 0, CcKey::NONE, &[]);
    old.0[2] = 1;
    assert_eq!(TestAgents::new().send(SWITCH, &mut old), GmpAction::Respond);
    assert_eq!(old.header().status(), Status::BAD_VERSION);
}

#[test]
fn faults_of_an_agent() {
    let mut net = TestAgents::new();
    let attribute = (CongestionAttr::SWITCH_CONGESTION_SETTING, 0);
    net.fault = Some(CongestionFault::Refuses(0x1C));
    let set = (Method::SET, CcKey::NONE);
    assert_eq!(net.ask(SWITCH, set, attribute, &switch_setting().0).0, 0x1C);
    let slot = net.devices.find(SWITCH.0, PortNum(0)).expect("a port");
    assert_eq!(net.agents.settings(slot), PortCongestionSettings::default());
    assert_eq!(net.ask(SWITCH, (Method::GET, CcKey::NONE), attribute, &[]).0, Status::OK);
    for (fault, action) in [
        (CongestionFault::Silent, GmpAction::Ignore),
        (CongestionFault::Unsupported, GmpAction::NotSupported),
    ] {
        net.fault = Some(fault);
        let mut mad = congestion::request(Method::GET, attribute.0, 0, CcKey::NONE, &[]);
        assert_eq!(net.send(SWITCH, &mut mad), action);
    }
}
