//! Runs the exchanges with several physical ports at a time.

use crate::config::options::Options;
use futures_util::FutureExt;
use futures_util::stream::{self, Stream, StreamExt};
use std::collections::VecDeque;
use std::pin::pin;

/// The results of these futures, each of one port; `virt_max_ports_in_process` are in process at a time.
///
/// All run in the task of the caller: a task for each port would cost a wake-up for each of its requests.
pub(super) fn in_process<F: Future>(
    ports: impl Iterator<Item = F>,
    options: &Options,
) -> impl Stream<Item = F::Output> {
    let limit = options.virt_max_ports_in_process.max(1);
    stream::iter(ports).buffer_unordered(limit.into())
}

/// Passes the results to `handle`, one at a time, while no other port has something to send: the fabric is
/// not idle while results are handled.
pub(super) async fn handle_while_waiting<T>(
    results: impl Stream<Item = T>,
    mut handle: impl FnMut(T),
) {
    let mut results = pin!(results);
    let mut unhandled = VecDeque::new();
    loop {
        let next = if unhandled.is_empty() {
            Some(results.next().await)
        } else {
            results.next().now_or_never()
        };
        match next {
            Some(Some(result)) => unhandled.push_back(result),
            Some(None) => break,
            None => unhandled.pop_front().into_iter().for_each(&mut handle),
        }
    }
    unhandled.into_iter().for_each(handle);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::time::Duration;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn results_are_handled_while_others_wait() {
        let log = RefCell::new(Vec::new());
        let ports = (0..4_u64).map(|port| {
            let log = &log;
            async move {
                sleep(Duration::from_millis(10 + port / 2 * 10)).await;
                log.borrow_mut().push(format!("{port} ends"));
                port
            }
        });
        let options = Options { virt_max_ports_in_process: 3, ..Options::default() };
        handle_while_waiting(in_process(ports, &options), |port| {
            log.borrow_mut().push(format!("{port} handled"));
        })
        .await;
        let log = log.into_inner();
        assert!(log[..2].iter().all(|line| line.ends_with("ends")), "{log:?}");
        assert!(log[2..4].iter().all(|line| line.ends_with("handled")), "{log:?}");
        assert_eq!(log[4..], ["2 ends", "2 handled", "3 ends", "3 handled"]);
    }
}
