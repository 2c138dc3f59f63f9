//! Recordings of the flight recorder as files in `dump_files_dir`: on command, and of their own
//! accord when the subnet could not be configured or a task panicked.

use crate::config::files::ConfigTexts;
use crate::config::options::Options;
use crate::manage::event::Event;
use crate::manage::feed::EventSender;
use crate::publish::atomic_file;
use crate::record::FlightRecorder;
use crate::record::entry::EventKind;
use crate::record::file::{self, Occasion};
use crate::record::plans::PlanInputs;
use crate::record::ring::RingLimits;
use chrono::{DateTime, SecondsFormat, Utc};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{error, info, warn};

/// Minimum time between recordings that are written without a command.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

/// Minimum time between recordings on command, which protects the disk from a script in a loop.
const MIN_COMMAND_INTERVAL: Duration = Duration::from_secs(1);

/// Beginning and end of the names of recordings. Between them is the time of writing.
const PREFIX: &str = "torus-sm-";
const SUFFIX: &str = ".recording";

/// Number of bytes in a megabyte.
const MEGABYTE: usize = 1 << 20;

/// Time between two looks for entries to compress: a cold start records a block of 64 KiB in some
/// milliseconds.
const COMPRESSION_INTERVAL: Duration = Duration::from_millis(250);

/// A recording could not be written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    #[error("the flight recorder is off; set recorder_size to a value above 0")]
    Off,
    #[error("a recording was written less than {} s ago: {}", MIN_COMMAND_INTERVAL.as_secs(), .0.display())]
    TooSoon(PathBuf),
    #[error(transparent)]
    Write(#[from] atomic_file::FileWriteError),
}

/// The flight recorder with the place of its files.
pub struct Recordings {
    recorder: Arc<FlightRecorder>,
    dir: PathBuf,
    /// The port of the subnet manager, for the files.
    port: String,
    max_files: AtomicU32,
    state: Mutex<RecordingState>,
    /// The events of the daemon, once it is made.
    feed: OnceLock<EventSender>,
}

#[derive(Default)]
struct RecordingState {
    /// The texts of the configuration files in force.
    files: Arc<ConfigTexts>,
    /// Time and path of the last recording.
    last: Option<(Instant, PathBuf)>,
    /// Time of the last recording without a command.
    last_automatic: Option<Instant>,
    /// The subnet could not be configured, and was not since.
    is_failing: bool,
}

impl Recordings {
    /// A recorder with the bounds of `options`. Its files go to `dir`; `port` names the port of the
    /// subnet manager.
    pub fn new(options: &Options, dir: &Path, port: String) -> Arc<Self> {
        let recorder = FlightRecorder::new(limits(options));
        let max_files = AtomicU32::new(options.recorder_files);
        let state = Mutex::default();
        let dir = dir.to_owned();
        let feed = OnceLock::new();
        Arc::new(Self { recorder, dir, port, max_files, state, feed })
    }

    /// Reports recordings as events from now on. Further calls have no effect.
    pub fn report_to(&self, feed: EventSender) {
        let _ = self.feed.set(feed);
    }

    /// The recorder, for the wrappers of the port.
    pub fn recorder(&self) -> &Arc<FlightRecorder> {
        &self.recorder
    }

    /// Compresses what was recorded from time to time, for ever.
    pub async fn compress(self: Arc<Self>) {
        let mut ticks = interval(COMPRESSION_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            while self.recorder.compress_block() {
                yield_now().await;
            }
        }
    }

    /// Takes over options that were read, and the texts of the files that they name.
    pub fn configure(&self, options: &Options, files: &Arc<ConfigTexts>) {
        self.recorder.set_limits(limits(options));
        self.max_files.store(options.recorder_files, Ordering::Relaxed);
        if self.recorder.is_on() {
            self.lock().files = files.clone();
        }
    }

    /// Records an event; see [`FlightRecorder::event`].
    pub fn event<T: AsRef<str>>(&self, kind: EventKind, text: impl FnOnce() -> T) {
        self.recorder.event(kind, text);
    }

    /// Records that planning begins. `inputs` is called with the texts of the configuration files.
    pub fn plan_begins(&self, inputs: impl FnOnce(Arc<ConfigTexts>) -> PlanInputs) {
        self.recorder.plan_begins(|| inputs(self.lock().files.clone()));
    }

    /// Writes a recording on command, and returns its path. Blocks until it is written.
    ///
    /// # Errors
    /// [`RecordError`]: the recorder is off, the last recording is less than a second old, or the
    /// file cannot be written.
    pub fn write(&self, command: &str) -> Result<PathBuf, RecordError> {
        self.check_command()?;
        self.event(EventKind::Command, || format!("write a recording ({command})"));
        self.write_now(command)
    }

