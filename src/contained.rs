//! Contains panics: a defect in one pass of the manager or one request must not end the daemon.

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use tracing::error;

/// Panics contained since the process started.
static CONTAINED: AtomicU64 = AtomicU64::new(0);

/// A panic that was contained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    message: String,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Panic {
    fn new(payload: &(dyn Any + Send)) -> Self {
        CONTAINED.fetch_add(1, Ordering::Relaxed);
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Self { message: text.unwrap_or("panic without a message").to_owned() }
    }
}

/// Number of panics contained since the process started.
pub fn count() -> u64 {
    CONTAINED.load(Ordering::Relaxed)
}

/// Runs `work`. State that `work` was changing may be incomplete after a panic: the caller must
/// discard it, or tolerate it.
///
/// # Errors
/// `work` panicked.
pub fn run<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panic::new(&*payload))
}

/// As [`run`], for a future, which is dropped after a panic.
///
/// # Errors
/// The future panicked.
pub async fn run_async<T>(work: impl Future<Output = T>) -> Result<T, Panic> {
    let mut work = pin!(work);
    poll_fn(move |context| match run(|| work.as_mut().poll(context)) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

/// Logs a contained panic; `what` failed, and `consequence` follows.
pub fn log(what: &str, panic: &Panic, consequence: &str) {
    error!(
        "{what} failed by a defect of torus-sm ({} since the start): {panic}; {consequence}",
        count()
    );
}

/// Answers a request by `work`; `None`, which is logged, if that panics.
pub fn request<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    run(work).unwrap_or_else(|panic| {
        log("an SA request", &panic, "it gets no reply");
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn panics_are_contained_and_counted() {
        let before = count();
        assert_eq!(run(|| 5), Ok(5));
        assert_eq!(run_async(async { 6 }).await, Ok(6));
        assert_eq!(run(|| -> u8 { panic!("one") }).unwrap_err().to_string(), "one");
        let late = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let two = 2;
            panic!("number {two}")
        };
        let contained: Result<(), Panic> = run_async(late).await;
        assert_eq!(contained.unwrap_err().to_string(), "number 2");
        assert_eq!(request(|| -> Option<u8> { panic!("three") }), None);
        assert_eq!(request(|| Some(7)), Some(7));
        assert!(count() >= before + 3);
    }
}
