//! The client, the demultiplexer and the wrappers over a fake port, on a paused clock.

mod device_turns;
mod inline_responder;
mod wake_ups;

use super::client::{BatchEvent, SmpClient};
use super::demux::{MadDemux, SaOutcome, Unsolicited};
use super::lossy::{LossModel, LossyPort};
use super::recorded::{MadFate, MadRecorder, RecordedPort, RecordedSink};
use super::transactions::{
    SOLE_STALL_TIME, STALL_TIME, SmpError, SmpLimits, SmpReply, SmpRequest, SmpResultKind,
    UNLIMITED_WINDOW,
};
use super::*;
use crate::wire::attr::AttrId;
use crate::wire::mad::{Mad, Method};
use crate::wire::smp::{DATA_SIZE, DirectedRoute, SmpRoute};
use std::sync::{Arc, Mutex};

const ATTR: u16 = 0x0011;

/// A port that keeps the posted MADs, or rejects them.
struct FakePort {
    identity: PortIdentity,
    posted: Mutex<Vec<(Agent, Mad)>>,
    is_rejecting: Mutex<bool>,
}

impl FakePort {
    fn new() -> Arc<Self> {
        let identity = PortIdentity { device: "fake0".into(), port: PortNum(1), guid: Guid(0x11) };
        Arc::new(Self { identity, posted: Mutex::default(), is_rejecting: Mutex::default() })
    }

    fn take(&self) -> Vec<Mad> {
        let posted = std::mem::take(&mut *self.posted.lock().expect("no test panics in here"));
        posted.into_iter().map(|(_, mad)| mad).collect()
    }
}

impl MadPort for FakePort {
    fn identity(&self) -> &PortIdentity {
        &self.identity
    }

    fn post(&self, out: &Outgoing<'_>) -> Result<(), SendError> {
        if *self.is_rejecting.lock().expect("no test panics in here") {
            return Err(SendError::Closed { device: "fake0".into(), port: PortNum(1) });
        }
        let posted = (out.agent, Mad::read(out.mad));
        self.posted.lock().expect("no test panics in here").push(posted);
        Ok(())
    }
}

/// Modifies the response of a faulty node.
type Change = fn(&mut Mad);

struct Bench {
    port: Arc<FakePort>,
    demux: Arc<MadDemux>,
    unsolicited: Unsolicited,
    client: SmpClient,
}

fn bench(window: usize) -> Bench {
    let port = FakePort::new();
    let (demux, unsolicited) = MadDemux::new(2);
    let limits = SmpLimits {
        window,
        timeout: Duration::from_millis(100),
        retries: TRANSMISSIONS - 1,
        // The requests of most tests go to one device.
        per_device: 0,
        ..SmpLimits::default()
    };
    let client = SmpClient::new(Arc::clone(&port) as Arc<dyn MadPort>, &demux, limits);
    Bench { port, demux, unsolicited, client }
}

impl Bench {
    fn deliver(&self, outcome: Outcome, mad: &Mad) {
        self.demux.deliver(Delivery {
            agent: Agent::SmiDirected,
            from: Address::smi(Lid::PERMISSIVE),
            outcome,
            mad: &mad.0,
        });
    }

    /// Reports a timeout for each transmission of the only request in flight.
    fn time_out_all_transmissions(&self) {
        for _ in 0..TRANSMISSIONS {
            let sent = self.port.take();
            assert_eq!(sent.len(), 1, "one transmission at a time");
            self.deliver(Outcome::Unanswered, &sent[0]);
        }
    }

    fn answer(&self, request: &Mad, change: impl FnOnce(&mut Mad)) {
        let mut answer = *request;
        let mut header = answer.header();
        header.set_method(Method::GET_RESP.0);
        header.set_status(0x8000);
        // The upper half of the transaction ID belongs to the port.
        header.set_tid(header.tid() | 0xABCD << 48);
        answer.set_header(&header);
        change(&mut answer);
        self.deliver(Outcome::Arrived, &answer);
    }
}

/// The number of transmissions of a request without an answer.
const TRANSMISSIONS: u32 = 3;

fn change_header(mad: &mut Mad, change: impl FnOnce(&mut crate::wire::mad::Header)) {
    let mut header = mad.header();
    change(&mut header);
    mad.set_header(&header);
}

