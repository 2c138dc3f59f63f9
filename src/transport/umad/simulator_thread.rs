//! The thread in which a preloaded simulator receives MADs.
//!
//! ibsim's libumad2sim has one lock for all its descriptors: writing a MAD holds it throughout, and the
//! library's thread takes it for each MAD that it receives. On two processors, the thread that sends and this
//! one wait for each other at nearly every MAD, with system calls on both sides. On one processor they do
//! not meet: one sends until nothing is left to send, then the other takes all the responses that have come.

use super::users::{command, numbers_in};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use std::process;

/// Binds the calling thread and those that preloaded libraries have started to the processor on which it runs.
/// If the kernel refuses, only more time is needed.
pub(super) fn share_processor() {
    let threads = threads_of_libraries();
    let mut processor = CpuSet::new();
    let current = sched_getcpu();
    if threads.is_empty() || current >= CpuSet::MAX_CPU {
        return;
    }
    processor.set(current);
    if sched_setaffinity(None, &processor).is_ok() {
        for thread in threads {
            let _ = sched_setaffinity(Some(thread), &processor);
        }
    }
}

/// The threads with the name of the process, which all threads of this program change.
fn threads_of_libraries() -> Vec<Pid> {
    let main_thread = process::id();
    let Some(process_name) = command(main_thread) else { return Vec::new() };
    numbers_in("/proc/self/task")
        .filter(|&thread| thread != main_thread)
        .filter(|&thread| command(thread).as_ref() == Some(&process_name))
        .filter_map(|thread| Pid::from_raw(thread.cast_signed()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{gettid, sched_getaffinity};
    use std::sync::mpsc;
    use std::thread;

    fn processors_of(thread: Option<Pid>) -> u32 {
        sched_getaffinity(thread).expect("a thread").count()
    }

    /// Starts a thread that tells its number and ends with the returned sender.
    fn start_thread(name: &str) -> (Pid, mpsc::Sender<()>) {
        let (end, ended) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let thread = thread::Builder::new().name(name.to_owned());
        let started = thread.spawn(move || {
            tell.send(gettid()).expect("a receiver");
            let _ = ended.recv();
        });
        drop(started.expect("a thread"));
        (told.recv().expect("a thread"), end)
    }

    #[test]
    fn a_reader_shares_its_processor_with_threads_of_libraries_only() {
        let all = processors_of(None);
        let process_name = command(process::id()).expect("Linux");
        let (library_thread, _library_runs) = start_thread(&process_name);
        let (own_thread, _own_runs) = start_thread("other");
        let reader = thread::spawn(|| {
            share_processor();
            processors_of(None)
        });
        assert_eq!(reader.join().expect("no panic"), 1);
        assert_eq!(processors_of(Some(library_thread)), 1);
        assert_eq!(processors_of(Some(own_thread)), all);
        assert_eq!(processors_of(None), all);
    }
}
