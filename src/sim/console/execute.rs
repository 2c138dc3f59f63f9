//! Execution of console commands. Errors are found before anything is changed.

use super::ConsoleError;
use super::command::{ConsoleCommand, CounterName, NodeFault, SmaNodes, TargetName, TransitFault};
use super::resolve::{self, Target};
use super::{cables, congestion, help, random_faults, show, traffic, vendor, vports};
use crate::ids::{Guid, Lid};
use crate::sim::SimFabric;
use crate::sim::devices::NONE;
use crate::sim::net::Net;
use crate::sim::node_faults::NodeFaults;
use crate::sim::redirection::PerfRedirection;
use crate::sim::sma_load::SmaSpeed;
use crate::sim::transit_faults::{MadKind, TransitFaults};
use crate::sim::trap::TrapStorm;
use crate::wire::perf::GROUPS;
use std::collections::BTreeMap;
use tokio::time::Instant;

type Output = Result<String, ConsoleError>;

/// Executes a command; returns its output.
pub(super) fn execute(fabric: &SimFabric, command: ConsoleCommand) -> Output {
    // Timed faults need the event task; without a runtime, the first attached program starts it.
    if tokio::runtime::Handle::try_current().is_ok() {
        fabric.start();
    }
    let mut net = fabric.shared.lock();
    let net = &mut *net;
    match command {
        ConsoleCommand::Help(name) => Ok(help::help(name.as_deref())),
        ConsoleCommand::Message(text) => Ok(text.to_owned()),
        ConsoleCommand::Wait(_) => Ok(String::new()),
        ConsoleCommand::Show(what) => show::show(net, &what),
        ConsoleCommand::Dump(name) => show::dump(net, name.as_ref()),
        ConsoleCommand::Route(from, to) => show::route(&net.devices, from, to),
        ConsoleCommand::Random { seed, count } => {
            Ok(random_faults::script(&net.devices, seed, count))
        }
        ConsoleCommand::Attached => Ok(show::attached(net)),
        ConsoleCommand::Congestion(name, command) => {
            congestion::execute(net, name.as_ref(), command)
        }
        ConsoleCommand::Traffic(command) => Ok(traffic::execute(&net.devices, command)),
        ConsoleCommand::Vport(name, command) => vports::execute(net, name.as_ref(), command),
        ConsoleCommand::Vendor(name, command) => vendor::execute(net, name.as_ref(), command),
        ConsoleCommand::CountersShow(name) => {
            let slot = resolve::port(&net.devices, &name)?;
            Ok(show::counters(net, slot))
        }
        command => {
            net.last_fault = Some(Instant::now());
            change(net, command)?;
            net.report_link_changes();
            Ok(String::new())
        }
    }
}

fn change(net: &mut Net, command: ConsoleCommand) -> Result<(), ConsoleError> {
    match command {
        ConsoleCommand::NodeFault(name, fault) => {
            let node = resolve::node(&net.devices, &name)?;
            net.faults.nodes.change(node, |faults| apply_node_fault(faults, fault));
        }
        ConsoleCommand::SmaSpeed(nodes, speed) => return set_sma_speed(net, &nodes, speed),
        ConsoleCommand::RoundTrip(time) => net.smas.round_trip = time,
        ConsoleCommand::Redirect(name, to, qpn) => {
            let node = resolve::node(&net.devices, &name)?;
            let to = net.devices.end_port(resolve::port(&net.devices, &to)?);
            let redirection = Some(PerfRedirection { to, qpn });
            net.faults.nodes.change(node, |faults| faults.perf_redirection = redirection);
        }
        ConsoleCommand::Back(name) => {
            let node = resolve::node(&net.devices, &name)?;
            net.faults.nodes.clear(node);
        }
        ConsoleCommand::Reboot { node, keeps_lids } => {
            let node = resolve::node(&net.devices, &node)?;
            net.reboot(node, keeps_lids);
        }
        ConsoleCommand::Storm { port, number, period, times } => {
            let slot = resolve::port(&net.devices, &port)?;
            net.storm(TrapStorm { slot, number, period, left: times });
        }
        ConsoleCommand::Transit { port, kind, fault } => {
            return set_transit_fault(net, port.as_ref(), kind, fault);
        }
        ConsoleCommand::Corrupt(corruption) => net.faults.corruption = corruption,
        ConsoleCommand::Error { at, probability, attr_id } => {
            return set_errors(net, &at, probability, attr_id);
        }
        ConsoleCommand::Calm => calm(net),
        ConsoleCommand::Repair => repair(net),
        ConsoleCommand::CountersClear(name) => return clear_counters(net, name.as_ref()),
        ConsoleCommand::CountersSet { port, counter, value, add } => {
            return set_counter(net, &port, &counter, value, add);
        }
        ConsoleCommand::Describe(name, text) => {
            let node = resolve::node(&net.devices, &name)?;
            net.set_description(node, &text);
        }
        ConsoleCommand::Guid(name, guid) => return set_reported_guid(net, &name, guid),
        ConsoleCommand::BaseLid(name, lid, lmc) => return set_base_lid(net, &name, lid, lmc),
        // `execute` handles the commands that change nothing.
        command => return cables::change(net, command),
    }
    Ok(())
}

