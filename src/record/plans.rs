//! Plans with their inputs: as the recorder keeps them, and as a recording stores them.

use super::digest::{DeviceDigest, digests};
use super::entry::EventKind;
use super::json::{
    AliasJson, BytesJson, ConfigurationJson, DevicesJson, DigestJson, GroupJson, GuidJson,
    NodeJson, NodePortJson, PlanJson, PortJson, ResultJson, TorusConfigJson,
};
use crate::config::files::ConfigTexts;
use crate::config::guid2lid;
use crate::config::options::Options;
use crate::config::torus::TorusConfig;
use crate::fabric::{Fabric, Node, PortId};
use crate::ids::{Guid, MKey};
use crate::notes::{Note, counted};
use crate::plan::Plan;
use crate::plan::aliases::AliasBlock;
use crate::plan::lids::Memory;
use crate::plan::multicast::GroupMembers;
use crate::wire::attr::tables::{PkeyBlock, PkeyTable};
use std::collections::HashSet;
use std::sync::Arc;

/// The inputs of a plan.
#[derive(Clone)]
pub struct PlanInputs {
    /// Another plan is in force.
    pub has_previous: bool,
    pub fabric: Arc<Fabric>,
    /// P_Key table blocks as read by the sweep. Index: port slot.
    pub pkeys: Arc<Vec<PkeyTable>>,
    pub options: Arc<Options>,
    /// The texts of the files that the options name.
    pub files: Arc<ConfigTexts>,
    pub torus_config: Arc<Result<TorusConfig, Vec<Note>>>,
    pub groups: Arc<Vec<GroupMembers>>,
    pub aliases: Arc<Vec<AliasBlock>>,
    pub memory: Memory,
    /// End ports to set ClientReregister for.
    pub reregister: Arc<HashSet<PortId>>,
}

impl PlanInputs {
    /// The numbers of nodes, for the time line.
    pub(super) fn summary(&self) -> String {
        let switches = self.fabric.switches().len();
        let others = self.fabric.nodes().len() - switches;
        format!(
            "for {}, {} and {}",
            counted(switches, "switch", "switches"),
            counted(others, "other node", "other nodes"),
            counted(self.groups.len(), "multicast group", "multicast groups"),
        )
    }
}

/// A plan with its inputs.
#[derive(Clone)]
pub struct PlanRecord {
    /// Number of the plan since the start of the daemon, from 1.
    pub number: u64,
    /// Number of the entry at which planning began.
    pub position: u64,
    pub inputs: PlanInputs,
    pub result: PlanResult,
}

