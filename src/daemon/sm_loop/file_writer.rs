//! Writes files on another thread, because the dumps of a large fabric take longer to write than
//! a reroute may take. A new job replaces one that has not been started, and jobs are written one
//! at a time, so that the files end up with the latest state. A job that fails is reported once and
//! repeated at intervals.

use crate::config::options::Options;
use crate::daemon::process::priority::spawn_writer;
use crate::daemon::sm_loop::files::StateFiles;
use crate::manage::action::RequestId;
use crate::manage::feed::EventSender;
use crate::manage::loop_status::FileProblem;
use crate::observe::m_keys::MKeys;
use crate::plan::lids::Memory;
use crate::publish::Subnet;
use crate::publish::dump_file::StopWriting;
use crate::publish::rejected::PlanRejected;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{error, info, warn};

/// Time that dumps may still take when a signal ends the daemon.
pub const EXIT_TIME: Duration = Duration::from_secs(2);

/// Delay before files that could not be written are written again.
const RETRY_DELAY: Duration = Duration::from_secs(30);

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
    /// Writes all files that can be written. Returns the errors of the others.
    fn write(&self, files: &StateFiles, stop: &StopWriting) -> Vec<String> {
        let memory = Some(files.write_memory(&self.memory, &self.options));
        let fabric = self.subnet.as_ref().map(|subnet| &*subnet.fabric);
        let keys = Some(files.write_m_keys(&self.m_keys, fabric, &self.options));
        let dumps = self.subnet.as_ref().map(|subnet| files.write_dumps(subnet, stop));
        let rejected = self.rejected.as_ref();
        let rejected = rejected.map(|plan| files.write_engine_dumps(&plan.dumps, &self.options));
        let results = [memory, keys, dumps, rejected].into_iter().flatten();
        results.filter_map(Result::err).map(|error| error.to_string()).collect()
    }
}

/// All dump files, as operators request them.
pub struct DumpJob {
    pub subnet: Arc<Subnet>,
    /// Supplies the dump files of engines that could not route the fabric.
    pub rejected: Option<Arc<PlanRejected>>,
    pub requests: Vec<RequestId>,
    /// Gets the result.
    pub events: EventSender,
}

impl DumpJob {
    /// Writes all files that can be written. Returns the errors of the others.
    fn write(&self, files: &StateFiles, stop: &StopWriting) -> Vec<String> {
        let rejected = self.rejected.as_ref();
        let dumps = files.write_dumps(&self.subnet, stop);
        let engine_dumps =
            rejected.map(|plan| files.write_engine_dumps(&plan.dumps, &self.subnet.options));
        let results = [Some(dumps), engine_dumps].into_iter().flatten();
        results.filter_map(Result::err).map(|error| error.to_string()).collect()
    }

    fn report(&self, result: &Result<String, String>) {
        for &request in &self.requests {
            self.events.action_ended("dump", request, result.clone());
        }
    }
}

/// Handle of the task that writes.
pub struct FileWriter {
    files: StateFiles,
    /// Shows why files cannot be written.
    problem: Arc<FileProblem>,
    running: Option<Running>,
}

struct Running {
    jobs: watch::Sender<Option<WriteJob>>,
    dumps: mpsc::UnboundedSender<DumpJob>,
    stop: StopWriting,
    task: JoinHandle<()>,
}

impl FileWriter {
    /// A writer whose task starts with the first job.
    pub fn new(files: StateFiles, problem: Arc<FileProblem>) -> Self {
        Self { files, problem, running: None }
    }

    /// Queues `job`, which replaces one that has not been started. Must be called in a runtime.
    pub fn write(&mut self, job: WriteJob) {
        self.running().jobs.send_replace(Some(job));
    }

    /// Queues requested dumps, which are written in any case. Must be called in a runtime.
    pub fn dump(&mut self, job: DumpJob) {
        // The task lives as long as the senders.
        let _ = self.running().dumps.send(job);
    }

    fn running(&mut self) -> &Running {
        let files = &self.files;
        let problem = &self.problem;
        self.running.get_or_insert_with(|| {
            let (jobs, queued_jobs) = watch::channel(None);
            let (dumps, queued_dumps) = mpsc::unbounded_channel();
            let stop = StopWriting::default();
            let server = WriterContext {
                files: files.clone(),
                problem: problem.clone(),
                stop: stop.clone(),
                failures: FailureLog::default(),
            };
            let task = tokio::spawn(server.serve(queued_jobs, queued_dumps));
            Running { jobs, dumps, stop, task }
        })
    }

    /// Waits until the last job is written, for its dumps until `gives_up` at most.
    pub async fn finish(&mut self, gives_up: impl Future<Output = ()>) {
        let Some(Running { jobs, dumps, stop, mut task }) = self.running.take() else { return };
        drop(jobs);
        drop(dumps);
        let ended = tokio::select! {
            ended = &mut task => ended,
            () = gives_up => {
                warn!("the daemon exits before its dump files are complete; the old ones stay");
                stop.request();
                task.await
            }
        };
        if let Err(problem) = ended {
            error!("writing cache and dump files failed: {problem}");
        }
    }
}

/// What the task that writes uses.
struct WriterContext {
    files: StateFiles,
    problem: Arc<FileProblem>,
    stop: StopWriting,
    failures: FailureLog,
}

