//! Batches whose task is woken when all requests have ended.

use super::*;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};

#[derive(Default)]
struct CountingWaker(AtomicUsize);

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The number of wake-ups after each of three responses, of which the second one has this status.
async fn wake_ups(client: &SmpClient, bench: &Bench, status: u16) -> Vec<usize> {
    let mut batch = client.batch();
    (0..3).for_each(|tag| batch.submit(tag, request(tag as u32)));
    let counter = Arc::new(CountingWaker::default());
    let waker = counter.clone().into();
    {
        let mut next = pin!(batch.next());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let mut counts = Vec::new();
    for (mad, status) in bench.port.take().iter().zip([0, status, 0]) {
        bench.answer(mad, |answer| {
            change_header(answer, |header| header.set_status(0x8000 | status))
        });
        bench.demux.idle();
        counts.push(counter.0.load(Ordering::Relaxed));
    }
    let mut results = 0;
    while batch.next().await.is_some() {
        results += 1;
    }
    assert_eq!(results, 3);
    counts
}

#[tokio::test(start_paused = true)]
async fn results_wait_for_the_last_one_or_for_an_error() {
    let bench = bench(0);
    let at_end = bench.client.woken_at_end();
    assert_eq!(wake_ups(&bench.client, &bench, 0).await, [1, 1, 1]);
    assert_eq!(wake_ups(&at_end, &bench, 0).await, [0, 0, 1]);
    assert_eq!(wake_ups(&at_end, &bench, 4).await, [0, 1, 1]);
}
