//! Requests about multicast membership that come again because their answer was lost.
//!
//! Most may be carried out twice: who is a member already joins again, and nothing changes. But a
//! group without a name that is asked for twice would be two groups, and who has left cannot leave
//! again: the answers to these are kept for a while, and given again.

use crate::daemon::sa_server::request_key::{RequestKey, is_nameless, mgid};
use crate::ids::Lid;
use crate::sa::Reply;
use crate::transport::demux::Inbound;
use crate::wire::mad::{Header, Method, Status};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// How long an answer is kept: clients have given up by then.
const KEPT: Duration = Duration::from_secs(10);

/// Answers kept at most; of more, the oldest are forgotten.
const MOST: usize = 16_384;

/// Whose membership in which group; each request for a group without a name is one by itself.
type Subject = (Lid, u32, [u8; 16]);

/// Answers that are kept.
#[derive(Debug, Default)]
pub(super) struct ReplyCache {
    kept: HashMap<Subject, (RequestKey, Reply)>,
    /// In the order in which they are to be forgotten. There may be newer ones by then.
    order: VecDeque<(Instant, Subject, RequestKey)>,
}

impl ReplyCache {
    /// The answer that this request had, if it is one that must not be carried out again.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        request: &Inbound,
        name: RequestKey,
    ) -> Option<Reply> {
        while let Some(&(until, subject, other)) = self.order.front()
            && (until <= now || self.order.len() > MOST)
        {
            self.order.pop_front();
            if self.kept.get(&subject).is_some_and(|(kept, _)| *kept == other) {
                self.kept.remove(&subject);
            }
        }
        let (kept, reply) = self.kept.get(&subject(request, name)?)?;
        (*kept == name).then(|| reply.clone())
    }

    /// A request was carried out with this answer.
    pub(super) fn handled(
        &mut self,
        now: Instant,
        request: &Inbound,
        name: RequestKey,
        reply: &Reply,
    ) {
        let Some(subject) = subject(request, name) else { return };
        let is_final =
            Header::read(&request.mad).method() == Method::DELETE.0 || is_nameless(&request.mad);
        if is_final && Header::read(&reply.mad).status() == Status::OK {
            self.kept.insert(subject, (name, reply.clone()));
            self.order.push_back((now + KEPT, subject, name));
        } else {
            // Whatever was said before is not the last word any more.
            self.kept.remove(&subject);
        }
    }
}

/// `None` if the request is cut off.
fn subject(request: &Inbound, name: RequestKey) -> Option<Subject> {
    let mut mgid = mgid(&request.mad)?;
    if mgid == [0; 16] {
        mgid[4..].copy_from_slice(&name.digest());
    }
    Some((request.from.lid, request.from.qpn, mgid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::sa_server::request_key::tests::request;
    use crate::ids::Sl;
    use crate::transport::Address;
    use crate::wire::mad::Mad;

    fn reply(status: u16) -> Reply {
        let mut header = Header::default();
        header.set_status(status);
        let mut mad = Mad::default();
        mad.set_header(&header);
        Reply { to: Address::gsi(Lid(7), Sl(0)), mad: mad.0.to_vec(), required_generation: 3 }
    }

    /// True if the request is not carried out, but answered as before.
    fn again(replies: &mut ReplyCache, now: Instant, request: &Inbound, status: u16) -> bool {
        let name = RequestKey::of(request);
        let known = replies.answer(now, request, name);
        if known.is_none() {
            replies.handled(now, request, name, &reply(status));
        }
        known.is_some_and(|known| known == reply(0))
    }

    #[test]
    fn what_must_not_be_done_twice_is_not() {
        let (mut replies, now) = (ReplyCache::default(), Instant::now());
        let (set, delete) = (Method::SET, Method::DELETE);
        let (join, leave) = (request(set, 0xFF, 1), request(delete, 0xFF, 2));
        let nameless = [request(set, 0, 3), request(set, 0, 4)];
        let seen: Vec<bool> =
            [&join, &join, &leave, &leave, &nameless[0], &nameless[1], &nameless[0]]
                .into_iter()
                .map(|request| again(&mut replies, now, request, 0))
                .collect();
        assert_eq!(seen, [false, false, false, true, false, false, true]);
        assert!(!again(&mut replies, now, &join, 0), "a member again");
        assert!(!again(&mut replies, now, &leave, 0), "it leaves again, by the same transaction");
        assert!(again(&mut replies, now, &leave, 0));
        let refused = request(delete, 0xFE, 5);
        assert!(!again(&mut replies, now, &refused, 0x200));
        assert!(!again(&mut replies, now, &refused, 0), "a refusal may become another");
        assert!(!again(&mut replies, now + KEPT, &leave, 0), "long ago");
        let mut short = request(set, 0xFF, 9);
        short.mad.truncate(20);
        assert_eq!(subject(&short, RequestKey::of(&short)), None);
    }
}
