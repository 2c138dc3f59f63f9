//! The threads that read a device: one polls when it finds nothing; another may relieve it in a rush.
//!
//! The first polls only when a read found nothing. Giving up the processor before polling was tried
//! against ibsim and made it slower.

use super::super::{Delivery, MadSink, Outcome};
use super::abi::UserHeader;
use super::device::{Device, Life};
use crate::wire::mad::MAD_SIZE;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::Thread;

/// Room for a MAD with its header; longer messages get a larger buffer for once.
const BUFFER: usize = 64 + 2 * MAD_SIZE;
/// How often to look whether the port was dropped, where the alarm cannot be polled together
/// with the device (simulators), milliseconds.
const LOOK_AROUND_MS: libc::c_int = 100;
/// Messages in a row after which the reader is relieved of some: the other must be worth waking.
const RUSH: u32 = 16;
/// Errors in a row after which the device counts as broken.
const PATIENCE: u32 = 100;

/// What reads a device.
#[derive(Clone)]
pub(super) struct Reader {
    device: Arc<Device>,
    life: Arc<Life>,
    sink: Arc<dyn MadSink>,
}

/// How a look into the device ended.
enum Look {
    /// A message was there.
    Message,
    Nothing,
    Failed(io::Error),
}

impl Reader {
    pub(super) fn new(device: Arc<Device>, life: Arc<Life>, sink: Arc<dyn MadSink>) -> Self {
        Self { device, life, sink }
    }

    /// Reads until the port is dropped, when `alarm` hangs up, or the device is gone. In a rush it is
    /// relieved by `relief`, a thread that [`relieves`](Self::relieve) it.
    pub(super) fn run(self, alarm: &OwnedFd, relief: Option<&Thread>) {
        let timeout = if self.device.descriptor.is_real() { -1 } else { LOOK_AROUND_MS };
        let mut buffer = vec![0; BUFFER];
        let (mut errors, mut row) = (0, 0);
        while !self.life.stop.load(Ordering::Relaxed) {
            match self.look(&mut buffer) {
                Look::Message => {
                    (errors, row) = (0, row + 1);
                    if row == RUSH {
                        relief.inspect(|relief| relief.unpark());
                        row = 0;
                    }
                }
                Look::Nothing => {
                    row = 0;
                    self.sink.idle();
                    if self.device.descriptor.wait(Some(alarm.as_raw_fd()), timeout) {
                        return self.close("the device was removed");
                    }
                }
                // EIO: the adapter was removed under the open device.
                Look::Failed(error) if errors >= PATIENCE || is_final(&error) => {
                    return self.close(&error.to_string());
                }
                Look::Failed(_) => errors += 1,
            }
        }
        self.close("the port was closed");
    }

    /// Reads whenever it is unparked, as long as there is something, until the port is dropped. What
    /// is wrong with the device is seen by who runs. One message may overtake another then, as it may
    /// in the fabric.
    pub(super) fn relieve(self) {
        let mut buffer = vec![0; BUFFER];
        while !self.life.stop.load(Ordering::Relaxed) {
            if !matches!(self.look(&mut buffer), Look::Message) {
                std::thread::park();
            }
        }
    }

    fn close(&self, reason: &str) {
        // Whichever reader is first speaks for the port.
        if !self.life.gone.swap(true, Ordering::Relaxed) {
            self.sink.closed(reason);
        }
    }

