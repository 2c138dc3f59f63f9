//! The threads that read a device: a reader, and a helper for times of high load.
//!
//! The reader polls only after a read found the queue empty. Yielding the processor before polling
//! made it slower against ibsim.
//!
//! Under a preloaded simulator, a thread of this process receives the MADs and wakes the reader. A reader
//! that preempted it at once would read a single MAD each time, and both would wait for the simulator's lock
//! ([`simulator_thread`]).

use super::super::{Delivery, MadSink, Outcome};
use super::abi::UserHeader;
use super::device::{Device, Life};
use super::{simulator_thread, sys};
use crate::wire::mad::MAD_SIZE;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Thread;

/// Size of the read buffer in bytes: a MAD with its header. Longer messages get a buffer of their
/// own.
const BUFFER_SIZE: usize = 64 + 2 * MAD_SIZE;
/// Interval in milliseconds at which the reader checks whether the port was dropped, for simulators
/// that cannot poll the pipe together with the device.
const STOP_CHECK_MS: libc::c_int = 100;
/// Number of consecutive messages after which the helper is woken: fewer are not worth the wakeup.
const MESSAGES_PER_HELPER_WAKE: u32 = 16;
/// Number of consecutive errors after which the device counts as failed.
const MAX_ERRORS: u32 = 100;

#[derive(Clone)]
pub(super) struct Reader {
    device: Arc<Device>,
    life: Arc<Life>,
    sink: Arc<dyn MadSink>,
}

/// Outcome of a read.
enum ReadOutcome {
    /// A message was read and delivered.
    Message,
    Empty,
    Failed(io::Error),
}

impl Reader {
    pub(super) fn new(device: Arc<Device>, life: Arc<Life>, sink: Arc<dyn MadSink>) -> Self {
        Self { device, life, sink }
    }

    /// Reads until the port is dropped, which hangs up `stop`, or the device is removed. Under high
    /// load it wakes `helper`, a thread that runs [`help`](Self::help).
    pub(super) fn run(self, stop: &OwnedFd, helper: Option<&Thread>) {
        let is_real = self.device.descriptor.is_real();
        if !is_real {
            sys::wake_without_preemption();
            simulator_thread::share_processor();
        }
        let timeout = if is_real { -1 } else { STOP_CHECK_MS };
        let mut buffer = vec![0; BUFFER_SIZE];
        let mut errors = 0;
        let mut messages = 0;
        while !self.life.stop.load(Ordering::Relaxed) {
            match self.read_one(&mut buffer) {
                ReadOutcome::Message => {
                    (errors, messages) = (0, messages + 1);
                    if messages == MESSAGES_PER_HELPER_WAKE {
                        helper.inspect(|helper| helper.unpark());
                        messages = 0;
                    }
                }
                ReadOutcome::Empty => {
                    messages = 0;
                    self.sink.idle();
                    if self.device.descriptor.wait(Some(stop.as_raw_fd()), timeout) {
                        return self.close("the device was removed");
                    }
                }
                ReadOutcome::Failed(error) if errors >= MAX_ERRORS || is_final(&error) => {
                    return self.close(&error.to_string());
                }
                ReadOutcome::Failed(_) => errors += 1,
            }
        }
        self.close("the port was closed");
    }

    /// Reads after each unpark until the queue is empty, and ends when the port is dropped. Errors
    /// are left to [`run`](Self::run). Messages may be delivered out of order, as in the fabric.
    pub(super) fn help(self) {
        let mut buffer = vec![0; BUFFER_SIZE];
        while !self.life.stop.load(Ordering::Relaxed) {
            if !matches!(self.read_one(&mut buffer), ReadOutcome::Message) {
                std::thread::park();
            }
        }
    }

    fn close(&self, reason: &str) {
        // Only the first reader to end notifies the sink.
        if !self.life.gone.swap(true, Ordering::Relaxed) {
            self.sink.closed(reason);
        }
    }

