//! RMPP messages being sent.

use super::classes;
use super::rmpp::sender::KernelRmppSender;
use crate::ids::{Gid, Lid};
use crate::sim::event_queue::Timer;
use crate::transport::Address;
use crate::transport::umad::UserHeader;
use crate::wire::mad::Header;

/// Remote end of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Peer {
    Lid(Lid),
    Gid(Gid),
}

/// Remote end of a transfer to or from `address`: its GID if there is a GRH, else its LID.
pub(super) fn peer(address: &Address) -> Peer {
    address.grh.map_or(Peer::Lid(address.lid), |grh| Peer::Gid(grh.gid))
}

/// Identifies an RMPP message that is being sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::sim) struct TransferKey {
    pub(in crate::sim) agent: u32,
    tid: u64,
    class: u8,
    /// Destination of a response; transaction IDs of requests are unique by themselves.
    peer: Option<Peer>,
}

impl TransferKey {
    /// Key of the RMPP request of `agent` with this header.
    pub(in crate::sim) fn request(agent: u32, header: &Header) -> Self {
        Self { agent, tid: header.tid(), class: header.class(), peer: None }
    }

    /// Key of the RMPP response of `agent` to `to` with this header.
    pub(in crate::sim) fn response(agent: u32, header: &Header, to: &Address) -> Self {
        Self { peer: Some(peer(to)), ..Self::request(agent, header) }
    }

    /// Key of the message that a received packet with this header acknowledges or answers.
    pub(in crate::sim) fn of_received(agent: u32, header: &Header, from: &Address) -> Self {
        if classes::is_response(header) {
            Self::request(agent, header)
        } else {
            Self::response(agent, header, from)
        }
    }

    pub(in crate::sim) fn is_response(&self) -> bool {
        self.peer.is_some()
    }
}

/// An RMPP message that is being sent, or an RMPP request that has been received completely and
/// waits for its response.
pub(in crate::sim) struct Transfer {
    /// End port that sends.
    pub(in crate::sim) slot: u32,
    /// Header that the program sent with the message.
    pub(in crate::sim) sent: UserHeader,
    pub(in crate::sim) sender: KernelRmppSender,
    /// Retries left.
    pub(in crate::sim) retries: u32,
    pub(in crate::sim) timer: Option<Timer>,
}
