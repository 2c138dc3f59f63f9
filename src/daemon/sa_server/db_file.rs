//! The SA database file, opensm-sa.dump: the registry on disk.
//!
//! The file named by `sa_db_file` (`-S`) is read once, before the first sweep. If `sa_db_dump` is
//! set, or the log is verbose, the registry is written to the dump directory while this SM is master:
//! some time after a change, and when the daemon ends.

use crate::config::options::Options;
use crate::daemon::process::logging::flags;
use crate::daemon::process::priority::spawn_low_priority;
use crate::notes::counted;
use crate::publish::atomic_file::FileWriteError;
use crate::publish::dump_file;
use crate::sa::registry::dump::Timestamp;
use crate::sa::registry::{GroupSpec, Registry};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// Name of the file in the dump directory.
const FILE_NAME: &str = "opensm-sa.dump";

/// Delay before a file that could not be written is written again.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// Delay between a change and the write, which includes all changes until then.
pub const WRITE_DELAY: Duration = Duration::from_secs(10);

/// True if the file is written: as in OpenSM, a verbose log includes it.
fn is_wanted(options: &Options) -> bool {
    options.sa_db_dump || options.log_flags & flags::VERBOSE != 0
}

/// The present time on the monotonic clock and on the system clock.
fn moment() -> Timestamp {
    let epoch = u64::try_from(chrono::Utc::now().timestamp()).unwrap_or(0);
    Timestamp { now: Instant::now().into_std(), epoch }
}

/// Adds the contents of `sa_db_file` to `registry`. Returns false if part of the file could not be
/// used, so that clients must be asked to register again (ClientReregister).
pub fn restore(registry: &mut Registry, options: &Options, permanent: &[GroupSpec]) -> bool {
    let Some(file) = options.sa_db_file.as_deref().map(PathBuf::from) else { return true };
    let text = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) => {
            warn!(
                "cannot read sa_db_file {}: {error}; the SA database starts empty, and clients \
                 are asked to register again",
                file.display()
            );
            return false;
        }
    };
    let text = String::from_utf8_lossy(&text);
    let restored = registry.restore(&file, &text, permanent, moment());
    for finding in &restored.findings {
        warn!("{finding}");
    }
    info!(
        "{}: {} with {}, {}, {} ({} ended), {} of alias GUIDs; {} of no use",
        file.display(),
        counted(restored.groups, "group", "groups"),
        counted(restored.members, "member", "members"),
        counted(restored.subscriptions, "subscription", "subscriptions"),
        counted(restored.services, "service", "services"),
        restored.expired,
        counted(restored.aliases, "block", "blocks"),
        counted(restored.findings.len(), "line was", "lines were")
    );
    restored.findings.is_empty()
}

/// Writes the registry to its file.
#[derive(Debug)]
pub struct SaDbFile {
    file: PathBuf,
    /// The change count of the registry in the file; `None` if the file holds other data.
    written: Option<u64>,
    /// Time of the next write.
    due: Option<Instant>,
    /// The last write failed, and the failure was logged.
    is_failing: bool,
}

impl SaDbFile {
    /// The file in `dump_dir`, which is assumed to hold `registry` already.
    pub fn new(dump_dir: PathBuf, registry: &Registry) -> Self {
        let file = dump_dir.join(FILE_NAME);
        let written = Some(registry.changes());
        Self { file, written, due: None, is_failing: false }
    }

    /// Marks the file as outdated unless the registry was restored from it: `file` is that of the
    /// option `sa_db_file`.
    pub fn read_from(mut self, file: Option<&str>) -> Self {
        if file.is_none_or(|file| self.file != Path::new(file)) {
            self.written = None;
        }
        self
    }

    /// Time at which [`Self::write`] must be called; `None` if nothing is to be written.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Schedules a write if the registry changed.
    pub fn watch(&mut self, registry: &Registry, options: &Options) {
        if is_wanted(options) && Some(registry.changes()) != self.written {
            self.due.get_or_insert_with(|| Instant::now() + WRITE_DELAY);
        }
    }

    /// Writes the registry, on another thread, if it changed. True if the file was written.
    pub async fn write(&mut self, registry: &Registry, options: &Options) -> bool {
        self.due = None;
        if !is_wanted(options) || Some(registry.changes()) == self.written {
            return false;
        }
        self.written = Some(registry.changes());
        let text = registry.dump(options.subnet_prefix, moment());
        let file = self.file.clone();
        let sync = options.fsync_high_avail_files;
        let shown = file.display().to_string();
        let written =
            spawn_low_priority(move || dump_file::write_private(&file, &text, sync)).await;
        match &written {
            Ok(Ok(())) if std::mem::take(&mut self.is_failing) => info!("{shown} is written again"),
            Ok(Ok(())) => debug!("wrote {shown}"),
            Ok(Err(problem)) => self.failed(problem),
            Err(panic) => warn!("cannot write {shown}: {panic}"),
        }
        matches!(written, Ok(Ok(())))
    }

    /// The file has its old contents: it is written again later. Failures in a row are logged once.
    fn failed(&mut self, problem: &FileWriteError) {
        (self.written, self.due) = (None, Some(Instant::now() + RETRY_DELAY));
        if !std::mem::replace(&mut self.is_failing, true) {
            let seconds = RETRY_DELAY.as_secs();
            warn!("{problem}; the old file stays, and it is tried again every {seconds} s");
        }
    }
}