/// The result of planning.
#[derive(Clone)]
pub enum PlanResult {
    Unfinished,
    Accepted(Arc<Plan>),
    /// A plan that was replaced by its digests, which take less memory: the name of its engine, and
    /// the digests of all nodes.
    Digested(&'static str, Arc<Vec<(Guid, DeviceDigest)>>),
    /// The reason.
    Rejected(String),
}

impl PlanResult {
    pub(super) fn summary(&self) -> (EventKind, String) {
        match self {
            Self::Unfinished => (EventKind::PlanRejected, "planning was interrupted".into()),
            Self::Accepted(plan) => {
                let lids = counted(plan.lids.iter().count(), "LID", "LIDs");
                (EventKind::PlanAccepted, format!("by {}, {lids}", plan.routing.engine))
            }
            Self::Digested(engine, _) => (EventKind::PlanAccepted, format!("by {engine}")),
            Self::Rejected(reason) => (EventKind::PlanRejected, reason.clone()),
        }
    }
}

/// The options as text, without keys.
fn options_text(options: &Options) -> String {
    let text = options.to_text();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.filter(|line| !is_key(line)).flat_map(|line| [line, "\n"]).collect()
}

fn is_key(line: &str) -> bool {
    line.split_whitespace().next().is_some_and(|word| word.ends_with("_key"))
}

impl ConfigurationJson {
    pub(super) fn new(inputs: &PlanInputs) -> Self {
        Self { options: options_text(&inputs.options), files: inputs.files.0.clone() }
    }
}

impl PlanJson {
    /// The plan with the configuration of this index.
    pub(super) fn new(record: &PlanRecord, configuration: usize) -> Self {
        let PlanRecord { number, position, inputs, result } = record;
        let fabric = &*inputs.fabric;
        let memory = &inputs.memory;
        let port = |&id: &PortId| port_json(fabric, id);
        let groups = inputs.groups.iter().map(|group| GroupJson {
            mlid: group.mlid.0,
            sl: group.sl.0,
            members: group.members.iter().map(port).collect(),
            senders: group.senders.iter().map(port).collect(),
        });
        // Vports are not recorded.
        let of_ports = inputs.aliases.iter().filter(|alias| alias.vport.is_none());
        let aliases = of_ports.map(|alias| AliasJson {
            port: port(&alias.port),
            block: alias.block,
            guids: alias.guids.0.map(GuidJson),
        });
        let mut reregister: Vec<PortJson> = inputs.reregister.iter().map(port).collect();
        reregister.sort_unstable();
        let removed = memory.removed_pkeys.iter().map(|(guid, keys)| {
            (GuidJson(guid), keys.iter().map(|(key, index)| (key.0, *index)).collect())
        });
        Self {
            number: *number,
            has_previous: inputs.has_previous,
            position: *position,
            configuration,
            torus_config: torus_config_json(&inputs.torus_config),
            guid2lid: guid2lid::emit(&memory.guid2lid),
            lids_assigned: memory.lids_assigned,
            removed_pkeys: removed.collect(),
            groups: groups.collect(),
            aliases: aliases.collect(),
            reregister,
            result: result_json(result),
            digests: digests_json(fabric, result),
        }
    }
}

fn torus_config_json(config: &Result<TorusConfig, Vec<Note>>) -> TorusConfigJson {
    match config {
        Ok(config) => TorusConfigJson::Text(config.to_string()),
        Err(notes) => TorusConfigJson::Errors(notes.iter().map(|note| note.text.clone()).collect()),
    }
}

fn result_json(result: &PlanResult) -> ResultJson {
    match result {
        PlanResult::Unfinished => ResultJson::Unfinished,
        PlanResult::Accepted(plan) => ResultJson::Accepted(plan.routing.engine.to_owned()),
        PlanResult::Digested(engine, _) => ResultJson::Accepted((*engine).to_owned()),
        PlanResult::Rejected(reason) => ResultJson::Rejected(reason.clone()),
    }
}

fn digests_json(fabric: &Fabric, result: &PlanResult) -> Vec<DigestJson> {
    let digests = match result {
        PlanResult::Accepted(plan) => Arc::new(digests(fabric, Some(plan))),
        PlanResult::Digested(_, digests) => digests.clone(),
        PlanResult::Unfinished | PlanResult::Rejected(_) => Arc::new(digests(fabric, None)),
    };
    let nodes = digests.iter().zip(fabric.nodes());
    let json = nodes.map(|(&(guid, digest), node)| DigestJson {
        guid: GuidJson(guid),
        description: node.description.to_string(),
        digest,
    });
    json.collect()
}

fn port_json(fabric: &Fabric, id: PortId) -> PortJson {
    (GuidJson(fabric.node_of(id).guid()), fabric.port(id).num.0)
}

impl DevicesJson {
    /// The devices that the inputs of a plan observed.
    pub(super) fn new(record: &PlanRecord) -> Self {
        let fabric = &*record.inputs.fabric;
        let nodes = fabric
            .nodes()
            .iter()
            .map(|node| node_json(fabric, node, &|slot| pkeys(&record.inputs.pkeys, slot)));
        let position = record.position;
        let local = port_json(fabric, fabric.local());
        Self { position, local, nodes: nodes.collect() }
    }
}

fn pkeys(pkeys: &Arc<Vec<Arc<[PkeyBlock]>>>, slot: usize) -> &[PkeyBlock] {
    pkeys.get(slot).map_or(&[][..], |table| &table[..])
}

fn node_json<'a>(
    fabric: &Fabric,
    node: &Node,
    pkeys: &impl Fn(usize) -> &'a [PkeyBlock],
) -> NodeJson {
    let first = node.first_port.index();
    let slots = first..=first + usize::from(node.num_ports());
    let ports = slots.map(|slot| {
        let port = &fabric.ports()[slot];
        let info = port.info().map(|mut info| {
            info.set_m_key(MKey::NONE);
            BytesJson::new(&info.0)
        });
        NodePortJson {
            guid: GuidJson(port.guid),
            info,
            peer: port.peer.map(|peer| port_json(fabric, peer)),
            pkeys: pkeys(slot).iter().map(|block| BytesJson(block.to_wire())).collect(),
        }
    });
    NodeJson {
        info: BytesJson::new(&node.info.0),
        description: BytesJson::new(&node.description.0),
        switch_info: BytesJson::new(&node.switch_info.0),
        ports: ports.collect(),
    }
}
