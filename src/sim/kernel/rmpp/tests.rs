use super::receiver::{KernelRmppReceiver, KernelSegmentOutcome};
use super::sender::{KernelAckOutcome, KernelRmppSender};
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

/// A message of the class with `data` bytes behind its headers.
fn message(class: u8, data: usize) -> Vec<u8> {
    let offset = classes::data_offset(class);
    let mut message: Vec<u8> = (0..offset + data).map(|at| (at * 7 + at / 251) as u8).collect();
    message[..4].copy_from_slice(&[1, class, 2, 0x92]);
    message
}

fn sender(class: u8, data: usize, window: u32) -> KernelRmppSender {
    KernelRmppSender::new(message(class, data), classes::data_offset(class), window)
}

/// The message without its RMPP header, which differs between the ends.
fn content(message: &[u8]) -> (&[u8], &[u8]) {
    (&message[..RMPP_OFFSET], &message[SA_OFFSET..])
}

#[test]
fn payload_lengths_of_segments() {
    for (class, data, segments, first, last) in [
        (3, 0, 1, 20, 20),
        (3, 1, 1, 21, 21),
        (3, 200, 1, 220, 220),
        (3, 201, 2, 241, 21),
        (3, 400, 2, 440, 220),
        (3, 1000, 5, 1100, 220),
        (3, 1001, 6, 1121, 21),
        (6, 192, 1, 220, 220),
        (6, 193, 2, 249, 29),
        (0x32, 216, 1, 220, 220),
        (0x32, 217, 2, 225, 5),
    ] {
        let mut sender = sender(class, data, u32::MAX);
        let mads: Vec<Mad> = std::iter::from_fn(|| sender.next_segment()).collect();
        assert_eq!(mads.len(), segments, "class {class}, {data} bytes");
        let lengths: Vec<u32> = mads.iter().map(|mad| header(mad).payload_length()).collect();
        assert_eq!((lengths[0], lengths[segments - 1]), (first, last), "{class} {data}");
        assert!(lengths.iter().skip(1).rev().skip(1).all(|&length| length == 0));
        for (at, mad) in mads.iter().enumerate() {
            let rmpp = header(mad);
            assert_eq!((rmpp.version(), rmpp.packet_type(), rmpp.status()), (1, 1, 0));
            assert_eq!((rmpp.active(), rmpp.first()), (true, at == 0));
            assert_eq!((rmpp.last(), rmpp.segment()), (at + 1 == segments, at as u32 + 1));
            assert_eq!(mad.0[..RMPP_OFFSET], message(class, data)[..RMPP_OFFSET]);
        }
    }
}

#[test]
fn outcomes_of_acknowledgements() {
    // Ten segments and a window of five; each case follows an acknowledgement (2, 7).
    for (segment, window, outcome, next) in [
        (1, 7, KernelAckOutcome::Stale, None),
        (3, 6, KernelAckOutcome::Stale, None),
        (2, 7, KernelAckOutcome::Pending { has_progress: false }, None),
        (3, 7, KernelAckOutcome::Pending { has_progress: true }, None),
        (7, 7, KernelAckOutcome::Pending { has_progress: true }, None),
        (7, 8, KernelAckOutcome::Pending { has_progress: true }, Some(8)),
        (8, 9, KernelAckOutcome::TooBig, None),
        (11, 20, KernelAckOutcome::TooBig, None),
    ] {
        let mut sender = sender(3, 2000, 5);
        assert_eq!(std::iter::from_fn(|| sender.next_segment()).count(), 5);
        assert_eq!(sender.acknowledge(2, 7), KernelAckOutcome::Pending { has_progress: true });
        assert_eq!(std::iter::from_fn(|| sender.next_segment()).count(), 2);
        assert_eq!(sender.acknowledge(segment, window), outcome, "{segment} {window}");
        assert_eq!(
            sender.next_segment().map(|mad| header(&mad).segment()),
            next,
            "{segment} {window}"
        );
    }
    let mut sender = sender(3, 300, 1);
    sender.next_segment();
    assert_eq!(sender.acknowledge(1, 65), KernelAckOutcome::Pending { has_progress: true });
    sender.next_segment();
    sender.rewind();
    assert_eq!(sender.next_segment().map(|mad| header(&mad).segment()), Some(2));
    assert_eq!(sender.acknowledge(2, 65), KernelAckOutcome::Complete);
    assert!(sender.is_acknowledged());
    assert_eq!(sender.acknowledge(2, 65), KernelAckOutcome::Duplicate);
}