    /// Reads one message and delivers it.
    fn look(&self, buffer: &mut [u8]) -> Look {
        match self.device.descriptor.read(buffer) {
            Ok(Some(len)) => self.deliver(&buffer[..len]),
            Ok(None) => return Look::Nothing,
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                return self.read_long(buffer);
            }
            Err(error) => return Look::Failed(error),
        }
        Look::Message
    }

    /// Reads a message that did not fit: its header, with the length, is in `first`.
    fn read_long(&self, first: &[u8]) -> Look {
        let header = UserHeader::read(first, self.device.with_pkey_index);
        let length = header.map_or(0, |header| header.length as usize);
        let mut buffer = Vec::new();
        if buffer.try_reserve_exact(length).is_err() || length <= first.len() {
            return Look::Failed(io::ErrorKind::OutOfMemory.into());
        }
        buffer.resize(length, 0);
        match self.device.descriptor.read(&mut buffer) {
            Ok(Some(len)) => self.deliver(&buffer[..len]),
            Ok(None) => return Look::Nothing,
            Err(error) => return Look::Failed(error),
        }
        Look::Message
    }

    fn deliver(&self, message: &[u8]) {
        let Some(header) = UserHeader::read(message, self.device.with_pkey_index) else { return };
        let Some(agent) = self.device.agent(header.id) else { return };
        let mad = message.get(self.device.header_len()..).unwrap_or_default();
        if mad.len() < crate::wire::mad::Header::default().0.len() {
            return;
        }
        let outcome = if header.status == 0 { Outcome::Arrived } else { Outcome::Unanswered };
        self.sink.deliver(Delivery { agent, from: header.address, outcome, mad });
    }
}

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

    const PATIENT: Duration = Duration::from_secs(20);

    /// Where each message was delivered, in order. Whoever delivers the one in the middle waits
    /// until another has delivered one.
    #[derive(Default)]
    struct Ledger(Mutex<Vec<(u8, ThreadId)>>, Condvar);

    impl Ledger {
        fn wait_until(&self, is_so: impl Fn(&[(u8, ThreadId)]) -> bool) {
            let ledger = self.0.lock().expect("no panic in here");
            let done = self.1.wait_timeout_while(ledger, PATIENT, |ledger| !is_so(ledger));
            assert!(!done.expect("no panic in here").1.timed_out());
        }
    }

    impl MadSink for Ledger {
        fn deliver(&self, delivery: Delivery<'_>) {
            let (number, own) = (delivery.mad[8], std::thread::current().id());
            self.0.lock().expect("no panic in here").push((number, own));
            self.1.notify_all();
            if number == 2 * RUSH as u8 {
                self.wait_until(|ledger| ledger.iter().any(|&(_, thread)| thread != own));
            }
        }

        fn idle(&self) {}

        fn closed(&self, _: &str) {}
    }

    #[test]
    fn in_a_rush_the_reader_is_relieved() {
        let (ours, theirs) = UnixDatagram::pair().expect("sockets");
        theirs.set_nonblocking(true).expect("a socket");
        let device = Device::of(Descriptor::of(theirs.into()), Agent::Sa, 7);
        let header = device.header_len();
        let mut message = vec![0; header + MAD_SIZE];
        message[0] = 7;
        let send = |number| {
            message[header + 8] = number;
            ours.send(&message).expect("it is read")
        };
        let (life, ledger) = (Arc::<Life>::default(), Arc::<Ledger>::default());
        let reader = Reader::new(Arc::new(device), life.clone(), ledger.clone());
        let (end, alarm) = nix::unistd::pipe().expect("a pipe");
        let relief = std::thread::spawn({
            let reader = reader.clone();
            move || reader.relieve()
        });
        let thread = relief.thread().clone();
        let first = std::thread::spawn(move || reader.run(&end, Some(&thread)));
        (0..10 * RUSH as u8).for_each({
            let mut send = send;
            move |number| {
                send(number);
            }
        });
        ledger.wait_until(|ledger| ledger.len() == 10 * RUSH as usize);
        life.stop.store(true, Ordering::Relaxed);
        drop(alarm);
        relief.thread().unpark();
        first.join().expect("no panic");
        relief.join().expect("no panic");
        let mut numbers: Vec<u8> =
            ledger.0.lock().expect("no panic in here").iter().map(|&(number, _)| number).collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..10 * RUSH as u8), "each once: {numbers:?}");
    }
}
