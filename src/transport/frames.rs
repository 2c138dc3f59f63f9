//! Wrappers that log every MAD of subnet management and administration, in the wording of OpenSM
//! (log flag 0x20). The target tells what was sent or received; [`super::frame_text`] has the text.

use super::frame_text::{sa_dump, smp_dump};
use super::{Agent, Delivery, MadPort, MadSink, Outcome, Outgoing, PortIdentity, SendError};
use std::sync::Arc;
use tracing::{Level, enabled, trace};

/// The beginning of the targets of these events.
pub const TARGET: &str = "torus_sm::frames::";

/// A port that logs the MADs to be sent.
pub struct FramePort(Arc<dyn MadPort>);

impl FramePort {
    pub fn new(inner: Arc<dyn MadPort>) -> Self {
        Self(inner)
    }
}

impl MadPort for FramePort {
    fn identity(&self) -> &PortIdentity {
        self.0.identity()
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        match out.agent {
            Agent::SmiDirected | Agent::SmiLid => {
                if enabled!(target: "torus_sm::frames::smp_sent", Level::TRACE) {
                    trace!(target: "torus_sm::frames::smp_sent", "{}", smp_dump(out.mad));
                }
            }
            Agent::Sa => {
                if enabled!(target: "torus_sm::frames::sa_sent", Level::TRACE) {
                    trace!(target: "torus_sm::frames::sa_sent", "{}", sa_dump(out.mad));
                }
            }
            _ => {}
        }
        self.0.post(out)
    }
}

/// A sink that logs the MADs that arrive.
pub struct FrameSink(Arc<dyn MadSink>);

impl FrameSink {
    pub fn new(inner: Arc<dyn MadSink>) -> Self {
        Self(inner)
    }
}

impl MadSink for FrameSink {
    fn deliver(&self, delivery: Delivery<'_>) {
        match (delivery.agent, delivery.outcome) {
            (Agent::SmiDirected | Agent::SmiLid, Outcome::Arrived) => {
                if enabled!(target: "torus_sm::frames::smp_received", Level::TRACE) {
                    let dump = smp_dump(delivery.mad);
                    trace!(target: "torus_sm::frames::smp_received", "{dump}");
                }
            }
            (Agent::Sa, Outcome::Arrived) => {
                if enabled!(target: "torus_sm::frames::sa_received", Level::TRACE) {
                    trace!(target: "torus_sm::frames::sa_received", "{}", sa_dump(delivery.mad));
                }
            }
            _ => {}
        }
        self.0.deliver(delivery);
    }

    fn idle(&self) {
        self.0.idle();
    }

    fn closed(&self, reason: &str) {
        self.0.closed(reason);
    }
}