fn apply_node_fault(faults: &mut NodeFaults, fault: NodeFault) {
    match fault {
        NodeFault::Misbehave(how) => faults.misbehaviour = Some(how),
        NodeFault::ResponseTime(time) => faults.response_time = time,
        NodeFault::NumPorts(count) => faults.num_ports = Some(count),
        NodeFault::Set { attr_id, fault } => faults.fail_sets(attr_id, fault),
        NodeFault::Attribute { attr_id, fault } => faults.set_attribute(attr_id, fault),
        NodeFault::Congestion(fault) => faults.congestion = Some(fault),
    }
}

fn set_sma_speed(net: &mut Net, nodes: &SmaNodes, speed: SmaSpeed) -> Result<(), ConsoleError> {
    let node = match nodes {
        SmaNodes::Node(name) => Some(resolve::node(&net.devices, name)?),
        _ => None,
    };
    for index in 0..net.devices.nodes.len() as u32 {
        let is_selected = match nodes {
            SmaNodes::All => true,
            SmaNodes::Switches => net.devices.is_switch(index),
            SmaNodes::Hosts => !net.devices.is_switch(index),
            SmaNodes::Node(_) => node == Some(index),
        };
        if is_selected {
            net.smas.loads.set(index, speed);
        }
    }
    Ok(())
}

fn set_transit_fault(
    net: &mut Net,
    port: Option<&TargetName>,
    kind: Option<MadKind>,
    fault: TransitFault,
) -> Result<(), ConsoleError> {
    match port {
        Some(name) => {
            let slot = resolve::cable_port(&net.devices, name)?;
            net.faults.links.change(slot, kind, |faults| apply_transit_fault(faults, fault));
        }
        None => net.faults.transit.change(kind, |faults| apply_transit_fault(faults, fault)),
    }
    Ok(())
}

fn apply_transit_fault(faults: &mut TransitFaults, fault: TransitFault) {
    match fault {
        TransitFault::Loss(probability) => faults.loss = probability,
        TransitFault::Delay(delay) => faults.delay = delay,
        TransitFault::Jitter(jitter) => faults.jitter = jitter,
        TransitFault::Duplication(probability) => faults.duplication = probability,
    }
}

fn set_errors(
    net: &mut Net,
    at: &TargetName,
    probability: f64,
    attr_id: Option<u16>,
) -> Result<(), ConsoleError> {
    for slot in resolve::target(&net.devices, at)?.slots(&net.devices) {
        net.faults.errors.insert(slot, (probability, attr_id));
    }
    net.faults.errors.retain(|_, (probability, _)| *probability > 0.0);
    Ok(())
}

/// Ends all faults; unplugged cables stay so.
fn calm(net: &mut Net) {
    net.faults.clear();
    let cables: BTreeMap<_, _> = net.devices.cables.faults.drain().collect();
    for (slot, _) in cables.into_iter().filter(|(_, cable)| cable.is_degraded()) {
        net.devices.retrain(slot);
    }
}

/// Ends all faults and plugs all cables in.
fn repair(net: &mut Net) {
    calm(net);
    net.devices.cables.cut.clear();
    for slot in 0..net.devices.ports.len() as u32 {
        let port = net.devices.port(slot);
        if port.peer != NONE && !port.plugged {
            net.devices.set_plugged(slot, true);
        }
    }
}

fn clear_counters(net: &mut Net, name: Option<&TargetName>) -> Result<(), ConsoleError> {
    let slots = match name.map(|name| resolve::target(&net.devices, name)).transpose()? {
        Some(Target::Port(slot)) => slot..=slot,
        Some(Target::Node(node)) => net.devices.slots_of(node),
        None => 0..=(net.devices.ports.len() as u32).saturating_sub(1),
    };
    for slot in slots {
        for group in &GROUPS {
            net.counters.clear(slot, group, group.all());
        }
    }
    Ok(())
}

fn set_counter(
    net: &mut Net,
    port: &TargetName,
    counter: &CounterName,
    value: u64,
    add: bool,
) -> Result<(), ConsoleError> {
    let slot = resolve::port(&net.devices, port)?;
    for (group, counter) in &counter.counters {
        if add {
            net.counters.add(slot, group, counter, value);
        } else {
            net.counters.set(slot, group, counter, value);
        }
    }
    Ok(())
}

fn set_reported_guid(net: &mut Net, name: &TargetName, guid: Guid) -> Result<(), ConsoleError> {
    match resolve::target(&net.devices, name)? {
        Target::Port(slot) if net.devices.is_end_port(slot) => {
            net.devices.port_mut(slot).guid = guid;
        }
        Target::Port(_) => {
            let text = "external ports of a switch have no GUID";
            return Err(ConsoleError::new(name.column, text));
        }
        Target::Node(node) => net.devices.nodes[node as usize].info.set_node_guid(guid),
    }
    Ok(())
}

fn set_base_lid(
    net: &mut Net,
    name: &TargetName,
    lid: Lid,
    lmc: Option<u8>,
) -> Result<(), ConsoleError> {
    let slot = resolve::port(&net.devices, name)?;
    if !net.devices.is_end_port(slot) {
        let text = "external ports of a switch have no LID";
        return Err(ConsoleError::new(name.column, text));
    }
    let info = &mut net.devices.port_mut(slot).info;
    info.set_lid(lid);
    if let Some(lmc) = lmc {
        info.set_lmc(lmc);
    }
    // PortStateChange of the neighbouring switch, or of this port's own switch if it has no link,
    // makes the subnet manager notice.
    let neighbour = net.devices.linked_peer(slot).unwrap_or(slot);
    net.devices.record_state_change(neighbour);
    Ok(())
}
