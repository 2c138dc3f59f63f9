//! `virt_dump_file`: the vports of all ports, written when they have changed.

use crate::fabric::Fabric;
use crate::publish::dump_file;
use crate::vendor::virtual_ports::{ManagedPorts, ManagedVport};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tokio::task::JoinHandle;
use tracing::error;

/// Writes the file, one version at a time.
#[derive(Default)]
pub(super) struct DumpWriter {
    /// The path and the text that were written last, or are being written.
    last: Option<(PathBuf, String)>,
    task: Option<JoinHandle<()>>,
}

impl DumpWriter {
    /// Writes the vports to `file`, in the directory `dump_dir` unless it has one, if they have changed.
    pub(super) async fn write(
        &mut self,
        dump_dir: &Path,
        file: &str,
        fabric: &Fabric,
        ports: &ManagedPorts,
    ) {
        let path = dump_dir.join(file);
        let text = text(fabric, ports);
        if let Some((last, written)) = &self.last
            && *last == path
            && *written == text
        {
            return;
        }
        if let Some(task) = self.task.take() {
            // The task ends by itself, and logs its error.
            let _ = task.await;
        }
        self.last = Some((path.clone(), text.clone()));
        self.task = Some(tokio::task::spawn_blocking(move || {
            if let Err(problem) = dump_file::write(&path, &text) {
                error!(
                    "virt_dump_file is not written: {problem}; it is tried again with the next change"
                );
            }
        }));
    }
}

fn text(fabric: &Fabric, ports: &ManagedPorts) -> String {
    let mut text = String::from(
        "# index, GUID, vnode GUID, state, LID (0: that of the port), P_Keys, description\n",
    );
    for (&guid, port) in &ports.0 {
        let place = fabric.port_by_guid(guid);
        let place = place.map_or_else(String::new, |port| fabric.describe(port));
        let failure = port.failure.map_or_else(String::new, |failure| format!(", {failure}"));
        let _ = writeln!(text, "port {guid} {place}: top index {}{failure}", port.top_index);
        for (index, managed) in &port.vports {
            vport(&mut text, *index, managed);
        }
    }
    text
}

fn vport(text: &mut String, index: u16, managed: &ManagedVport) {
    let vport = &managed.vport;
    let keys = vport.pkeys.iter().flat_map(|block| block.0).filter(|key| key.base() != 0);
    let keys = keys.map(|key| key.to_string()).collect::<Vec<_>>().join(",");
    let lid = if vport.lid_required { vport.lid.0 } else { 0 };
    let failure = managed.failure.map_or_else(String::new, |failure| format!(" ({failure})"));
    let _ = writeln!(
        text,
        "  {index} {} {} {} {lid} {keys} \"{}\"{failure}",
        vport.guid,
        vport.vnode.guid,
        managed.info.state(),
        vport.vnode.description
    );
}
