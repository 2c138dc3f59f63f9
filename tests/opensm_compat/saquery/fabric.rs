//! A torus of 3x3x2 switches with a host at each and two LIDs per host, and its subnet manager.

use super::answer::Answer;
use super::question::Question;
use std::fmt::Write;
use std::fs;
use std::process::Stdio;
use std::sync::Mutex;
use testkit::{Running, tool, torus_sm, wait_for};
use testkit::{START_TIMEOUT, Simulator};
use torus_sm::ids::Guid;
use torus_sm::sim::generate::Shape;

pub(crate) const RADIX: [u16; 3] = [3, 3, 2];

/// A node by its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Switch([u16; 3]),
    Host([u16; 3]),
}

impl Node {
    /// `h0-0-1`, `sw0-0-1`.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (kind, place) = name.split_at(name.find(|c: char| c.is_ascii_digit())?);
        let place: Vec<u16> = place.split('-').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let place: [u16; 3] = place.try_into().ok()?;
        match kind {
            "h" => Some(Self::Host(place)),
            "sw" => Some(Self::Switch(place)),
            _ => None,
        }
    }

    /// The GUID of its end port.
    pub(crate) fn port_guid(self) -> Guid {
        let shape = Shape::torus(RADIX);
        match self {
            Self::Switch(at) => shape.switch_guid(at),
            // The generator numbers ports after their node.
            Self::Host(at) => Guid(shape.host_guid(at, 0).0 + 1),
        }
    }
}

/// All nodes, in an order that differs from that of their GUIDs.
fn nodes() -> Vec<Node> {
    let [x, y, z] = RADIX;
    let places = (0..z).flat_map(|z| (0..y).map(move |y| (y, z)));
    let places = places.flat_map(|(y, z)| (0..x).map(move |x| [x, y, z]));
    let mut nodes: Vec<Node> = places.flat_map(|at| [Node::Host(at), Node::Switch(at)]).collect();
    nodes.sort_by_key(|node| node.port_guid().0 * 2_654_435_761 % 1009);
    nodes
}

/// The first LID of a node.
pub(crate) fn lid(node: Node) -> u16 {
    let place = nodes().iter().position(|other| *other == node).expect("a node of the torus");
    4 + 2 * place as u16
}

/// The node with this LID.
pub(crate) fn node(lid: u64) -> Option<Node> {
    nodes().get(usize::try_from(lid).ok()?.checked_sub(4)? / 2).copied()
}

/// The guid2lid file of all ports: two LIDs for hosts, one for switches.
fn guid2lid() -> String {
    let mut text = String::new();
    for node in nodes() {
        let first = lid(node);
        let last = if matches!(node, Node::Host(_)) { first + 1 } else { first };
        let guid = node.port_guid().0;
        let _ = writeln!(text, "{guid:#018x} {first:#06x} {last:#06x}\n");
    }
    text
}

/// The subnet manager of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manager {
    TorusSm,
    OpenSm,
}

/// A fabric that is up.
pub(crate) struct Fabric {
    sim: Simulator,
    manager: Mutex<Running>,
}

impl Fabric {
    /// Starts the simulation and the manager at its first host.
    pub(crate) fn start(manager: Manager) -> Self {
        let sim = Simulator::start(&["3x3x2", "--no-sm"]);
        let dir = sim.dir.path();
        let file = |name: &str, text: &str| {
            fs::write(dir.join(name), text).expect("a file");
        };
        file("guid2lid", &guid2lid());
        file("partitions.conf", include_str!("partitions.conf"));
        file("opensm-sa.dump", include_str!("opensm-sa.dump"));
        file("torus-2QoS.conf", &Shape::torus(RADIX).torus_conf());
        file("opensm.conf", "max_op_vls 4\nlmc 1\nhonor_guid2lid_file TRUE\n");
        let program = match manager {
            Manager::TorusSm => torus_sm(),
            Manager::OpenSm => tool("opensm").expect("checked before"),
        };
        let child = sim
            .command("", &program)
            .args(["-d", "2", "-Q", "-R", "torus-2QoS,no_fallback", "-F", "opensm.conf"])
            .args(["--torus_config", "torus-2QoS.conf", "-P", "partitions.conf"])
            .args(["-S", "opensm-sa.dump", "-f"])
            .arg(dir.join("sm.log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let running = Running(child.expect("the manager starts"));
        wait_for(&dir.join("sm.log"), "SUBNET UP", START_TIMEOUT);
        Self { sim, manager: Mutex::new(running) }
    }

    /// The log of the manager.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.sim.dir.path().join("sm.log")).unwrap_or_default()
    }

    pub(crate) fn ask(&self, question: &Question) -> Answer {
        let args: Vec<&str> = question.args.iter().map(String::as_str).collect();
        let answer = Answer::of(&self.sim.run(&question.at, "saquery", &args));
        let ended = self.manager.lock().expect("no panic").0.try_wait();
        let ended = ended.expect("it can be waited for");
        assert_eq!(ended, None, "the manager ended with the question {args:?}");
        answer
    }
}
