//! The names of SA requests, by which repetitions are known: who asks for what, under which
//! transaction. A request has its name made once, when it begins to wait.

use crate::ids::Lid;
use crate::transport::demux::Inbound;
use crate::wire::mad::Method;
use crate::wire::sa::{DATA_OFFSET, SaAttr};
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// The lower half of the transaction ID: the sender's; the upper one tells its programs apart.
const TID: std::ops::Range<usize> = 12..16;

/// Which request of whom: a repetition has the same bytes, transaction ID included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestKey {
    question: DedupKey,
    tid: u32,
}

/// What of a request is to be answered once. For most that is a transaction.
///
/// A program that wants to join or leave a group asks once at a time: when it asks the same under
/// another transaction, it has given up the one before, and only the newest is to be answered. (A group
/// without a name is another one each time.)
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DedupKey {
    lid: Lid,
    qpn: u32,
    /// Of all bytes but the transaction.
    digest: u64,
    /// `None` if it does not matter.
    tid: Option<u32>,
}

impl RequestKey {
    /// The name of a request.
    pub fn of(request: &Inbound) -> Self {
        let mad = &request.mad[..];
        let (before, rest) = mad.split_at(mad.len().min(TID.start));
        let (tid, after) = rest.split_at(rest.len().min(TID.len()));
        // A quick one: whoever makes up requests of one name has one of its own answers less.
        let mut hasher = FxHasher::default();
        hasher.write(before);
        hasher.write(after);
        let tid = tid.iter().fold(0, |tid, &byte| tid << 8 | u32::from(byte));
        let is_own = !changes_membership(mad) || is_nameless(mad);
        let (lid, qpn) = (request.from.lid, request.from.qpn);
        let question = DedupKey { lid, qpn, digest: hasher.finish(), tid: is_own.then_some(tid) };
        Self { question, tid }
    }

    /// The port that asks.
    pub fn port(&self) -> Lid {
        self.question.lid
    }

    /// What it asks.
    pub fn question(&self) -> DedupKey {
        self.question
    }

    /// Tells requests of one port apart.
    pub fn digest(&self) -> [u8; 12] {
        let mut digest = [0; 12];
        digest[..8].copy_from_slice(&self.question.digest.to_be_bytes());
        digest[8..].copy_from_slice(&self.tid.to_be_bytes());
        digest
    }
}

/// True if the request is about joining or leaving a multicast group.
pub fn changes_membership(mad: &[u8]) -> bool {
    let writes =
        mad.get(3).is_some_and(|method| [Method::SET.0, Method::DELETE.0].contains(method));
    writes && mad.get(16..18) == Some(&SaAttr::MC_MEMBER_RECORD.to_be_bytes())
}

/// The MGID in a request about membership; `None` if it is cut off.
pub fn mgid(mad: &[u8]) -> Option<[u8; 16]> {
    mad.get(DATA_OFFSET..DATA_OFFSET + 16)?.try_into().ok()
}

/// True if the group has no name yet.
pub fn is_nameless(mad: &[u8]) -> bool {
    mgid(mad) == Some([0; 16])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ids::Sl;
    use crate::transport::{Address, Agent};
    use crate::wire::mad::{Header, Mad};
    use tokio::time::Instant;

    fn name(method: Method, mgid: u8, tid: u64) -> RequestKey {
        RequestKey::of(&request(method, mgid, tid))
    }

    /// A request about the membership of LID 7 in a group, named by the first byte of its MGID.
    pub(crate) fn request(method: Method, mgid: u8, tid: u64) -> Inbound {
        let mut header = Header::default();
        header.set_method(method.0);
        header.set_tid(tid);
        header.set_attr_id(SaAttr::MC_MEMBER_RECORD);
        let mut mad = Mad::default();
        mad.set_header(&header);
        mad.0[DATA_OFFSET] = mgid;
        let from = Address::gsi(Lid(7), Sl(0));
        Inbound { agent: Agent::Sa, from, mad: mad.0.to_vec(), arrived: Instant::now() }
    }

    #[test]
    fn a_program_asks_for_a_membership_once_at_a_time() {
        let join = name(Method::SET, 0xFF, 1 << 32 | 1);
        let is_same = |other: RequestKey| (join == other, join.question() == other.question());
        assert_eq!(is_same(name(Method::SET, 0xFF, 1 << 32 | 1)), (true, true));
        assert_eq!(is_same(name(Method::SET, 0xFF, 1 << 32 | 2)), (false, true), "asked anew");
        assert_eq!(
            is_same(name(Method::SET, 0xFF, 2 << 32 | 1)),
            (false, false),
            "another program"
        );
        assert_eq!(is_same(name(Method::DELETE, 0xFF, 1 << 32 | 1)), (false, false));
        assert_eq!(is_same(name(Method::SET, 0xFE, 1 << 32 | 1)), (false, false));
        for (method, mgid) in [(Method::SET, 0), (Method::GET, 0xFF)] {
            let questions = [1, 2].map(|tid| name(method, mgid, tid).question());
            assert_ne!(questions[0], questions[1], "{method:?} may be under way twice");
        }
    }

    #[test]
    fn what_is_cut_off_has_a_name() {
        let from = Address::gsi(Lid(7), Sl(0));
        let arrived = Instant::now();
        let cut = |length| Inbound { agent: Agent::Sa, from, mad: vec![3; length], arrived };
        let names: Vec<RequestKey> = (0..40).map(|length| RequestKey::of(&cut(length))).collect();
        assert!((1..40).all(|length| names[length] != names[length - 1]));
    }
}
