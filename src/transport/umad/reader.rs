//! The thread that reads the device.
//!
//! It polls only when a read found nothing. Giving up the processor before polling was tried
//! against ibsim and made it slower.

use super::super::{Delivery, MadSink, Outcome};
use super::abi::UserHeader;
use super::device::{Device, Life};
use crate::wire::mad::MAD_SIZE;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Room for a MAD with its header; longer messages get a larger buffer for once.
const BUFFER: usize = 64 + 2 * MAD_SIZE;
/// How often to look whether the port was dropped, where the alarm cannot be polled together
/// with the device (simulators), milliseconds.
const LOOK_AROUND_MS: libc::c_int = 100;
/// Errors in a row after which the device counts as broken.
const PATIENCE: u32 = 100;

pub struct Reader {
    device: Arc<Device>,
    life: Arc<Life>,
    /// Hangs up when the port is dropped.
    alarm: OwnedFd,
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
    pub fn new(
        device: Arc<Device>,
        life: Arc<Life>,
        alarm: OwnedFd,
        sink: Arc<dyn MadSink>,
    ) -> Self {
        Self { device, life, alarm, sink }
    }

    /// Reads until the port is dropped or the device is gone.
    pub fn run(self) {
        let timeout = if self.device.descriptor.is_real() { -1 } else { LOOK_AROUND_MS };
        let mut buffer = vec![0; BUFFER];
        let mut errors = 0;
        while !self.life.stop.load(Ordering::Relaxed) {
            match self.look(&mut buffer) {
                Look::Message => errors = 0,
                Look::Nothing => {
                    self.sink.idle();
                    if self.device.descriptor.wait(Some(self.alarm.as_raw_fd()), timeout) {
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
