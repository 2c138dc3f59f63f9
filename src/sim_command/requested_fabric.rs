//! The fabric that the command line describes.

use crate::cli::{CommandFailure, DaemonArgs, ExitCode, SimArgs};
use crate::config::options::{Options, engine_names};
use crate::fabric::topology::Topology;
use crate::fabric::topology::TopologyNode;
use crate::ids::{Guid, PortNum};
use crate::notes::counted;
use crate::offline::scenario;
use crate::plan::routing::torus;
use crate::torus_config;
use crate::wire::attr::NodeKind;
use std::path::Path;

/// Port of the subnet manager: node GUID and port number.
pub(super) type SmPort = (Guid, PortNum);

pub(super) struct RequestedFabric {
    pub(super) topology: Topology,
    /// The shape, such as `6x5x1 torus`, or the name of the file.
    name: String,
    /// torus-2QoS.conf of a generated torus.
    generated_torus: Option<String>,
    /// The engine that suits a generated fabric.
    pub(super) default_engine: Option<&'static str>,
}

impl RequestedFabric {
    pub(super) fn from_args(args: &SimArgs) -> Result<Self, CommandFailure> {
        match &args.fabric.file {
            Some(file) => Self::from_file(file),
            None => Self::generate(args),
        }
    }

    fn from_file(file: &Path) -> Result<Self, CommandFailure> {
        let name = file.display().to_string();
        let topology = scenario::read_fabric(file).map_err(CommandFailure::config)?;
        Ok(Self { topology, name, generated_torus: None, default_engine: None })
    }

    fn generate(args: &SimArgs) -> Result<Self, CommandFailure> {
        let shape =
            args.fabric.generated().map_err(|text| CommandFailure::new(ExitCode::Usage, text))?;
        let Some(shape) = shape else {
            return Err(CommandFailure::new(ExitCode::Usage, "a shape or --file is required"));
        };
        let topology =
            shape.build().map_err(|error| CommandFailure::new(ExitCode::Usage, error))?;
        let name = shape.to_string();
        let generated_torus = shape.torus_conf();
        Ok(Self { topology, name, generated_torus, default_engine: Some(shape.default_engine()) })
    }

    pub(super) fn is_generated_torus(&self) -> bool {
        self.generated_torus.is_some()
    }

    /// The torus-2QoS.conf of a generated torus. That of another fabric is derived from its cables,
    /// if torus-2QoS may need one and they are those of a torus.
    pub(super) fn torus_conf(&self, daemon: &DaemonArgs) -> Option<String> {
        if let Some(text) = &self.generated_torus {
            return Some(text.clone());
        }
        let engines = daemon.given("routing_engine").unwrap_or("");
        let is_needed =
            engine_names(engines).any(|name| name == torus::NAME) || daemon.config.is_some();
        if !is_needed || daemon.given("torus_config").is_some() {
            return None;
        }
        let sm_node =
            self.topology.nodes.iter().position(|node| node.kind == NodeKind::Ca).unwrap_or(0);
        let fabric = scenario::snapshot(&self.topology, (sm_node, None))?;
        torus_config::derive(&fabric).ok().map(|derived| derived.config.to_string())
    }

    /// The port given by `-g`; else the first cabled port of a host, or port 0 of the first switch.
    pub(super) fn sm_port(
        &self,
        args: &DaemonArgs,
        options: &Options,
    ) -> Result<SmPort, CommandFailure> {
        if args.ask_for_port {
            let text = "-g 0 selects among the ports of this machine; give the GUID of a simulated \
                        port, or no -g";
            return Err(CommandFailure::new(ExitCode::Usage, text));
        }
        let mut candidates =
            self.end_ports().filter(|&(_, guid)| is_requested(&options.guid, guid));
        let found = candidates.find(|(port, _)| port.1 == PortNum::ZERO || self.is_cabled(*port));
        found.map(|(port, _)| port).ok_or_else(|| {
            let text = match options.guid.0 {
                0 => "the fabric has neither a host nor a switch".to_owned(),
                _ => format!("the fabric has no port with GUID {}", options.guid),
            };
            CommandFailure::new(ExitCode::NoPort, text)
        })
    }

    /// End ports with their port GUIDs, those of hosts first.
    fn end_ports(&self) -> impl Iterator<Item = (SmPort, Guid)> {
        let of_kind = |kind| self.topology.nodes.iter().filter(move |node| node.kind == kind);
        let hosts = of_kind(NodeKind::Ca)
            .flat_map(|node| (1..=node.num_ports).map(move |num| (node, PortNum(num))));
        let switches = of_kind(NodeKind::Switch).map(|node| (node, PortNum::ZERO));
        hosts.chain(switches).map(|(node, num)| ((node.guid, num), node.port_guid(num)))
    }

    fn is_cabled(&self, (guid, num): SmPort) -> bool {
        self.topology.cables.iter().flatten().any(|&(node, at)| {
            at == num && self.topology.nodes.get(node).is_some_and(|node| node.guid == guid)
        })
    }

    /// `6x5x1 torus: 30 switches, 30 hosts, 90 cables`.
    pub(super) fn summary(&self) -> String {
        let mut counts = vec![
            counted(count(&self.topology.nodes, NodeKind::Switch), "switch", "switches"),
            counted(count(&self.topology.nodes, NodeKind::Ca), "host", "hosts"),
        ];
        let routers = count(&self.topology.nodes, NodeKind::Router);
        if routers > 0 {
            counts.push(counted(routers, "router", "routers"));
        }
        counts.push(counted(self.topology.cables.len(), "cable", "cables"));
        format!("{}: {}", self.name, counts.join(", "))
    }

    /// Description of a node.
    pub(super) fn node_name(&self, guid: Guid) -> &str {
        let node = self.topology.nodes.iter().find(|node| node.guid == guid);
        node.map_or("?", |node| &node.description)
    }
}

fn count(topology_nodes: &[TopologyNode], kind: NodeKind) -> usize {
    topology_nodes.iter().filter(|node| node.kind == kind).count()
}

fn is_requested(options_guid: &Guid, guid: Guid) -> bool {
    [Guid(0), guid].contains(options_guid)
}
