//! Two cores over a link that loses and reorders packets.

use super::*;
use std::collections::VecDeque;

/// One direction of a link that loses, duplicates, delays and reorders packets as `draw` tells.
struct LossyLink<'a> {
    packets: VecDeque<(Instant, Mad)>,
    draw: &'a mut dyn FnMut() -> u8,
}

impl LossyLink<'_> {
    fn send(&mut self, mad: Mad, now: Instant) {
        let delay = Duration::from_micros(10);
        match (self.draw)() {
            0..=39 => {}
            40..=59 => self.packets.extend([(now + delay, mad), (now + delay * 3, mad)]),
            60..=99 => self.packets.push_front((now + delay, mad)),
            _ => self.packets.push_back((now + delay, mad)),
        }
    }
}

/// Sends messages of these lengths from one core to another, in the role of a requester if
/// `method` is that of a request. Returns the messages that arrived, and the ends of the transfers.
fn exchange(
    method: Method,
    lengths: &[usize],
    draw: &mut dyn FnMut() -> u8,
) -> (Vec<Vec<u8>>, Vec<TransferEnd>) {
    let mut ours = Core::new();
    let mut theirs = Core::new();
    let mut now = start();
    let mut link = LossyLink { packets: VecDeque::new(), draw };
    for (tid, &length) in (1..).zip(lengths) {
        ours.send(peer(2), &message(method, tid, length), now);
    }
    let mut arrived = Vec::new();
    let mut ended = Vec::new();
    let mut open = 0;
    // Packets to ours have LID 2 as their source; those to theirs LID 1.
    loop {
        for (core, lid) in [(&mut ours, 2), (&mut theirs, 1)] {
            for action in core.take_actions() {
                match action {
                    RmppAction::Send(to, mut mad) => {
                        assert_eq!(to.lid.0, lid);
                        // Reserved in the header: the destination.
                        mad.0[18] = lid as u8;
                        link.send(mad, now);
                    }
                    RmppAction::Deliver(_, message) => arrived.push(message),
                    RmppAction::Began(_, size) => open += size.message,
                    RmppAction::Ended { size, end, .. } => {
                        open -= size.message;
                        ended.push(end);
                    }
                    RmppAction::Progressed(_) => {}
                }
            }
        }
        if let Some((at, mut mad)) = link.packets.pop_front() {
            now = now.max(at);
            let destination = std::mem::take(&mut mad.0[18]);
            match destination {
                2 => theirs.receive(peer(1), &mad, now),
                _ => ours.receive(peer(2), &mad, now),
            }
            continue;
        }
        let deadlines = [ours.next_deadline(), theirs.next_deadline()];
        let Some(next) = deadlines.into_iter().flatten().min() else { break };
        now = next;
        ours.expire(now);
        theirs.expire(now);
    }
    assert!(ours.is_idle() && theirs.is_idle());
    assert_eq!(open, 0);
    (arrived, ended)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Over a link that loses a sixth of the packets, every transfer ends, every message that its
    /// sender believes to be acknowledged has arrived, and none arrives twice or changed.
    #[test]
    fn messages_arrive_whole_or_are_given_up(
        lengths in prop::collection::vec(0..12_000_usize, 1..4),
        disturbance in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut draws = disturbance.into_iter().chain(std::iter::repeat(255));
        let (arrived, ended) =
            exchange(Method::GET_MULTI, &lengths, &mut || draws.next().expect("endless"));
        prop_assert_eq!(ended.len(), lengths.len());
        let acknowledged = ended.iter().filter(|&&end| end == TransferEnd::Acknowledged).count();
        prop_assert!(arrived.len() >= acknowledged && arrived.len() <= lengths.len());
        let mut tids = Vec::new();
        for message_received in &arrived {
            let tid = Header::read(message_received).tid();
            let sent = message(Method::GET_MULTI, tid, lengths[tid as usize - 1]);
            prop_assert_eq!(content(message_received), content(&sent));
            tids.push(tid);
        }
        tids.sort_unstable();
        tids.dedup();
        prop_assert_eq!(tids.len(), arrived.len(), "none twice");
    }

    /// Without losses all messages arrive, whatever the order.
    #[test]
    fn all_messages_arrive_over_a_link_that_reorders(
        lengths in prop::collection::vec(0..12_000_usize, 1..4),
        disturbance in prop::collection::vec(40_u8.., 0..2000),
    ) {
        let mut draws = disturbance.into_iter().chain(std::iter::repeat(255));
        let (arrived, ended) =
            exchange(Method::GET_MULTI, &lengths, &mut || draws.next().expect("endless"));
        prop_assert_eq!(arrived.len(), lengths.len());
        prop_assert!(ended.iter().all(|&end| end == TransferEnd::Acknowledged));
    }
}
