//! Execution of console commands. Errors are found before anything is changed.

use super::ConsoleError;
use super::command::{ConsoleCommand, CounterName, TargetName};
use super::resolve::{self, Target};
use super::{help, show};
use crate::ids::{Guid, Lid};
use crate::sim::SimFabric;
use crate::sim::devices::NONE;
use crate::sim::faults::Misbehaviour;
use crate::sim::net::Net;
use crate::wire::perf::GROUPS;

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
        ConsoleCommand::Attached => Ok(show::attached(net)),
        ConsoleCommand::CountersShow(name) => {
            let slot = resolve::port(&net.devices, &name)?;
            Ok(show::counters(net, slot))
        }
        command => {
            change(net, command)?;
            net.report_link_changes();
            Ok(String::new())
        }
    }
}

fn change(net: &mut Net, command: ConsoleCommand) -> Result<(), ConsoleError> {
    match command {
        ConsoleCommand::Connect(a, b) => return connect(net, &a, &b),
        ConsoleCommand::Unlink(name) => return unlink(net, &name),
        ConsoleCommand::Relink(name) => return relink(net, &name),
        ConsoleCommand::Clear(name) => return clear(net, &name),
        ConsoleCommand::Swap(a, b) => return swap(net, &a, &b),
        ConsoleCommand::Flap { port, period, times } => {
            let slot = port_with_cable(net, &port)?;
            net.flap(slot, period, times);
        }
        ConsoleCommand::Misbehave(name, how) => return misbehave(net, &name, how),
        ConsoleCommand::Reboot(name) => {
            let node = resolve::node(&net.devices, &name)?;
            net.reboot(node);
        }
        ConsoleCommand::Loss(None, probability) => net.faults.loss = probability,
        ConsoleCommand::Loss(Some(name), probability) => {
            let slot = resolve::cable_port(&net.devices, &name)?;
            net.faults.link_loss.insert(slot, probability);
            net.faults.link_loss.retain(|_, probability| *probability > 0.0);
        }
        ConsoleCommand::Delay(delay) => net.faults.delay = delay,
        ConsoleCommand::Corrupt(corruption) => net.faults.corruption = corruption,
        ConsoleCommand::Duplicate(probability) => net.faults.duplication = probability,
        ConsoleCommand::Error { at, probability, attr_id } => {
            return set_errors(net, &at, probability, attr_id);
        }
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
        _ => {}
    }
    Ok(())
}

/// Slot of a port with a cable, plugged in or not.
fn port_with_cable(net: &Net, name: &TargetName) -> Result<u32, ConsoleError> {
    let slot = resolve::cable_port(&net.devices, name)?;
    if net.devices.port(slot).peer == NONE {
        return Err(ConsoleError::new(name.column, "there is no cable at this port"));
    }
    Ok(slot)
}

fn connect(net: &mut Net, a: &TargetName, b: &TargetName) -> Result<(), ConsoleError> {
    let mut slots = [0; 2];
    for (slot, name) in slots.iter_mut().zip([a, b]) {
        *slot = resolve::cable_port(&net.devices, name)?;
        if net.devices.port(*slot).plugged {
            return Err(ConsoleError::new(
                name.column,
                "this port has a cable already; unlink it first",
            ));
        }
    }
    let [a_slot, b_slot] = slots;
    if a_slot == b_slot {
        return Err(ConsoleError::new(b.column, "a port cannot be connected to itself"));
    }
    net.devices.connect_ports(a_slot, b_slot);
    Ok(())
}

fn unlink(net: &mut Net, name: &TargetName) -> Result<(), ConsoleError> {
    let slots = ports_with_cable(net, name, true, "no cable is plugged in here")?;
    slots.into_iter().for_each(|slot| net.devices.set_plugged(slot, false));
    Ok(())
}

fn relink(net: &mut Net, name: &TargetName) -> Result<(), ConsoleError> {
    let slots = ports_with_cable(net, name, false, "no unplugged cable here")?;
    slots.into_iter().for_each(|slot| net.devices.set_plugged(slot, true));
    Ok(())
}

/// Slots of a port or of all ports of a node, if their cables are plugged in (or unplugged). `error`
/// if there are none.
fn ports_with_cable(
    net: &Net,
    name: &TargetName,
    is_plugged: bool,
    error: &str,
) -> Result<Vec<u32>, ConsoleError> {
    let mut slots = resolve::target(&net.devices, name)?.slots(&net.devices);
    let port = |slot: u32| net.devices.port(slot);
    slots.retain(|&slot| port(slot).peer != NONE && port(slot).plugged == is_plugged);
    if slots.is_empty() { Err(ConsoleError::new(name.column, error)) } else { Ok(slots) }
}

fn clear(net: &mut Net, name: &TargetName) -> Result<(), ConsoleError> {
    let slots = resolve::target(&net.devices, name)?.slots(&net.devices);
    for slot in slots {
        net.devices.set_plugged(slot, false);
        net.devices.reset_port(slot);
    }
    Ok(())
}

fn swap(net: &mut Net, a: &TargetName, b: &TargetName) -> Result<(), ConsoleError> {
    let (a_slot, b_slot) = (port_with_cable(net, a)?, port_with_cable(net, b)?);
    let (a_peer, b_peer) = (net.devices.port(a_slot).peer, net.devices.port(b_slot).peer);
    if a_slot == b_slot || a_slot == b_peer {
        return Err(ConsoleError::new(b.column, "these are ends of the same cable"));
    }
    net.devices.connect_ports(a_slot, b_peer);
    net.devices.connect_ports(b_slot, a_peer);
    Ok(())
}

fn misbehave(
    net: &mut Net,
    name: &TargetName,
    how: Option<Misbehaviour>,
) -> Result<(), ConsoleError> {
    let node = resolve::node(&net.devices, name)?;
    match how {
        Some(how) => drop(net.faults.nodes.insert(node, how)),
        None => drop(net.faults.nodes.remove(&node)),
    }
    Ok(())
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

/// Ends all faults and plugs all cables in.
fn repair(net: &mut Net) {
    net.faults.clear();
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