    /// Reads one message and delivers it.
    fn read_one(&self, buffer: &mut [u8]) -> ReadOutcome {
        match self.device.descriptor.read(buffer) {
            Ok(Some(len)) => self.deliver(&buffer[..len]),
            Ok(None) => return ReadOutcome::Empty,
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                return self.read_long(buffer);
            }
            Err(error) => return ReadOutcome::Failed(error),
        }
        ReadOutcome::Message
    }

    /// Reads a message longer than the buffer. Its header, with the length, is in `first`.
    fn read_long(&self, first: &[u8]) -> ReadOutcome {
        let header = UserHeader::read(first, self.device.with_pkey_index);
        let length = header.map_or(0, |header| header.length as usize);
        let mut buffer = Vec::new();
        if buffer.try_reserve_exact(length).is_err() || length <= first.len() {
            return ReadOutcome::Failed(io::ErrorKind::OutOfMemory.into());
        }
        buffer.resize(length, 0);
        match self.device.descriptor.read(&mut buffer) {
            Ok(Some(len)) => self.deliver(&buffer[..len]),
            Ok(None) => return ReadOutcome::Empty,
            Err(error) => return ReadOutcome::Failed(error),
        }
        ReadOutcome::Message
    }

    fn deliver(&self, message: &[u8]) {
        let Some(header) = UserHeader::read(message, self.device.with_pkey_index) else { return };
        let Some(agent) = self.device.agent(header.id) else { return };
        let mad = message.get(self.device.header_len()..).unwrap_or(&[]);
        if mad.len() < crate::wire::mad::Header::default().0.len() {
            return;
        }
        let outcome = if header.status == 0 { Outcome::Arrived } else { Outcome::Unanswered };
        self.sink.deliver(Delivery { agent, from: header.address, outcome, mad });
    }
}

/// True for errors of a removed device, such as EIO when the adapter is unplugged.
fn is_final(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::ENODEV | libc::EBADF | libc::EPIPE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::Agent;
    use crate::transport::umad::sys::Descriptor;
    use std::os::unix::net::UnixDatagram;
    use std::sync::{Condvar, Mutex};
    use std::thread::ThreadId;
    use std::time::Duration;

    const TIMEOUT: Duration = Duration::from_secs(20);

    /// Messages with the thread that delivered them, in order. The delivery of one message blocks
    /// until another thread has delivered one.
    #[derive(Default)]
    struct DeliveryLog(Mutex<Vec<(u8, ThreadId)>>, Condvar);

    impl DeliveryLog {
        fn wait_until(&self, condition: impl Fn(&[(u8, ThreadId)]) -> bool) {
            let log = self.0.lock().expect("no panic in here");
            let done = self.1.wait_timeout_while(log, TIMEOUT, |log| !condition(log));
            assert!(!done.expect("no panic in here").1.timed_out());
        }
    }

    impl MadSink for DeliveryLog {
        fn deliver(&self, delivery: Delivery<'_>) {
            let number = delivery.mad[8];
            let own = std::thread::current().id();
            self.0.lock().expect("no panic in here").push((number, own));
            self.1.notify_all();
            if number == 2 * MESSAGES_PER_HELPER_WAKE as u8 {
                self.wait_until(|log| log.iter().any(|&(_, thread)| thread != own));
            }
        }

        fn idle(&self) {}

        fn closed(&self, _: &str) {}
    }

    #[test]
    fn the_helper_reads_under_high_load() {
        let (ours, theirs) = UnixDatagram::pair().expect("sockets");
        theirs.set_nonblocking(true).expect("a socket");
        let device = Device::with_agent(Descriptor::of(theirs.into()), Agent::Sa, 7);
        let header = device.header_len();
        let mut message = vec![0; header + MAD_SIZE];
        message[0] = 7;
        let send = |number| {
            message[header + 8] = number;
            ours.send(&message).expect("the reader reads")
        };
        let life = Arc::<Life>::default();
        let log = Arc::<DeliveryLog>::default();
        let reader = Reader::new(Arc::new(device), life.clone(), log.clone());
        let (stop, stop_pipe) = nix::unistd::pipe().expect("a pipe");
        let helper = std::thread::spawn({
            let reader = reader.clone();
            move || reader.help()
        });
        let helper_thread = helper.thread().clone();
        let first = std::thread::spawn(move || reader.run(&stop, Some(&helper_thread)));
        (0..10 * MESSAGES_PER_HELPER_WAKE as u8).for_each({
            let mut send = send;
            move |number| {
                send(number);
            }
        });
        log.wait_until(|log| log.len() == 10 * MESSAGES_PER_HELPER_WAKE as usize);
        life.stop.store(true, Ordering::Relaxed);
        drop(stop_pipe);
        helper.thread().unpark();
        first.join().expect("no panic");
        helper.join().expect("no panic");
        let mut numbers: Vec<u8> =
            log.0.lock().expect("no panic in here").iter().map(|&(number, _)| number).collect();
        numbers.sort_unstable();
        assert!(
            numbers.iter().copied().eq(0..10 * MESSAGES_PER_HELPER_WAKE as u8),
            "each once: {numbers:?}"
        );
    }
}
