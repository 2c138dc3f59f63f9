//! Thread priorities. The manager and the servers run at the nice value of the process, planning
//! and file writing at a higher one, work in advance of the next plan and the performance manager at
//! one higher still, and the management interface at the highest.

use rayon::ThreadPool;
use std::cell::Cell;
use std::sync::OnceLock;
use tokio::task::{JoinHandle, spawn_blocking};

/// Increment of the nice value for planning: enough that the kernel gives a waking server thread a
/// core at once, but not so much that other programs starve planning.
const NICE_INCREMENT: i32 = 5;

/// Increment of the nice value for the management interface, whose clients may ask for much at any
/// time. The kernel gives it a twentieth of a core that planning needs, too, and a core that
/// is idle entirely.
const MANAGEMENT_INCREMENT: i32 = 19;

thread_local! {
    static IS_LOWERED: Cell<bool> = const { Cell::new(false) };
}

/// Lowers the priority of the calling thread to that of planning, once.
pub fn lower_thread_priority() {
    lower_by(NICE_INCREMENT);
}

/// Lowers the priority of the calling thread below that of planning, once.
pub fn lower_to_background() {
    lower_by(2 * NICE_INCREMENT);
}

/// Lowers the priority of the calling thread to that of the management interface, once.
pub fn lower_to_management() {
    lower_by(MANAGEMENT_INCREMENT);
}

fn lower_by(increment: i32) {
    if !IS_LOWERED.replace(true) {
        increase_nice(increment);
    }
}

fn increase_nice(by: i32) {
    // If the kernel refuses, all threads keep the same priority.
    if let Ok(own) = rustix::process::getpriority_process(None) {
        let _ = rustix::process::setpriority_process(None, own + by);
    }
}

/// Runs `work` on a blocking thread with lowered priority.
pub fn spawn_low_priority<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    spawn_blocking(move || {
        lower_thread_priority();
        work()
    })
}

/// Runs `work` at the lowest priority. Its parallel parts run on a single thread of their own, to
/// keep the planner's queue free.
pub fn spawn_idle<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    static IDLE_POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    spawn_low_priority(move || {
        let pool = IDLE_POOL.get_or_init(|| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
            let builder = builder.thread_name(|_| "idle".to_owned());
            // The thread inherits the nice value of this one, which is lowered already.
            builder.start_handler(|_| increase_nice(NICE_INCREMENT)).build().ok()
        });
        match pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    })
}

/// Creates the threads for parallel planning, with lowered priority. Must be called before the
/// first use of rayon.
pub fn start_planner_threads() {
    let planners = rayon::ThreadPoolBuilder::new()
        .thread_name(|number| format!("planner-{number}"))
        .start_handler(|_| lower_thread_priority());
    // An error means that the threads exist already; they keep their priority.
    let _ = planners.build_global();
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;

    #[tokio::test]
    async fn priority_is_lowered_once_and_only_for_the_thread() {
        let before = getpriority_process(None).expect("Linux");
        for _ in 0..3 {
            let low = spawn_low_priority(|| getpriority_process(None).expect("Linux")).await;
            assert_eq!(low.expect("no panic"), (before + NICE_INCREMENT).min(19));
        }
        let idle = || (getpriority_process(None).expect("Linux"), rayon::current_num_threads());
        let expected = ((before + 2 * NICE_INCREMENT).min(19), 1);
        assert_eq!(spawn_idle(idle).await.expect("no panic"), expected);
        assert_eq!(getpriority_process(None), Ok(before));
    }

    #[test]
    fn work_that_nothing_waits_for_is_below_planning() {
        let before = getpriority_process(None).expect("Linux");
        for (lower, increment) in [
            (lower_thread_priority as fn(), NICE_INCREMENT),
            (lower_to_background, 2 * NICE_INCREMENT),
            (lower_to_management, MANAGEMENT_INCREMENT),
        ] {
            let lowered = move || {
                lower();
                lower();
                getpriority_process(None).expect("Linux")
            };
            let found = std::thread::spawn(lowered).join().expect("no panic");
            assert_eq!(found, (before + increment).min(19));
        }
    }
}
