//! The input of a dry run: fabric and configuration from the command line.

use crate::cli::{CommandFailure, DaemonArgs, ExitCode, FabricArgs, configuration};
use crate::config::files;
use crate::config::options::{Options, engine_names};
use crate::config::qos_policy::QosPolicy;
use crate::config::text_file::read_text;
use crate::config::torus::TorusConfig;
use crate::fabric::node_names::NodeNames;
use crate::fabric::synthetic::SyntheticView;
use crate::fabric::topology::Topology;
use crate::fabric::{Fabric, ibnet};
use crate::ids::PortNum;
use crate::notes::{Note, in_words};
use crate::plan::LidTable;
use crate::plan::multicast::GroupMembers;
use crate::plan::partitions::{self, Partition};
use crate::plan::routing::RoutingInput;
use crate::plan::routing::chain::Chain;
use crate::torus_config;
use crate::wire::attr::{NodeKind, PortState};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Fabric and configuration to plan with.
pub struct OfflineScenario {
    pub topology: Topology,
    pub sm_location: SmLocation,
    pub options: Options,
    /// Routing engines in the order of trial.
    pub chain: Chain,
    /// torus-2QoS.conf, or the errors in it.
    pub torus_config: Result<TorusConfig, Vec<Note>>,
    pub partitions: Vec<Partition>,
    /// The QoS policy, if one is configured.
    pub qos_policy: Option<Arc<QosPolicy>>,
    /// Multicast groups; none unless they are known otherwise.
    pub groups: Vec<GroupMembers>,
    /// Messages about the configuration.
    pub notes: Vec<Note>,
}

/// Location of the subnet manager: index of a node of the topology, and port; `None` for the first
/// port with a cable.
pub type SmLocation = (usize, Option<PortNum>);

impl OfflineScenario {
    /// Reads the files and arguments.
    ///
    /// # Errors
    /// Returns an error for the first wrong argument or unreadable file.
    pub fn load(args: &FabricArgs, daemon: &DaemonArgs) -> Result<Self, CommandFailure> {
        let generated = args.generated().map_err(usage_error)?;
        let (mut options, mut notes) = read_options(daemon).map_err(CommandFailure::config)?;
        let mut topology = match (&generated, &args.file) {
            (Some(shape), _) => shape.build().map_err(|error| usage_error(error.to_string()))?,
            (None, Some(file)) => read_fabric(file).map_err(CommandFailure::config)?,
            (None, None) => return Err(usage_error("a shape or --file is needed".to_owned())),
        };
        let mut generated_torus = None;
        if let Some(shape) = generated {
            if options.routing_engine.is_none() {
                options.routing_engine = Some(shape.default_engine().to_owned());
                options.qos = true;
            }
            if options.torus_config == Options::default().torus_config
                && let Some(text) = shape.torus_conf()
            {
                let name = Path::new("torus-2QoS.conf");
                generated_torus = Some(TorusConfig::parse(name, &text));
            }
        }
        notes.extend(rename_nodes(&mut topology, &options));
        let sm_location = sm_location(&topology, &options).map_err(usage_error)?;
        let torus_config = generated_torus
            .unwrap_or_else(|| configured_torus(&topology, sm_location, &options, &mut notes));
        Self::configured(topology, sm_location, torus_config, options, notes)
    }

    /// A fabric that is known otherwise, with the configuration of a daemon. `manager`: where the subnet
    /// manager ran, if that is known.
    ///
    /// # Errors
    /// Returns an error for the first wrong argument or unreadable file.
    pub fn of_topology(
        topology: Topology,
        manager: Option<SmLocation>,
        daemon: &DaemonArgs,
    ) -> Result<Self, CommandFailure> {
        let (options, mut notes) = read_options(daemon).map_err(CommandFailure::config)?;
        let location = match manager {
            Some(location) => location,
            None => sm_location(&topology, &options).map_err(CommandFailure::config)?,
        };
        let torus_config = configured_torus(&topology, location, &options, &mut notes);
        Self::configured(topology, location, torus_config, options, notes)
    }

    /// Reads the other files of the configuration.
    fn configured(
        topology: Topology,
        sm_location: SmLocation,
        torus_config: Result<TorusConfig, Vec<Note>>,
        options: Options,
        mut notes: Vec<Note>,
    ) -> Result<Self, CommandFailure> {
        let (routing_files, found) = files::routing_files(&options);
        notes.extend(found);
        let chain =
            configuration::chain(&options, routing_files).map_err(CommandFailure::config)?;
        let (partitions, found) = read_partitions(&options).map_err(CommandFailure::config)?;
        notes.extend(found);
        let (qos_policy, found) = read_policy(&options).map_err(CommandFailure::config)?;
        notes.extend(found);
        Ok(Self {
            topology,
            sm_location,
            options,
            chain,
            torus_config,
            partitions,
            qos_policy,
            groups: Vec::new(),
            notes,
        })
    }

    /// Replaces the routing engines by one, without fallback.
    ///
    /// # Errors
    /// The name is not that of an engine.
    pub fn use_engine(&mut self, engine: &str) -> Result<(), CommandFailure> {
        self.options.routing_engine = Some(format!("{engine},no_fallback"));
        let (routing_files, _) = files::routing_files(&self.options);
        self.chain =
            configuration::chain(&self.options, routing_files).map_err(CommandFailure::config)?;
        Ok(())
    }

    /// Whether the list of engines has this one, or there is no list.
    pub fn asks_for(&self, engine: &str) -> bool {
        let list = self.options.engines();
        let mut names = engine_names(list).peekable();
        names.peek().is_none() || names.any(|name| name == engine)
    }

