//! The SM loop's part of the shared state (see [`crate::replication`]): as master it provides the
//! files for standby SMs, and at a takeover it uses those of the former master.

use super::state::{DeviceState, PlanState};
use crate::config::options::Options;
use crate::config::{guid2lid, guid2mkey, neighbors};
use crate::daemon::sm_loop::context::ManagerContext;
use crate::notes::counted;
use crate::observe::m_keys::MKeys;
use crate::replication::protocol::Files;
use std::path::Path;
use std::sync::Arc;
use tracing::info;

/// Provides what the cache files get. It is formatted only if a standby follows.
pub(super) fn provide_files(context: &ManagerContext, plan: &PlanState, keys: &MKeys) {
    let memory = plan.memory.clone();
    let keys = keys.clone();
    let fabric = plan.request.as_ref().map(|request| request.fabric.clone());
    context.replication.files.send_replace(Some(Arc::new(move || Files {
        guid2lid: guid2lid::emit(&memory.guid2lid),
        guid2mkey: guid2mkey::emit(&keys.stored_keys(fabric.as_deref())),
        neighbors: neighbors::emit(keys.stored_neighbors()),
    })));
}

/// Uses the LIDs and M_Keys of the former master, if it has sent them, from now on.
pub(super) fn use_received_files(
    context: &ManagerContext,
    options: &Options,
    plan: &mut PlanState,
    devices: &mut DeviceState,
) {
    let Some(files) = context.replication.received.get() else { return };
    context.replication.received.set(None);
    let (lids, keys, cables) = parse(&files, options);
    info!(
        "the former master has left the LIDs of {}, the M_Keys of {} and {}",
        counted(lids.len(), "port", "ports"),
        counted(keys.values().filter(|key| key.is_set()).count(), "port", "ports"),
        counted(cables.len() / 2, "cable", "cables")
    );
    let memory = std::mem::take(&mut plan.memory);
    plan.memory = memory.after_standby(options, Arc::new(lids));
    devices.m_keys = MKeys::new(options, keys, cables);
}

/// The contents of files of another instance of this program, which have no invalid lines.
fn parse(
    files: &Files,
    options: &Options,
) -> (guid2lid::Guid2Lid, guid2mkey::Guid2MKey, neighbors::Neighbors) {
    let (lids, _) = guid2lid::parse(Path::new("guid2lid"), &files.guid2lid, options.lmc);
    let (keys, _) = guid2mkey::parse(Path::new("guid2mkey"), &files.guid2mkey);
    let (cables, _) = neighbors::parse(Path::new("neighbors"), &files.neighbors);
    (lids, keys, cables)
}