#[test]
fn outcomes_of_segments() {
    let mut sender = sender(3, 200 * 140 - 3, u32::MAX);
    let mads: Vec<Mad> = std::iter::from_fn(|| sender.next_segment()).collect();
    let (mut receiver, outcome) = KernelRmppReceiver::new(&mads[0], 56);
    assert_eq!((outcome, receiver.acknowledge()), (KernelSegmentOutcome::Acknowledge, (1, 65)));
    let mut take = |number: u32| {
        let outcome = receiver.receive(number, &mads[number as usize - 1]);
        let acknowledged =
            (outcome != KernelSegmentOutcome::NoReply).then(|| receiver.acknowledge());
        (outcome, acknowledged)
    };
    assert_eq!(take(66), (KernelSegmentOutcome::NoReply, None), "beyond the window");
    assert_eq!(take(1), (KernelSegmentOutcome::Acknowledge, Some((1, 65))), "duplicate");
    assert_eq!(take(3), (KernelSegmentOutcome::NoReply, None), "out of sequence");
    assert_eq!(take(3), (KernelSegmentOutcome::NoReply, None), "out of sequence, duplicate");
    (4..=64).for_each(|number| assert_eq!(take(number), (KernelSegmentOutcome::NoReply, None)));
    assert_eq!(
        take(2),
        (KernelSegmentOutcome::NoReply, None),
        "64 segments received, the window is not full"
    );
    assert_eq!(take(2), (KernelSegmentOutcome::NoReply, None), "received, not acknowledged");
    assert_eq!(take(65), (KernelSegmentOutcome::Acknowledge, Some((65, 129))));
    assert_eq!(
        take(2),
        (KernelSegmentOutcome::Acknowledge, Some((65, 129))),
        "acknowledged before"
    );
    (66..129).for_each(|number| assert_eq!(take(number), (KernelSegmentOutcome::NoReply, None)));
    assert_eq!(take(129), (KernelSegmentOutcome::Acknowledge, Some((129, 193))));
    assert_eq!(take(140), (KernelSegmentOutcome::NoReply, None));
    (130..139).for_each(|number| assert_eq!(take(number), (KernelSegmentOutcome::NoReply, None)));
    assert_eq!(take(139), (KernelSegmentOutcome::Complete, Some((140, 193))));
    assert_eq!(take(140), (KernelSegmentOutcome::Acknowledge, Some((140, 193))), "late");
    assert_eq!(content(&receiver.take()), content(&message(3, 200 * 140 - 3)));
}

#[test]
fn invalid_payload_lengths_leave_the_padding_in() {
    for (claimed, len) in [(220, 256), (219, 255), (20, 56), (0, 36), (221, 256), (9999, 256)] {
        let mut mad = sender(3, 150, 1).next_segment().expect("a segment");
        let mut rmpp = header(&mad);
        rmpp.set_payload_length(claimed);
        rmpp.write(&mut mad.0[RMPP_OFFSET..]);
        let (mut receiver, outcome) = KernelRmppReceiver::new(&mad, 56);
        assert_eq!(
            (outcome, receiver.take().len()),
            (KernelSegmentOutcome::Complete, len),
            "{claimed}"
        );
    }
}

#[test]
fn replies_have_the_headers_of_the_packet() {
    let mad = sender(3, 500, 1).next_segment().expect("a segment");
    for (answer, packet_type, status, segment, window) in [
        (ack(&mad, 7, 71), KernelRmppType::ACK, 0, 7, 71),
        (abort(&mad, KernelRmppStatus::TOTAL_TIME_TOO_LONG), KernelRmppType::ABORT, 118, 0, 0),
    ] {
        let rmpp = header(&answer);
        assert_eq!(answer.header().method(), 0x12);
        assert_eq!((rmpp.packet_type(), rmpp.status()), (packet_type, status));
        assert_eq!((rmpp.segment(), rmpp.payload_length()), (segment, window));
        assert_eq!((rmpp.active(), rmpp.first(), rmpp.last()), (true, false, false));
        assert_eq!(answer.0[4..RMPP_OFFSET], mad.0[4..RMPP_OFFSET]);
        assert_eq!(answer.0[SA_OFFSET..56], mad.0[SA_OFFSET..56]);
        assert_eq!(answer.0[56..], [0; 200]);
    }
}

/// Transfers a message over a link that loses, duplicates or reorders packets as the bytes of
/// `disturbance` determine.
fn exchange(class: u8, data: usize, disturbance: &[u8]) -> Vec<u8> {
    let mut sender = sender(class, data, 1);
    let mut link = VecDeque::new();
    let mut acks = VecDeque::new();
    let mut receiver: Option<KernelRmppReceiver> = None;
    let mut draw = disturbance.iter().copied().chain(std::iter::repeat(255));
    for _ in 0..100_000 {
        while let Some(mad) = sender.next_segment() {
            match draw.next() {
                Some(0..=39) => {}
                Some(40..=59) => link.extend([mad, mad]),
                Some(60..=99) => link.push_front(mad),
                _ => link.push_back(mad),
            }
        }
        if let Some(mad) = link.pop_front() {
            let number = header(&mad).segment();
            let outcome = match &mut receiver {
                Some(receiver) => receiver.receive(number, &mad),
                None if number == 1 => {
                    let (new, outcome) = KernelRmppReceiver::new(&mad, classes::data_offset(class));
                    receiver = Some(new);
                    outcome
                }
                None => KernelSegmentOutcome::NoReply,
            };
            if let (true, Some(receiver)) =
                (outcome != KernelSegmentOutcome::NoReply, &mut receiver)
            {
                acks.push_back(receiver.acknowledge());
            }
        } else if let Some((segment, window)) = acks.pop_front() {
            if draw.next().is_some_and(|draw| draw < 40) {
                continue;
            }
            let outcome = sender.acknowledge(segment, window);
            assert_ne!(outcome, KernelAckOutcome::TooBig);
            if sender.is_acknowledged() {
                let mut receiver = receiver.expect("it acknowledged");
                assert!(receiver.is_complete());
                return receiver.take();
            }
        } else {
            sender.rewind();
        }
    }
    panic!("the transfer does not end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn messages_arrive_complete_over_a_faulty_link(
        class in prop::sample::select(vec![0x03_u8, 0x06, 0x32]),
        data in 0..40_000_usize,
        disturbance in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        let sent = message(class, data);
        let arrived = exchange(class, data, &disturbance);
        prop_assert_eq!(content(&arrived), content(&sent));
    }
}
