//! Wrapper that records every MAD, one line each:
//!
//! ```text
//! 12.003417 > SmiDirected 65535 0 018101010000…
//! ```
//!
//! Fields: seconds since the start of the recording; `>` sent, `<` received, `?` unanswered; agent;
//! LID and QPN of the other end; the MAD in hexadecimal digits.

use super::{
    Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError,
};
use std::fmt::Write as _;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;

/// Destination of a recording. The writer is flushed whenever no MAD is waiting. Its first error
/// ends the recording.
pub struct Recorder {
    start: Instant,
    writer: Mutex<Box<dyn Write + Send>>,
    failed: AtomicBool,
}

impl Recorder {
    /// Starts a recording.
    pub fn new(writer: impl Write + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            writer: Mutex::new(Box::new(writer)),
            failed: AtomicBool::new(false),
        })
    }

    /// True once the writer has failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn record(&self, sign: char, agent: Agent, peer: &Address, mad: &[u8]) {
        let seconds = self.start.elapsed().as_secs_f64();
        let Address { lid, qpn, .. } = peer;
        let mut line = format!("{seconds:.6} {sign} {agent:?} {lid} {qpn} ");
        for byte in mad {
            // Writing to a `String` cannot fail.
            let _ = write!(line, "{byte:02x}");
        }
        line.push('\n');
        self.attempt(|writer| writer.write_all(line.as_bytes()));
    }

    fn attempt(&self, act: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.has_failed() && act(&mut **writer).is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
    }
}

/// A port that records the MADs to be sent.
pub struct RecordedPort {
    inner: Arc<dyn MadPort>,
    recorder: Arc<Recorder>,
}

impl RecordedPort {
    pub fn new(inner: Arc<dyn MadPort>, recorder: Arc<Recorder>) -> Self {
        Self { inner, recorder }
    }
}

impl MadPort for RecordedPort {
    fn identity(&self) -> &PortIdentity {
        self.inner.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        self.recorder.record('>', out.agent, &out.to, out.mad);
        self.inner.post(out)
    }
}

/// A sink that records the delivered MADs.
pub struct RecordedSink {
    inner: Arc<dyn MadSink>,
    recorder: Arc<Recorder>,
}

impl RecordedSink {
    pub fn new(inner: Arc<dyn MadSink>, recorder: Arc<Recorder>) -> Self {
        Self { inner, recorder }
    }
}

impl MadSink for RecordedSink {
    fn deliver(&self, delivery: Delivery<'_>) {
        let sign = match delivery.outcome {
            Outcome::Arrived => '<',
            Outcome::Unanswered => '?',
        };
        self.recorder.record(sign, delivery.agent, &delivery.from, delivery.mad);
        self.inner.deliver(delivery);
    }

    fn idle(&self) {
        self.recorder.attempt(|writer| writer.flush());
        self.inner.idle();
    }

    fn closed(&self, reason: &str) {
        self.recorder.attempt(|writer| writer.flush());
        self.inner.closed(reason);
    }
}
