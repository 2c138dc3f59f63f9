//! Wrapper that logs every MAD at trace level, with the target `mad`.

use super::{
    Address, Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError,
};
use crate::wire::mad::Mad;
use std::sync::Arc;

const TARGET: &str = "mad";

/// A port that logs the MADs to be sent.
pub struct TracedPort {
    inner: Arc<dyn MadPort>,
}

impl TracedPort {
    pub fn new(inner: Arc<dyn MadPort>) -> Self {
        Self { inner }
    }
}

impl MadPort for TracedPort {
    fn identity(&self) -> &PortIdentity {
        self.inner.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        let sent = self.inner.post(out);
        match &sent {
            Ok(()) => trace("sent", out.agent, &out.to, out.mad),
            Err(_) => trace("not sent", out.agent, &out.to, out.mad),
        }
        sent
    }
}

/// A sink that logs the delivered MADs.
pub struct TracedSink {
    inner: Arc<dyn MadSink>,
}

impl TracedSink {
    pub fn new(inner: Arc<dyn MadSink>) -> Self {
        Self { inner }
    }
}

impl MadSink for TracedSink {
    fn deliver(&self, delivery: Delivery<'_>) {
        let event = match delivery.outcome {
            Outcome::Arrived => "received",
            Outcome::Unanswered => "unanswered",
        };
        trace(event, delivery.agent, &delivery.from, delivery.mad);
        self.inner.deliver(delivery);
    }

    fn idle(&self) {
        self.inner.idle();
    }

    fn closed(&self, reason: &str) {
        tracing::trace!(target: TARGET, "closed: {reason}");
        self.inner.closed(reason);
    }
}

fn trace(event: &str, agent: Agent, peer: &Address, mad: &[u8]) {
    if tracing::enabled!(target: TARGET, tracing::Level::TRACE) {
        let lid = peer.lid;
        let qpn = peer.qpn;
        let length = mad.len();
        let mad = Mad::read(mad);
        tracing::trace!(
            target: TARGET,
            "{event} {agent} LID {lid} QP {qpn} length {length}: {mad:?}"
        );
    }
}
