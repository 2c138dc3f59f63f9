//! The command `congestion`: settings and faults of congestion control agents.

use super::ConsoleError;
use super::args::{Args, Parsed};
use super::command::{CongestionCommand, ConsoleCommand, NodeFault, TargetName};
use super::resolve::{self, Target};
use crate::ids::{CcKey, Sl};
use crate::sim::congestion::{CongestionFault, PortCongestionSettings};
use crate::sim::devices::Devices;
use crate::sim::net::Net;
use crate::wire::congestion::{CA_ENTRIES, CctEntry, PortBits};
use crate::wire::mad::Status;
use std::fmt::Write as _;

/// Parses what follows the word `congestion`.
pub(super) fn parse(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let Some(target) = args.rest.next().cloned() else {
        return Ok(ConsoleCommand::Congestion(None, CongestionCommand::Show));
    };
    let Some(word) = args.rest.next() else {
        return Ok(ConsoleCommand::Congestion(Some(target), CongestionCommand::Show));
    };
    let fault = match () {
        () if word.is("off") => CongestionFault::Unsupported,
        () if word.is("silent") => CongestionFault::Silent,
        () if word.is("refuse") => CongestionFault::Refuses(match args.peek() {
            Some(_) => args.number(1, 0x7FFF, "a MAD status from 1 to 0x7fff")?,
            None => Status::BAD_FIELD,
        }),
        () if word.is("key") => {
            let key = CcKey(args.number(0, u64::MAX, "a CC_Key, which is a number")?);
            return Ok(ConsoleCommand::Congestion(Some(target), CongestionCommand::Key(key)));
        }
        () => return Err(word.error("expected key, off, silent or refuse")),
    };
    Ok(ConsoleCommand::NodeFault(target, NodeFault::Congestion(fault)))
}

/// Shows the settings of a port, of all end ports of a node or of all nodes, or sets their CC_Key.
pub(super) fn execute(
    net: &mut Net,
    name: Option<&TargetName>,
    command: CongestionCommand,
) -> Result<String, ConsoleError> {
    let mut text = String::new();
    let slots = match name {
        Some(name) => end_ports(&net.devices, resolve::target(&net.devices, name)?),
        None => {
            let nodes = (0..net.devices.nodes.len() as u32).map(Target::Node);
            nodes.flat_map(|node| end_ports(&net.devices, node)).collect()
        }
    };
    for slot in slots {
        match command {
            CongestionCommand::Show => {
                let settings = net.congestion.settings(slot);
                let is_switch = net.devices.is_switch_slot(slot);
                let _ = writeln!(text, "{}:", net.devices.port_name(slot));
                text += &if is_switch { of_switch(&settings) } else { of_adapter(&settings) };
            }
            CongestionCommand::Key(key) => {
                net.congestion.settings_mut(slot).key.set_cc_key(key);
            }
        }
    }
    Ok(text)
}

fn end_ports(devices: &Devices, target: Target) -> Vec<u32> {
    match target {
        Target::Port(slot) => vec![devices.end_port(slot)],
        Target::Node(node) if devices.is_switch(node) => vec![devices.node(node).first],
        Target::Node(node) => resolve::ports_of(devices, node).collect(),
    }
}

fn key_line(settings: &PortCongestionSettings) -> String {
    let key = if settings.key.cc_key().is_set() { "set" } else { "none" };
    format!("  CC_Key {key}, violations {}\n", settings.key.violations())
}

fn of_switch(settings: &PortCongestionSettings) -> String {
    let held = &settings.switch;
    let mut text = key_line(settings);
    let lines = [
        ("control map", format!("0x{:x}", held.control_map())),
        ("victim mask", mask(&held.victim_mask())),
        ("credit mask", mask(&held.credit_mask())),
        ("threshold", held.threshold().to_string()),
        ("packet size", held.packet_size().to_string()),
        ("credit starvation threshold", held.cs_threshold().to_string()),
        ("credit starvation return delay", entry(held.cs_return_delay())),
        ("marking rate", held.marking_rate().to_string()),
    ];
    for (name, value) in lines {
        let _ = writeln!(text, "  {name:32}{value}");
    }
    text
}

fn of_adapter(settings: &PortCongestionSettings) -> String {
    let held = &settings.ca;
    let mut text = key_line(settings);
    let _ = writeln!(text, "  {:32}0x{:04x}", "port control", held.port_control());
    let _ = writeln!(text, "  {:32}0x{:04x}", "control map", held.control_map());
    for sl in 0..CA_ENTRIES as u8 {
        let of = held.entry(Sl(sl));
        if of != Default::default() {
            let timer = of.ccti_timer();
            let increase = of.ccti_increase();
            let trigger = of.trigger_threshold();
            let min = of.ccti_min();
            let _ = writeln!(
                text,
                "  SL {sl:<2} timer {timer}, increase {increase}, trigger {trigger}, minimum {min}"
            );
        }
    }
    let limit = settings.table[0].ccti_limit();
    let entries = settings.table.iter().flat_map(|block| block.entries()).take(1 + limit as usize);
    let entries: Vec<String> = entries.map(entry).collect();
    let _ = writeln!(text, "  table, limit {limit}: {}", entries.join(","));
    text
}

/// As the 64 hexadecimal digits of opensm.conf.
fn mask(bits: &PortBits) -> String {
    let mut text = String::from("0x");
    for byte in bits {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn entry(of: CctEntry) -> String {
    format!("{}:{}", of.shift, of.multiplier)
}
