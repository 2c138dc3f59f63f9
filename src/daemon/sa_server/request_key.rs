//! Keys that identify SA requests, by source, content and transaction ID, to recognise
//! retransmissions. The key is computed once, when the request is queued.

use crate::ids::Lid;
use crate::transport::demux::Inbound;
use crate::wire::mad::{Method, attr_id_of, method_of};
use crate::wire::sa::{DATA_OFFSET, SaAttr};
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Bytes of the lower half of the transaction ID, which the sending program chooses. The upper
/// half, which the sender's kernel sets, distinguishes its programs.
const LOWER_TID: std::ops::Range<usize> = 12..16;

/// Identifies a request: a retransmission has the same bytes, transaction ID included.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestKey {
    dedup_key: DedupKey,
    tid: u32,
}

/// Identifies requests of which only the latest is answered: for most attributes, those of one
/// transaction.
///
/// A program sends one join or leave of a group at a time. If it repeats one with a new
/// transaction ID, it has given up the previous transaction, and only the latest is answered.
/// Joins that let the SA choose the MGID are distinct: each creates a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct DedupKey {
    lid: Lid,
    qpn: u32,
    /// Hash of all bytes except the lower half of the transaction ID.
    digest: u64,
    /// `None` if requests of all transactions count as one.
    tid: Option<u32>,
}

impl RequestKey {
    /// The key of `request`, which may be truncated.
    pub fn of(request: &Inbound) -> Self {
        let mad = &request.mad[..];
        let (before, rest) = mad.split_at(mad.len().min(LOWER_TID.start));
        let (tid, after) = rest.split_at(rest.len().min(LOWER_TID.len()));
        // Not collision-resistant: a sender that forges a collision loses only its own replies.
        let mut hasher = FxHasher::default();
        hasher.write(before);
        hasher.write(after);
        let tid = tid.iter().fold(0, |tid, &byte| tid << 8 | u32::from(byte));
        let is_distinct = !changes_membership(mad) || has_no_mgid(mad);
        let lid = request.from.lid;
        let qpn = request.from.qpn;
        let tid_if_distinct = is_distinct.then_some(tid);
        let dedup_key = DedupKey { lid, qpn, digest: hasher.finish(), tid: tid_if_distinct };
        Self { dedup_key, tid }
    }

    /// LID of the source port.
    pub fn port(&self) -> Lid {
        self.dedup_key.lid
    }

    pub fn dedup_key(&self) -> DedupKey {
        self.dedup_key
    }

    /// Distinguishes the requests of one port. Valid within this process only.
    pub fn digest(&self) -> [u8; 12] {
        let mut digest = [0; 12];
        digest[..8].copy_from_slice(&self.dedup_key.digest.to_ne_bytes());
        digest[8..].copy_from_slice(&self.tid.to_ne_bytes());
        digest
    }
}

/// True for requests to join or leave a multicast group.
pub fn changes_membership(mad: &[u8]) -> bool {
    let writes =
        method_of(mad).is_some_and(|method| [Method::SET, Method::DELETE].contains(&method));
    writes && attr_id_of(mad) == Some(SaAttr::MC_MEMBER_RECORD)
}

/// The MGID of an MCMemberRecord request; `None` if the MAD is truncated.
pub fn mgid(mad: &[u8]) -> Option<[u8; 16]> {
    mad.get(DATA_OFFSET..DATA_OFFSET + 16)?.try_into().ok()
}

/// True if the MGID is zero: the SA chooses one for the new group.
pub fn has_no_mgid(mad: &[u8]) -> bool {
    mgid(mad) == Some([0; 16])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::ids::Sl;
    use crate::transport::{Address, Agent};
    use crate::wire::mad::{Header, Mad};
    use tokio::time::Instant;

    fn key(method: Method, mgid: u8, tid: u64) -> RequestKey {
        RequestKey::of(&request(method, mgid, tid))
    }

    /// A request about the membership of LID 7 in the group with this first byte of its MGID.
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
    fn joins_of_one_program_differ_only_by_transaction() {
        let join = key(Method::SET, 0xFF, 1 << 32 | 1);
        assert_eq!(is_same(key(Method::SET, 0xFF, 1 << 32 | 1), join), (true, true));
        assert_eq!(
            is_same(key(Method::SET, 0xFF, 1 << 32 | 2), join),
            (false, true),
            "a new transaction"
        );
        assert_eq!(
            is_same(key(Method::SET, 0xFF, 2 << 32 | 1), join),
            (false, false),
            "another program"
        );
        assert_eq!(is_same(key(Method::DELETE, 0xFF, 1 << 32 | 1), join), (false, false));
        assert_eq!(is_same(key(Method::SET, 0xFE, 1 << 32 | 1), join), (false, false));
        for (method, mgid) in [(Method::SET, 0), (Method::GET, 0xFF)] {
            let keys = [1, 2].map(|tid| key(method, mgid, tid).dedup_key());
            assert_ne!(keys[0], keys[1], "{method:?} may be outstanding twice");
        }
    }

    fn is_same(other: RequestKey, join: RequestKey) -> (bool, bool) {
        (join == other, join.dedup_key() == other.dedup_key())
    }

    #[test]
    fn truncated_requests_have_distinct_keys() {
        let from = Address::gsi(Lid(7), Sl(0));
        let arrived = Instant::now();
        let keys: Vec<RequestKey> =
            (0..40).map(|length| RequestKey::of(&cut(length, from, arrived))).collect();
        assert!((1..40).all(|length| keys[length] != keys[length - 1]));
    }

    fn cut(length: usize, from: Address, arrived: Instant) -> Inbound {
        Inbound { agent: Agent::Sa, from, mad: vec![3; length], arrived }
    }
}
