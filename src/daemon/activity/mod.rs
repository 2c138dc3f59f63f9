//! The activity report (`activity_report_subjects`): a line for each thing that the subnet manager did,
//! in the file opensm-activity.dump and as an event of the management interface.
//!
//! Tasks send records without waiting. A thread of its own writes them (`writer`); those that do not
//! fit into its queue are counted, and the file says how many. What can be told from two published
//! subnets is found by a background task (`subnets`).

mod subnets;
mod writer;

pub use subnets::follow;

use crate::config::options::{ActivitySubjects, Options};
use crate::manage::activity::SubnetActivity;
use crate::manage::event::Event;
use crate::manage::feed::EventSender;
use chrono::Utc;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tracing::error;
use writer::{ActivityFile, WriterCommand};

/// Name of the file in the directory of dump files.
pub const FILE_NAME: &str = "opensm-activity.dump";
/// Records that wait for the writer.
const MAX_QUEUED_RECORDS: usize = 16_384;

/// The thread that writes the file.
struct Writer {
    queue: SyncSender<WriterCommand>,
    thread: JoinHandle<()>,
}

/// The activity report of a daemon.
pub struct ActivityReport {
    path: PathBuf,
    events: EventSender,
    subjects: AtomicU8,
    /// Size in bytes at which the file is truncated; 0 is no limit.
    max_size: Arc<AtomicU64>,
    /// Records that were not written, until the writer says so.
    lost: Arc<AtomicU64>,
    /// Runs from the first subject on.
    writer: Mutex<Option<Writer>>,
}

impl ActivityReport {
    pub fn new(dump_dir: &Path, options: &Options, events: EventSender) -> Self {
        let report = Self {
            path: dump_dir.join(FILE_NAME),
            events,
            subjects: AtomicU8::new(0),
            max_size: Arc::default(),
            lost: Arc::default(),
            writer: Mutex::default(),
        };
        report.configure(options);
        report
    }

    /// Uses new options.
    pub fn configure(&self, options: &Options) {
        self.max_size.store(u64::from(options.log_max_size) << 20, Ordering::Relaxed);
        let subjects = options.activity_report_subjects;
        if subjects != ActivitySubjects::NONE {
            self.start_writer();
        }
        self.subjects.store(subjects.bits(), Ordering::Relaxed);
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_writer(&self) {
        let mut writer = self.writer();
        if writer.is_some() {
            return;
        }
        let (queue, commands) = sync_channel(MAX_QUEUED_RECORDS);
        let file = ActivityFile::new(&self.path, self.max_size.clone(), self.lost.clone());
        let thread = std::thread::Builder::new().name("activity".into());
        match thread.spawn(move || file.run(&commands)) {
            Ok(thread) => *writer = Some(Writer { queue, thread }),
            Err(problem) => error!("{}: no thread to write it: {problem}", self.path.display()),
        }
    }

    /// True if an activity of one of these subjects is reported.
    pub fn wants(&self, subjects: ActivitySubjects) -> bool {
        ActivitySubjects::from_bits(self.subjects.load(Ordering::Relaxed)).meets(subjects)
    }

    /// Reports an activity, unless none of its subjects is reported. Never blocks.
    pub fn send(&self, activity: SubnetActivity) {
        if !self.wants(activity.subjects()) {
            return;
        }
        self.events.send(Event::Activity {
            id: activity.id(),
            activity: activity.name().to_owned(),
            fields: activity.fields().into_iter().map(|(key, text)| (key.into(), text)).collect(),
        });
        let record = WriterCommand::Record { time: Utc::now(), activity };
        let writer = self.writer();
        let Some(Writer { queue, .. }) = &*writer else { return };
        if let Err(TrySendError::Full(_)) = queue.try_send(record) {
            self.lost(1);
        }
    }

    /// Counts records that were lost before they got here.
    pub fn lost(&self, count: u64) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }

    /// Opens the file again, after it was moved. May block until the writer has caught up.
    pub fn reopen(&self) {
        let queue = self.writer().as_ref().map(|writer| writer.queue.clone());
        if let Some(queue) = queue {
            // The writer ends with the daemon only.
            let _ = queue.send(WriterCommand::Reopen);
        }
    }

    /// Ends the writer after it has written all records.
    pub fn finish(&self) {
        let writer = self.writer().take();
        if let Some(Writer { queue, thread }) = writer {
            drop(queue);
            // A panic of the writer has been reported by the panic handler.
            let _ = thread.join();
        }
    }
}
