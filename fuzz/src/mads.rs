//! Received MADs.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use torus_sm::config::options::Options;
use torus_sm::ids::{Guid, Lid, Sl};
use torus_sm::observe::traps::TrapFilter;
use torus_sm::plan::partitions;
use torus_sm::publish::Subnet;
use torus_sm::sa::Responder;
use torus_sm::sa::registry::{GroupSpec, Registry};
use torus_sm::sm::peer::Peer;
use torus_sm::sm::sm_info::{self, Answer, SmStatus};
use torus_sm::transport::Address;
use torus_sm::transport::umad::{UserHeader, rmpp};
use torus_sm::wire::attr::{Notice, SmState};
use torus_sm::wire::mad::{Class, MAD_SIZE, Mad, Method};
use torus_sm::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader};

use super::sweeps;

/// SA requests. Each begins with the requester's LID (8 bits) and a choice between raw bytes and a
/// well-formed header with attribute, method and component mask from the input. The replies must be
/// the same with and without the facts known from verification of the plan.
pub fn sa_requests(data: &[u8]) {
    static SUBNETS: OnceLock<[Subnet; 2]> = OnceLock::new();
    let subnets = SUBNETS.get_or_init(|| {
        let checked = sweeps::small_subnet();
        assert!(checked.summary.lids > 0);
        [Subnet { summary: Arc::default(), ..checked.clone() }, checked]
    });
    let mut responders = [(); 2].map(|()| Responder::new(groups()));
    let now = Instant::now();
    for (number, chunk) in data.chunks(MAD_SIZE + 2).take(64).enumerate() {
        let (head, body) = chunk.split_at(chunk.len().min(2));
        let from = Address::gsi(Lid(head[0].into()), Sl(0));
        let mad = match head.get(1) {
            Some(shape) if shape % 4 > 0 => request(body),
            _ => body.to_vec(),
        };
        let now = now + Duration::from_millis(number as u64);
        let [walked, checked] =
            [0, 1].map(|which| responders[which].handle(&subnets[which], &from, &mad, now));
        assert_eq!(walked, checked, "after a walk through the tables, and without");
        if let Some(reply) = checked {
            assert!(reply.mad.len() >= 56, "a reply without its headers");
            assert!(Mad::read(&reply.mad).method().is_response());
        }
        responders[1].registry().groups(&subnets[1].fabric);
    }
}

/// A request with a well-formed header, and the rest from `body`.
fn request(body: &[u8]) -> Vec<u8> {
    let mut mad = vec![0; MAD_SIZE];
    let methods = [
        Method::GET,
        Method::SET,
        Method::GET_TABLE,
        Method::DELETE,
        Method::GET_MULTI,
        Method::GET_TRACE_TABLE,
    ];
    // ClassPortInfo … MCMemberRecord, InformInfo, ServiceRecord, InformInfoRecord, GUIDInfoRecord,
    // MultiPathRecord, TraceRecord, MulticastForwardingTableRecord, VLArbitrationTableRecord.
    let attributes = [
        0x01, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x18, 0x19, 0x20, 0x33, 0x35, 0x38, 0x03, 0x31,
        0xF3, 0x30, 0x3A, 0x39, 0x17, 0x36,
    ];
    let attribute: u16 = attributes[usize::from(byte(body, 1)) % attributes.len()];
    mad[..4].copy_from_slice(&[
        1,
        Class::SUBN_ADM,
        2,
        methods[usize::from(byte(body, 0)) % methods.len()].0,
    ]);
    mad[15] = byte(body, 2);
    mad[16..18].copy_from_slice(&attribute.to_be_bytes());
    if mad[3] == Method::GET_MULTI.0 {
        // MultiPathRecord requests are RMPP messages.
        RmppHeader::message(MAD_SIZE - DATA_OFFSET).write(&mut mad[RMPP_OFFSET..]);
    }
    mad[43] = byte(body, 3);
    for (to, from) in mad[48..].iter_mut().zip(body.iter().skip(4)) {
        *to = *from;
    }
    mad
}

fn byte(body: &[u8], at: usize) -> u8 {
    body.get(at).copied().unwrap_or(0)
}

fn groups() -> Registry {
    let mut registry = Registry::default();
    let groups: Vec<GroupSpec> = partitions::default(&Options::default())
        .iter()
        .flat_map(|partition| &partition.groups)
        .map(GroupSpec::from)
        .collect();
    registry.set_permanent(&groups, torus_sm::ids::Mlid::LAST);
    registry
}

/// SMInfo requests and traps.
pub fn front_desk(data: &[u8]) {
    let portrait = SmStatus::new(Guid(0x10), &Options::default(), SmState::Standby);
    let mut traps = TrapFilter::default();
    let start = tokio::time::Instant::now();
    for (number, chunk) in data.chunks(MAD_SIZE).take(256).enumerate() {
        let mad = Mad::read(chunk);
        if let Some(Answer::Get(reply) | Answer::Accepted(reply, _) | Answer::Refused(reply, _)) =
            sm_info::answer(&portrait, &mad, true)
        {
            assert!(reply.method().is_response());
        }
        let _ = Peer::sender_of(&mad, Lid(1));
        let now = start + Duration::from_millis(200 * number as u64);
        traps.receive(now, mad.header().tid(), &Notice::read(&mad.0[64..128]));
        if traps.next_due().is_some_and(|due| due <= now) {
            traps.due(now);
        }
    }
    traps.due(start + Duration::from_secs(3600));
}

/// The output of read() on a umad device, and the RMPP header of its input.
pub fn umad(data: &[u8]) {
    for with_pkey_index in [false, true] {
        if let Some(header) = UserHeader::read(data, with_pkey_index) {
            let back = UserHeader::read(&header.to_bytes(), true);
            assert_eq!(back.map(|back| back.id), Some(header.id));
        }
    }
    let mut message = data.to_vec();
    if rmpp::is_needed(&message) {
        rmpp::prepare(&mut message);
        assert!(rmpp::is_needed(&message), "the header asks for no RMPP");
        assert_eq!(message[56..], data[56..]);
    }
}
