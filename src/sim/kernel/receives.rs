//! What arrives for the agents of a port.

use super::{classes, rmpp};
use crate::sim::message::Message;
use crate::sim::net::Net;
use crate::transport::Address;
use crate::wire::mad::{Header, Mad, Method, Status};

impl Net {
    /// Gives a MAD that arrived at the end port `slot` to the agent it is for; false if nobody
    /// there wants it.
    pub(in crate::sim) fn offer(&mut self, slot: u32, from: Address, mad: Mad) -> bool {
        let header = mad.header();
        let Some(id) = self.kernel.agents.recipient(slot, &header, &mad) else { return false };
        let by_rmpp = classes::has_rmpp(header.class()) && rmpp::is_active(&mad.0);
        if by_rmpp && self.kernel.agents.get(id).is_some_and(|agent| agent.does_rmpp()) {
            if let Some(message) = self.rmpp_arrived(id, from, &header, &mad) {
                self.complete(id, from, &header, Message::Long(message), false);
            }
        } else {
            self.complete(id, from, &header, Message::Mad(mad), by_rmpp);
        }
        true
    }

    /// Hands a whole message to the agent; an answer only if it waits for it, or if it is a
    /// `segment` that the program is to put together.
    fn complete(
        &mut self,
        id: u32,
        from: Address,
        header: &Header,
        message: Message,
        segment: bool,
    ) {
        let wanted = !classes::is_response(header)
            || self.end_request(id, header, &from)
            || self.end_transfer(id, header, &from)
            || segment;
        if wanted && let Some(agent) = self.kernel.agents.get(id) {
            agent.owner.deliver(from, message);
        }
    }
}

/// What the kernel answers to a Get or Set that no agent wants.
pub(in crate::sim) fn refusal(mad: &Mad) -> Option<Mad> {
    if ![Method::GET, Method::SET].contains(&mad.method()) {
        return None;
    }
    let mut answer = *mad;
    let mut header = answer.header();
    header.set_method(Method::GET_RESP.0);
    header.set_status(Status::BAD_METHOD_ATTR);
    answer.set_header(&header);
    Some(answer)
}
