//! The thread that writes opensm-activity.dump.

use crate::manage::activity::SubnetActivity;
use chrono::{DateTime, Local, Utc};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use tracing::error;

/// First line of a file.
const HEADING: &str = "# torus-sm activity report, format 1: local time, process ID, activity ID, \
                       activity name, fields\n";
/// Bytes that are collected for a write.
const MAX_COLLECTED: usize = 1 << 16;

/// A message to the writer.
pub(super) enum WriterCommand {
    Record { time: DateTime<Utc>, activity: SubnetActivity },
    Reopen,
}

/// The file.
pub(super) struct ActivityFile {
    path: PathBuf,
    /// `None` if it could not be opened or written.
    file: Option<File>,
    /// Bytes in the file.
    size: u64,
    max_size: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl ActivityFile {
    pub(super) fn new(path: &Path, max_size: Arc<AtomicU64>, lost: Arc<AtomicU64>) -> Self {
        Self { path: path.to_owned(), file: None, size: 0, max_size, lost }
    }

    /// Writes what is sent until all senders are gone.
    pub(super) fn run(mut self, commands: &Receiver<WriterCommand>) {
        self.open();
        let mut text = String::new();
        while let Ok(first) = commands.recv() {
            let mut next = Some(first);
            while let Some(command) = next {
                match command {
                    WriterCommand::Record { time, activity } => {
                        put_record(&mut text, time, &activity)
                    }
                    WriterCommand::Reopen => {
                        self.write(&mut text);
                        self.open();
                    }
                }
                next = commands.try_recv().ok().filter(|_| text.len() < MAX_COLLECTED);
            }
            self.write(&mut text);
        }
    }

    fn open(&mut self) {
        let opened = OpenOptions::new().append(true).create(true).open(&self.path);
        let opened = opened.and_then(|file| file.metadata().map(|found| (file, found.len())));
        match opened {
            Ok((file, size)) => {
                self.file = Some(file);
                self.size = size;
            }
            Err(problem) => self.failed(&problem),
        }
    }

    fn failed(&mut self, problem: &io::Error) {
        self.file = None;
        error!(
            "{}: {problem}: the activity report is not written; SIGUSR1 opens the file again",
            self.path.display()
        );
    }

    /// Appends the text, which is empty afterwards. At the maximum size, the file is truncated first.
    fn write(&mut self, text: &mut String) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let _ = writeln!(text, "# {lost} lost: more activities than could be written");
        }
        let Some(file) = &mut self.file else { return text.clear() };
        let limit = self.max_size.load(Ordering::Relaxed);
        let mut result = Ok(());
        if limit > 0 && self.size + text.len() as u64 > limit {
            result = file.set_len(0);
            self.size = 0;
        }
        if self.size == 0 {
            text.insert_str(0, HEADING);
        }
        self.size += text.len() as u64;
        let written = result.and_then(|()| file.write_all(text.as_bytes()));
        text.clear();
        if let Err(problem) = written {
            self.failed(&problem);
        }
    }
}

fn put_record(text: &mut String, time: DateTime<Utc>, activity: &SubnetActivity) {
    let time = time.with_timezone(&Local).format("%Y-%m-%d %H:%M:%S%.6f");
    let _ = writeln!(text, "{time} {} {activity}", std::process::id());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    fn record(mlid: u16) -> WriterCommand {
        let activity = SubnetActivity::TreeCalculated(crate::ids::Mlid(mlid));
        WriterCommand::Record { time: Utc::now(), activity }
    }

    /// Writes records to a file of `limit` bytes; returns its text.
    fn written(path: &Path, limit: u64, commands: Vec<WriterCommand>) -> String {
        let (queue, receiver) = sync_channel(commands.len());
        commands.into_iter().for_each(|command| queue.send(command).expect("a receiver"));
        drop(queue);
        let lost = Arc::new(AtomicU64::new(3));
        ActivityFile::new(path, Arc::new(AtomicU64::new(limit)), lost).run(&receiver);
        std::fs::read_to_string(path).expect("the file")
    }

    #[test]
    fn a_file_has_a_heading_records_and_the_number_of_lost_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report");
        let text = written(&path, 0, vec![record(0xC000), record(0xC001)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[0].starts_with("# ") && lines[3].starts_with("# 3 lost"), "{text}");
        let words: Vec<&str> = lines[2].split(' ').collect();
        assert_eq!(words[2], std::process::id().to_string());
        assert_eq!(words[3..], ["8", "mcg_tree_calc", "mlid=0xc001"]);
        assert_eq!((words[0].len(), words[1].len()), (10, 15), "microseconds");
        // A file is continued without a second heading.
        let text = written(&path, 0, vec![record(0xC002)]);
        assert_eq!(text.matches("format 1").count(), 1);
        assert!(text.contains("mlid=0xc000") && text.contains("mlid=0xc002"));
    }

    #[test]
    fn a_file_at_its_maximum_size_is_truncated() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report");
        std::fs::write(&path, "old\n".repeat(300)).expect("a file");
        let text = written(&path, 1000, vec![record(0xC000)]);
        assert!(text.starts_with("# ") && !text.contains("old"), "{text}");
    }

    #[test]
    fn a_moved_file_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report");
        let old = folder.path().join("report.1");
        written(&path, 0, vec![record(0xC000)]);
        std::fs::rename(&path, &old).expect("moved");
        written(&path, 0, vec![record(0xC001), WriterCommand::Reopen, record(0xC002)]);
        let text = std::fs::read_to_string(&path).expect("the file");
        assert!(text.starts_with("# ") && text.contains("0xc001") && text.contains("0xc002"));
        assert!(!std::fs::read_to_string(&old).expect("the old one").contains("0xc002"));
    }
}
