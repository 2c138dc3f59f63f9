//! The engine `file`: forwarding tables of `lfts_file`, and hops of `lid_matrix_dump_file`.
//!
//! The tables are those that OpenSM or torus-sm dumped. LIDs that changed since are found by the
//! port GUIDs of the dump. The hops guide multicast trees and, without `lfts_file`, the balance of
//! unicast routes; without `lid_matrix_dump_file` they are those of shortest paths. Switches that
//! the dump lacks get no entries, and cables that were lost since keep theirs, as in OpenSM. Files
//! that connect no hosts at all, such as an empty one, are refused: they would end all traffic.

use super::balancing::Balancing;
use super::balancing::hops::{HopRule, TargetHops};
use super::switch_graph::{NO_PATH, SwitchGraph, linked_peer};
use super::{Engine, Lft, Routing, RoutingError, RoutingInput};
use crate::config::guid_lists::GuidLists;
use crate::config::route_dumps::{LftDump, LidMatrixDump};
use crate::fabric::{Fabric, PortId, SwitchId};
use crate::ids::{Guid, Lid, PortNum};
use crate::notes::{Note, Severity};
use crate::plan::LidTable;
use crate::wire::attr::tables::LFT_NO_PATH;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The name of the engine.
pub const NAME: &str = "file";

/// Maximum number of switches on a path; longer ones count as loops.
const MAX_PATH_SWITCHES: u32 = 64;

/// The engine, with the contents of its files.
#[derive(Clone, Debug, Default)]
pub struct FileEngine {
    lists: Arc<GuidLists>,
}

impl FileEngine {
    pub fn new(lists: Arc<GuidLists>) -> Self {
        Self { lists }
    }
}

impl Engine for FileEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn route(&self, input: &RoutingInput<'_>) -> Result<Routing, RoutingError> {
        let graph = SwitchGraph::new(input.fabric, &self.lists.hop_weights);
        let mut balancing = Balancing::of_shortest_paths(NAME, input, &self.lists, &graph);
        balancing.properties.may_use_uncabled_ports = true;
        if let Some(matrix) = &self.lists.lid_matrix {
            let matrix = matrix.as_ref().as_ref().map_err(|notes| refusal(notes.clone()))?;
            balancing.rule = Some(Arc::new(LoadedHops::new(input.fabric, input.lids, matrix)));
        }
        let Some(dump) = &self.lists.lfts else {
            let mut balanced = balancing.route();
            if !connects_hosts(input.fabric, input.lids, &balanced.routing.lfts) {
                return Err(refusal(vec![no_connection("lid_matrix_dump_file")]));
            }
            let gap = balanced.gap().map(|gap| gap.describe(input.fabric, input.lids));
            balanced.routing.notes.extend(gap.map(Note::warning));
            return Ok(balanced.routing);
        };
        let dump = dump.as_ref().as_ref().map_err(|notes| refusal(notes.clone()))?;
        let lfts = tables(input.fabric, input.lids, dump).map_err(|note| refusal(vec![note]))?;
        if !connects_hosts(input.fabric, input.lids, &lfts) {
            return Err(refusal(vec![no_connection("lfts_file")]));
        }
        let mut routing = balancing.with_tables(lfts);
        routing.notes.extend(switches_without_section(input.fabric, dump));
        Ok(routing)
    }
}

fn refusal(notes: Vec<Note>) -> RoutingError {
    RoutingError { engine: NAME, notes, dump: None }
}

/// True unless the fabric has several hosts and the tables connect none of them to another one.
fn connects_hosts(fabric: &Fabric, lids: &LidTable, lfts: &[Arc<Lft>]) -> bool {
    let hosts: Vec<(PortId, SwitchId, Lid)> = fabric
        .end_ports()
        .filter(|&port| !fabric.node_of(port).is_switch())
        .filter_map(|port| Some((port, fabric.switch_behind(port)?, lids.base(port)?)))
        .collect();
    // Two hosts of a switch stand for all of them, since one of the two is not the destination.
    let mut counts = vec![0u8; fabric.switches().len()];
    let mut sources: Vec<(SwitchId, PortId)> = Vec::new();
    for &(port, switch, _) in &hosts {
        if counts[switch.index()] < 2 {
            counts[switch.index()] += 1;
            sources.push((switch, port));
        }
    }
    hosts.len() < 2
        || hosts.iter().any(|&(port, _, lid)| {
            sources
                .iter()
                .any(|&(switch, source)| source != port && arrives(lfts, fabric, switch, port, lid))
        })
}

