//! SA requests answered in the reader thread.

use super::super::demux::{InlineOutcome, InlineResponder};
use super::*;

/// Echoes requests with a modified byte. Declines or suppresses the reply on request, and declines
/// under high load.
struct Echo;

const DECLINE: u8 = 1;
const NO_REPLY: u8 = 2;

impl InlineResponder for Echo {
    fn serve(&self, from: &Address, mad: &[u8], high_load: bool) -> InlineOutcome {
        match mad[24] {
            _ if high_load => InlineOutcome::Declined,
            DECLINE => InlineOutcome::Declined,
            NO_REPLY => InlineOutcome::NoReply,
            _ => {
                let mut reply = mad.to_vec();
                reply[25] = 0xEE;
                InlineOutcome::Reply(*from, reply)
            }
        }
    }
}

fn deliver(bench: &Bench, agent: Agent, word: u8) {
    let mut mad = Mad::default();
    (mad.0[3], mad.0[24]) = (Method::GET.0, word);
    let from = Address::gsi(Lid(7), Sl(0));
    bench.demux.deliver(Delivery { agent, from, outcome: Outcome::Arrived, mad: &mad.0 });
}

#[tokio::test(start_paused = true)]
async fn requests_are_offered_to_the_inline_responder_first() {
    let mut bench = bench(1);
    deliver(&bench, Agent::Sa, 0);
    assert!(bench.unsolicited.sa.try_recv().is_ok(), "no responder is set");
    bench.demux.set_inline_responder(Arc::new(Echo));
    for (agent, word, answered, queued) in [
        (Agent::Sa, 0, true, false),
        (Agent::Sa, NO_REPLY, false, false),
        (Agent::Sa, DECLINE, false, true),
        (Agent::SmiLid, 0, false, false),
    ] {
        deliver(&bench, agent, word);
        let replies = bench.port.take();
        assert_eq!(replies.len(), usize::from(answered), "{agent:?} {word}");
        assert!(replies.iter().all(|mad| mad.0[25] == 0xEE));
        assert_eq!(bench.unsolicited.sa.try_recv().is_ok(), queued, "{agent:?} {word}");
    }
    assert!(bench.unsolicited.smp.try_recv().is_ok());
}

#[tokio::test(start_paused = true)]
async fn requests_are_queued_under_high_load() {
    let mut bench = bench(1);
    bench.demux.set_inline_responder(Arc::new(Echo));
    let mut answered = 0;
    while bench.unsolicited.sa.is_empty() && answered < 1000 {
        deliver(&bench, Agent::Sa, 0);
        answered += bench.port.take().len();
    }
    assert!((1..1000).contains(&answered), "{answered}");
    assert!(bench.unsolicited.sa.try_recv().is_ok());
    deliver(&bench, Agent::Sa, 0);
    assert!(bench.unsolicited.sa.try_recv().is_ok(), "the load is still high");
    bench.demux.idle();
    deliver(&bench, Agent::Sa, 0);
    assert!(bench.unsolicited.sa.try_recv().is_err(), "the load was reset when idle");
    assert_eq!(bench.port.take().len(), 1);
}
