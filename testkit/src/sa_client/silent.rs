//! A client that lets the subnet administrator wait.

use std::sync::Arc;
use std::time::Duration;
use torus_sm::ids::{Guid, Lid, PortNum, Sl};
use torus_sm::sim::SimFabric;
use torus_sm::sim::kernel::{AgentRegistration, RegisterCall};
use torus_sm::sim::umad::OpenUmad;
use torus_sm::transport::Address;
use torus_sm::transport::umad::UserHeader;
use torus_sm::wire::mad::{Header, MAD_SIZE, Mad, Status};
use torus_sm::wire::sa::{CLASS_VERSION, RMPP_OFFSET, RmppHeader};

/// Longer than the daemon's `max_msg_fifo_timeout`.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client that receives segments and acknowledges none.
pub struct SilentClient {
    umad: OpenUmad,
    sa: Address,
}

impl SilentClient {
    /// A client at the first port of a host. `sa`: the LID of the subnet administrator.
    pub fn attach(fabric: &SimFabric, node: Guid, sa: Lid) -> Self {
        let umad = fabric.open_umad(node, PortNum(1), Arc::new(|| ())).expect("the host exists");
        let registration = AgentRegistration {
            call: RegisterCall::Agent2,
            qpn: 1,
            class: 3,
            class_version: CLASS_VERSION,
            oui: 0,
            rmpp_version: 1,
            flags: AgentRegistration::USER_RMPP,
            methods: 0,
        };
        umad.register(&registration).expect("it is valid");
        Self { umad, sa: Address::gsi(sa, Sl(0)) }
    }

    /// Sends a request.
    pub fn send(&self, mad: &Mad) {
        let timeout_ms = TIMEOUT.as_millis() as u32;
        let retries = 0;
        let length = 320;
        let header = UserHeader { id: 0, status: 0, timeout_ms, retries, length, address: self.sa };
        let bytes = [&header.to_bytes()[..], &mad.0].concat();
        self.umad.write(&bytes).expect("it is sent");
    }

    /// Numbers of first segments with different transaction IDs, and of BUSY replies, that have
    /// arrived since the last call.
    pub fn arrived(&self) -> (usize, usize) {
        let mut tables = std::collections::BTreeSet::new();
        let mut busy = 0;
        while let Some(packet) = self.umad.receive() {
            let mad = &packet[self.umad.header_size()..];
            if mad.len() < MAD_SIZE {
                continue;
            }
            let header = Header::read(mad);
            let rmpp = RmppHeader::read(&mad[RMPP_OFFSET..]);
            if header.status() == Status::BUSY {
                busy += 1;
            } else if rmpp.packet_type() == RmppHeader::DATA {
                assert_eq!(rmpp.segment(), 1, "no further segment without an acknowledgement");
                tables.insert(header.tid());
            }
        }
        (tables.len(), busy)
    }
}
