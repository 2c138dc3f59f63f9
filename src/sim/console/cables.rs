//! Execution of the commands that change cables and links.

use super::ConsoleError;
use super::command::{ConsoleCommand, TargetName};
use super::resolve::{self, Target};
use crate::sim::devices::Devices;
use crate::sim::devices::NONE;
use crate::sim::devices::Port;
use crate::sim::net::Net;

/// Executes a command that changes cables; other commands do nothing here.
pub(super) fn change(net: &mut Net, command: ConsoleCommand) -> Result<(), ConsoleError> {
    match command {
        ConsoleCommand::Connect(a, b) => return connect(net, &a, &b),
        ConsoleCommand::LinkDown(name) => {
            one_port(net, &name, "unlink")?;
            return unlink(net, &name);
        }
        ConsoleCommand::LinkUp(name) => {
            one_port(net, &name, "relink")?;
            return relink(net, &name);
        }
        ConsoleCommand::Unlink(name) => return unlink(net, &name),
        ConsoleCommand::Relink(name) => return relink(net, &name),
        ConsoleCommand::Clear(name) => return clear(net, &name),
        ConsoleCommand::Swap(a, b) => return swap(net, &a, &b),
        ConsoleCommand::Move(from, to) => return move_cable(net, &from, &to),
        ConsoleCommand::Split(names) => return split(net, &names),
        ConsoleCommand::Heal => net.devices.heal(),
        ConsoleCommand::Flap { port, period, times } => {
            let slot = port_with_cable(net, &port)?;
            net.flap(slot, period, times);
        }
        ConsoleCommand::Degrade { port, widths, speeds } => {
            let slot = port_with_cable(net, &port)?;
            net.devices.degrade(slot, widths, speeds);
        }
        ConsoleCommand::Training(name, time) => {
            for slot in resolve::target(&net.devices, &name)?.slots(&net.devices) {
                net.devices.change_cable(slot, |cable| cable.training_time = time);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Checks that a name means one port; `for_nodes` is the command for all cables of a node.
fn one_port(net: &Net, name: &TargetName, for_nodes: &str) -> Result<(), ConsoleError> {
    if let Target::Node(node) = resolve::target(&net.devices, name)? {
        let ports = net.devices.node(node).info.num_ports();
        if ports != 1 {
            let node = &name.text;
            let text = format!(
                "'{node}' has {ports} ports: give a number, as in {node}[3]; '{for_nodes} {node}' \
                 is for all its cables"
            );
            return Err(ConsoleError::new(name.column, text));
        }
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

/// Slots of a port or of all ports of a node, if their cables are plugged in (or unplugged).
/// `error` if there are none.
fn ports_with_cable(
    net: &Net,
    name: &TargetName,
    is_plugged: bool,
    error: &str,
) -> Result<Vec<u32>, ConsoleError> {
    let mut slots = resolve::target(&net.devices, name)?.slots(&net.devices);
    slots.retain(|&slot| {
        port_at(&net.devices, slot).peer != NONE
            && port_at(&net.devices, slot).plugged == is_plugged
    });
    if slots.is_empty() { Err(ConsoleError::new(name.column, error)) } else { Ok(slots) }
}

fn port_at(devices: &Devices, slot: u32) -> &Port {
    devices.port(slot)
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
    let a_slot = port_with_cable(net, a)?;
    let b_slot = port_with_cable(net, b)?;
    let a_peer = net.devices.port(a_slot).peer;
    let b_peer = net.devices.port(b_slot).peer;
    if a_slot == b_slot || a_slot == b_peer {
        return Err(ConsoleError::new(b.column, "these are ends of the same cable"));
    }
    net.devices.connect_ports(a_slot, b_peer);
    net.devices.connect_ports(b_slot, a_peer);
    Ok(())
}

/// Moves the end of the cable at `from` to the free port `to`.
fn move_cable(net: &mut Net, from: &TargetName, to: &TargetName) -> Result<(), ConsoleError> {
    let old = port_with_cable(net, from)?;
    let new = resolve::cable_port(&net.devices, to)?;
    let peer = net.devices.port(old).peer;
    if old == new || peer == new || net.devices.port(new).plugged {
        return Err(ConsoleError::new(to.column, "this port has a cable already"));
    }
    net.devices.connect_ports(new, peer);
    Ok(())
}

fn split(net: &mut Net, names: &[TargetName]) -> Result<(), ConsoleError> {
    let mut part = Vec::new();
    for name in names {
        part.extend(resolve::nodes(&net.devices, name)?);
    }
    net.devices.split(&part);
    Ok(())
}
