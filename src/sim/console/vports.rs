//! The command `vport`: vports of adapter ports.

use super::ConsoleError;
use super::args::{Args, Parsed};
use super::command::{ConsoleCommand, TargetName, VportCommand};
use super::resolve;
use crate::ids::Guid;
use crate::sim::net::Net;
use crate::sim::vports::{VPORT_CAP, VportSpec};
use std::fmt::Write as _;

/// Parses what follows the word `vport`.
pub(super) fn parse(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let Some(port) = args.rest.next().cloned() else {
        return Ok(ConsoleCommand::Vport(None, VportCommand::Show));
    };
    let command = match args.peek() {
        None => VportCommand::Show,
        Some(word) if word.is("count") => {
            args.word("count")?;
            VportCommand::Count(args.number(1, VPORT_CAP, "a number of vports")?)
        }
        Some(_) => {
            let index = args.number(0, VPORT_CAP - 1, "the index of a vport, or count")?;
            let word = args.word("up, down, guid, own-lid or shared-lid")?;
            match () {
                () if word.is("up") => VportCommand::Up(index, true),
                () if word.is("down") => VportCommand::Up(index, false),
                () if word.is("guid") => {
                    VportCommand::Guid(index, Guid(args.number(1, u64::MAX, "a GUID")?))
                }
                () if word.is("own-lid") => VportCommand::OwnLid(index, true),
                () if word.is("shared-lid") => VportCommand::OwnLid(index, false),
                () => {
                    let expected = "expected up, down, guid, own-lid or shared-lid";
                    return Err(word.error(expected));
                }
            }
        }
    };
    Ok(ConsoleCommand::Vport(Some(port), command))
}

/// Shows the vports of a port or of all ports, or changes those of a port.
pub(super) fn execute(
    net: &mut Net,
    name: Option<&TargetName>,
    command: VportCommand,
) -> Result<String, ConsoleError> {
    let Some(name) = name else {
        let mut text = String::new();
        (0..net.devices.ports.len() as u32).for_each(|slot| show(net, slot, &mut text));
        return Ok(text);
    };
    let slot = resolve::port(&net.devices, name)?;
    let port = net.devices.port(slot);
    if net.devices.is_switch(port.node) {
        return Err(ConsoleError::new(name.column, "only ports of adapters have vports"));
    }
    let mut text = String::new();
    let own = port.guid;
    let is_known = match command {
        VportCommand::Show => {
            show(net, slot, &mut text);
            true
        }
        VportCommand::Count(count) => {
            net.set_virtual_ports(slot, VportSpec::of_port(own, count));
            true
        }
        VportCommand::Up(index, is_up) => {
            net.change_virtual_port(slot, index, true, |spec| spec.is_up = is_up)
        }
        VportCommand::Guid(index, guid) => {
            net.change_virtual_port(slot, index, true, |spec| spec.guid = guid)
        }
        VportCommand::OwnLid(index, lid_required) => {
            net.change_virtual_port(slot, index, true, |spec| spec.lid_required = lid_required)
        }
    };
    if is_known { Ok(text) } else { Err(ConsoleError::new(name.column, "there is no such vport")) }
}

fn show(net: &Net, slot: u32, text: &mut String) {
    let Some(port) = net.devices.vendor.virtualized(slot) else { return };
    let _ = writeln!(text, "{}:", net.devices.port_name(slot));
    for (vport, index) in port.vports.iter().zip(0..) {
        let state = net.devices.vport_state(slot, index);
        let keys = vport.pkeys.iter().filter(|key| key.0 != 0).map(ToString::to_string);
        let keys = keys.collect::<Vec<_>>().join(" ");
        let _ = write!(text, "  {index}: {} {state}, P_Keys {keys}", vport.spec.guid);
        if vport.spec.lid_required {
            let _ = write!(text, ", LID {}", vport.lid);
        }
        text.push('\n');
    }
}
