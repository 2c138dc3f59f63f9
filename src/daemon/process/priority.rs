//! Who goes first where cores are few: those who answer and those who talk to the fabric, before
//! those who plan and those who write files; and those before whoever gets ready for later.

use rayon::ThreadPool;
use std::cell::Cell;
use std::sync::OnceLock;
use tokio::task::{JoinHandle, spawn_blocking};

/// How much nicer planners are than the desks: enough for the kernel to let a desk that wakes up
/// have a core at once, and little enough for them to have theirs beside other programs.
const NICER: i32 = 5;

thread_local! {
    static HAS_STEPPED_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Lets the other threads of the process go before this one, from now on.
pub fn lower_thread_priority() {
    if !HAS_STEPPED_BACK.replace(true) {
        become_nicer(NICER);
    }
}

fn become_nicer(by: i32) {
    // A kernel that does not let it have its way: then all go at the same time.
    if let Ok(own) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, own + by);
    }
}

/// Runs `work` on a thread where it holds nobody up, and which has stepped back.
pub fn spawn_low_priority<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    spawn_blocking(move || {
        lower_thread_priority();
        work()
    })
}

/// Runs `work` that is for later: what it does in parallel has one thread of its own, behind those who
/// plan, whose queue it must not fill.
pub fn spawn_idle<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    static ASIDE: OnceLock<Option<ThreadPool>> = OnceLock::new();
    spawn_low_priority(move || {
        let pool = ASIDE.get_or_init(|| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
            let builder = builder.thread_name(|_| "aside".to_owned());
            // It begins as nice as this thread, which has stepped back.
            builder.start_handler(|_| become_nicer(NICER)).build().ok()
        });
        match pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    })
}

/// Has those who plan in parallel step back; before any of them has worked.
pub fn start_planner_threads() {
    let planners = rayon::ThreadPoolBuilder::new()
        .thread_name(|number| format!("planner-{number}"))
        .start_handler(|_| lower_thread_priority());
    // They are at work already: then they stay as they are.
    let _ = planners.build_global();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;

    #[tokio::test]
    async fn who_plans_steps_back_once_and_alone() {
        let before = getpriority_process(None).expect("Linux");
        for _ in 0..3 {
            let behind = spawn_low_priority(|| getpriority_process(None).expect("Linux")).await;
            assert_eq!(behind.expect("no panic"), (before + NICER).min(19));
        }
        let aside = || (getpriority_process(None).expect("Linux"), rayon::current_num_threads());
        let expected = ((before + 2 * NICER).min(19), 1);
        assert_eq!(spawn_idle(aside).await.expect("no panic"), expected);
        assert_eq!(getpriority_process(None), Ok(before));
    }
}
