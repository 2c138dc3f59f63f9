//! What the tests of torus-2QoS against OpenSM share: random fabrics, our results by GUID, and
//! OpenSM's on the same fabric.
#![allow(dead_code, reason = "every test binary uses its own part")]

pub(crate) mod failures;
pub(crate) mod inside;
pub(crate) mod opensm;
pub(crate) mod random;
pub(crate) mod subnet;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number from the environment, for tests that can do more than they usually do.
pub(crate) fn setting(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")),
        Err(_) => default,
    }
}

/// Does `work` for 0..`count`, two at a time, and returns the results in order. OpenSM and ibsim
/// mostly wait for each other.
pub(crate) fn in_parallel<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count {
                        return;
                    }
                    let result = work(index);
                    results.lock().unwrap().push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
