//! RMPP messages between programs, without faults.

use super::*;
use crate::sim::packet::Packet;
use crate::transport::{Agent, MadPort, Outgoing};
use crate::wire::sa::RmppHeader;
use std::time::Duration;

/// Sends a request from the client to the server. Returns the address of the response, and the
/// transaction ID on the wire, of which `tid` is the lower half.
async fn asked(client: &Program, server: &Program, tid: u64, timeout: u32) -> (Address, u64) {
    let request = sa_message(GET_TABLE, tid, 200, false);
    client.write(sent_to(gsi(LID1), timeout, 0), &request).expect("it is sent");
    let (from, asked) = server.next().await;
    (from.address, Header::read(&asked).tid())
}

#[tokio::test(start_paused = true)]
async fn responses_of_any_length_arrive_complete() {
    let fabric = fabric().await;
    let client = Program::client(&fabric, HOST0);
    let server = Program::server(&fabric, HOST1);
    for data in [0, 1, 20, 199, 200, 201, 400, 1000, 12_800, 13_000, 13_001, 100_000] {
        let (from, tid) = asked(&client, &server, data as u64, 100).await;
        let answer = sa_message(0x92, tid, data, true);
        server.write(sent_to(from, 0, 3), &answer).expect("it is sent");
        let (header, arrived) = client.next().await;
        assert_eq!((header.status, header.length as usize), (0, 64 + 56 + data), "{data}");
        assert_eq!(arrived.len(), 56 + data);
        assert_eq!((&arrived[..24], &arrived[36..]), (&answer[..24], &answer[36..]));
        let rmpp = RmppHeader::read(&arrived[24..]);
        let segments = data.div_ceil(200).max(1);
        assert_eq!((rmpp.active(), rmpp.first(), rmpp.segment()), (true, true, 1));
        assert_eq!(rmpp.payload_length() as usize, data + 20 * segments);
        assert_eq!(server.read(), None);
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_idle(&fabric);
}

#[tokio::test(start_paused = true)]
async fn rmpp_requests_get_rmpp_responses() {
    let fabric = fabric().await;
    let client = Program::client(&fabric, HOST0);
    let server = Program::server(&fabric, HOST1);
    for data in [1, 300, 5000, 40_000] {
        let request = sa_message(GET_MULTI, data as u64, data, true);
        client.write(sent_to(gsi(LID1), 100, 3), &request).expect("it is sent");
        let (from, arrived) = server.next().await;
        assert_eq!((arrived.len(), &arrived[36..]), (56 + data, &request[36..]));
        let answer = sa_message(0x94, Header::read(&arrived).tid(), 2 * data, true);
        server.write(sent_to(from.address, 0, 3), &answer).expect("it is sent");
        let (header, arrived) = client.next().await;
        assert_eq!((header.status, &arrived[36..]), (0, &answer[36..]));
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_idle(&fabric);
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_rmpp_request_is_not_retried() {
    let fabric = fabric().await;
    let client = Program::client(&fabric, HOST0);
    let server = Program::server(&fabric, HOST1);
    let request = sa_message(GET_MULTI, 5, 5000, true);
    let start = tokio::time::Instant::now();
    client.write(sent_to(gsi(LID1), 3000, 3), &request).expect("it is sent");
    let (header, returned) = client.next().await;
    assert_eq!((header.status, returned.len()), (110, 24));
    assert_eq!(start.elapsed().as_millis(), 3000, "one timeout and no retry");
    assert!(server.read().is_some());
    assert_eq!(server.read(), None);
}

#[tokio::test(start_paused = true)]
async fn sim_ports_and_umad_devices_exchange_rmpp_messages() {
    let (fabric, mut sm) = sm();
    sm.bring_up().await;
    let client = Program::client(&fabric, HOST1);
    let request = sa_message(GET_MULTI, 5, 777, true);
    client.write(sent_to(gsi(LID0), 100, 3), &request).expect("it is sent");
    let (agent, from, _, arrived) = sm.inbox.recv().await.expect("a request");
    assert_eq!((agent, from.lid, &arrived[36..]), (Agent::Sa, LID1, &request[36..]));
    // Posted messages of more than one MAD become RMPP messages without the flag Active.
    let answer = sa_message(0x94, Header::read(&arrived).tid(), 9999, false);
    let out = Outgoing { agent, to: from, timeout: None, retries: 0, mad: &answer };
    sm.port.post(&out).expect("it is sent");
    let (header, arrived) = client.next().await;
    assert_eq!((header.status, &arrived[36..]), (0, &answer[36..]));
}

#[tokio::test(start_paused = true)]
async fn programs_may_implement_rmpp() {
    let fabric = fabric().await;
    let server = Program::server(&fabric, HOST1);
    for own in [
        AgentRegistration { flags: AgentRegistration::USER_RMPP, ..sa(0) },
        AgentRegistration { rmpp_version: 0, ..sa(0) },
    ] {
        let client = Program::at(&fabric, HOST0);
        client.umad.register(&own).expect("free");
        let (from, tid) = asked(&client, &server, 5, 100).await;
        server.write(sent_to(from, 0, 0), &sa_message(0x92, tid, 450, true)).expect("sent");
        let (header, first) = client.next().await;
        assert_eq!((header.status, first.len()), (0, 256));
        let mut rmpp = RmppHeader::read(&first[24..]);
        assert_eq!((rmpp.segment(), rmpp.first(), rmpp.payload_length()), (1, true, 510));
        assert_eq!(client.read(), None, "no segment before an acknowledgement");
        let mut ack = with_method(&first[..56], GET_TABLE);
        ack.resize(256, 0);
        rmpp.set_packet_type(2);
        rmpp.set_first(false);
        rmpp.set_payload_length(9);
        rmpp.write(&mut ack[24..]);
        client.write(sent_to(gsi(LID1), 0, 0), &ack).expect("it is sent");
        let rest: Vec<_> = std::iter::from_fn(|| client.read()).collect();
        let segments = rest.iter().map(|(_, mad)| RmppHeader::read(&mad[24..]));
        let segments: Vec<_> = segments.map(|rmpp| (rmpp.segment(), rmpp.last())).collect();
        assert_eq!(segments, [(2, false), (3, true)]);
        drop(client);
        assert_eq!(server.next().await.0.status, 110, "the last segment is not acknowledged");
    }
}

/// Sends an RMPP packet with the headers of `mad`, as changed by `change`, from host 0 to host 1.
fn inject(fabric: &SimFabric, mad: &[u8], method: u8, change: impl FnOnce(&mut RmppHeader)) {
    let mut mad = Mad::read(mad);
    mad.0[3] = method;
    let mut rmpp = RmppHeader::read(&mad.0[24..]);
    rmpp.set_version(1);
    rmpp.set_active(true);
    change(&mut rmpp);
    rmpp.write(&mut mad.0[24..]);
    let mut net = fabric.shared.lock();
    let from = net.end_port_at(HOST0, P1).expect("host 0 exists");
    net.transmit(Packet { from, to: gsi(LID1), mad });
    net.send_backlog();
}

/// STOP, ABORT and invalid acknowledgements all end a transfer; an invalid packet also gets an
/// ABORT.
#[tokio::test(start_paused = true)]
async fn the_receiver_can_end_a_transfer() {
    let fabric = fabric().await;
    let server = Program::server(&fabric, HOST1);
    // The client implements RMPP, so that it receives the packets of the server's kernel.
    let client = Program::at(&fabric, HOST0);
    client.umad.register(&AgentRegistration { rmpp_version: 0, ..sa(0) }).expect("free");
    for (packet_type, status, segment, window, reply) in [
        (3, 1, 0, 0, None),
        (3, 2, 0, 0, Some(124)),
        (4, 118, 0, 0, None),
        (4, 127, 0, 0, None),
        (4, 117, 0, 0, Some(124)),
        (2, 5, 0, 0, Some(124)),
        (2, 0, 2, 1, Some(122)),
        (2, 0, 2, 2, Some(123)),
        (9, 0, 0, 0, Some(121)),
    ] {
        let (from, tid) = asked(&client, &server, 5, 100).await;
        server.write(sent_to(from, 0, 0), &sa_message(0x92, tid, 450, true)).expect("sent");
        let (_, first) = client.next().await;
        inject(&fabric, &first, GET_TABLE, |rmpp| {
            rmpp.set_packet_type(packet_type);
            rmpp.set_first(false);
            rmpp.set_status(status);
            rmpp.set_segment(segment);
            rmpp.set_payload_length(window);
        });
        let answer = client.read().map(|(_, mad)| RmppHeader::read(&mad[24..]));
        let abort = answer.map(|rmpp| (rmpp.packet_type(), rmpp.status()));
        assert_eq!(abort, reply.map(|status| (4, status)), "{packet_type} {status}");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(server.read(), None, "an abort is not reported");
        assert_idle(&fabric);
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_segments_get_an_abort() {
    let fabric = fabric().await;
    let server = Program::server(&fabric, HOST1);
    let client = Program::at(&fabric, HOST0);
    client.umad.register(&AgentRegistration { rmpp_version: 0, ..sa(0) }).expect("free");
    client.write(sent_to(gsi(LID1), 0, 0), &sa_message(GET, 5, 200, false)).expect("sent");
    let tid = Header::read(&server.next().await.1).tid();
    for (version, status, segment, first, reply) in [
        (2, 0, 1, true, Some((4, 125))),
        (1, 7, 1, true, Some((4, 124))),
        (1, 0, 1, false, Some((4, 120))),
        (1, 0, 2, true, Some((4, 120))),
        (1, 0, 2, false, None),
        (1, 0, 1, true, Some((2, 0))),
        (1, 0, 1, true, Some((2, 0))),
        (1, 0, 66, false, None),
    ] {
        let mad = sa_message(GET_MULTI, tid, 200, true);
        inject(&fabric, &mad, GET_MULTI, |rmpp| {
            rmpp.set_version(version);
            rmpp.set_packet_type(1);
            rmpp.set_status(status);
            rmpp.set_segment(segment);
            rmpp.set_first(first);
        });
        let answer = client.read().map(|(_, mad)| RmppHeader::read(&mad[24..]));
        let answer = answer.map(|rmpp| (rmpp.packet_type(), rmpp.status()));
        assert_eq!(answer, reply, "{version} {status} {segment} {first}");
    }
    tokio::time::sleep(Duration::from_secs(39)).await;
    assert_eq!(client.read(), None);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (_, abort) = client.read().expect("the total time has passed");
    let abort = RmppHeader::read(&abort[24..]);
    assert_eq!((abort.packet_type(), abort.status()), (4, 118));
    assert_eq!(server.read(), None);
    assert_idle(&fabric);
}
