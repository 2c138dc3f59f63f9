//! Replies kept for retransmissions of membership requests whose reply was lost.
//!
//! Most requests may be executed twice: joining again changes nothing. But a request that lets the
//! SA choose the MGID would create two groups, and a second leave fails because the port is no
//! member any more. The replies to these two are kept for a while and sent again.

use crate::daemon::sa_server::request_key::{RequestKey, has_no_mgid, mgid};
use crate::ids::Lid;
use crate::sa::Reply;
use crate::transport::demux::Inbound;
use crate::wire::mad::{Header, Method, Status};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Time a reply is kept; clients have given up by then.
const KEEP_TIME: Duration = Duration::from_secs(10);

/// Maximum number of kept replies. If exceeded, the oldest are dropped.
const MAX_KEPT_REPLIES: usize = 16_384;

/// Maximum number of kept replies to one port. Further ones are not kept.
const MAX_KEPT_PER_PORT: usize = 2048;

/// Source LID, QPN and group of a membership. Requests without MGID are distinct by their digest.
type Subject = (Lid, u32, [u8; 16]);

#[derive(Debug, Default)]
pub(super) struct ReplyCache {
    kept: HashMap<Subject, (RequestKey, Reply)>,
    /// Number of entries of `expiries` by LID.
    by_port: HashMap<Lid, usize>,
    /// Expiry times, earliest first. A reply may have been replaced by a newer one since.
    expiries: VecDeque<(Instant, Subject, RequestKey)>,
}

impl ReplyCache {
    /// The reply to this request, if it must not be executed again.
    pub(super) fn get(
        &mut self,
        now: Instant,
        request: &Inbound,
        key: RequestKey,
    ) -> Option<Reply> {
        while let Some(&(until, subject, other)) = self.expiries.front()
            && (until <= now || self.expiries.len() > MAX_KEPT_REPLIES)
        {
            self.expiries.pop_front();
            self.release(subject.0);
            if self.kept.get(&subject).is_some_and(|(kept, _)| *kept == other) {
                self.kept.remove(&subject);
            }
        }
        let (kept, reply) = self.kept.get(&subject(request, key)?)?;
        (*kept == key).then(|| reply.clone())
    }

    /// Counts one entry of `expiries` less for a port.
    fn release(&mut self, lid: Lid) {
        if let Entry::Occupied(mut count) = self.by_port.entry(lid) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// Records the reply to an executed request.
    pub(super) fn executed(
        &mut self,
        now: Instant,
        request: &Inbound,
        key: RequestKey,
        reply: &Reply,
    ) {
        let Some(subject) = subject(request, key) else { return };
        let is_final =
            Header::read(&request.mad).method() == Method::DELETE.0 || has_no_mgid(&request.mad);
        if is_final && Header::read(&reply.mad).status() == Status::OK {
            let own = self.by_port.entry(subject.0).or_default();
            if *own >= MAX_KEPT_PER_PORT {
                self.kept.remove(&subject);
                return;
            }
            *own += 1;
            self.kept.insert(subject, (key, reply.clone()));
            self.expiries.push_back((now + KEEP_TIME, subject, key));
        } else {
            // The membership changed again: the previous reply is outdated.
            self.kept.remove(&subject);
        }
    }
}

/// `None` if the request is truncated.
fn subject(request: &Inbound, key: RequestKey) -> Option<Subject> {
    let mut mgid = mgid(&request.mad)?;
    if mgid == [0; 16] {
        mgid[4..].copy_from_slice(&key.digest());
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

    /// True if the request is not executed but gets the same reply.
    fn is_repeated(replies: &mut ReplyCache, now: Instant, request: &Inbound, status: u16) -> bool {
        let key = RequestKey::of(request);
        let known = replies.get(now, request, key);
        if known.is_none() {
            replies.executed(now, request, key, &reply(status));
        }
        known.is_some_and(|known| known == reply(0))
    }

    #[test]
    fn creating_and_leaving_a_group_are_executed_once() {
        let mut replies = ReplyCache::default();
        let now = Instant::now();
        let set = Method::SET;
        let delete = Method::DELETE;
        let join = request(set, 0xFF, 1);
        let leave = request(delete, 0xFF, 2);
        let creating = [request(set, 0, 3), request(set, 0, 4)];
        let seen: Vec<bool> =
            [&join, &join, &leave, &leave, &creating[0], &creating[1], &creating[0]]
                .into_iter()
                .map(|request| is_repeated(&mut replies, now, request, 0))
                .collect();
        assert_eq!(seen, [false, false, false, true, false, false, true]);
        assert!(!is_repeated(&mut replies, now, &join, 0), "joins again");
        assert!(
            !is_repeated(&mut replies, now, &leave, 0),
            "leaves again, with the same transaction ID"
        );
        assert!(is_repeated(&mut replies, now, &leave, 0));
        let refused = request(delete, 0xFE, 5);
        assert!(!is_repeated(&mut replies, now, &refused, 0x200));
        assert!(!is_repeated(&mut replies, now, &refused, 0), "error replies are not kept");
        assert!(!is_repeated(&mut replies, now + KEEP_TIME, &leave, 0), "expired");
        let mut short = request(set, 0xFF, 9);
        short.mad.truncate(20);
        assert_eq!(subject(&short, RequestKey::of(&short)), None);
    }

    #[test]
    fn a_port_displaces_no_replies_of_others() {
        let mut replies = ReplyCache::default();
        let now = Instant::now();
        let first = of(1, 0);
        assert!(!is_repeated(&mut replies, now, &first, 0));
        for tid in 0..2 * MAX_KEPT_REPLIES as u64 {
            is_repeated(&mut replies, now, &of(2, tid), 0);
        }
        assert_eq!(replies.kept.len(), 1 + MAX_KEPT_PER_PORT);
        assert!(is_repeated(&mut replies, now, &first, 0), "of another port");
        assert!(!is_repeated(&mut replies, now + KEEP_TIME, &first, 0), "expired");
        assert_eq!(replies.by_port.values().sum::<usize>(), 1);
    }

    fn of(lid: u16, tid: u64) -> Inbound {
        let mut request = request(Method::SET, 0, tid);
        request.from.lid = Lid(lid);
        request
    }
}
