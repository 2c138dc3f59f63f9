//! Parsed console commands.

use super::scan::Word;
use crate::ids::{Guid, Lid};
use crate::sim::faults::{Corruption, Misbehaviour};
use crate::wire::perf::{Counter, Group};
use std::time::Duration;

/// Name of a node, or of a port, as written in the line.
pub(super) type TargetName = Word;

/// A command of the console; [`super::help::COMMANDS`] describes them.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ConsoleCommand {
    Help(Option<String>),
    Wait(Duration),
    Connect(TargetName, TargetName),
    Unlink(TargetName),
    Relink(TargetName),
    Clear(TargetName),
    Swap(TargetName, TargetName),
    Flap {
        port: TargetName,
        period: Duration,
        times: u32,
    },
    /// `None` ends the misbehaviour.
    Misbehave(TargetName, Option<Misbehaviour>),
    Reboot(TargetName),
    Loss(Option<TargetName>, f64),
    Delay(Duration),
    Corrupt(Corruption),
    Duplicate(f64),
    Error {
        at: TargetName,
        probability: f64,
        attr_id: Option<u16>,
    },
    CountersShow(TargetName),
    CountersClear(Option<TargetName>),
    CountersSet {
        port: TargetName,
        counter: CounterName,
        value: u64,
        /// Add to the counter instead of setting it.
        add: bool,
    },
    Describe(TargetName, String),
    Guid(TargetName, Guid),
    BaseLid(TargetName, Lid, Option<u8>),
    Route(Lid, Lid),
    Dump(Option<TargetName>),
    Attached,
    Show(Show),
    Repair,
    /// Prints this text.
    Message(&'static str),
}

/// One counter of an attribute, or all counters of the same name in several attributes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct CounterName {
    pub(super) counters: Vec<(&'static Group, &'static Counter)>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Show {
    Nodes,
    Links,
    Faults,
    Node(TargetName),
    Port(TargetName),
}
