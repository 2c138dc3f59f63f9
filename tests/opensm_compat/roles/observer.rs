//! The samples of an observer inside a fabric.

use super::HOSTS;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use testkit::{Running, START_TIMEOUT};

/// The states of the managers in one round; `None` without an answer.
pub(super) type States = [Option<u8>; HOSTS];

/// LIDs, P_Key tables and path SLs as text.
pub(super) type Facts = BTreeMap<String, String>;

#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub at: Instant,
    pub states: States,
}

#[derive(Default)]
struct Seen {
    samples: Vec<Sample>,
    /// The last mark, and the number of samples before it.
    mark: (u32, usize),
    /// Facts that are being read.
    partial: Facts,
    facts: Option<Facts>,
    has_ended: bool,
}

impl Seen {
    fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["states", states @ ..] => {
                let mut sample = Sample { at: Instant::now(), states: [None; HOSTS] };
                for (state, word) in sample.states.iter_mut().zip(states) {
                    *state = word.parse().ok();
                }
                self.samples.push(sample);
            }
            ["mark", number] => {
                self.mark = (number.parse().unwrap_or_default(), self.samples.len());
            }
            ["facts", "end"] => self.facts = Some(std::mem::take(&mut self.partial)),
            _ => {
                if let Some((name, value)) = line.split_once(" = ") {
                    self.partial.insert(name.into(), value.into());
                }
            }
        }
    }
}

type Shared = Arc<(Mutex<Seen>, Condvar)>;

fn lock(shared: &Shared) -> MutexGuard<'_, Seen> {
    shared.0.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Observer {
    _process: Running,
    input: ChildStdin,
    seen: Shared,
    marks: u32,
}

impl Observer {
    /// Starts an observer as `super::inside` prepared it.
    pub(super) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Running(command.spawn().expect("the observer starts"));
        let input = process.0.stdin.take().expect("a pipe");
        let output = process.0.stdout.take().expect("a pipe");
        let seen = Shared::default();
        let shared = seen.clone();
        std::thread::spawn(move || read(output, &shared));
        let mut observer = Self { _process: process, input, seen, marks: 0 };
        observer.fence();
        observer
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the observer runs");
    }

    /// Whether the manager at `host` is asked from now on.
    pub(super) fn set_asked(&mut self, host: usize, is_asked: bool) {
        self.tell(&format!("{} {host}", if is_asked { "ask" } else { "skip" }));
    }

    /// The index of the first sample of a round that began after this call.
    pub(super) fn fence(&mut self) -> usize {
        self.marks += 1;
        let mark = self.marks;
        self.tell(&format!("mark {mark}"));
        self.wait(START_TIMEOUT, |seen| (seen.mark.0 == mark).then_some(seen.mark.1))
            .expect("the observer answers")
    }

    /// Waits until `find` gives a value.
    fn wait<T>(&self, limit: Duration, find: impl Fn(&mut Seen) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + limit;
        let mut seen = lock(&self.seen);
        loop {
            if let Some(found) = find(&mut seen) {
                return Some(found);
            }
            assert!(!seen.has_ended, "the observer has ended");
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.seen.1.wait_timeout(seen, left);
            seen = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The first sample from `from` on that fits.
    pub(super) fn wait_for(
        &self,
        from: usize,
        limit: Duration,
        fits: impl Fn(&States) -> bool,
    ) -> Option<Sample> {
        self.wait(limit, |seen| {
            seen.samples.get(from..)?.iter().find(|sample| fits(&sample.states)).copied()
        })
    }

    /// All samples from `from` on.
    pub(super) fn samples(&self, from: usize) -> Vec<Sample> {
        lock(&self.seen).samples.get(from..).unwrap_or_default().to_vec()
    }

    /// Reads LIDs, P_Key tables and path SLs.
    pub(super) fn facts(&mut self) -> Facts {
        self.tell("facts");
        self.wait(START_TIMEOUT, |seen| seen.facts.take()).expect("the observer reads the facts")
    }

    /// The changes of states from `from` on, for the message of a failure.
    pub(super) fn history(&self, from: usize) -> String {
        let samples = self.samples(from);
        let Some(first) = samples.first() else { return "no sample".into() };
        let mut text = String::new();
        let mut last = None;
        for Sample { at, states } in &samples {
            if last.replace(states) != Some(states) {
                let shown = states.map(|state| state.map_or("-".into(), |state| state.to_string()));
                text += &format!("{:8.3} s: {}\n", (*at - first.at).as_secs_f64(), shown.join(" "));
            }
        }
        text
    }
}

fn read(output: ChildStdout, shared: &Shared) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        lock(shared).read(&line);
        shared.1.notify_all();
    }
    lock(shared).has_ended = true;
    shared.1.notify_all();
}