fn arrives(
    lfts: &[Arc<Lft>],
    fabric: &Fabric,
    source: SwitchId,
    destination: PortId,
    lid: Lid,
) -> bool {
    let mut at = source;
    for _ in 0..MAX_PATH_SWITCHES {
        let exit = lfts[at.index()].out(lid).and_then(|out| fabric.switch_port(at, PortNum(out)));
        let Some(peer) = exit.and_then(|exit| linked_peer(fabric, exit)) else { return false };
        match fabric.node_of(peer).switch {
            Some(next) => at = next,
            None => return peer == destination,
        }
    }
    false
}

fn no_connection(key: &str) -> Note {
    let text = format!(
        "{key} is empty or was made for another fabric: no host reaches another one by its entries"
    );
    Note::new(Severity::Error, None, text)
}

/// A warning about the switches of the fabric that the dump lacks.
fn switches_without_section(fabric: &Fabric, dump: &LftDump) -> Option<Note> {
    let known: HashSet<SwitchId> =
        dump.switches.iter().filter_map(|(guid, _)| switch_of(fabric, *guid)).collect();
    let mut missing = fabric.switch_ids().filter(|switch| !known.contains(switch));
    let first = fabric.describe(fabric.switch(missing.next()?).first_port);
    Some(Note::warning(match missing.count() {
        0 => format!("lfts_file has no section for {first}, which forwards nothing"),
        more => format!(
            "lfts_file has no section for {} switches, which forward nothing; the first is {first}",
            more + 1
        ),
    }))
}

/// The switch with a node GUID.
fn switch_of(fabric: &Fabric, guid: Guid) -> Option<SwitchId> {
    fabric.node_by_guid(guid).and_then(|node| fabric.node(node).switch)
}

/// The present LID of a destination: that of the dump if its port still has it or is unknown.
fn present_lid(fabric: &Fabric, lids: &LidTable, lid: Lid, destination: Option<Guid>) -> Lid {
    let port = destination.and_then(|guid| fabric.port_by_guid(guid));
    let Some((port, base)) = port.and_then(|port| Some((port, lids.base(port)?))) else {
        return lid;
    };
    let mask = (1 << lids.lmc(port)) - 1;
    let is_own = lid.0 >= base.0 && lid.0 - base.0 <= mask;
    if is_own { lid } else { Lid(base.0 + (lid.0 & mask)) }
}

/// The forwarding tables of a dump, for the switches of this fabric.
fn tables(fabric: &Fabric, lids: &LidTable, dump: &LftDump) -> Result<Vec<Arc<Lft>>, Note> {
    let mut tables = vec![Lft::unused_entries(lids.max()); fabric.switches().len()];
    for (guid, entries) in &dump.switches {
        let Some(switch) = switch_of(fabric, *guid) else { continue };
        tables[switch.index()].fill(LFT_NO_PATH);
        for entry in entries {
            let ports = fabric.switch(switch).num_ports();
            if entry.port > ports {
                let line = entry.line;
                let port = entry.port;
                let text = format!("lfts_file:{line}: switch {guid} has no port {port}");
                return Err(Note::new(Severity::Error, None, text));
            }
            let lid = present_lid(fabric, lids, entry.lid, entry.destination);
            // LIDs that no port has any more may be beyond the table.
            if let Some(out) = tables[switch.index()].get_mut(lid.index()) {
                *out = entry.port;
            }
        }
    }
    Ok(Lft::shared(tables))
}

/// The hops of a dump.
#[derive(Clone, Debug)]
struct LoadedHops {
    /// By destination switch: the hops by port, of each switch that has a row.
    rows: HashMap<SwitchId, Vec<(SwitchId, Vec<u8>)>>,
}

impl LoadedHops {
    fn new(fabric: &Fabric, lids: &LidTable, dump: &LidMatrixDump) -> Self {
        let mut rows = HashMap::<_, Vec<_>>::new();
        for (guid, entries) in &dump.switches {
            let Some(switch) = switch_of(fabric, *guid) else { continue };
            for entry in entries {
                let port = entry.destination.and_then(|guid| fabric.port_by_guid(guid));
                let port = port.or_else(|| lids.port(entry.lid));
                let target = port.and_then(|port| fabric.node_of(port).switch);
                if let Some(target) = target {
                    rows.entry(target).or_default().push((switch, entry.hops.clone()));
                }
            }
        }
        Self { rows }
    }
}

impl HopRule for LoadedHops {
    fn hops_to(&self, graph: &SwitchGraph, target: SwitchId, hops: &mut TargetHops) {
        hops.reset(graph, target);
        for (switch, row) in self.rows.get(&target).into_iter().flatten() {
            let ports = graph.numbered_links(*switch);
            for (index, link) in ports {
                if let Some(&through) = row.get(usize::from(link.port)) {
                    hops.by_link[index] = through;
                }
            }
            let least = row.iter().copied().min().unwrap_or(NO_PATH);
            hops.least[switch.index()] = hops.least[switch.index()].min(least);
        }
    }
}
