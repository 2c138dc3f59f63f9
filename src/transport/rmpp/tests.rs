mod link;

use super::TransferEnd;
use super::core::{Core, RmppAction};
use super::packet::{self, PacketType, RmppStatus, rmpp_header};
use super::receiver::{Receiver, SegmentOutcome};
use super::sender::{AckOutcome, RecordMessage, Sender};
use crate::ids::{Lid, Sl};
use crate::transport::{Address, GSI_QKEY};
use crate::wire::mad::{Class, Header, MAD_SIZE, Mad, Method};
use crate::wire::sa::{DATA_OFFSET, RMPP_OFFSET, RmppHeader, SA_OFFSET};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An SA message of `records` bytes of records.
fn message(method: Method, tid: u64, records: usize) -> Vec<u8> {
    let mut message: Vec<u8> =
        (0..DATA_OFFSET + records).map(|at| (at * 7 + at / 251) as u8).collect();
    let mut header = Header::default();
    header.set_base_version(1);
    header.set_class(Class::SUBN_ADM);
    header.set_class_version(2);
    header.set_method(method.0);
    header.set_tid(tid);
    header.write(&mut message);
    message
}

fn sender(records: usize) -> Sender {
    let mad = message(Method::GET_TABLE_RESP, 5, records);
    let headers = packet::headers_of(&mad);
    Sender::new(RecordMessage { headers, records: Arc::from(&mad[DATA_OFFSET..]) })
}

/// All segments of a message.
fn segments(records: usize) -> Vec<Mad> {
    let mut sender = sender(records);
    let mut mads = Vec::new();
    loop {
        mads.extend(std::iter::from_fn(|| sender.next_segment()));
        let last = mads.len() as u32;
        if sender.acknowledge(last, last + 64) == AckOutcome::Complete {
            return mads;
        }
    }
}

/// The message without its RMPP header, which differs between the ends.
fn content(message: &[u8]) -> (&[u8], &[u8]) {
    (&message[..RMPP_OFFSET], &message[SA_OFFSET..])
}

fn peer(lid: u16) -> Address {
    Address::gsi(Lid(lid), Sl(0))
}

fn start() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The packets among the actions so far.
fn packets(core: &mut Core) -> Vec<Mad> {
    core.take_actions()
        .into_iter()
        .filter_map(|action| match action {
            RmppAction::Send(_, mad) => Some(mad),
            _ => None,
        })
        .collect()
}

/// How transfers ended among the actions so far.
fn ends(core: &mut Core) -> Vec<TransferEnd> {
    core.take_actions()
        .into_iter()
        .filter_map(|action| match action {
            RmppAction::Ended { end, .. } => Some(end),
            _ => None,
        })
        .collect()
}

#[test]
fn segments_have_the_headers_of_the_specification() {
    for (records, count, first, last) in [
        (0, 1, 20, 20),
        (1, 1, 21, 21),
        (200, 1, 220, 220),
        (201, 2, 241, 21),
        (400, 2, 440, 220),
        (1001, 6, 1121, 21),
    ] {
        let mads = segments(records);
        assert_eq!(mads.len(), count, "{records}");
        let lengths: Vec<u32> = mads.iter().map(|mad| rmpp_header(mad).payload_length()).collect();
        assert_eq!((lengths[0], lengths[count - 1]), (first, last), "{records}");
        assert!(lengths.iter().skip(1).rev().skip(1).all(|&length| length == 0));
        for (at, mad) in mads.iter().enumerate() {
            let rmpp = rmpp_header(mad);
            assert_eq!((rmpp.version(), rmpp.packet_type(), rmpp.status()), (1, 1, 0));
            assert_eq!((rmpp.active(), rmpp.first()), (true, at == 0));
            assert_eq!((rmpp.last(), rmpp.segment()), (at + 1 == count, at as u32 + 1));
        }
    }
}

