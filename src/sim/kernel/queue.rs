//! What waits to be read from an open `umad`.

use crate::transport::umad::UserHeader;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Length of `struct ib_user_mad_hdr`.
pub(super) const HEADER: usize = 64;
/// Length of `struct ib_user_mad_hdr_old`, which has no P_Key index.
pub(super) const OLD_HEADER: usize = 56;
/// Packets that wait at most; what arrives beyond is lost, as in the kernel.
const LIMIT: usize = 200_000;

/// The packets of one open device, in the form in which they are read.
pub(in crate::sim) struct Queue {
    packets: Mutex<VecDeque<Vec<u8>>>,
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl Queue {
    pub(super) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { packets: Mutex::default(), wake }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a packet whose header is `header_size` bytes long.
    pub(super) fn push(&self, header: UserHeader, header_size: usize, mad: &[u8]) {
        let mut packet = Vec::with_capacity(header_size + mad.len());
        packet.extend_from_slice(&header.to_bytes()[..header_size.min(HEADER)]);
        packet.extend_from_slice(mad);
        let mut packets = self.lock();
        // Who sends hears in any case what came of it.
        if header.status == 0 && packets.len() >= LIMIT {
            return;
        }
        packets.push_back(packet);
        let is_first = packets.len() == 1;
        drop(packets);
        if is_first {
            (self.wake)();
        }
    }

    pub(super) fn pop(&self) -> Option<Vec<u8>> {
        self.lock().pop_front()
    }
}
