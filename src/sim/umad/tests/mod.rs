mod agents;
mod requests;
mod rmpp;
mod rmpp_faults;

use super::*;
use crate::ids::{Guid, Lid, MKey, Sl};
use crate::sim::SimFabric;
use crate::sim::tests::{Client, HOST0, HOST1, P1, sm};
use crate::transport::Address;
use crate::transport::umad::UserHeader;
use crate::wire::mad::{Header, Mad};
use nix::errno::Errno;
use std::sync::Arc;
use tokio::sync::Notify;

pub(super) const GET: u8 = 0x01;
pub(super) const GET_TABLE: u8 = 0x12;
pub(super) const GET_MULTI: u8 = 0x14;
pub(super) const REPORT: u8 = 0x06;
pub(super) const LID0: Lid = Lid(1);
pub(super) const LID1: Lid = Lid(3);

/// A configured fabric without a subnet manager: host 0 has LID 1, host 1 has LID 3.
async fn fabric() -> SimFabric {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    fabric
}

/// A program with an open umad device.
struct Program {
    umad: OpenUmad,
    readable: Arc<Notify>,
}

impl Program {
    fn at(fabric: &SimFabric, guid: Guid) -> Self {
        let readable = Arc::new(Notify::new());
        let wake = readable.clone();
        let umad = fabric.open_umad(guid, P1, Arc::new(move || wake.notify_one()));
        Self { umad: umad.expect("the port exists"), readable }
    }

    /// A program with an SA agent that receives all methods, with RMPP in the kernel.
    fn server(fabric: &SimFabric, guid: Guid) -> Self {
        let program = Self::at(fabric, guid);
        assert_eq!(program.umad.register(&sa(u128::MAX)), Ok(0));
        program
    }

    /// A program with an SA agent that receives responses only.
    fn client(fabric: &SimFabric, guid: Guid) -> Self {
        let program = Self::at(fabric, guid);
        assert_eq!(program.umad.register(&sa(0)), Ok(0));
        program
    }

    fn write(&self, header: UserHeader, mad: &[u8]) -> Result<usize, Errno> {
        let size = self.umad.header_size();
        let bytes = [&header.to_bytes()[..size], mad].concat();
        let written = self.umad.write(&bytes);
        assert!(written.is_err() || written == Ok(bytes.len()));
        written
    }

    fn read(&self) -> Option<(UserHeader, Vec<u8>)> {
        let packet = self.umad.receive()?;
        let size = self.umad.header_size();
        let header = UserHeader::read(&packet, size == 64).expect("a header");
        Some((header, packet[size..].to_vec()))
    }

    async fn next(&self) -> (UserHeader, Vec<u8>) {
        loop {
            match self.read() {
                Some(packet) => return packet,
                None => self.readable.notified().await,
            }
        }
    }
}

/// Registration of an SA agent.
fn sa(methods: u128) -> AgentRegistration {
    AgentRegistration {
        call: RegisterCall::Agent2,
        qpn: 1,
        class: 3,
        class_version: 2,
        oui: 0,
        rmpp_version: 1,
        flags: 0,
        methods,
    }
}

fn smi(class: u8, methods: u128) -> AgentRegistration {
    AgentRegistration { qpn: 0, class, class_version: 1, rmpp_version: 0, ..sa(methods) }
}

fn sent_to(address: Address, timeout_ms: u32, retries: u32) -> UserHeader {
    UserHeader { id: 0, status: 0, timeout_ms, retries, length: 320, address }
}

fn gsi(lid: Lid) -> Address {
    Address::gsi(lid, Sl(0))
}

/// An SA message with `data` bytes after its headers; `active` makes it an RMPP message.
fn sa_message(method: u8, tid: u64, data: usize, active: bool) -> Vec<u8> {
    let mut message: Vec<u8> = (0..56 + data).map(|at| (at * 7 + at / 251) as u8).collect();
    message[24..36].fill(0);
    message[26] = active.into();
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(3);
    header.set_class_version(2);
    header.set_method(method);
    header.set_tid(tid);
    header.set_attr_id(0x35);
    header.write(&mut message);
    message
}

fn with_method(mad: &[u8], method: u8) -> Vec<u8> {
    let mut mad = mad.to_vec();
    mad[3] = method;
    mad
}

/// Asserts that no request, transfer or timer of an agent is left.
fn assert_idle(fabric: &SimFabric) {
    let net = fabric.shared.lock();
    let kernel = &net.kernel;
    assert_eq!((kernel.requests.len(), kernel.transfers.len()), (0, 0));
    assert!(kernel.backlog.is_empty());
    assert_eq!(kernel.agents.reassembly_count(), 0);
    assert_eq!(net.events.len(), 0);
}