#[test]
fn effects_of_acknowledgements() {
    // Ten segments; each case follows the acknowledgements (1, 5) and (2, 7).
    for (segment, window_last, outcome, next) in [
        (1, 7, AckOutcome::Stale, None),
        (3, 6, AckOutcome::Stale, None),
        (3, 2, AckOutcome::WindowTooSmall, None),
        (2, 7, AckOutcome::Pending { has_progress: false }, None),
        (3, 7, AckOutcome::Pending { has_progress: true }, None),
        (2, 8, AckOutcome::Pending { has_progress: false }, Some(8)),
        (7, 8, AckOutcome::Pending { has_progress: true }, Some(8)),
        (8, 9, AckOutcome::SegmentTooBig, None),
        (11, 20, AckOutcome::SegmentTooBig, None),
    ] {
        let mut sender = sender(2000);
        assert_eq!(sent(&mut sender), 1);
        assert_eq!(sender.acknowledge(1, 5), AckOutcome::Pending { has_progress: true });
        assert_eq!(sent(&mut sender), 4);
        assert_eq!(sender.acknowledge(2, 7), AckOutcome::Pending { has_progress: true });
        assert_eq!(sent(&mut sender), 2);
        let case = (segment, window_last);
        assert_eq!(sender.acknowledge(segment, window_last), outcome, "{case:?}");
        let number = sender.next_segment().map(|mad| rmpp_header(&mad).segment());
        assert_eq!(number, next, "{case:?}");
    }
}

fn sent(sender: &mut Sender) -> usize {
    std::iter::from_fn(|| sender.next_segment()).count()
}

#[test]
fn effects_of_segments() {
    let mads = segments(200 * 30 - 3);
    let mut receiver = Receiver::new();
    let mut take = |number: u32| {
        let outcome = receiver.receive(number, &mads[number as usize - 1]);
        let acknowledged = (outcome != SegmentOutcome::NoReply).then(|| receiver.acknowledge());
        (outcome, acknowledged)
    };
    assert_eq!(take(1), (SegmentOutcome::Acknowledge, Some((1, 17))));
    assert_eq!(take(18), (SegmentOutcome::NoReply, None), "beyond the window");
    assert_eq!(take(1), (SegmentOutcome::Acknowledge, Some((1, 17))), "repeated");
    (3..=17).for_each(|number| assert_eq!(take(number), (SegmentOutcome::NoReply, None)));
    assert_eq!(take(2), (SegmentOutcome::Acknowledge, Some((17, 33))), "closes the gap");
    (18..30).for_each(|number| assert_eq!(take(number), (SegmentOutcome::NoReply, None)));
    assert_eq!(take(30), (SegmentOutcome::Complete, Some((30, 33))));
    assert_eq!(take(30), (SegmentOutcome::Acknowledge, Some((30, 33))), "repeated");
    let whole = message(Method::GET_TABLE_RESP, 5, 200 * 30 - 3);
    assert_eq!(content(&receiver.take()), content(&whole));
    let mut receiver = Receiver::new();
    let long = segments(200 * 65);
    for (number, mad) in (1..=64).zip(&long) {
        if receiver.receive(number, mad) != SegmentOutcome::NoReply {
            receiver.acknowledge();
        }
    }
    assert_eq!(receiver.receive(65, &long[64]), SegmentOutcome::TooLong);
}

/// Any PayloadLength of the last segment gives a message between its headers and its bytes.
#[test]
fn invalid_payload_lengths_cut_nothing_else() {
    for (claimed, len) in [(220, 256), (219, 255), (20, 56), (0, 56), (221, 256), (u32::MAX, 256)] {
        let mut mad = segments(150)[0];
        let mut rmpp = rmpp_header(&mad);
        rmpp.set_payload_length(claimed);
        rmpp.write(&mut mad.0[RMPP_OFFSET..]);
        let mut receiver = Receiver::new();
        assert_eq!(receiver.receive(1, &mad), SegmentOutcome::Complete);
        assert_eq!(receiver.take().len(), len, "{claimed}");
    }
}

/// A receiver that acknowledges nothing gets one segment four times, and an ABORT.
#[test]
fn a_silent_receiver_is_given_up_after_eight_seconds() {
    let mut core = Core::new();
    let start = start();
    core.send(peer(9), &message(Method::GET_TABLE_RESP, 5, 5000), start);
    let mut sent = Vec::new();
    let mut now = start;
    loop {
        for mad in packets(&mut core) {
            let rmpp = rmpp_header(&mad);
            sent.push(((now - start).as_millis(), rmpp.packet_type(), rmpp.segment()));
        }
        let Some(next) = core.next_deadline() else { break };
        now = next;
        core.expire(now);
    }
    assert_eq!(sent, [(0, 1, 1), (500, 1, 1), (1500, 1, 1), (3500, 1, 1), (7500, 4, 0)]);
    assert!(core.is_idle());
}

