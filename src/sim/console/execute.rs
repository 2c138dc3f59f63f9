//! Verbs carried out. Whatever is wrong is found before anything is changed.

use super::ConsoleError;
use super::resolve::{self, Target};
use super::verb::{CounterName, Name, Verb};
use super::{help, show};
use crate::ids::{Guid, Lid};
use crate::sim::SimFabric;
use crate::sim::device::NONE;
use crate::sim::fault::Misbehaviour;
use crate::sim::net::Net;
use crate::wire::attr::NodeDescription;
use crate::wire::perf::GROUPS;

type Answer = Result<String, ConsoleError>;

/// Carries a verb out and gives what there is to be said.
pub(super) fn execute(fabric: &SimFabric, verb: Verb) -> Answer {
    // What has timers needs the clock of the fabric; else the first program starts it.
    if tokio::runtime::Handle::try_current().is_ok() {
        fabric.start();
    }
    let mut net = fabric.shared.lock();
    let net = &mut *net;
    match verb {
        Verb::Help(name) => Ok(help::help(name.as_deref())),
        Verb::Said(text) => Ok(text.to_owned()),
        Verb::Wait(_) => Ok(String::new()),
        Verb::Show(what) => show::show(net, &what),
        Verb::Dump(name) => show::dump(net, name.as_ref()),
        Verb::Route(from, to) => show::route(&net.devices, from, to),
        Verb::Attached => Ok(show::attached(net)),
        Verb::CountersShow(name) => {
            let slot = resolve::port(&net.devices, &name)?;
            Ok(show::counters(net, slot))
        }
        verb => {
            change(net, verb)?;
            net.tell_changes();
            Ok(String::new())
        }
    }
}

fn change(net: &mut Net, verb: Verb) -> Result<(), ConsoleError> {
    match verb {
        Verb::Cable(a, b) => return cable(net, &a, &b),
        Verb::Unlink(name) => return unlink(net, &name),
        Verb::Relink(name) => return relink(net, &name),
        Verb::Clear(name) => return clear(net, &name),
        Verb::Swap(a, b) => return swap(net, &a, &b),
        Verb::Flap { port, period, times } => {
            let slot = cabled(net, &port)?;
            net.flap(slot, period, times);
        }
        Verb::Misbehave(name, how) => return misbehave(net, &name, how),
        Verb::Reboot(name) => {
            let node = resolve::node(&net.devices, &name)?;
            net.reboot(node);
        }
        Verb::Loss(None, chance) => net.faults.loss = chance,
        Verb::Loss(Some(name), chance) => {
            let slot = resolve::cable_port(&net.devices, &name)?;
            net.faults.link_loss.insert(slot, chance);
            net.faults.link_loss.retain(|_, chance| *chance > 0.0);
        }
        Verb::Delay(delay) => net.faults.delay = delay,
        Verb::Corrupt(corruption) => net.faults.corruption = corruption,
        Verb::Duplicate(chance) => net.faults.duplication = chance,
        Verb::Error { at, chance, attr_id } => return error(net, &at, chance, attr_id),
        Verb::Repair => repair(net),
        Verb::CountersClear(name) => return clear_counters(net, name.as_ref()),
        Verb::CountersSet { port, counter, value, add } => {
            return set_counter(net, &port, &counter, value, add);
        }
        Verb::Describe(name, text) => {
            let node = resolve::node(&net.devices, &name)?;
            net.describe(node, &text);
        }
        Verb::Guid(name, guid) => return claim_guid(net, &name, guid),
        Verb::BaseLid(name, lid, lmc) => return base_lid(net, &name, lid, lmc),
        // The others show something and change nothing.
        _ => {}
    }
    Ok(())
}

/// A port with a cable, plugged or not.
fn cabled(net: &Net, name: &Name) -> Result<u32, ConsoleError> {
    let slot = resolve::cable_port(&net.devices, name)?;
    if net.devices.port(slot).peer == NONE {
        return Err(ConsoleError::new(name.column, "there is no cable at this port"));
    }
    Ok(slot)
}

fn cable(net: &mut Net, a: &Name, b: &Name) -> Result<(), ConsoleError> {
    let mut slots = [0; 2];
    for (slot, name) in slots.iter_mut().zip([a, b]) {
        *slot = resolve::cable_port(&net.devices, name)?;
        if net.devices.port(*slot).plugged {
            return Err(ConsoleError::new(name.column, "there is a cable at this port; unlink it"));
        }
    }
    let [a_slot, b_slot] = slots;
    if a_slot == b_slot {
        return Err(ConsoleError::new(b.column, "a cable has two ends"));
    }
    net.devices.lay_cable(a_slot, b_slot);
    Ok(())
}

fn unlink(net: &mut Net, name: &Name) -> Result<(), ConsoleError> {
    let slots = plugged(net, name, true, "no cable is plugged in here")?;
    slots.into_iter().for_each(|slot| net.devices.set_plugged(slot, false));
    Ok(())
}

fn relink(net: &mut Net, name: &Name) -> Result<(), ConsoleError> {
    let slots = plugged(net, name, false, "no cable was pulled here")?;
    slots.into_iter().for_each(|slot| net.devices.set_plugged(slot, true));
    Ok(())
}