fn request(modifier: u32) -> SmpRequest {
    SmpRequest::get(SmpRoute::Directed(DirectedRoute::LOCAL), ATTR, modifier)
}

fn modifier(mad: &Mad) -> u32 {
    mad.header().attr_mod()
}

#[tokio::test(start_paused = true)]
async fn the_window_is_kept_and_responses_may_arrive_in_any_order() {
    let bench = bench(3);
    let mut batch = bench.client.batch();
    (0..10).for_each(|tag| batch.submit(tag, request(tag as u32)));
    let mut under_way = bench.port.take();
    assert_eq!(under_way.iter().map(modifier).collect::<Vec<_>>(), [0, 1, 2]);
    let mut order = Vec::new();
    while let Some(mad) = under_way.pop() {
        order.push(u64::from(modifier(&mad)));
        bench.answer(&mad, |answer| answer.smp_data_mut()[0] = mad.0[23]);
        under_way.extend(bench.port.take());
        assert!(under_way.len() <= 3, "the window is overrun");
    }
    assert_eq!(order.len(), 10);
    for tag in order {
        let (got, result) = batch.next().await.expect("ten results");
        let reply = SmpReply {
            data: {
                let mut d = [0; 64];
                d[0] = tag as u8;
                d
            },
            status: 0,
        };
        assert_eq!((got, result), (tag, Ok(reply)));
    }
    assert_eq!(batch.next().await, None);
    let counters = bench.client.counters();
    assert_eq!(
        (counters.gets(), counters.sets(), counters.results(SmpResultKind::Answered)),
        (10, 0, 10)
    );
}

#[tokio::test(start_paused = true)]
async fn responses_that_do_not_match_are_malformed() {
    let bench = bench(1);
    let wrong: [(Change, SmpError); 6] = [
        (
            |mad| change_header(mad, |header| header.set_attr_id(0x15)),
            SmpError::Malformed("another attribute"),
        ),
        (
            |mad| change_header(mad, |header| header.set_attr_mod(9)),
            SmpError::Malformed("another modifier"),
        ),
        (
            |mad| change_header(mad, |header| header.set_class(1)),
            SmpError::Malformed("another class"),
        ),
        (
            |mad| change_header(mad, |header| header.set_method(0x92)),
            SmpError::Malformed("another method"),
        ),
        (|mad| change_header(mad, |header| header.set_status(0x801C)), SmpError::Status(0x1C)),
        (|mad| change_header(mad, |header| header.set_status(1)), SmpError::Status(1)),
    ];
    for (change, error) in wrong {
        let mut batch = bench.client.batch();
        batch.submit(1, request(0));
        bench.answer(&bench.port.take()[0], change);
        assert_eq!(batch.next().await, Some((1, Err(error))));
    }
    assert_eq!(bench.client.counters().results(SmpResultKind::Malformed), 4);
    assert_eq!(bench.client.counters().results(SmpResultKind::Refused), 2);
}

#[tokio::test(start_paused = true)]
async fn a_short_response_is_malformed() {
    let bench = bench(1);
    let mut batch = bench.client.batch();
    batch.submit(1, request(0));
    let mut answer = bench.port.take()[0];
    answer.0[3] = Method::GET_RESP.0;
    bench.demux.deliver(Delivery {
        agent: Agent::SmiDirected,
        from: Address::smi(Lid::PERMISSIVE),
        outcome: Outcome::Arrived,
        mad: &answer.0[..100],
    });
    assert!(matches!(batch.next().await, Some((1, Err(SmpError::Malformed(_))))));
}

