//! MADs that agents receive.

use super::Net;
use crate::sim::kernel::{classes, rmpp};
use crate::sim::packet::Message;
use crate::transport::Address;
use crate::wire::mad::{Header, Mad};

impl Net {
    /// Dispatches a MAD received by the end port `slot` to the agent that it is for; false if
    /// there is none.
    pub(in crate::sim) fn dispatch(&mut self, slot: u32, from: Address, mad: Mad) -> bool {
        let header = mad.header();
        let Some(id) = self.kernel.agents.recipient(slot, &header, &mad) else { return false };
        let is_segment = classes::has_rmpp(header.class()) && rmpp::is_active(&mad.0);
        if is_segment && self.kernel.agents.get(id).is_some_and(|agent| agent.has_kernel_rmpp()) {
            if let Some(message) = self.receive_rmpp(id, from, &header, &mad) {
                self.deliver_to_agent(id, from, &header, Message::Rmpp(message), false);
            }
        } else {
            self.deliver_to_agent(id, from, &header, Message::Mad(mad), is_segment);
        }
        true
    }

    /// Delivers a whole message to the agent. A response is delivered only if the agent waits for
    /// it, or if it is a `segment` that the program reassembles itself.
    fn deliver_to_agent(
        &mut self,
        id: u32,
        from: Address,
        header: &Header,
        message: Message,
        segment: bool,
    ) {
        let is_expected = !classes::is_response(header)
            || self.complete_request(id, header, &from)
            || self.complete_transfer(id, header, &from)
            || segment;
        if is_expected && let Some(agent) = self.kernel.agents.get(id) {
            agent.owner.deliver(from, message);
        }
    }
}
