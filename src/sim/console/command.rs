//! Parsed console commands.

use super::scan::Word;
use crate::ids::{CcKey, Guid, Lid};
use crate::sim::congestion::CongestionFault;
use crate::sim::faults::Corruption;
use crate::sim::node_faults::{AttributeFault, Misbehaviour, SetFault};
use crate::sim::sma_load::SmaSpeed;
use crate::sim::traffic::TrafficPattern;
use crate::sim::transit_faults::MadKind;
use crate::sim::vendor::VendorProfile;
use crate::wire::perf::{Counter, CounterAttribute};
use std::time::Duration;

/// Name of a node, or of a port, as written in the line.
pub(super) type TargetName = Word;

/// A command of the console; [`super::help::COMMANDS`] describes them.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum ConsoleCommand {
    Help(Option<String>),
    Wait(Duration),
    Connect(TargetName, TargetName),
    /// Unplugs the cable of a port.
    LinkDown(TargetName),
    /// Plugs it in again.
    LinkUp(TargetName),
    Unlink(TargetName),
    Relink(TargetName),
    Clear(TargetName),
    Swap(TargetName, TargetName),
    Move(TargetName, TargetName),
    Split(Vec<TargetName>),
    Heal,
    Flap {
        port: TargetName,
        period: Duration,
        times: u32,
    },
    Training(TargetName, Duration),
    Degrade {
        port: TargetName,
        widths: u8,
        speeds: u8,
    },
    Storm {
        port: TargetName,
        number: u16,
        period: Duration,
        times: u32,
    },
    NodeFault(TargetName, NodeFault),
    SmaSpeed(SmaNodes, SmaSpeed),
    /// Time that SMPs and their responses are on their way, in all.
    RoundTrip(Duration),
    /// End the faults of a node.
    Back(TargetName),
    Reboot {
        node: TargetName,
        keeps_lids: bool,
    },
    /// `None` as port: on all links; as kind: of all MADs.
    Transit {
        port: Option<TargetName>,
        kind: Option<MadKind>,
        fault: TransitFault,
    },
    Corrupt(Corruption),
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
    /// `None`: on all nodes.
    Congestion(Option<TargetName>, CongestionCommand),
    /// `None`: of all nodes.
    Vendor(Option<TargetName>, VendorCommand),
    Traffic(TrafficCommand),
    /// `None`: of all ports.
    Vport(Option<TargetName>, VportCommand),
    /// A node, and the port and queue pair at which its performance management agent answers.
    Redirect(TargetName, TargetName, u32),
    Describe(TargetName, String),
    Guid(TargetName, Guid),
    BaseLid(TargetName, Lid, Option<u8>),
    Route(Lid, Lid),
    Dump(Option<TargetName>),
    Attached,
    /// Print a script of random faults.
    Random {
        seed: u64,
        count: u32,
    },
    Show(Show),
    Calm,
    Repair,
    /// Prints this text.
    Message(&'static str),
}

/// The nodes whose subnet management agents get a speed.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum SmaNodes {
    All,
    Switches,
    /// Adapters and routers.
    Hosts,
    Node(TargetName),
}

/// A fault of a node's management agents.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum NodeFault {
    Misbehave(Misbehaviour),
    ResponseTime(Duration),
    NumPorts(u8),
    Set {
        attr_id: u16,
        fault: SetFault,
    },
    /// `None` ends the fault of the attribute.
    Attribute {
        attr_id: u16,
        fault: Option<AttributeFault>,
    },
    Congestion(CongestionFault),
}

/// Action on the congestion control settings of a port.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum CongestionCommand {
    Show,
    Key(CcKey),
}

/// Packets between all hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TrafficCommand {
    pub pattern: TrafficPattern,
    pub as_json: bool,
}

/// Action on the vports of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VportCommand {
    Show,
    /// Give the port this number of vports.
    Count(u16),
    /// Start or stop the function of the vport with this index.
    Up(u16, bool),
    /// Change the GUID of the vport with this index.
    Guid(u16, Guid),
    /// Let the vport with this index require a LID of its own, or share one.
    OwnLid(u16, bool),
}

/// Action on the vendor-specific attributes of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum VendorCommand {
    Show,
    /// List the Sets that devices received.
    Sets,
    /// `None` removes the profile.
    Profile(Option<VendorProfile>),
}

/// A fault of MADs on their way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum TransitFault {
    Loss(f64),
    Delay(Duration),
    Jitter(Duration),
    Duplication(f64),
}

/// One counter of an attribute, or all counters of the same name in several attributes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct CounterName {
    pub(super) counters: Vec<(&'static CounterAttribute, &'static Counter)>,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Show {
    Nodes,
    Links,
    Faults,
    Paths,
    /// Load of the subnet management agents.
    Sma,
    Node(TargetName),
    Port(TargetName),
}
