//! Wrapper that passes every MAD to a [`MadRecorder`].

use super::{
    Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError,
};
use std::sync::Arc;

/// Direction and fate of a recorded MAD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MadFate {
    Sent,
    /// The port refused to send it.
    NotSent,
    Received,
    /// A sent request that the port gave up.
    Unanswered,
}

/// A destination of recorded MADs. It is called by the senders and by the reader threads of a port,
/// possibly several at once, and must not block.
pub trait MadRecorder: Send + Sync {
    /// Records a MAD. `peer`: the receiver of a sent MAD, the sender of a received one.
    fn record(&self, fate: MadFate, agent: Agent, peer: &Address, mad: &[u8]);
}

/// A port that records the MADs to be sent, before they are sent.
pub struct RecordedPort {
    inner: Arc<dyn MadPort>,
    recorder: Arc<dyn MadRecorder>,
}

impl RecordedPort {
    pub fn new(inner: Arc<dyn MadPort>, recorder: Arc<dyn MadRecorder>) -> Self {
        Self { inner, recorder }
    }
}

impl MadPort for RecordedPort {
    fn identity(&self) -> &PortIdentity {
        self.inner.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        // The response may arrive before `post` returns.
        self.recorder.record(MadFate::Sent, out.agent, &out.to, out.mad);
        let sent = self.inner.post(out);
        if sent.is_err() {
            self.recorder.record(MadFate::NotSent, out.agent, &out.to, out.mad);
        }
        sent
    }
}

/// A sink that records the delivered MADs.
pub struct RecordedSink {
    inner: Arc<dyn MadSink>,
    recorder: Arc<dyn MadRecorder>,
}

impl RecordedSink {
    pub fn new(inner: Arc<dyn MadSink>, recorder: Arc<dyn MadRecorder>) -> Self {
        Self { inner, recorder }
    }
}

impl MadSink for RecordedSink {
    fn deliver(&self, delivery: Delivery<'_>) {
        let fate = match delivery.outcome {
            Outcome::Arrived => MadFate::Received,
            Outcome::Unanswered => MadFate::Unanswered,
        };
        self.recorder.record(fate, delivery.agent, &delivery.from, delivery.mad);
        self.inner.deliver(delivery);
    }

    fn idle(&self) {
        self.inner.idle();
    }

    fn closed(&self, reason: &str) {
        self.inner.closed(reason);
    }
}
