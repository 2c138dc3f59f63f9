//! Long messages that come in, segment by segment.

use super::classes;
use super::rmpp::receiver::{Receiver, Step};
use super::rmpp::{self, Reason};
use super::transfers::peer;
use crate::sim::net::{Event, Net, Timer};
use crate::transport::Address;
use crate::wire::mad::{Header, Mad, Method};
use std::time::Duration;

/// Time for a message to come in.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(40_000);
/// How long a message that came in is remembered, and late segments of it are acknowledged.
const MEMORY: Duration = Duration::from_millis(10_000);

/// A message that comes in.
pub(in crate::sim) struct Reassembly {
    serial: u64,
    tid: u64,
    class: u8,
    version: u8,
    method: u8,
    from: Address,
    /// The first segment.
    first: Box<Mad>,
    receiver: Receiver,
    /// Segments of the answer that the requester lets come at first.
    answer_window: u32,
    pub(super) timer: Option<Timer>,
}

impl Reassembly {
    fn is(&self, header: &Header, from: &Address) -> bool {
        self.tid == header.tid()
            && self.from.qpn == from.qpn
            && self.from.lid == from.lid
            && self.class == header.class()
            && self.version == header.class_version()
            && self.method == header.method()
    }
}

impl Net {
    /// Segments of the response `header` to `to` that may go at once: those that the requester
    /// let come when it had sent its own long message.
    pub(super) fn first_window(&self, agent: u32, header: &Header, to: &Address) -> u32 {
        let Some(agent) = self.kernel.agents.get(agent) else { return 1 };
        let request = agent.receives.iter().find(|receive| {
            receive.tid == header.tid()
                && receive.class == header.class()
                && receive.version == header.class_version()
                && !Method(receive.method).is_response()
                && peer(&receive.from) == peer(to)
        });
        request.map_or(1, |receive| receive.answer_window)
    }

    /// The requester is ready for the answer to its long request.
    pub(super) fn turn_round(&mut self, id: u32, from: Address, header: &Header, window: u32) {
        let Some(agent) = self.kernel.agents.get_mut(id) else { return };
        let request = agent.receives.iter_mut().find(|receive| receive.is(header, &from));
        if let Some(request) = request.filter(|request| request.receiver.is_complete()) {
            request.answer_window = window;
        }
    }

    pub(super) fn data_arrived(
        &mut self,
        id: u32,
        from: Address,
        header: &Header,
        mad: &Mad,
    ) -> Option<Vec<u8>> {
        let rmpp = rmpp::header(mad);
        let number = rmpp.segment();
        let fault = match (rmpp.status() != 0, rmpp.first() != (number == 1)) {
            (true, _) => Some(Reason::BAD_STATUS),
            (_, true) => Some(Reason::BAD_SEGMENT),
            _ => None,
        };
        if let Some(reason) = fault {
            self.reply(id, from, rmpp::abort(mad, reason));
            return None;
        }
        let agent = self.kernel.agents.get_mut(id)?;
        let known = agent.receives.iter_mut().find(|receive| receive.is(header, &from));
        let (step, receive) = match known {
            Some(receive) => (receive.receiver.segment(number, mad), receive),
            None if number != 1 => return None,
            None => {
                self.kernel.next_receive += 1;
                let (receive, step) = begin(self.kernel.next_receive, from, header, mad);
                agent.receives.push(receive);
                (step, agent.receives.last_mut()?)
            }
        };
        if step == Step::Quiet {
            return None;
        }
        let (serial, to) = (receive.serial, receive.from);
        let (arrived, window) = receive.receiver.position();
        let message = (step == Step::Complete).then(|| receive.receiver.take());
        let (timer, is_new) = (receive.timer, receive.timer.is_none());
        self.reply(id, to, rmpp::ack(mad, arrived, window));
        match (&message, is_new) {
            (Some(_), _) => {
                self.cancel(timer);
                self.arm_receive(id, serial, MEMORY);
            }
            (None, true) => self.arm_receive(id, serial, RECEIVE_TIMEOUT),
            _ => {}
        }
        message
    }

    fn arm_receive(&mut self, agent: u32, serial: u64, after: Duration) {
        let timer = self.schedule(after, Event::Receive { agent, serial });
        let holder = self.kernel.agents.get_mut(agent);
        let mut receives = holder.into_iter().flat_map(|agent| agent.receives.iter_mut());
        if let Some(receive) = receives.find(|receive| receive.serial == serial) {
            receive.timer = Some(timer);
        }
    }

    /// A message took too long to come in, or came in long ago.
    pub(in crate::sim) fn receive_timed_out(&mut self, id: u32, serial: u64) {
        let Some(agent) = self.kernel.agents.get_mut(id) else { return };
        let Some(at) = agent.receives.iter().position(|receive| receive.serial == serial) else {
            return;
        };
        let receive = agent.receives.remove(at);
        if !receive.receiver.is_complete() {
            self.reply(id, receive.from, rmpp::abort(&receive.first, Reason::TOO_LONG));
        }
    }
}

fn begin(serial: u64, from: Address, header: &Header, mad: &Mad) -> (Reassembly, Step) {
    let (receiver, step) = Receiver::new(mad, classes::data_offset(header.class()));
    let receive = Reassembly {
        serial,
        tid: header.tid(),
        class: header.class(),
        version: header.class_version(),
        method: header.method(),
        from,
        first: Box::new(*mad),
        receiver,
        answer_window: 1,
        timer: None,
    };
    (receive, step)
}
