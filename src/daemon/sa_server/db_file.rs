//! opensm-sa.dump: the registry of the subnet administrator on disk. It is read once, before the
//! first sweep (`-S`, `sa_db_file`), and written while this SM is master if `sa_db_dump` asks for
//! it: some time after a change, and at the end.

use crate::config::options::Options;
use crate::daemon::process::priority::spawn_low_priority;
use crate::publish::atomic_file;
use crate::sa::registry::dump::Timestamp;
use crate::sa::registry::{GroupSpec, Registry};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;
use tracing::{debug, info, warn};

/// The name of the file in the folder for dumps.
const NAME: &str = "opensm-sa.dump";

/// From a change until it is written: what happens meanwhile is written with it.
pub const PAUSE: Duration = Duration::from_secs(10);

/// Now, on both clocks.
fn moment() -> Timestamp {
    let epoch = u64::try_from(chrono::Utc::now().timestamp()).unwrap_or(0);
    Timestamp { now: Instant::now().into_std(), epoch }
}

/// Adds what the file of `sa_db_file` holds to `registry`. False if something in it was of no
/// use, so that clients must be asked to register again.
pub fn restore(registry: &mut Registry, options: &Options, permanent: &[GroupSpec]) -> bool {
    let Some(file) = options.sa_db_file.as_deref().map(PathBuf::from) else { return true };
    let text = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) => {
            warn!("{}: {error}: the SA database starts empty", file.display());
            return false;
        }
    };
    let text = String::from_utf8_lossy(&text);
    let restored = registry.restore(&file, &text, permanent, moment());
    for finding in &restored.findings {
        warn!("{finding}");
    }
    info!(
        "{}: {} groups with {} members, {} subscriptions, {} services ({} have ended), {} blocks \
         of alias GUIDs; {} lines were of no use",
        file.display(),
        restored.groups,
        restored.members,
        restored.subscriptions,
        restored.services,
        restored.expired,
        restored.aliases,
        restored.findings.len()
    );
    restored.findings.is_empty()
}

/// Writes the file.
#[derive(Debug)]
pub struct SaDbFile {
    file: PathBuf,
    /// The state of the registry that the file has; `None` if it has none of this run's.
    written: Option<u64>,
    /// When a change is to be written.
    due: Option<Instant>,
}

impl SaDbFile {
    /// The file in `dump_dir`; `registry` is as it was read from there.
    pub fn new(dump_dir: PathBuf, registry: &Registry) -> Self {
        Self { file: dump_dir.join(NAME), written: Some(registry.changes()), due: None }
    }

    /// Tells where the registry was read from (`sa_db_file`): what comes from another file is not
    /// in this one yet.
    pub fn read_from(mut self, file: Option<&str>) -> Self {
        if file.is_some_and(|file| self.file != Path::new(file)) {
            self.written = None;
        }
        self
    }

    /// When [`Self::write`] is to be called.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Sees whether there is something to write.
    pub fn watch(&mut self, registry: &Registry, options: &Options) {
        if options.sa_db_dump && Some(registry.changes()) != self.written {
            self.due.get_or_insert_with(|| Instant::now() + PAUSE);
        }
    }

    /// Writes what changed, beside the caller.
    pub async fn write(&mut self, registry: &Registry, options: &Options) {
        self.due = None;
        if !options.sa_db_dump || Some(registry.changes()) == self.written {
            return;
        }
        self.written = Some(registry.changes());
        let text = registry.dump(options.subnet_prefix, moment());
        let (file, sync) = (self.file.clone(), options.fsync_high_avail_files);
        let shown = file.display().to_string();
        match spawn_low_priority(move || atomic_file::replace_private(&file, &text, sync)).await {
            Ok(Ok(())) => debug!("{shown} is written"),
            Ok(Err(problem)) => warn!("{problem}"),
            Err(panic) => warn!("{shown}: {panic}"),
        }
    }
}