/// A receiver that acknowledges one segment now and then holds the message for 40 s at most.
#[test]
fn a_slow_receiver_is_given_up_after_forty_seconds() {
    let mut core = Core::new();
    let start = start();
    core.send(peer(9), &message(Method::GET_TABLE_RESP, 5, 500_000), start);
    let mut acknowledged = 0;
    while let Some(deadline) = core.next_deadline() {
        let now = deadline - Duration::from_micros(1);
        let data = packets(&mut core).into_iter().find(|mad| rmpp_header(mad).packet_type() == 1);
        if let Some(mad) = data {
            acknowledged += 1;
            core.receive(peer(9), &packet::ack(&mad, acknowledged, acknowledged + 1), now);
        }
        if core.next_deadline() == Some(deadline) {
            assert_eq!((deadline - start).as_secs(), 40);
            core.take_actions();
            core.expire(deadline);
            let abort = core.take_actions();
            let RmppAction::Send(_, mad) = &abort[0] else { panic!("{abort:?}") };
            assert_eq!(rmpp_header(mad).status(), RmppStatus::TOTAL_TIME_TOO_LONG);
        }
    }
    assert!(core.is_idle() && acknowledged > 70, "{acknowledged}");
}

#[test]
fn the_receiver_can_end_a_transfer_at_once() {
    for (packet_type, status, segment, window_last, reply) in [
        (PacketType::STOP, 1, 0, 0, None),
        (PacketType::STOP, 2, 0, 0, Some(124)),
        (PacketType::ABORT, 118, 0, 0, None),
        (PacketType::ABORT, 127, 0, 0, None),
        (PacketType::ABORT, 117, 0, 0, Some(124)),
        (PacketType::ACK, 5, 1, 9, Some(124)),
        (PacketType::ACK, 0, 2, 1, Some(122)),
        (PacketType::ACK, 0, 2, 2, Some(123)),
        (9, 0, 0, 0, Some(121)),
    ] {
        let mut core = Core::new();
        let start = start();
        core.send(peer(9), &message(Method::GET_TABLE_RESP, 5, 5000), start);
        let first = packets(&mut core)[0];
        let mut mad = packet::ack(&first, segment, window_last);
        let mut rmpp = rmpp_header(&mad);
        rmpp.set_packet_type(packet_type);
        rmpp.set_status(status);
        rmpp.write(&mut mad.0[RMPP_OFFSET..]);
        core.receive(Address { qkey: 0, ..peer(8) }, &mad, start);
        assert!(!core.is_idle(), "another port has no part in the transfer");
        core.take_actions();
        core.receive(Address { qkey: 0, ..peer(9) }, &mad, start);
        assert!(core.is_idle(), "{packet_type} {status}");
        let actions = core.take_actions();
        assert!(ended(&actions[0]), "{actions:?}");
        let sent = actions.iter().find_map(|action| match action {
            RmppAction::Send(to, mad) => {
                let rmpp = rmpp_header(mad);
                assert_eq!((to.qkey, rmpp.packet_type()), (GSI_QKEY, PacketType::ABORT));
                assert_eq!(mad.header().method(), 0x92, "that of the message");
                Some(rmpp.status())
            }
            _ => None,
        });
        assert_eq!(sent, reply, "{packet_type} {status}");
    }
}

fn ended(action: &RmppAction) -> bool {
    matches!(action, RmppAction::Ended { end, .. } if *end == TransferEnd::Aborted)
}

#[test]
fn the_same_table_is_in_memory_once() {
    let mut core = Core::new();
    let start = start();
    for (lid, records) in [(1, 5000), (2, 5000), (3, 5001)] {
        core.send(peer(lid), &message(Method::GET_TABLE_RESP, lid.into(), records), start);
    }
    let changes: Vec<_> = core.take_actions().into_iter().filter_map(memory).collect();
    assert_eq!(changes, [(1, 5056, 5000), (2, 5056, 0), (3, 5057, 5001)]);
    for (lid, freed) in [(1, 0), (2, 5000)] {
        let mad = message(Method::GET_TABLE_RESP, lid.into(), 5000);
        let stop = packet::stop_reply(&Mad::read(&mad));
        core.receive(peer(lid), &stop, start);
        let ended: Vec<_> = core.take_actions().into_iter().filter_map(memory).collect();
        assert_eq!(ended, [(lid, 5056, freed)]);
    }
    core.clear();
    assert_eq!(ends(&mut core), [TransferEnd::Aborted]);
    assert!(core.is_idle());
}

fn memory(action: RmppAction) -> Option<(u16, usize, usize)> {
    match action {
        RmppAction::Began(lid, size) => Some((lid.0, size.message, size.memory)),
        RmppAction::Ended { to, size, .. } => Some((to.0, size.message, size.memory)),
        _ => None,
    }
}

