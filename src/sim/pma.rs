//! Performance management agent: Get and Set of port counters (IBA vol. 1, 16.1.3).

use super::counters::PerfCounters;
use super::devices::Devices;
use super::sma::AgentAction;
use crate::ids::PortNum;
use crate::wire::attr::AttrId;
use crate::wire::mad::{Mad, Method, Status};
use crate::wire::perf::{ALL_PORTS, CLASS_VERSION, CounterAttribute, PerfCap, PerfData};
use crate::wire::record::ClassPortInfo;

/// RespTimeValue of real channel adapters: 4.096 us * 2^18 = 1.07 s.
const RESPONSE_TIME: u8 = 18;

/// Processes the request `mad`, received through the port `entry`, and replaces it with the
/// response.
pub(super) fn process(
    devices: &Devices,
    counters: &mut PerfCounters,
    entry: u32,
    mad: &mut Mad,
) -> AgentAction {
    let method = mad.method();
    if method.is_response() || method == Method::TRAP_REPRESS || method == Method::TRAP {
        return AgentAction::Drop;
    }
    let result = attribute(devices, counters, entry, mad);
    let mut header = mad.header();
    header.set_method(Method::GET_RESP.0);
    header.set_status(result.err().unwrap_or(Status::OK));
    mad.set_header(&header);
    if let Ok(data) = result {
        data.write(mad);
    }
    AgentAction::Respond
}

/// Attribute data of the response, or an error status.
fn attribute(
    devices: &Devices,
    counters: &mut PerfCounters,
    entry: u32,
    mad: &Mad,
) -> Result<PerfData, u16> {
    let header = mad.header();
    let method = mad.method();
    if header.base_version() != 1 || header.class_version() != CLASS_VERSION {
        return Err(Status::BAD_VERSION);
    }
    if method != Method::GET && method != Method::SET {
        return Err(Status::BAD_METHOD);
    }
    let is_set = method == Method::SET;
    match CounterAttribute::by_id(header.attr_id()) {
        Some(_) if header.attr_mod() != 0 => Err(Status::BAD_FIELD),
        Some(group) => read_counters(devices, counters, entry, group, is_set, PerfData::of(mad)),
        None if header.attr_id() == AttrId::CLASS_PORT_INFO && !is_set => {
            let mut data = PerfData::default();
            class_port_info(devices.is_switch_slot(entry)).write(&mut data.0);
            Ok(data)
        }
        None => Err(Status::BAD_METHOD_ATTR),
    }
}

pub(super) fn class_port_info(is_switch: bool) -> ClassPortInfo {
    let mut info = ClassPortInfo::default();
    info.set_base_version(1);
    info.set_class_version(CLASS_VERSION);
    let all_ports = if is_switch { PerfCap::ALL_PORT_SELECT } else { 0 };
    info.set_capability_mask(PerfCap::EXTENDED_WIDTH | PerfCap::XMIT_WAIT | all_ports);
    info.set_resp_time_value(RESPONSE_TIME);
    info
}

/// Reads the counters of a port or, with PortSelect 255 on a switch, the sums over all ports. A Set
/// clears the selected counters first.
fn read_counters(
    devices: &Devices,
    counters: &mut PerfCounters,
    entry: u32,
    group: &CounterAttribute,
    is_set: bool,
    wanted: PerfData,
) -> Result<PerfData, u16> {
    let slots = selected(devices, entry, wanted.port_select()).ok_or(Status::BAD_FIELD)?;
    let selection = group.selection(&wanted);
    let mut data = PerfData::default();
    data.set_port_select(wanted.port_select());
    group.select(&mut data, selection);
    for slot in slots {
        if is_set {
            counters.clear(slot, group, selection);
        }
        for counter in group.counters {
            let sum = data.counter(counter).saturating_add(counters.value(slot, group, counter));
            data.set_counter(counter, sum);
        }
    }
    Ok(data)
}

