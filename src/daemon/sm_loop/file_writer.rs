//! Writes files on another thread, because the dumps of a large fabric take longer to write than
//! a reroute may take. A new job replaces one that has not been started, and jobs are written one
//! at a time, so that the files end up with the latest state.

use crate::config::options::Options;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::files::StateFiles;
use crate::observe::m_keys::MKeys;
use crate::plan::lids::Memory;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::error;

/// Files to write after a reconfiguration.
#[derive(Clone)]
pub struct WriteJob {
    /// Contents of guid2lid.
    pub memory: Memory,
    /// Contents of guid2mkey and neighbors.
    pub m_keys: MKeys,
    pub options: Arc<Options>,
    /// Contents of the dump files; `None` writes none.
    pub subnet: Option<Arc<Subnet>>,
    /// Supplies the dump files of engines that could not route the fabric.
    pub rejected: Option<Arc<PlanRejected>>,
}

impl WriteJob {
    fn write(&self, files: &StateFiles) {
        files.write_memory(&self.memory, &self.options);
        let fabric = self.subnet.as_ref().map(|subnet| &*subnet.fabric);
        files.write_m_keys(&self.m_keys, fabric, &self.options);
        if let Some(subnet) = &self.subnet {
            files.write_dumps(subnet);
        }
        if let Some(rejected) = &self.rejected {
            files.write_engine_dumps(&rejected.dumps, &self.options);
        }
    }
}

/// Handle of the task that writes.
pub struct FileWriter {
    files: StateFiles,
    running: Option<(watch::Sender<Option<WriteJob>>, JoinHandle<()>)>,
}

impl FileWriter {
    /// A writer whose task starts with the first job.
    pub fn new(files: StateFiles) -> Self {
        Self { files, running: None }
    }

    /// Queues `job`, which replaces one that has not been started. Must be called in a runtime.
    pub fn write(&mut self, job: WriteJob) {
        let (jobs, _) = self.running.get_or_insert_with(|| {
            let (sender, jobs) = watch::channel(None);
            (sender, tokio::spawn(serve(self.files.clone(), jobs)))
        });
        jobs.send_replace(Some(job));
    }

    /// Waits until the last job is written.
    pub async fn finish(&mut self) {
        let Some((jobs, task)) = self.running.take() else { return };
        drop(jobs);
        if let Err(problem) = task.await {
            error!("writing cache and dump files failed: {problem}");
        }
    }
}

/// Writes jobs until the sender is dropped. `changed` still reports the last job after that, before
/// it returns an error.
async fn serve(files: StateFiles, mut jobs: watch::Receiver<Option<WriteJob>>) {
    while jobs.changed().await.is_ok() {
        let Some(job) = jobs.borrow_and_update().clone() else { continue };
        let files = files.clone();
        if let Err(problem) = spawn_low_priority(move || job.write(&files)).await {
            error!("writing cache and dump files failed: {problem}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Guid, Lid};

    fn job(lid: u16) -> WriteJob {
        let mut memory = Memory::default();
        Arc::make_mut(&mut memory.guid2lid).insert(Guid(7), (Lid(lid), Lid(lid)));
        let (m_keys, options) = Default::default();
        WriteJob { memory, m_keys, options, subnet: None, rejected: None }
    }

    #[tokio::test]
    async fn files_end_up_with_the_latest_job() {
        let dir = tempfile::tempdir().unwrap();
        let files =
            StateFiles { cache_dir: Some(dir.path().to_owned()), dump_dir: dir.path().to_owned() };
        let mut file_writer = FileWriter::new(files);
        file_writer.finish().await;
        let found = || std::fs::read_to_string(dir.path().join("guid2lid")).unwrap_or_default();
        assert_eq!(found(), "");
        for round in [1..=3, 4..=50] {
            let last = *round.end();
            for lid in round {
                file_writer.write(job(lid));
                tokio::task::yield_now().await;
            }
            file_writer.finish().await;
            assert!(found().contains(&format!("0x{last:04x} 0x{last:04x}")), "{}", found());
        }
    }
}