    /// Checks that a command may write a recording now.
    fn check_command(&self) -> Result<(), RecordError> {
        if !self.recorder.is_on() {
            return Err(RecordError::Off);
        }
        if let Some((time, path)) = &self.lock().last
            && time.elapsed() < MIN_COMMAND_INTERVAL
        {
            return Err(RecordError::TooSoon(path.clone()));
        }
        Ok(())
    }

    /// As [`Self::write`], with the result in the log and as an event.
    pub fn write_and_log(&self, command: &str) {
        if let Err(problem) = self.write(command) {
            warn!("no recording is written: {problem}");
            self.report(Event::RecordingFailed { problem: problem.to_string() });
        }
    }

    /// As [`Self::write_and_log`], on a thread of its own.
    ///
    /// # Errors
    /// [`RecordError`]: the recorder is off, or the last recording is less than a second old.
    pub fn start(self: &Arc<Self>, command: &'static str) -> Result<(), RecordError> {
        self.check_command()?;
        let recordings = self.clone();
        self.spawn(move || recordings.write_and_log(command));
        Ok(())
    }

    fn report(&self, event: Event) {
        if let Some(feed) = self.feed.get() {
            feed.send(event);
        }
    }

    fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        if let Err(problem) = std::thread::Builder::new().name("recorder".into()).spawn(work) {
            // A panic is reported by others, too; a command gets its result from this event.
            self.report(Event::RecordingFailed { problem: problem.to_string() });
        }
    }

    /// The subnet could not be configured. Returns the recording to write, if one is due: the first
    /// failure after a success, at most one a minute.
    #[must_use]
    pub fn failed(self: &Arc<Self>, problem: &str) -> Option<impl FnOnce() + Send + use<>> {
        self.event(EventKind::Failed, || problem);
        let was_failing = std::mem::replace(&mut self.lock().is_failing, true);
        let is_due = !was_failing && self.may_write_automatically();
        let recordings = self.clone();
        let reason = format!("the sweep failed: {problem}");
        is_due.then_some(move || recordings.write_automatically(&reason))
    }

    /// The subnet is configured.
    pub fn succeeded(&self) {
        self.lock().is_failing = false;
    }

    /// A task panicked with this message. Starts a thread that writes a recording, if one is due:
    /// the panic may have interrupted the recorder itself.
    pub fn panicked(self: &Arc<Self>, message: String) {
        let recordings = self.clone();
        self.spawn(move || {
            recordings.event(EventKind::Panic, || &message);
            if recordings.may_write_automatically() {
                recordings.write_automatically(&format!("a task panicked: {message}"));
            }
        });
    }

    /// True if a recording may be written without a command; then the next one must wait.
    fn may_write_automatically(&self) -> bool {
        if !self.recorder.is_on() {
            return false;
        }
        let mut state = self.lock();
        let is_early = state.last_automatic.is_some_and(|last| last.elapsed() < MIN_INTERVAL);
        if !is_early {
            state.last_automatic = Some(Instant::now());
        }
        !is_early
    }

    fn write_automatically(&self, reason: &str) {
        if let Err(problem) = self.write_now(reason) {
            warn!("no recording is written: {problem}");
        }
    }

    /// A recording of the present contents. Blocks for some milliseconds.
    ///
    /// # Errors
    /// [`RecordError::Off`].
    pub fn contents(&self, reason: &str) -> Result<Vec<u8>, RecordError> {
        self.encoded(reason, Utc::now())
    }

    fn encoded(&self, reason: &str, now: DateTime<Utc>) -> Result<Vec<u8>, RecordError> {
        if !self.recorder.is_on() {
            return Err(RecordError::Off);
        }
        let occasion = Occasion {
            reason: reason.to_owned(),
            written: now.to_rfc3339_opts(SecondsFormat::Millis, true),
            port: self.port.clone(),
        };
        Ok(file::encode(&self.recorder.snapshot(), occasion))
    }

    fn write_now(&self, reason: &str) -> Result<PathBuf, RecordError> {
        let now = Utc::now();
        let bytes = self.encoded(reason, now)?;
        let path = self.dir.join(name(now));
        atomic_file::replace_private_bytes(&path, &bytes)?;
        info!("wrote a recording to {} ({reason}); torus-sm replay shows it", path.display());
        self.lock().last = Some((Instant::now(), path.clone()));
        let path_text = path.display().to_string();
        let reason = reason.to_owned();
        self.report(Event::RecordingWritten { path: path_text, reason });
        self.remove_old();
        Ok(path)
    }

    /// Removes the oldest recordings beyond the configured number.
    fn remove_old(&self) {
        let Ok(entries) = fs::read_dir(&self.dir) else { return };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.starts_with(PREFIX) && name.ends_with(SUFFIX))
            .collect();
        // The names sort by time.
        names.sort_unstable();
        let max = self.max_files.load(Ordering::Relaxed) as usize;
        for name in &names[..names.len().saturating_sub(max)] {
            if let Err(problem) = fs::remove_file(self.dir.join(name)) {
                error!("cannot remove the old recording {name}: {problem}");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, RecordingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a recording that is written now.
fn name(now: DateTime<Utc>) -> String {
    format!("{PREFIX}{}{SUFFIX}", now.format("%Y%m%dT%H%M%S%.6fZ"))
}

fn limits(options: &Options) -> RingLimits {
    RingLimits {
        bytes: options.recorder_size as usize * MEGABYTE,
        age: Duration::from_secs(60 * u64::from(options.recorder_time)),
    }
}

/// Makes panics of all threads of this process known to the recorder, after the present hook.
pub fn record_panics(recordings: &Arc<Recordings>) {
    let recordings = recordings.clone();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no message");
        let place = panic.location().map_or_else(String::new, |place| format!("{place}: "));
        recordings.panicked(format!("{place}{text}"));
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Recording;
    use crate::record::entry::EntryBody;

    fn recordings(dir: &Path) -> Arc<Recordings> {
        let options = Options { recorder_files: 2, ..Options::default() };
        Recordings::new(&options, dir, "test".into())
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).expect("a directory");
        let mut paths: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort_unstable();
        paths
    }

    #[tokio::test(start_paused = true)]
    async fn commands_are_limited_and_old_recordings_removed() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("opensm.log"), "").expect("a file");
        let recordings = recordings(dir.path());
        let mut written = Vec::new();
        for _ in 0..4 {
            written.push(recordings.write("a test").expect("a recording"));
            assert!(matches!(recordings.write("a test"), Err(RecordError::TooSoon(_))));
            tokio::time::advance(MIN_COMMAND_INTERVAL).await;
        }
        let kept = files(dir.path());
        assert_eq!(kept[1..], written[2..], "with another file: {kept:?}");
        let off = Options { recorder_size: 0, ..Options::default() };
        recordings.configure(&off, &Arc::default());
        assert!(matches!(recordings.write("a test"), Err(RecordError::Off)));
        let missing = recordings_in_missing_directory(dir.path());
        let problem = missing.write("a test").expect_err("no directory").to_string();
        assert!(problem.contains("create the directory"), "{problem}");
    }

    fn recordings_in_missing_directory(dir: &Path) -> Arc<Recordings> {
        recordings(&dir.join("missing"))
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_failure_after_a_success_is_recorded() {
        let dir = tempfile::tempdir().expect("a directory");
        let recordings = recordings(dir.path());
        let fail = || recordings.failed("no routes").map(|write| write()).is_some();
        assert!(fail());
        tokio::time::advance(2 * MIN_INTERVAL).await;
        assert!(!fail(), "it fails for the same reason");
        recordings.succeeded();
        assert!(fail());
        recordings.succeeded();
        assert!(!fail(), "a minute has not passed");
        recordings.succeeded();
        tokio::time::advance(2 * MIN_INTERVAL).await;
        assert!(fail());
        assert_eq!(files(dir.path()).len(), 2);
    }

    #[test]
    fn a_panic_of_any_thread_is_recorded() {
        let dir = tempfile::tempdir().expect("a directory");
        let recordings = recordings(dir.path());
        record_panics(&recordings);
        let panicking = std::thread::spawn(|| panic!("this one is meant"));
        panicking.join().expect_err("it panics");
        // Other tests of this process may panic earlier, and the first panic causes the recording.
        let written = loop {
            let [reason, written, port] = Default::default();
            let occasion = Occasion { reason, written, port };
            let recording = file::encode(&recordings.recorder().snapshot(), occasion);
            let entries = Recording::decode(&recording).expect("a recording").entries;
            let is_recorded = entries.iter().any(|entry| is_panic(&entry.body));
            let mut files = files(dir.path()).into_iter();
            let file = files.find(|path| path.to_string_lossy().ends_with(SUFFIX));
            match file.filter(|_| is_recorded) {
                Some(path) => break path,
                None => std::thread::yield_now(),
            }
        };
        let recording =
            Recording::decode(&fs::read(written).expect("a file")).expect("a recording");
        assert!(recording.header.reason.starts_with("a task panicked: "));
    }

    fn is_panic(body: &EntryBody) -> bool {
        let EntryBody::Event(EventKind::Panic, text) = body else { return false };
        text.contains("recordings.rs:") && text.ends_with(": this one is meant")
    }
}
