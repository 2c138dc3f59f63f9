//! Compares the dump files of another subnet manager with a plan of this program: no port is needed, and
//! nothing is sent. opensm-subnet.lst tells the links and LIDs, opensm-lfts.dump the routes, opensm-sl2vl.dump
//! and opensm.mcfdbs further tables.

use super::dumped_tables::DumpedTables;
use super::in_force;
use super::report::ShadowReport;
use super::set_view::{SetEffect, SetView};
use crate::cli::{CommandFailure, DaemonArgs};
use crate::config::route_dumps::{self, LftDump};
use crate::config::text_file::{ReadError, read_text};
use crate::fabric::{Fabric, subnet_list};
use crate::ids::{Guid, Lid};
use crate::offline::scenario::OfflineScenario;
use crate::offline::trial::{OfflineTrial, TrialOutcome};
use crate::plan::Plan;
use crate::wire::attr::AttrId;
use crate::wire::attr::tables::{LFT_BLOCK, LFT_NO_PATH};
use chrono::Local;
use std::collections::BTreeMap;
use std::path::Path;

const SUBNET_LIST: &str = "opensm-subnet.lst";
const LFT_DUMP: &str = "opensm-lfts.dump";

/// The report about the dump files of `folder`.
///
/// # Errors
/// The configuration or a file cannot be read.
pub fn compare(folder: &Path, daemon: &DaemonArgs) -> Result<ShadowReport, CommandFailure> {
    let list = read(&folder.join(SUBNET_LIST))?;
    let list = subnet_list::parse(&list).map_err(|error| {
        CommandFailure::config(format!("{}: {error}", folder.join(SUBNET_LIST).display()))
    })?;
    let path = folder.join(LFT_DUMP);
    let routes = route_dumps::lfts(&path, &read(&path)?)
        .map_err(|error| CommandFailure::config(error.to_string()))?;
    let manager = list.manager.map(|(node, port)| (node, Some(port).filter(|port| port.0 > 0)));
    let mut scenario = OfflineScenario::of_topology(list.topology, manager, daemon)?;
    let fabric = scenario.fabric()?;
    let tables = DumpedTables::read(folder).map_err(CommandFailure::config)?;
    let multicast = tables.multicast(&fabric);
    scenario.groups =
        multicast.as_ref().map_or_else(Vec::new, |held| in_force::groups(&fabric, held));
    let trial = OfflineTrial::run(&scenario, &fabric, None);
    let mut report = ShadowReport {
        passes: 1,
        updated: Local::now().format("%Y-%m-%d %H:%M:%S %:z").to_string(),
        switches: fabric.switches().len(),
        hosts: fabric.nodes().len() - fabric.switches().len(),
        dump_files: Some(folder.display().to_string()),
        groups: scenario.groups.len(),
        not_compared: tables.not_compared.clone(),
        ..ShadowReport::default()
    };
    match &trial.outcome {
        TrialOutcome::Routed(verified) => {
            let plan = verified.plan();
            report.engine = Some(plan.routing.engine.to_owned());
            report.differences = lids(&fabric, plan);
            report.differences.extend(differing_blocks(&fabric, plan, &routes));
            let mut sets = tables.sl_to_vl_sets(&fabric, plan);
            if let Some(held) = &multicast {
                sets.extend(in_force::multicast_sets(&fabric, held, &plan.multicast));
            }
            let views = sets.iter().filter_map(|set| SetView::new(&fabric, set));
            report.differences.extend(views);
        }
        TrialOutcome::Faulty(failure) => {
            let fault = failure.faults.first().map(ToString::to_string);
            report.rejected = Some(fault.unwrap_or_else(|| "the plan is faulty".to_owned()));
        }
        TrialOutcome::Unrouted { notes, .. } => {
            let note = notes.first().map(ToString::to_string);
            report.rejected =
                Some(note.unwrap_or_else(|| "no engine routes the fabric".to_owned()));
        }
    }
    Ok(report)
}

fn read(path: &Path) -> Result<String, CommandFailure> {
    read_text(path).map_err(|error| CommandFailure::config(unreadable(error)))
}

fn unreadable(error: ReadError) -> String {
    format!("{error}; OpenSM writes {SUBNET_LIST} and {LFT_DUMP} with -D 0x43")
}

/// Ports that would get another LID.
fn lids(fabric: &Fabric, plan: &Plan) -> Vec<SetView> {
    let differing = fabric.end_ports().filter_map(|port| {
        let held = fabric.observed_lid(port).unwrap_or(Lid(0));
        let planned = plan.lids.base_or_zero(port);
        (held != planned).then(|| {
            let node = fabric.node_of(port);
            SetView {
                guid: node.guid().to_string(),
                name: node.name().to_string(),
                attribute: AttrId::name(AttrId::PORT_INFO).to_owned(),
                modifier: fabric.port(port).num.0.into(),
                place: format!("port {}", fabric.port(port).num),
                effect: SetEffect::Change,
                differences: vec![format!("LID: held {held}, planned {planned}")],
            }
        })
    });
    differing.collect()
}

/// The blocks of forwarding tables that differ.
fn differing_blocks(fabric: &Fabric, plan: &Plan, dump: &LftDump) -> Vec<SetView> {
    let dumped: BTreeMap<Guid, BTreeMap<u16, u8>> = dump
        .switches
        .iter()
        .map(|(guid, entries)| {
            (*guid, entries.iter().map(|entry| (entry.lid.0, entry.port)).collect())
        })
        .collect();
    let mut views = Vec::new();
    for switch in fabric.switch_ids() {
        let node = fabric.switch(switch);
        let held = dumped.get(&node.guid());
        let mut blocks: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for lid in 1..=plan.lids.max().0 {
            let has = held.and_then(|entries| entries.get(&lid)).copied().unwrap_or(LFT_NO_PATH);
            let wanted = plan.routing.lft(switch).out(Lid(lid)).unwrap_or(LFT_NO_PATH);
            if has != wanted {
                let text = format!("LID {lid}: held port {has}, planned {wanted}");
                blocks.entry(u32::from(lid) / LFT_BLOCK as u32).or_default().push(text);
            }
        }
        views.extend(blocks.into_iter().map(|(block, differences)| SetView {
            guid: node.guid().to_string(),
            name: node.name().to_string(),
            attribute: AttrId::name(AttrId::LINEAR_FT).to_owned(),
            modifier: block,
            place: format!("block {block}"),
            effect: SetEffect::Change,
            differences,
        }));
    }
    views
}