#[tokio::test(start_paused = true)]
async fn unanswered_and_unsent_requests_free_their_slot() {
    let bench = bench(1);
    let mut batch = bench.client.batch();
    (0..3).for_each(|tag| batch.submit(tag, request(0)));
    bench.time_out_all_transmissions();
    assert_eq!(batch.next().await, Some((0, Err(SmpError::Unanswered))));
    (0..2).for_each(|_| bench.deliver(Outcome::Unanswered, &bench.port.take()[0]));
    *bench.port.is_rejecting.lock().expect("no test panics in here") = true;
    bench.deliver(Outcome::Unanswered, &bench.port.take()[0]);
    assert_eq!(batch.next().await, Some((1, Err(SmpError::Unanswered))));
    let last = batch.next().await;
    assert!(matches!(last, Some((2, Err(SmpError::Send(_))))), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_lost_by_the_port_expire() {
    let bench = bench(2);
    let mut batch = bench.client.batch();
    (0..3).for_each(|tag| batch.submit(tag, request(tag as u32)));
    let lost = bench.port.take();
    let start = tokio::time::Instant::now();
    assert_eq!(batch.next().await, Some((0, Err(SmpError::Unanswered))));
    assert!(start.elapsed() >= Duration::from_millis(300), "earlier than the port's own");
    assert_eq!(batch.next().await, Some((1, Err(SmpError::Unanswered))));
    let third = bench.port.take();
    assert_eq!(third.len(), 1, "the third goes out");
    bench.answer(&lost[0], |_| {});
    assert_eq!(bench.demux.stray_responses(), 1);
    bench.answer(&third[0], |_| {});
    assert!(matches!(batch.next().await, Some((2, Ok(_)))));
}

#[tokio::test(start_paused = true)]
async fn a_stalled_request_leaves_the_window_and_may_still_be_answered() {
    let bench = bench(2);
    let mut batch = bench.client.batch();
    (0..4).for_each(|tag| batch.submit(tag, request(tag as u32)));
    let first = bench.port.take();
    tokio::time::sleep(Duration::from_millis(1)).await;
    bench.answer(&first[1], |_| {});
    assert!(matches!(batch.next_event().await, Some(BatchEvent::Result(1, Ok(_)))));
    let third = bench.port.take();
    tokio::time::sleep(Duration::from_millis(1)).await;
    bench.answer(&third[0], |_| {});
    assert!(matches!(batch.next_event().await, Some(BatchEvent::Result(2, Ok(_)))));
    let start = tokio::time::Instant::now();
    let fourth = bench.port.take();
    assert_eq!(batch.next_event().await, Some(BatchEvent::Stalled(0)));
    assert!(start.elapsed() <= STALL_TIME, "{:?}", start.elapsed());
    assert_eq!(batch.next_event().await, Some(BatchEvent::Stalled(3)), "nothing else is answered");
    assert!(start.elapsed() >= SOLE_STALL_TIME, "{:?}", start.elapsed());
    batch.submit(4, request(4));
    batch.submit(5, request(5));
    assert_eq!(bench.port.take().len(), 2, "the stalled requests have left the window");
    for (mad, tag) in [(&first[0], 0), (&fourth[0], 3)] {
        bench.answer(mad, |_| {});
        bench.demux.wake();
        let answer = batch.next_event().await;
        assert!(matches!(&answer, Some(BatchEvent::Result(is, Ok(_))) if *is == tag), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_requests_are_limited_by_the_total() {
    let bench = bench(2);
    let limits = SmpLimits { window: 2, total: 3, per_device: 0, ..SmpLimits::default() };
    bench.client.set_limits(limits);
    let mut batch = bench.client.batch();
    (0..5).for_each(|tag| batch.submit(tag, request(tag as u32)));
    assert_eq!(bench.port.take().len(), 2);
    assert_eq!(batch.next_event().await, Some(BatchEvent::Stalled(0)));
    assert_eq!(bench.port.take().len(), 1, "one more, as three may be in flight");
    tokio::time::sleep(3 * SOLE_STALL_TIME).await;
    batch.submit(9, request(9));
    assert_eq!(bench.port.take().len(), 0);
}

#[test]
fn optimized_sl_to_vl_sets_have_the_long_timeout() {
    let limits = SmpLimits::default();
    let route = SmpRoute::Directed(DirectedRoute::LOCAL);
    assert_eq!(limits.timeout_of(&set(0x3_0000, route)), limits.long_timeout);
    assert_eq!(limits.timeout_of(&set(0x1_0002, route)), limits.long_timeout);
    for request in [set(0x0102, route), SmpRequest::get(route, AttrId::SL_TO_VL, 0x3_0000)] {
        assert_eq!(limits.timeout_of(&request), limits.timeout);
    }
}

fn set(modifier: u32, route: SmpRoute) -> SmpRequest {
    SmpRequest::set(route, AttrId::SL_TO_VL, modifier, [0; DATA_SIZE])
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_not_transmitted_again() {
    let bench = bench(2);
    let mut batch = bench.client.batch();
    (0..2).for_each(|tag| batch.submit(tag, request(tag as u32)));
    let sent = bench.port.take();
    assert_eq!(batch.cancel(|tag| tag == 0), [0]);
    bench.deliver(Outcome::Unanswered, &sent[0]);
    assert_eq!(bench.port.take().len(), 0);
    bench.deliver(Outcome::Unanswered, &sent[1]);
    assert_eq!(bench.port.take().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_batch_cancels_its_queued_requests() {
    let bench = bench(2);
    let mut batch = bench.client.batch();
    (0..5).for_each(|tag| batch.submit(tag, request(tag as u32)));
    drop(batch);
    let mut other = bench.client.batch();
    other.submit(9, request(99));
    let old = bench.port.take();
    assert_eq!(old.len(), 2, "places stay taken until the fabric has answered");
    bench.answer(&old[0], |_| {});
    let new = bench.port.take();
    assert_eq!(new.iter().map(modifier).collect::<Vec<_>>(), [99]);
    bench.answer(&new[0], |_| {});
    assert!(matches!(other.next().await, Some((9, Ok(_)))));
}

#[tokio::test(start_paused = true)]
async fn tasks_are_woken_when_idle_and_after_many_responses() {
    let bench = bench(0);
    let client = bench.client.clone();
    let task = tokio::spawn(async move {
        let mut batch = client.batch();
        (0..300).for_each(|tag| batch.submit(tag, request(0)));
        let start = tokio::time::Instant::now();
        while let Some((_, result)) = batch.next().await {
            result.expect("all are answered");
        }
        start.elapsed()
    });
    tokio::task::yield_now().await;
    let posted = bench.port.take();
    assert_eq!(posted.len(), UNLIMITED_WINDOW);
    let mut under_way = posted;
    while !under_way.is_empty() {
        under_way.iter().for_each(|mad| bench.answer(mad, |_| {}));
        tokio::task::yield_now().await;
        under_way = bench.port.take();
    }
    bench.demux.idle();
    assert_eq!(task.await.expect("the task ends"), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn requests_are_queued_by_class_and_overflow_is_counted() {
    let mut bench = bench(4);
    let mut trap = Mad::default();
    change_header(&mut trap, |header| header.set_method(Method::TRAP.0));
    (0..3).for_each(|_| bench.deliver(Outcome::Arrived, &trap));
    assert_eq!(bench.demux.overflowed(), 1);
    let inbound = bench.unsolicited.smp.recv().await.expect("a trap");
    assert_eq!(inbound.mad, trap.0);
    change_header(&mut trap, |header| header.set_method(Method::GET_TABLE.0));
    let from = Address::gsi(Lid(5), Sl(0));
    let outcome = Outcome::Arrived;
    bench.demux.deliver(Delivery { agent: Agent::Sa, from, outcome, mad: &trap.0 });
    assert_eq!(bench.unsolicited.sa.recv().await.expect("a query").from, from);
}

/// An undeliverable TrapRepress must not complete the request with the same transaction ID.
/// The transaction ID of a reply is that of the requester's choice: it names no report.
#[tokio::test(start_paused = true)]
async fn unacknowledged_replies_end_no_reports() {
    let mut bench = bench(1);
    let mut deliver = |outcome, method: Method| {
        let mut mad = Mad::default();
        change_header(&mut mad, |header| {
            header.set_method(method.0);
            header.set_tid(5);
        });
        let from = Address::gsi(Lid(7), Sl(0));
        bench.demux.deliver(Delivery { agent: Agent::Sa, from, outcome, mad: &mad.0 });
        bench.unsolicited.sa_outcomes.try_recv().ok()
    };
    assert_eq!(deliver(Outcome::Unanswered, Method::REPORT), report(false));
    assert_eq!(deliver(Outcome::Arrived, Method::REPORT_RESP), report(true));
    let table = deliver(Outcome::Unanswered, Method::GET_TABLE_RESP);
    assert_eq!(table, Some(SaOutcome::Unacknowledged(Lid(7))));
    assert_eq!(deliver(Outcome::Arrived, Method::GET_RESP), None);
    assert_eq!(bench.demux.stray_responses(), 1);
}

fn report(answered: bool) -> Option<SaOutcome> {
    Some(SaOutcome::Report { tid: 5, answered })
}

#[tokio::test(start_paused = true)]
async fn undeliverable_posts_complete_no_transaction() {
    let bench = bench(4);
    let mut batch = bench.client.batch();
    batch.submit(0, request(0));
    let sent = bench.port.take()[0];
    let mut repress = sent;
    change_header(&mut repress, |header| header.set_method(Method::TRAP_REPRESS.0));
    bench.deliver(Outcome::Unanswered, &repress);
    assert_eq!(bench.demux.stray_responses(), 1);
    bench.answer(&sent, |_| {});
    assert!(matches!(batch.next().await, Some((0, Ok(_)))));
}

#[tokio::test(start_paused = true)]
async fn closing_the_port_fails_all_requests() {
    let mut bench = bench(1);
    let mut batch = bench.client.batch();
    (0..2).for_each(|tag| batch.submit(tag, request(0)));
    bench.demux.closed("unplugged");
    batch.submit(2, request(0));
    for tag in 0..3 {
        let error = SmpError::Send("unplugged".into());
        assert_eq!(batch.next().await, Some((tag, Err(error))));
    }
    assert!(bench.unsolicited.smp.recv().await.is_none());
    assert_eq!(bench.demux.closed_reason(), Some("unplugged"));
}

#[tokio::test(start_paused = true)]
async fn requests_above_the_queue_capacity_are_dropped_and_counted() {
    let bench = bench(1);
    let mut ask = Mad::default();
    change_header(&mut ask, |header| {
        header.set_class(3);
        header.set_method(Method::GET.0);
    });
    let mut trap = ask;
    change_header(&mut trap, |header| header.set_method(Method::TRAP.0));
    let deliver = |agent, mad: &Mad| {
        let from = Address::gsi(Lid(7), Sl(0));
        bench.demux.deliver(Delivery { agent, from, outcome: Outcome::Arrived, mad: &mad.0 });
    };
    (0..2).for_each(|_| deliver(Agent::Sa, &ask));
    for agent in [Agent::Sa, Agent::SmiLid, Agent::SmiLid, Agent::SmiLid] {
        deliver(agent, &ask);
    }
    deliver(Agent::Sa, &trap);
    assert_eq!(bench.demux.overflowed(), 3);
    assert!(bench.port.posted.lock().expect("no test panics in here").is_empty());
}

#[tokio::test(start_paused = true)]
async fn requests_end_even_if_all_mads_are_lost() {
    let losses = LossModel::new(1, 1.0);
    let (demux, _unsolicited) = MadDemux::new(1);
    let port: Arc<dyn MadPort> = Arc::new(LossyPort::new(FakePort::new(), Arc::clone(&losses)));
    let client = SmpClient::new(port, &demux, SmpLimits::default());
    assert_eq!(client.call(&request(0)).await, Err(SmpError::Unanswered));
    assert_eq!(losses.lost(), 1);
}

/// Fate, agent, LID of the other end, and bytes.
type LoggedMad = (MadFate, Agent, Lid, Vec<u8>);

#[derive(Default)]
struct MadLog(Mutex<Vec<LoggedMad>>);

impl MadRecorder for MadLog {
    fn record(&self, fate: MadFate, agent: Agent, peer: &Address, mad: &[u8]) {
        let mut log = self.0.lock().expect("no test panics in here");
        log.push((fate, agent, peer.lid, mad.to_vec()));
    }
}

#[tokio::test(start_paused = true)]
async fn recordings_contain_both_directions() {
    let log = Arc::new(MadLog::default());
    let (demux, _unsolicited) = MadDemux::new(1);
    let sink = RecordedSink::new(Arc::clone(&demux) as Arc<dyn MadSink>, log.clone());
    let fake = FakePort::new();
    let port: Arc<dyn MadPort> = Arc::new(RecordedPort::new(fake, log.clone()));
    let client = SmpClient::new(port, &demux, SmpLimits::default());
    client.batch().submit(0, request(0));
    let mad = [0x5A; 24];
    let agent = Agent::Sa;
    let from = Address::gsi(Lid(7), Sl(0));
    sink.deliver(Delivery { agent, from, outcome: Outcome::Unanswered, mad: &mad });
    let log = log.0.lock().expect("no test panics in here");
    let [sent, unanswered] = &log[..] else { panic!("two MADs, not {}", log.len()) };
    assert_eq!((sent.0, sent.1, sent.3.len()), (MadFate::Sent, Agent::SmiDirected, 256));
    assert_eq!(*unanswered, (MadFate::Unanswered, Agent::Sa, Lid(7), mad.to_vec()));
}
