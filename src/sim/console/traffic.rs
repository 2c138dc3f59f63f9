//! The command `traffic`: packets between all hosts, by the plain forwarding tables and with adaptive
//! routing side by side.

use super::args::{Args, Parsed};
use super::command::{ConsoleCommand, TrafficCommand};
use crate::ids::Sl;
use crate::notes::counted;
use crate::sim::adaptive_tables::{PacketClass, Transport};
use crate::sim::devices::Devices;
use crate::sim::traffic::{Forwarding, Traffic, TrafficPattern, TrafficResult, send_traffic};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Packets of each host to each of its destinations.
const PACKETS: u32 = 64;
/// All choices of switches follow from this.
const SEED: u64 = 1;

/// Parses what follows the word `traffic`.
pub(super) fn parse(args: &mut Args<'_>) -> Parsed<ConsoleCommand> {
    let word = args.word("uniform, shift, hot-spot or all-to-all")?;
    let pattern = match () {
        () if word.is("uniform") => TrafficPattern::Uniform,
        () if word.is("all-to-all") => TrafficPattern::AllToAll,
        () if word.is("shift") => TrafficPattern::Shift(
            args.number(1, u16::MAX, "the number of hosts to shift by")?.into(),
        ),
        () if word.is("hot-spot") => {
            let what = "the number of a host in the order of LIDs, from 0";
            TrafficPattern::HotSpot(args.number(0, u16::MAX, what)?.into())
        }
        () => return Err(word.error("expected uniform, shift, hot-spot or all-to-all")),
    };
    let as_json = args.peek().is_some_and(|word| word.is("json"));
    if as_json {
        args.word("json")?;
    }
    Ok(ConsoleCommand::Traffic(TrafficCommand { pattern, as_json }))
}

pub(super) fn execute(devices: &Devices, command: TrafficCommand) -> String {
    let packet = PacketClass { transport: Transport::Connection, sl: Sl(0) };
    let traffic = Traffic { pattern: command.pattern, packets: PACKETS, packet, seed: SEED };
    let fixed = send_traffic(devices, &traffic, Forwarding::Plain);
    let adaptive = send_traffic(devices, &traffic, Forwarding::Adaptive);
    if command.as_json {
        json_text(devices, &fixed, &adaptive)
    } else {
        text(devices, &fixed, &adaptive)
    }
}

/// All cables in the order of their ports.
fn cables(fixed: &TrafficResult, adaptive: &TrafficResult) -> BTreeSet<u32> {
    fixed.loads.keys().chain(adaptive.loads.keys()).copied().collect()
}

fn load(result: &TrafficResult, cable: u32) -> u64 {
    result.loads.get(&cable).copied().unwrap_or(0)
}

fn text(devices: &Devices, fixed: &TrafficResult, adaptive: &TrafficResult) -> String {
    let mut text = String::new();
    for (name, result) in [("static", fixed), ("adaptive", adaptive)] {
        let cables = counted(result.loads.len(), "cable", "cables");
        let _ = writeln!(
            text,
            "{name:<9} {} delivered, {} lost, {} on the busiest of {cables}",
            counted(result.delivered as usize, "packet", "packets"),
            result.lost,
            result.highest()
        );
    }
    let _ = writeln!(text, "  static adaptive  cable from");
    for cable in cables(fixed, adaptive) {
        let loads = [fixed, adaptive].map(|result| load(result, cable));
        let _ = writeln!(text, "{:>8} {:>8}  {}", loads[0], loads[1], devices.port_name(cable));
    }
    text
}

fn json_text(devices: &Devices, fixed: &TrafficResult, adaptive: &TrafficResult) -> String {
    let cables: Vec<Value> = cables(fixed, adaptive)
        .into_iter()
        .map(|cable| {
            json!({
                "port": devices.port_name(cable),
                "static": load(fixed, cable),
                "adaptive": load(adaptive, cable),
            })
        })
        .collect();
    let all = json!({ "static": summary(fixed), "adaptive": summary(adaptive), "cables": cables });
    format!("{all}\n")
}

fn summary(result: &TrafficResult) -> Value {
    json!({
        "delivered": result.delivered,
        "lost": result.lost,
        "busiest": result.highest(),
    })
}
