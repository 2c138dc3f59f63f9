//! When the task of a batch is woken: if little is queued or many results wait, or when all requests have ended.

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

impl CountingWaker {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
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
        counts.push(counter.count());
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

/// Answers requests until the task is woken. Returns the number of answers.
fn answers_until_woken(bench: &Bench, counter: &CountingWaker) -> usize {
    let mut answers = 0;
    loop {
        for mad in bench.port.take() {
            bench.answer(&mad, |_| {});
            bench.demux.idle();
            answers += 1;
            if counter.count() > 0 {
                return answers;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn results_wait_while_four_windows_are_queued_but_not_more_than_128() {
    for (requests, expected) in [(40, 22), (1000, 129)] {
        let bench = bench(4);
        let mut batch = bench.client.batch();
        (0..requests).for_each(|tag| batch.submit(tag, request(0)));
        let counter = Arc::new(CountingWaker::default());
        let waker = counter.clone().into();
        let mut next = pin!(batch.next());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(answers_until_woken(&bench, &counter), expected);
    }
}
