//! Parser of the commands for faults of nodes, links and MADs on their way.

use super::args::{Args, Parsed};
use super::command::{ConsoleCommand, NodeFault, SmaNodes, TransitFault};
use super::scan::Word;
use crate::fabric::link_rate::WIDTHS;
use crate::sim::node_faults::{Misbehaviour, SetFault};
use crate::sim::sma_load::SmaSpeed;
use crate::sim::transit_faults::MadKind;
use crate::wire::attr::{LinkWidth, TrapNumber};
use crate::wire::mad::Status;
use std::time::Duration;

/// Names of link speeds and their bits in the masks of the simulator.
const SPEEDS: [(&str, u8); 8] = [
    ("SDR", 1),
    ("DDR", 1 << 1),
    ("QDR", 1 << 2),
    ("FDR", 1 << 3),
    ("EDR", 1 << 4),
    ("HDR", 1 << 5),
    ("NDR", 1 << 6),
    ("XDR", 1 << 7),
];

/// Traps that a storm may have: those of subnet management that name only a LID and a port.
const STORM_TRAPS: [u16; 6] = [
    TrapNumber::LINK_STATE,
    TrapNumber::LINK_INTEGRITY,
    TrapNumber::BUFFER_OVERRUN,
    TrapNumber::FLOW_CONTROL,
    TrapNumber::LOCAL_CHANGES,
    TrapNumber::SYSTEM_GUID,
];

/// Parses a command for faults of a node; `None` if `name` is none.
pub(super) fn node_command(args: &mut Args<'_>, name: &str) -> Parsed<Option<ConsoleCommand>> {
    let misbehaviour = match name {
        "silent" => Some(Misbehaviour::Silent),
        "garbage" => Some(Misbehaviour::Garbage),
        "wrong-tid" => Some(Misbehaviour::WrongTid),
        _ => None,
    };
    if let Some(how) = misbehaviour {
        let fault = NodeFault::Misbehave(how);
        return Ok(Some(ConsoleCommand::NodeFault(args.target()?, fault)));
    }
    Ok(Some(match name {
        "slow" => {
            let node = args.target()?;
            ConsoleCommand::NodeFault(node, NodeFault::ResponseTime(args.duration()?))
        }
        "sma" => sma_speed(args)?,
        "round-trip" => ConsoleCommand::RoundTrip(args.duration()?),
        "numports" => {
            let node = args.target()?;
            let count = args.number(0, u8::MAX, "a number of ports from 0 to 255")?;
            ConsoleCommand::NodeFault(node, NodeFault::NumPorts(count))
        }
        "refuse" => refuse(args)?,
        "ignore-sets" => {
            let node = args.target()?;
            let attr_id = match args.peek() {
                Some(_) => args.attribute()?,
                None => crate::sim::node_faults::ALL_ATTRIBUTES,
            };
            let fault = NodeFault::Set { attr_id, fault: SetFault::Ignored };
            ConsoleCommand::NodeFault(node, fault)
        }
        "redirect" => ConsoleCommand::Redirect(
            args.target()?,
            args.target()?,
            args.number(2, 0xFF_FFFF, "a queue pair from 2 to 0xffffff")?,
        ),
        "back" => ConsoleCommand::Back(args.target()?),
        "reboot" => {
            ConsoleCommand::Reboot { node: args.target()?, keeps_lids: args.keyword("keep-lids")? }
        }
        _ => return Ok(None),
    }))
}

fn sma_speed(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let nodes = match args.word("a node, all, switches or hosts")? {
        word if word.is("all") => SmaNodes::All,
        word if word.is("switches") => SmaNodes::Switches,
        word if word.is("hosts") => SmaNodes::Hosts,
        node => SmaNodes::Node(node.clone()),
    };
    if args.peek().is_some_and(|word| word.is("off")) {
        args.rest.next();
        let off = SmaSpeed { service_time: Duration::ZERO, queue: SmaSpeed::UNLIMITED };
        return Ok(ConsoleCommand::SmaSpeed(nodes, off));
    }
    let service_time = args.duration()?;
    let queue = match args.peek() {
        Some(_) => args.number(1, u16::MAX, "a queue of 1 to 65535 SMPs")?.into(),
        None => SmaSpeed::UNLIMITED,
    };
    Ok(ConsoleCommand::SmaSpeed(nodes, SmaSpeed { service_time, queue }))
}

fn refuse(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let node = args.target()?;
    let attr_id = args.attribute()?;
    let status = match args.peek() {
        Some(_) => args.number(1, 0x7FFF, "a MAD status from 1 to 0x7fff")?,
        None => Status::BAD_FIELD,
    };
    let fault = NodeFault::Set { attr_id, fault: SetFault::Refused(status) };
    Ok(ConsoleCommand::NodeFault(node, fault))
}

/// Parses a command for faults of MADs on their way; `None` if `name` is none.
pub(super) fn transit_command(args: &mut Args<'_>, name: &str) -> Parsed<Option<ConsoleCommand>> {
    if !["loss", "drop", "delay", "jitter", "duplicate"].contains(&name) {
        return Ok(None);
    }
    let has_kind = args.rest.as_slice().last().is_some_and(|word| mad_kind(word).is_some());
    let has_port = args.rest.len() > 1 + usize::from(has_kind);
    let port = if has_port { Some(args.target()?) } else { None };
    let fault = match name {
        "delay" => TransitFault::Delay(args.duration()?),
        "jitter" => TransitFault::Jitter(args.duration()?),
        "duplicate" => TransitFault::Duplication(args.probability()?),
        _ => TransitFault::Loss(args.probability()?),
    };
    let kind = if has_kind { args.rest.next().and_then(mad_kind) } else { None };
    Ok(Some(ConsoleCommand::Transit { port, kind, fault }))
}

pub(super) fn degrade(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let port = args.target()?;
    if args.peek().is_some_and(|word| word.is("off")) {
        args.rest.next();
        return Ok(ConsoleCommand::Degrade { port, widths: u8::MAX, speeds: u8::MAX });
    }
    let widths = args.code(&WIDTHS, "a width (1x, 2x, 4x, 8x, 12x) or off")?;
    let speeds = args.code(&SPEEDS, "a speed (SDR, DDR, QDR, FDR, EDR, HDR, NDR, XDR)")?;
    // Lower speeds work as well; a link of several lanes falls back to one.
    let speeds = speeds | (speeds - 1);
    Ok(ConsoleCommand::Degrade { port, widths: widths | LinkWidth::X1, speeds })
}

pub(super) fn storm(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let port = args.target()?;
    let what = "trap 128, 129, 130, 131, 144 or 145";
    let word = args.word(what)?;
    let number = word.text.parse().ok().filter(|number| STORM_TRAPS.contains(number));
    let number = number.ok_or_else(|| word.error(format!("expected {what}")))?;
    Ok(ConsoleCommand::Storm { port, number, period: args.duration()?, times: args.times()? })
}

pub(super) fn split(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let mut nodes = vec![args.target()?];
    nodes.extend(args.rest.by_ref().cloned());
    Ok(ConsoleCommand::Split(nodes))
}

fn mad_kind(word: &Word) -> Option<MadKind> {
    let names = [
        ("requests", MadKind::Request),
        ("responses", MadKind::Response),
        ("answers", MadKind::Response),
        ("traps", MadKind::Trap),
    ];
    names.into_iter().find(|(name, _)| word.is(name)).map(|(_, kind)| kind)
}