/// Slots that PortSelect selects: on a channel adapter only the receiving port, on a switch any
/// port or all.
fn selected(devices: &Devices, entry: u32, num: PortNum) -> Option<std::ops::RangeInclusive<u32>> {
    let port = devices.port(entry);
    if !devices.is_switch(port.node) {
        return (port.num == num).then_some(entry..=entry);
    }
    if num == ALL_PORTS {
        return Some(devices.slots_of(port.node));
    }
    devices.slot(port.node, num).map(|slot| slot..=slot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::synthetic::Hardware;
    use crate::ids::{Guid, Lid, MKey};
    use crate::sim::generate::Shape;
    use crate::sim::net::Net;
    use crate::sim::packet::Packet;
    use crate::transport::Address;
    use crate::wire::perf::{self, PerfAttr};
    use crate::wire::smp::{self, DirectedRoute, SmpRoute};

    const SW0: Guid = Guid(0x20_0000);
    const HOST0: Guid = Guid(0x1000_0000);
    const COUNTERS: u16 = PerfAttr::PORT_COUNTERS;

    /// Two switches, connected by port 1 of one and port 2 of the other, with a host each at port
    /// 7.
    fn net() -> Net {
        let shape: Shape = "2x1".parse().expect("a shape");
        let topology = shape.build().expect("it fits");
        Net::new(Devices::new(&topology, Hardware::default()), 1)
    }

    fn slot(net: &Net, guid: Guid, num: u8) -> u32 {
        net.devices.find(guid, PortNum(num)).expect("a port")
    }

    /// Status and data of the response of a switch or host.
    fn ask(
        net: &mut Net,
        at: (Guid, u8),
        method: Method,
        attr_id: u16,
        port: u8,
        selection: u32,
    ) -> (u16, PerfData) {
        let entry = slot(net, at.0, at.1);
        let mut data = PerfData::default();
        data.set_port_select(PortNum(port));
        if let Some(group) = CounterAttribute::by_id(attr_id) {
            group.select(&mut data, selection);
        }
        let mut mad = perf::request(method, attr_id, 1, &data);
        assert_eq!(process(&net.devices, &mut net.counters, entry, &mut mad), AgentAction::Respond);
        (mad.header().status(), PerfData::of(&mad))
    }

    fn value(net: &mut Net, port: u8, name: &str) -> u64 {
        let (status, data) = ask(net, (SW0, 7), Method::GET, COUNTERS, port, 0);
        assert_eq!(status, Status::OK);
        let group = CounterAttribute::by_id(COUNTERS).expect("a group");
        let counter = group.counters.iter().find(|counter| counter.name == name);
        data.counter(counter.expect("a counter"))
    }

    /// Sends a Get from host 0 to the second switch, which responds.
    fn send(net: &mut Net) {
        let route = DirectedRoute::new(&[PortNum(1); 2]).expect("few hops");
        let route = SmpRoute::Directed(route);
        let mad = smp::request(
            &route,
            smp::SmpFields {
                method: Method::GET,
                attr_id: AttrId::NODE_INFO,
                attr_mod: 0,
                m_key: MKey::NONE,
                tid: 1,
            },
            &[0; 64],
        );
        let from = slot(net, HOST0, 1);
        net.transmit(Packet { from, to: Address::smi(Lid::PERMISSIVE), mad });
    }

    #[test]
    fn mads_are_counted_at_every_port_they_cross() {
        let mut net = net();
        send(&mut net);
        for port in [1, 7] {
            for name in ["PortXmitPkts", "PortRcvPkts"] {
                assert_eq!(value(&mut net, port, name), 1, "{port} {name}");
            }
            for name in ["PortXmitData", "PortRcvData"] {
                assert_eq!(value(&mut net, port, name), 72, "{port} {name}");
            }
        }
        assert_eq!(value(&mut net, ALL_PORTS.0, "PortXmitPkts"), 2);
        assert_eq!(value(&mut net, 2, "PortXmitPkts"), 0);
    }

    #[test]
    fn a_set_clears_the_selected_counters() {
        let mut net = net();
        send(&mut net);
        let (status, data) = ask(&mut net, (SW0, 7), Method::SET, COUNTERS, 1, 1 << 14);
        assert_eq!((status, data.port_select()), (Status::OK, PortNum(1)));
        assert_eq!(value(&mut net, 1, "PortXmitPkts"), 0);
        assert_eq!(value(&mut net, 1, "PortRcvPkts"), 1);
        assert_eq!(value(&mut net, 7, "PortXmitPkts"), 1);
        ask(&mut net, (SW0, 7), Method::SET, COUNTERS, ALL_PORTS.0, 0xFFFF);
        assert_eq!(value(&mut net, ALL_PORTS.0, "PortRcvData"), 0);
    }

    #[test]
    fn faults_are_counted_at_the_port_concerned() {
        let mut net = net();
        net.faults.transit.change(None, |faults| faults.loss = 1.0);
        send(&mut net);
        assert_eq!(value(&mut net, 7, "VL15Dropped"), 1);
        net.faults.transit.change(None, |faults| faults.loss = 0.0);
        let entry = slot(&net, SW0, 7);
        net.faults.errors.insert(entry, (1.0, None));
        send(&mut net);
        assert_eq!(value(&mut net, 7, "SymbolErrorCounter"), 1);
        assert_eq!(value(&mut net, 7, "PortRcvErrors"), 1);
        net.faults.errors.clear();
        let exit = slot(&net, SW0, 1);
        net.devices.set_plugged(exit, false);
        net.report_link_changes();
        send(&mut net);
        assert_eq!(value(&mut net, 1, "LinkDownedCounter"), 1);
        assert_eq!(value(&mut net, 1, "PortXmitDiscards"), 1);
    }

    #[test]
    fn invalid_requests_get_an_error_status() {
        let get = Method::GET;
        let set = Method::SET;
        let switch = (SW0, 7);
        let host = (HOST0, 1);
        for (at, method, attr_id, port, wanted) in [
            (switch, get, AttrId::CLASS_PORT_INFO, 0, Status::OK),
            (switch, set, AttrId::CLASS_PORT_INFO, 0, Status::BAD_METHOD_ATTR),
            (switch, get, PerfAttr::PORT_SAMPLES_CONTROL, 1, Status::BAD_METHOD_ATTR),
            (switch, get, COUNTERS, 0, Status::OK),
            (switch, get, COUNTERS, 8, Status::BAD_FIELD),
            (switch, Method::SEND, COUNTERS, 1, Status::BAD_METHOD),
            (host, get, PerfAttr::PORT_COUNTERS_EXTENDED, 1, Status::OK),
            (host, get, COUNTERS, 0, Status::BAD_FIELD),
            (host, get, COUNTERS, ALL_PORTS.0, Status::BAD_FIELD),
        ] {
            let (status, _) = ask(&mut net(), at, method, attr_id, port, 0);
            assert_eq!(status, wanted, "{at:?} {method} 0x{attr_id:04x} {port}");
        }
    }
}
