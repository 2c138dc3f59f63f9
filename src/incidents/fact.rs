//! Facts: what is wrong at one time, as plain data from which incidents follow.

use crate::fabric::{End, Fabric, NodeId, PortId};
use crate::ids::{Guid, PortNum};
use crate::wire::attr::NodeKind;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The end of a cable at a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct CableEnd {
    /// Node GUID.
    pub guid: Guid,
    pub port: PortNum,
    /// Name of the node.
    pub name: String,
    pub is_switch: bool,
}

impl CableEnd {
    pub fn of(fabric: &Fabric, port: PortId) -> Self {
        let node = fabric.node_of(port);
        Self {
            guid: node.guid(),
            port: fabric.port(port).num,
            name: node.name().to_string(),
            is_switch: node.is_switch(),
        }
    }

    pub fn end(&self) -> End {
        (self.guid, self.port)
    }
}

impl fmt::Display for CableEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"[{}]", self.name, self.port)
    }
}

/// A cable. The lower end is first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Cable {
    ends: [CableEnd; 2],
}

impl Cable {
    pub fn new(one: CableEnd, other: CableEnd) -> Self {
        let mut ends = [one, other];
        ends.sort_unstable();
        Self { ends }
    }

    /// The cable at a port; `None` without one.
    pub fn of(fabric: &Fabric, port: PortId) -> Option<Self> {
        let peer = fabric.port(port).peer?;
        Some(Self::new(CableEnd::of(fabric, port), CableEnd::of(fabric, peer)))
    }

    pub fn ends(&self) -> &[CableEnd; 2] {
        &self.ends
    }

    /// Both ends as node GUID and port.
    pub fn key(&self) -> [End; 2] {
        [self.ends[0].end(), self.ends[1].end()]
    }

    pub fn joins_switches(&self) -> bool {
        self.ends.iter().all(|end| end.is_switch)
    }

    /// The end at the other node.
    pub fn far_from(&self, guid: Guid) -> &CableEnd {
        if self.ends[0].guid == guid { &self.ends[1] } else { &self.ends[0] }
    }

    /// The end at this port; `None` if the cable is not at it.
    pub fn far_from_port(&self, end: End) -> Option<&CableEnd> {
        let at = self.ends.iter().position(|own| own.end() == end)?;
        Some(&self.ends[1 - at])
    }
}

impl fmt::Display for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} – {}", self.ends[0], self.ends[1])
    }
}

/// The kind of a node for incidents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceClass {
    Switch,
    /// Channel adapter.
    Host,
    Router,
}

impl DeviceClass {
    pub fn name(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Host => "host",
            Self::Router => "router",
        }
    }
}

impl From<NodeKind> for DeviceClass {
    fn from(kind: NodeKind) -> Self {
        match kind {
            NodeKind::Switch => Self::Switch,
            NodeKind::Router => Self::Router,
            NodeKind::Ca | NodeKind::Unknown(_) => Self::Host,
        }
    }
}

/// A node with its cables as they were last known.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KnownNode {
    /// Node GUID.
    pub guid: Guid,
    pub device: DeviceClass,
    pub name: String,
    /// Number of LIDs of its ports.
    pub lids: u32,
    pub cables: Vec<Cable>,
}

impl KnownNode {
    pub fn of(fabric: &Fabric, id: NodeId) -> Self {
        let node = fabric.node(id);
        let end_ports = node.slots().filter(|&port| fabric.owner(port) == port);
        let cables = node.slots().filter_map(|port| Cable::of(fabric, port));
        Self {
            guid: node.guid(),
            device: node.kind().into(),
            name: node.name().to_string(),
            lids: end_ports.filter_map(|port| fabric.observed_lid(port)).count() as u32,
            cables: cables.collect(),
        }
    }
}

/// A fault of a cable that is plugged in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CableDefect {
    /// It went down `downs` times within a minute.
    Flapping { downs: u32, is_quarantined: bool },
    /// Both ends support and enable more than they have negotiated, such as `4x EDR`.
    Degraded { has: String, could: String },
    /// Its ports count or report errors.
    Erroring { text: String },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultyCable {
    pub cable: Cable,
    pub fault: CableDefect,
}

/// A device that refuses what it is told to do, or acknowledges nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefusingDevice {
    pub guid: Guid,
    /// Kind, GUID and name.
    pub name: String,
    pub text: String,
}

