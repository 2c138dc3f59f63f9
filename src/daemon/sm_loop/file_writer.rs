//! Writes the files of a pass: beside the manager, who never waits for a disk.
//!
//! Dumps of a large fabric take longer to write than a reroute may last. So a pass only leaves
//! word of what is to be written; the newest word replaces one that was not read yet, files are
//! written one job after the other, and so the last state is what is found in them.

use crate::config::options::Options;
use crate::daemon::process::priority::spawn_low_priority;
use crate::daemon::sm_loop::files::StateFiles;
use crate::plan::lids::Memory;
use crate::publish::Subnet;
use crate::publish::rejected::PlanRejected;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::error;

/// What a pass leaves to be written.
#[derive(Clone)]
pub struct WriteJob {
    /// For guid2lid.
    pub memory: Memory,
    /// The configuration of the pass.
    pub options: Arc<Options>,
    /// For the dump files; `None` writes none.
    pub subnet: Option<Arc<Subnet>>,
    /// Why there is nothing newer.
    pub refused: Option<Arc<PlanRejected>>,
}

impl WriteJob {
    fn write(&self, files: &StateFiles) {
        files.write_memory(&self.memory, &self.options);
        if let Some(subnet) = &self.subnet {
            files.write_dumps(subnet);
        }
        if let Some(refused) = &self.refused {
            files.write_engine_dumps(&refused.dumps, &self.options);
        }
    }
}

/// The task that writes, and the way to it.
pub struct FileWriter {
    files: StateFiles,
    running: Option<(watch::Sender<Option<WriteJob>>, JoinHandle<()>)>,
}

impl FileWriter {
    /// A scribe for these files; the task starts with its first job.
    pub fn new(files: StateFiles) -> Self {
        Self { files, running: None }
    }

    /// Has `job` written soon, instead of one that was not begun yet. Needs a runtime.
    pub fn write(&mut self, job: WriteJob) {
        let (jobs, _) = self.running.get_or_insert_with(|| {
            let (sender, jobs) = watch::channel(None);
            (sender, tokio::spawn(serve(self.files.clone(), jobs)))
        });
        jobs.send_replace(Some(job));
    }

    /// Waits until everything is written.
    pub async fn finish(&mut self) {
        let Some((jobs, task)) = self.running.take() else { return };
        drop(jobs);
        if let Err(problem) = task.await {
            error!("writing files failed: {problem}");
        }
    }
}

/// Writes until there are no more jobs to come. `changed` tells of a last job before it tells that
/// its sender is gone.
async fn serve(files: StateFiles, mut jobs: watch::Receiver<Option<WriteJob>>) {
    while jobs.changed().await.is_ok() {
        let Some(job) = jobs.borrow_and_update().clone() else { continue };
        let files = files.clone();
        if let Err(problem) = spawn_low_priority(move || job.write(&files)).await {
            error!("writing files failed: {problem}");
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
        WriteJob { memory, options: Arc::default(), subnet: None, refused: None }
    }

    #[tokio::test]
    async fn the_newest_job_is_what_is_found() {
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