#[test]
fn a_repeated_request_has_the_first_segment_sent_again() {
    let mut core = Core::new();
    let start = start();
    let table = message(Method::GET_TABLE_RESP, 5, 5000);
    core.send(peer(9), &table, start);
    let first = packets(&mut core)[0];
    core.send(peer(9), &table, start);
    assert_eq!(packets(&mut core), [first]);
    core.receive(peer(9), &packet::ack(&first, 1, 3), start);
    assert_eq!(packets(&mut core).len(), 2);
    core.send(peer(9), &table, start);
    assert_eq!(packets(&mut core), [], "the receiver has acknowledged segments");
    core.send(peer(9), &message(Method::GET_TABLE_RESP, 5, 300), start);
    let actions = core.take_actions();
    assert!(is_aborted(&actions[0]), "another request with the transaction ID: {actions:?}");
    assert!(matches!(&actions[1], RmppAction::Began(_, size) if size.message == 356));
}

fn is_aborted(action: &RmppAction) -> bool {
    matches!(action, RmppAction::Ended { end: TransferEnd::Aborted, .. })
}

#[test]
fn requests_in_segments_are_limited() {
    let mut core = Core::new();
    let start = start();
    let mut stopped = 0;
    for tid in 0..70 {
        let mut mad = segments(1000)[0];
        let mut header = mad.header();
        header.set_method(Method::GET_MULTI.0);
        header.set_tid(tid);
        mad.set_header(&header);
        core.receive(peer(9), &mad, start);
        let types: Vec<u8> =
            packets(&mut core).iter().map(|mad| rmpp_header(mad).packet_type()).collect();
        stopped += usize::from(types == [PacketType::STOP]);
        assert!(types == [PacketType::STOP] || types == [PacketType::ACK], "{types:?}");
    }
    assert_eq!(stopped, 6, "64 of a port");
    core.expire(start + Duration::from_secs(11));
    let aborts = packets(&mut core);
    assert_eq!(aborts.len(), 64);
    assert!(aborts.iter().all(|mad| rmpp_header(mad).status() == RmppStatus::TOTAL_TIME_TOO_LONG));
    assert!(core.is_idle());
}

#[test]
fn complete_requests_count_towards_no_limit() {
    let mut core = Core::new();
    let start = start();
    for tid in 0..5000 {
        let mut mad = segments(100)[0];
        let mut header = mad.header();
        header.set_method(Method::GET_MULTI.0);
        header.set_tid(tid);
        mad.set_header(&header);
        core.receive(peer(9), &mad, start);
        let actions = core.take_actions();
        let is_delivered = actions.iter().any(|action| matches!(action, RmppAction::Deliver(..)));
        assert!(is_delivered, "request {tid} of one port: {actions:?}");
    }
    core.expire(start + Duration::from_secs(11));
    assert!(core.is_idle());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// No packet makes the core panic, send to others or keep state for long.
    #[test]
    fn any_packets_are_survived(
        packets in prop::collection::vec(
            (1_u16..3, prop::collection::vec(any::<u8>(), 12), 0_u64..3, any::<bool>()), 0..60),
    ) {
        let mut core = Core::new();
        let mut now = start();
        core.send(peer(1), &message(Method::GET_TABLE_RESP, 1, 3000), now);
        for (lid, header, tid, is_plausible) in packets {
            let method = if tid == 2 { Method::GET_MULTI } else { Method::GET_TABLE };
            let mut mad = Mad::read(&message(method, tid, MAD_SIZE - DATA_OFFSET));
            let mut rmpp = RmppHeader::read(&header);
            if is_plausible {
                rmpp.set_version(1);
                rmpp.set_packet_type(1 + rmpp.packet_type() % 4);
                rmpp.set_status(0);
                rmpp.set_segment(rmpp.segment() % 70);
                rmpp.set_payload_length(rmpp.payload_length() % 300);
                let is_first = rmpp.segment() == 1;
                rmpp.set_first(is_first);
            }
            rmpp.write(&mut mad.0[RMPP_OFFSET..]);
            core.receive(peer(lid), &mad, now);
            for action in core.take_actions() {
                if let RmppAction::Send(to, _) = action {
                    prop_assert!(to.lid == Lid(1) || to.lid == Lid(lid));
                }
            }
            now += Duration::from_millis(100);
            core.expire(now);
        }
        core.expire(now + Duration::from_secs(60));
        core.expire(now + Duration::from_secs(120));
        prop_assert!(core.is_idle());
    }
}