/// Two devices with one GUID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DuplicateGuid {
    pub guid: Guid,
    /// It is the GUID of a port, not of a node.
    pub is_port: bool,
    /// The ports behind which the two devices are.
    pub places: [String; 2],
    /// The same ports; `None` for those that are not known.
    pub ends: [Option<End>; 2],
}

/// Two cables with exchanged plugs.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ExchangedCables {
    pub cables: [Cable; 2],
    /// The plugs to exchange, one of each cable.
    pub plugs: [CableEnd; 2],
    /// Why the cables belong there.
    pub reason: String,
}

impl ExchangedCables {
    /// The cables at `ports`, with the plugs at the ports `plugs`; `None` if a port has no cable.
    pub fn of(
        fabric: &Fabric,
        ports: [PortId; 2],
        plugs: [PortId; 2],
        reason: &str,
    ) -> Option<Self> {
        let [one, other] = ports.map(|port| Cable::of(fabric, port));
        let mut cables = [one?, other?];
        cables.sort_unstable();
        let mut plugs = plugs.map(|port| CableEnd::of(fabric, port));
        plugs.sort_unstable();
        Some(Self { cables, plugs, reason: reason.to_owned() })
    }
}

/// Another subnet manager that is in the way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignManager {
    /// Port GUID.
    pub guid: Guid,
    pub text: String,
}

/// The routes in force and their shortcomings; `None` or empty without them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoutingFacts {
    /// Why there is no valid plan, so that the devices keep their tables.
    pub rejected: Option<String>,
    /// Detours that torus-2QoS alone does not make (`torus_repair`), in one sentence.
    pub repaired: Option<String>,
    /// The engine in force is not the first one of the configuration.
    pub fallback: Option<String>,
    /// A credit loop of the tables in force.
    pub credit_loop: Option<String>,
    /// Pairs of hosts without a route.
    pub unrouted: Option<String>,
    /// Repairs that end this, the most effective one first.
    pub repairs: Vec<String>,
}

/// A table or number space that has no room left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FullSpace {
    /// `LIDs`, `MLIDs` or `P_Keys`.
    pub space: &'static str,
    pub text: String,
}

/// A client that sends more than is useful.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flood {
    pub lid: u16,
    /// Name of the node.
    pub name: String,
    /// As [`crate::incidents`]' users name it, such as `trap_flood`.
    pub offence: &'static str,
    /// Since the start of the daemon.
    pub count: u64,
}

/// A resource of this program that fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnFault {
    /// A word that identifies the resource, such as `configuration`.
    pub resource: &'static str,
    pub text: String,
    pub repair: String,
}

/// The last reconfiguration of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Reroute {
    /// From the first trap to the last acknowledged block of a forwarding table or, without a trap,
    /// the duration of the reconfiguration.
    pub milliseconds: u64,
    /// SubnSet requests.
    pub sets: u64,
}

/// What is wrong at one time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    pub losses: LossFacts,
    pub cables: CableFacts,
    pub refusing: Vec<RefusingDevice>,
    pub duplicates: Vec<DuplicateGuid>,
    pub managers: Vec<ForeignManager>,
    pub routing: RoutingFacts,
    pub full: Vec<FullSpace>,
    pub floods: Vec<Flood>,
    pub own: Vec<OwnFault>,
}

/// Parts of the fabric that are gone or do not answer, and what follows from that.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LossFacts {
    pub nodes: Vec<KnownNode>,
    /// Those of lost nodes included.
    pub cables: Vec<Cable>,
    pub silent_nodes: Vec<KnownNode>,
    /// Ports with a link whose far end does not answer.
    pub unanswered: Vec<CableEnd>,
    /// So many devices are silent that SMPs are lost near this SM.
    pub is_mass_silence: bool,
    /// Cables that went down within the last minute and are up again: the incidents about their loss stay
    /// open for a while, since they may flap.
    pub returned_cables: Vec<Cable>,
    /// The part whose loss would cut off most now, in one sentence.
    pub next_failure: Option<String>,
    /// The reconfiguration since the last facts.
    pub reroute: Option<Reroute>,
}

/// Cables that are plugged in and faulty, or in the wrong place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CableFacts {
    pub faulty: Vec<FaultyCable>,
    pub unexpected: Vec<Cable>,
    /// Cables that `topo_config_file` does not list.
    pub unlisted: Vec<Cable>,
    pub exchanged: Vec<ExchangedCables>,
}
