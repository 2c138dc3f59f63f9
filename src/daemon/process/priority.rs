//! Thread priorities. The SM loop and the servers run at the nice value of the process, planning at
//! a higher one, file writing, preparations of the next plan and the performance manager at one
//! higher still, and the management interface at the highest. Checks that nothing waits for run
//! under SCHED_IDLE: on cores that nothing else needs.

use rayon::ThreadPool;
use rustix::process::{getpid, getpriority_process, setpriority_process};
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

/// Lets the calling thread run only on cores that nothing else needs (SCHED_IDLE, sched(7)).
pub fn lower_to_idle() {
    lower_to_background();
    // If the kernel refuses, the thread keeps the priority of work in the background.
    set_idle_policy();
}

#[allow(unsafe_code)]
fn set_idle_policy() -> bool {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is valid during the call; 0 stands for the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) == 0 }
}

/// Lowers the priority of the calling thread to that of the management interface, once.
pub fn lower_to_management() {
    lower_by(MANAGEMENT_INCREMENT);
}

/// Sets the nice value of the calling thread to that of the process plus `increment`, once: a
/// thread starts with the value of the one that makes it, which may be lowered.
fn lower_by(increment: i32) {
    if IS_LOWERED.replace(true) {
        return;
    }
    // If the kernel refuses, all threads keep the same priority.
    if let Ok(process) = getpriority_process(Some(getpid())) {
        let _ = setpriority_process(None, process + increment);
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

/// Runs `work` on a thread of its own at the lowest priority, its parallel parts, too: the planner's
/// queue stays free.
pub fn spawn_idle<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    static THREAD: OwnThread = OwnThread::new("idle", lower_to_idle);
    THREAD.spawn(work)
}

/// Runs `work`, for which somebody waits, on a thread of its own at the priority of the thread that first calls
/// this; its parallel parts, too: the planner's queue stays free.
pub fn spawn_study<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    // Blocking threads may have a lower priority, which a thread that they make would inherit.
    let pool = POOL.get_or_init(|| single_thread("study", || ()));
    spawn_blocking(move || match pool {
        Some(pool) => pool.install(work),
        None => work(),
    })
}

/// Prepares the next plan on a thread of its own below the priority of planning.
pub fn spawn_preparation<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    static THREAD: OwnThread = OwnThread::new("prepare", lower_to_background);
    THREAD.spawn(work)
}

/// Writes files on a thread of its own below the priority of planning.
pub fn spawn_writer<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    static THREAD: OwnThread = OwnThread::new("files", lower_to_background);
    THREAD.spawn(work)
}

/// A pool of a single thread, which is made when it is first needed.
struct OwnThread {
    name: &'static str,
    /// Lowers the priority of the thread that calls it.
    lower: fn(),
    pool: OnceLock<Option<ThreadPool>>,
}

impl OwnThread {
    const fn new(name: &'static str, lower: fn()) -> Self {
        Self { name, lower, pool: OnceLock::new() }
    }

    /// Runs `work` there, or on the calling thread if there can be no other.
    fn spawn<T: Send + 'static>(
        &'static self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        spawn_blocking(move || {
            let pool = self.pool.get_or_init(|| single_thread(self.name, self.lower));
            match pool {
                Some(pool) => pool.install(work),
                None => work(),
            }
        })
    }
}

fn single_thread(name: &'static str, lower: fn()) -> Option<ThreadPool> {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
    let builder = builder.thread_name(|_| name.to_owned());
    builder.start_handler(move |_| lower()).build().ok()
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

    fn thread_state() -> (i32, usize) {
        (getpriority_process(None).expect("Linux"), rayon::current_num_threads())
    }

    #[tokio::test]
    async fn priority_is_lowered_once_and_only_for_the_thread() {
        let before = getpriority_process(None).expect("Linux");
        for _ in 0..3 {
            let low = spawn_low_priority(|| getpriority_process(None).expect("Linux")).await;
            assert_eq!(low.expect("no panic"), (before + NICE_INCREMENT).min(19));
        }
        let expected = ((before + 2 * NICE_INCREMENT).min(19), 1);
        for work in
            [spawn_idle(thread_state), spawn_preparation(thread_state), spawn_writer(thread_state)]
        {
            assert_eq!(work.await.expect("no panic"), expected);
        }
        assert_eq!(getpriority_process(None), Ok(before));
    }

    /// sched(7): a thread may give up its share of the cores without a privilege.
    #[tokio::test]
    async fn idle_work_runs_on_idle_cores_only() {
        assert_eq!(policy_of(spawn_idle(policy).await.expect("no panic")).as_deref(), Some("5"));
        let files = spawn_writer(policy).await.expect("no panic");
        assert_eq!(policy_of(files).as_deref(), Some("0"));
    }

    /// The 41st field (proc_pid_stat(5)); the name of the thread, the second one, has no blanks.
    fn policy_of(text: String) -> Option<String> {
        text.split(' ').nth(40).map(str::to_owned)
    }

    fn policy() -> String {
        std::fs::read_to_string("/proc/thread-self/stat").expect("Linux")
    }

    #[test]
    fn work_that_nothing_waits_for_is_below_planning() {
        let before = getpriority_process(None).expect("Linux");
        for (lower, increment) in [
            (lower_thread_priority as fn(), NICE_INCREMENT),
            (lower_to_background, 2 * NICE_INCREMENT),
            (lower_to_management, MANAGEMENT_INCREMENT),
        ] {
            let thread = std::thread::spawn(move || {
                lower();
                lower();
                getpriority_process(None).expect("Linux")
            });
            let found = thread.join().expect("no panic");
            assert_eq!(found, (before + increment).min(19));
        }
    }
}