    /// The fabric as a sweep of the subnet manager sees it.
    ///
    /// # Errors
    /// Returns an error if the fabric has no node.
    pub fn fabric(&self) -> Result<Fabric, CommandFailure> {
        let fabric = snapshot(&self.topology, self.sm_location);
        fabric.ok_or_else(|| CommandFailure::config("the fabric has no node"))
    }

    /// Input of a routing engine for `fabric`, without a previous routing.
    pub fn routing_input<'a>(&'a self, fabric: &'a Fabric, lids: &'a LidTable) -> RoutingInput<'a> {
        let options = &self.options;
        let torus_config = &self.torus_config;
        RoutingInput { fabric, lids, options, torus_config, previous: None, previous_fabric: None }
    }
}

fn usage_error(text: String) -> CommandFailure {
    CommandFailure::new(ExitCode::Usage, text)
}

/// The snapshot that a sweep from `location` takes of a running fabric; `None` if it has no node.
pub fn snapshot(topology: &Topology, (node, local_port): SmLocation) -> Option<Fabric> {
    let view = SyntheticView { state: PortState::Active, local_port, ..SyntheticView::default() };
    Fabric::from_topology(topology, node, &view)
}

/// torus-2QoS.conf; derived from the cables if the file of the default name is absent, as it is
/// where the fabric of another machine is planned.
fn configured_torus(
    topology: &Topology,
    location: SmLocation,
    options: &Options,
    notes: &mut Vec<Note>,
) -> Result<TorusConfig, Vec<Note>> {
    let is_default = options.torus_config == Options::default().torus_config;
    if is_default
        && !Path::new(&options.torus_config).exists()
        && let Some(fabric) = snapshot(topology, location)
    {
        let derived = torus_config::derive(&fabric).map_err(|problem| {
            let absent = format!("{} is absent", options.torus_config);
            vec![Note::warning(format!("{absent}, and no torus can be derived: {problem}"))]
        })?;
        let shape = derived.config.size.as_ref().map_or_else(String::new, torus_config::shape);
        notes.push(Note::info(format!(
            "{} is absent; for torus-2QoS the torus {shape} is derived from the cables",
            options.torus_config
        )));
        return Ok(derived.config);
    }
    files::torus_config(options)
}

fn read_options(daemon: &DaemonArgs) -> Result<(Options, Vec<Note>), String> {
    if daemon.config.is_some() {
        let configured = configuration::read_strictly(daemon)?;
        return Ok((configured.options, configured.notes));
    }
    let mut options = Options::default();
    let mut notes = daemon.notes.clone();
    daemon.apply(&mut options);
    notes.extend(options.reconcile());
    Ok((options, notes))
}

/// The partitions of the configured file; the default ones without a file.
fn read_partitions(options: &Options) -> Result<(Vec<Partition>, Vec<Note>), String> {
    if options.partition_config_file == Options::default().partition_config_file {
        return Ok((partitions::default(options), Vec::new()));
    }
    let (config, mut notes) = files::partitions(options)?;
    let (partitions, found) = partitions::partitions(&config, options, &[]);
    notes.extend(found);
    Ok((partitions, notes))
}

/// Names the nodes as in the node name map that the options name, and returns the findings about
/// it.
fn rename_nodes(topology: &mut Topology, options: &Options) -> Vec<Note> {
    if options.node_name_map_name.is_none() {
        return Vec::new();
    }
    let (names, notes) = match files::node_names(options) {
        Ok((names, notes)) => (NodeNames::from_iter(names), notes),
        Err(notes) => (NodeNames::default(), notes),
    };
    for node in &mut topology.nodes {
        if let Some(name) = names.get(node.guid) {
            node.description = name.to_string();
        }
    }
    notes
}

/// The QoS policy of the configured file.
fn read_policy(options: &Options) -> Result<(Option<Arc<QosPolicy>>, Vec<Note>), String> {
    if !options.qos || options.qos_policy_file == Options::default().qos_policy_file {
        return Ok((None, Vec::new()));
    }
    let (policy, notes) = files::qos_policy(options).map_err(in_words)?;
    Ok((policy.map(Arc::new), notes))
}

/// Reads a fabric in ibnetdiscover's format.
pub(crate) fn read_fabric(file: &Path) -> Result<Topology, String> {
    let text = read_text(file).map_err(|error| {
        // A second look does no harm where the first one failed.
        let reason = fs::read(file).ok().and_then(|bytes| ibnet::why_no_text(&bytes));
        reason.map_or_else(|| error.to_string(), |reason| format!("{}: {reason}", file.display()))
    })?;
    ibnet::parse(file, &text).map_err(|error| error.to_string())
}

/// The port given by `-g`, else the first host, else the first node.
pub(super) fn sm_location(topology: &Topology, options: &Options) -> Result<SmLocation, String> {
    if options.guid.0 == 0 {
        let host =
            (0..topology.nodes.len()).find(|index| topology.nodes[*index].kind == NodeKind::Ca);
        return Ok((host.unwrap_or(0), None));
    }
    for (index, node) in topology.nodes.iter().enumerate() {
        let first = u8::from(node.kind != NodeKind::Switch);
        let last = if first == 0 { 0 } else { node.num_ports };
        let mut ports = (first..=last).map(PortNum);
        if let Some(num) = ports.find(|&num| node.port_guid(num) == options.guid) {
            return Ok((index, Some(num)));
        }
    }
    Err(format!("the fabric has no end port with GUID {}", options.guid))
}