/// The ports that are meant and have a cable, plugged or not.
fn plugged(net: &Net, name: &Name, is: bool, none: &str) -> Result<Vec<u32>, ConsoleError> {
    let mut slots = resolve::target(&net.devices, name)?.slots(&net.devices);
    let port = |slot: u32| net.devices.port(slot);
    slots.retain(|&slot| port(slot).peer != NONE && port(slot).plugged == is);
    if slots.is_empty() { Err(ConsoleError::new(name.column, none)) } else { Ok(slots) }
}

fn clear(net: &mut Net, name: &Name) -> Result<(), ConsoleError> {
    let slots = resolve::target(&net.devices, name)?.slots(&net.devices);
    for slot in slots {
        net.devices.set_plugged(slot, false);
        net.devices.reset_port(slot);
    }
    Ok(())
}

fn swap(net: &mut Net, a: &Name, b: &Name) -> Result<(), ConsoleError> {
    let (a_slot, b_slot) = (cabled(net, a)?, cabled(net, b)?);
    let (a_peer, b_peer) = (net.devices.port(a_slot).peer, net.devices.port(b_slot).peer);
    if a_slot == b_slot || a_slot == b_peer {
        return Err(ConsoleError::new(b.column, "these are ends of the same cable"));
    }
    net.devices.lay_cable(a_slot, b_peer);
    net.devices.lay_cable(b_slot, a_peer);
    Ok(())
}

fn misbehave(net: &mut Net, name: &Name, how: Option<Misbehaviour>) -> Result<(), ConsoleError> {
    let node = resolve::node(&net.devices, name)?;
    match how {
        Some(how) => drop(net.faults.nodes.insert(node, how)),
        None => drop(net.faults.nodes.remove(&node)),
    }
    Ok(())
}

fn error(net: &mut Net, at: &Name, chance: f64, attr_id: Option<u16>) -> Result<(), ConsoleError> {
    for slot in resolve::target(&net.devices, at)?.slots(&net.devices) {
        net.faults.errors.insert(slot, (chance, attr_id));
    }
    net.faults.errors.retain(|_, (chance, _)| *chance > 0.0);
    Ok(())
}

/// Ends all faults and plugs all cables in.
fn repair(net: &mut Net) {
    net.faults.end();
    for slot in 0..net.devices.ports.len() as u32 {
        let port = net.devices.port(slot);
        if port.peer != NONE && !port.plugged {
            net.devices.set_plugged(slot, true);
        }
    }
}

fn clear_counters(net: &mut Net, name: Option<&Name>) -> Result<(), ConsoleError> {
    let slots = match name.map(|name| resolve::target(&net.devices, name)).transpose()? {
        Some(Target::Port(slot)) => slot..=slot,
        Some(Target::Node(node)) => {
            let node = net.devices.node(node);
            node.first..=node.first + u32::from(node.info.num_ports())
        }
        None => 0..=(net.devices.ports.len() as u32).saturating_sub(1),
    };
    for slot in slots {
        for group in &GROUPS {
            net.meters.clear(slot, group, group.all());
        }
    }
    Ok(())
}

fn set_counter(
    net: &mut Net,
    port: &Name,
    counter: &CounterName,
    value: u64,
    add: bool,
) -> Result<(), ConsoleError> {
    let slot = resolve::port(&net.devices, port)?;
    for (group, counter) in &counter.counters {
        if add {
            net.meters.add(slot, group, counter, value);
        } else {
            net.meters.set(slot, group, counter, value);
        }
    }
    Ok(())
}

fn claim_guid(net: &mut Net, name: &Name, guid: Guid) -> Result<(), ConsoleError> {
    match resolve::target(&net.devices, name)? {
        Target::Port(slot) if net.devices.is_end_port(slot) => {
            net.devices.port_mut(slot).guid = guid;
        }
        Target::Port(_) => {
            let text = "ports of a switch have no GUID of their own, but port 0";
            return Err(ConsoleError::new(name.column, text));
        }
        Target::Node(node) => net.devices.nodes[node as usize].info.set_node_guid(guid),
    }
    Ok(())
}

fn base_lid(net: &mut Net, name: &Name, lid: Lid, lmc: Option<u8>) -> Result<(), ConsoleError> {
    let slot = resolve::port(&net.devices, name)?;
    if !net.devices.is_end_port(slot) {
        let text = "ports of a switch have no LID of their own, but port 0";
        return Err(ConsoleError::new(name.column, text));
    }
    let info = &mut net.devices.port_mut(slot).info;
    info.set_lid(lid);
    if let Some(lmc) = lmc {
        info.set_lmc(lmc);
    }
    // Somebody has to notice: the switch itself, or the one at the other end.
    let neighbour = net.devices.across(slot).unwrap_or(slot);
    net.devices.note_change(neighbour);
    Ok(())
}

impl Net {
    /// The node describes itself in other words, and tells so by trap 144 (from its first port
    /// with a LID).
    pub(in crate::sim) fn describe(&mut self, node: u32, description: &str) {
        self.devices.nodes[node as usize].description = NodeDescription::new(description);
        let first = self.devices.node(node).first;
        let last = first + u32::from(self.devices.node(node).info.num_ports());
        let mut ends = (first..=last).filter(|&slot| self.devices.is_end_port(slot));
        let with_lid = ends.find(|&slot| self.devices.port(slot).info.lid().is_unicast());
        if let Some(slot) = with_lid {
            self.raise(slot, crate::wire::attr::TrapNumber::LOCAL_CHANGES);
        }
    }
}
