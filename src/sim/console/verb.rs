//! What a line asks for, as data.

use super::scan::Word;
use crate::ids::{Guid, Lid};
use crate::sim::fault::{Corruption, Misbehaviour};
use crate::wire::perf::{Counter, Group};
use std::time::Duration;

/// A node, or a port of it, as the line names it.
pub(super) type Name = Word;

/// What a line asks for.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Verb {
    Help(Option<String>),
    Wait(Duration),
    /// A new cable between two ports.
    Cable(Name, Name),
    Unlink(Name),
    Relink(Name),
    Clear(Name),
    Swap(Name, Name),
    Flap {
        port: Name,
        period: Duration,
        times: u32,
    },
    Misbehave(Name, Option<Misbehaviour>),
    Reboot(Name),
    Loss(Option<Name>, f64),
    Delay(Duration),
    Corrupt(Corruption),
    Duplicate(f64),
    Error {
        at: Name,
        chance: f64,
        attr_id: Option<u16>,
    },
    CountersShow(Name),
    CountersClear(Option<Name>),
    CountersSet {
        port: Name,
        counter: CounterName,
        value: u64,
        /// Add to what is there.
        add: bool,
    },
    Describe(Name, String),
    Guid(Name, Guid),
    BaseLid(Name, Lid, Option<u8>),
    Route(Lid, Lid),
    Dump(Option<Name>),
    Attached,
    Show(Show),
    Repair,
    /// Nothing to be done, but to say this.
    Said(&'static str),
}

/// A counter of an attribute, or of all attributes that have one of this name.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct CounterName {
    pub(super) counters: Vec<(&'static Group, &'static Counter)>,
}

/// What is to be shown.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Show {
    Nodes,
    Links,
    Faults,
    Node(Name),
    Port(Name),
}
