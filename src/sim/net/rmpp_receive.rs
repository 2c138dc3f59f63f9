//! RMPP messages being received.

use super::Net;
use crate::sim::events::FabricEvent;
use crate::sim::kernel::Reassembly;
use crate::sim::kernel::rmpp::receiver::KernelSegmentOutcome;
use crate::sim::kernel::rmpp::{self, KernelRmppStatus};
use crate::transport::Address;
use crate::wire::mad::{Header, Mad};
use std::time::Duration;

/// Time in which a message must be complete, as in Linux.
const MAX_REASSEMBLY_TIME: Duration = Duration::from_millis(40_000);
/// Time for which a complete message is remembered, to acknowledge duplicate segments, as in Linux.
const COMPLETED_LIFETIME: Duration = Duration::from_millis(10_000);

impl Net {
    /// First window of the response with this header to `to`: granted by the requester after its
    /// own RMPP message, else 1 segment.
    pub(super) fn response_window(&self, agent: u32, header: &Header, to: &Address) -> u32 {
        let Some(agent) = self.kernel.agents.get(agent) else { return rmpp::INITIAL_WINDOW };
        let request = agent.reassemblies.request_of(header, to);
        request.map_or(rmpp::INITIAL_WINDOW, |request| request.response_window)
    }

    /// Records the window that the sender of an RMPP request grants to the response.
    pub(super) fn grant_response_window(
        &mut self,
        id: u32,
        from: Address,
        header: &Header,
        window: u32,
    ) {
        let Some(agent) = self.kernel.agents.get_mut(id) else { return };
        let request = agent.reassemblies.find(header, &from);
        if let Some(request) = request.filter(|request| request.receiver.is_complete()) {
            request.response_window = window;
        }
    }

    /// Handles a DATA packet; returns the message that it completes.
    pub(super) fn receive_segment(
        &mut self,
        id: u32,
        from: Address,
        header: &Header,
        mad: &Mad,
    ) -> Option<Vec<u8>> {
        let rmpp = rmpp::header(mad);
        let number = rmpp.segment();
        let error = match (rmpp.status() != 0, rmpp.first() != (number == 1)) {
            (true, _) => Some(KernelRmppStatus::BAD_STATUS),
            (_, true) => Some(KernelRmppStatus::BAD_SEGMENT),
            _ => None,
        };
        if let Some(status) = error {
            self.queue_reply(id, from, rmpp::abort(mad, status));
            return None;
        }
        let agent = self.kernel.agents.get_mut(id)?;
        let outcome = match agent.reassemblies.find(header, &from) {
            Some(message) => message.receiver.receive(number, mad),
            None if number != 1 => return None,
            None => {
                self.kernel.last_reassembly += 1;
                let serial = self.kernel.last_reassembly;
                let (message, outcome) = Reassembly::new(serial, from, header, mad);
                agent.reassemblies.insert(message);
                outcome
            }
        };
        if outcome == KernelSegmentOutcome::NoReply {
            return None;
        }
        let message = agent.reassemblies.find(header, &from)?;
        let serial = message.serial;
        let to = message.from;
        let (received, window) = message.receiver.acknowledge();
        let complete = (outcome == KernelSegmentOutcome::Complete).then(|| message.receiver.take());
        let timer = message.timer;
        let is_new = message.timer.is_none();
        self.queue_reply(id, to, rmpp::ack(mad, received, window));
        match (&complete, is_new) {
            (Some(_), _) => {
                self.cancel(timer);
                self.start_reassembly_timer(id, serial, COMPLETED_LIFETIME);
            }
            (None, true) => self.start_reassembly_timer(id, serial, MAX_REASSEMBLY_TIME),
            _ => {}
        }
        complete
    }

    fn start_reassembly_timer(&mut self, agent: u32, serial: u64, after: Duration) {
        let timer = self.schedule(after, FabricEvent::ReassemblyTimeout { agent, serial });
        let agent = self.kernel.agents.get_mut(agent);
        if let Some(message) = agent.and_then(|agent| agent.reassemblies.get_mut(serial)) {
            message.timer = Some(timer);
        }
    }

    /// Forgets a complete message, or aborts the transfer of an incomplete one.
    pub(super) fn reassembly_timed_out(&mut self, id: u32, serial: u64) {
        let Some(agent) = self.kernel.agents.get_mut(id) else { return };
        let Some(message) = agent.reassemblies.remove(serial) else { return };
        if !message.receiver.is_complete() {
            let abort = rmpp::abort(&message.first_segment, KernelRmppStatus::TOTAL_TIME_TOO_LONG);
            self.queue_reply(id, message.from, abort);
        }
    }
}