impl WriterContext {
    /// Writes jobs until the sender is dropped. `changed` still reports the last job after that, before
    /// it returns an error.
    async fn serve(
        mut self,
        mut jobs: watch::Receiver<Option<WriteJob>>,
        mut dumps: mpsc::UnboundedReceiver<DumpJob>,
    ) {
        loop {
            tokio::select! {
                biased;
                Some(dump) = dumps.recv() => {
                    self.write_dumps(dump).await;
                    continue;
                }
                changed = jobs.changed() => if changed.is_err() { return },
                () = sleep(RETRY_DELAY), if self.failures.has_any() => {}
            }
            let Some(job) = jobs.borrow_and_update().clone() else { continue };
            self.write(job).await;
        }
    }

    async fn write(&mut self, job: WriteJob) {
        let files = self.files.clone();
        let stop = self.stop.clone();
        match spawn_writer(move || job.write(&files, &stop)).await {
            // That the dumps are incomplete was logged.
            Ok(_) if self.stop.is_requested() => {}
            Ok(errors) => {
                self.problem.set(errors.first().cloned());
                self.failures.update(errors);
            }
            Err(problem) => error!("writing cache and dump files failed: {problem}"),
        }
    }

    /// Writes requested dumps, and reports the result.
    async fn write_dumps(&self, job: DumpJob) {
        let folder = self.files.dump_dir.display().to_string();
        let files = self.files.clone();
        let stop = self.stop.clone();
        let written = spawn_writer(move || {
            let errors = job.write(&files, &stop);
            (job, errors)
        });
        match written.await {
            Ok((job, errors)) if errors.is_empty() => {
                job.report(&Ok(format!("dump files written to {folder}")));
            }
            Ok((job, errors)) => {
                let problem = errors.join("; ");
                error!("dump files that an operator requests: {problem}");
                job.report(&Err(problem));
            }
            Err(problem) => error!("writing dump files failed: {problem}"),
        }
    }
}

/// Logs errors that persist once.
#[derive(Default)]
struct FailureLog(Vec<String>);

impl FailureLog {
    fn has_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Records the errors of a job. Returns the number of those that the last job did not have.
    fn update(&mut self, errors: Vec<String>) -> usize {
        let known = std::mem::take(&mut self.0);
        let seconds = RETRY_DELAY.as_secs();
        let mut count = 0;
        for error in errors.iter().filter(|error| !known.contains(error)) {
            warn!("{error}; the old file stays, and it is tried again every {seconds} s");
            count += 1;
        }
        if errors.is_empty() && !known.is_empty() {
            info!("cache and dump files can be written again");
        }
        self.0 = errors;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Guid, Lid};
    use std::path::Path;

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
        let mut file_writer = FileWriter::new(files, Arc::default());
        file_writer.finish(sleep(EXIT_TIME)).await;
        assert_eq!(found(dir.path()), "");
        for round in [1..=3, 4..=50] {
            let last = *round.end();
            for lid in round {
                file_writer.write(job(lid));
                tokio::task::yield_now().await;
            }
            file_writer.finish(sleep(EXIT_TIME)).await;
            assert!(
                found(dir.path()).contains(&format!("0x{last:04x} 0x{last:04x}")),
                "{}",
                found(dir.path())
            );
        }
    }

    /// The text of guid2lid; empty before it is written.
    fn found(folder: &Path) -> String {
        std::fs::read_to_string(folder.join("guid2lid")).unwrap_or_default()
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_cannot_be_written_stays_and_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("cache");
        let files = StateFiles { cache_dir: Some(cache.clone()), dump_dir: dir.path().to_owned() };
        let mut file_writer = FileWriter::new(files, Arc::default());
        // A file has the name of the folder; a full or read-only folder fails in the same way.
        std::fs::write(&cache, "").unwrap();
        file_writer.write(job(1));
        sleep(RETRY_DELAY / 2).await;
        assert!(cache.is_file());
        std::fs::remove_file(&cache).unwrap();
        sleep(RETRY_DELAY).await;
        assert!(found(&cache).contains("0x0001 0x0001"), "{}", found(&cache));
        // The temporary file cannot be created.
        let temporary = format!("guid2lid.{}.tmp", std::process::id());
        std::fs::create_dir(cache.join(&temporary)).unwrap();
        file_writer.write(job(2));
        sleep(RETRY_DELAY / 2).await;
        assert!(found(&cache).contains("0x0001 0x0001"), "the good file stays: {}", found(&cache));
        std::fs::remove_dir(cache.join(&temporary)).unwrap();
        sleep(RETRY_DELAY).await;
        assert!(found(&cache).contains("0x0002 0x0002"), "{}", found(&cache));
        file_writer.finish(sleep(EXIT_TIME)).await;
    }

    #[test]
    fn errors_that_persist_are_logged_once() {
        let mut log = FailureLog::default();
        assert_eq!(log.update(errors(&["a"])), 1);
        assert_eq!(log.update(errors(&["a"])), 0);
        assert_eq!(log.update(errors(&["a", "b"])), 1);
        assert!(log.has_any());
        assert_eq!(log.update(errors(&[])), 0);
        assert!(!log.has_any());
        assert_eq!(log.update(errors(&["a"])), 1);
    }

    fn errors(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }
}
