//! Receive queue of an open umad device.

use crate::transport::umad::UserHeader;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Size of `struct ib_user_mad_hdr` in bytes.
pub(in crate::sim) const HEADER_SIZE: usize = 64;
/// Size of `struct ib_user_mad_hdr_old`, without P_Key index, in bytes.
pub(in crate::sim) const OLD_HEADER_SIZE: usize = 56;
/// Packets in the queue; further ones are dropped, as in Linux (`MAX_UMAD_RECV_LIST_SIZE`).
const MAX_PACKETS: usize = 200_000;

/// Packets for one open device, as read(2) returns them.
pub(in crate::sim) struct ReceiveQueue {
    packets: Mutex<VecDeque<Vec<u8>>>,
    /// Called when the queue is no longer empty.
    wake: Arc<dyn Fn() + Send + Sync>,
}

impl ReceiveQueue {
    pub(in crate::sim) fn new(wake: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { packets: Mutex::default(), wake }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a packet with a header of `header_size` bytes.
    pub(super) fn push(&self, header: UserHeader, header_size: usize, mad: &[u8]) {
        let mut packet = Vec::with_capacity(header_size + mad.len());
        packet.extend_from_slice(&header.to_bytes()[..header_size.min(HEADER_SIZE)]);
        packet.extend_from_slice(mad);
        let mut packets = self.lock();
        // Timeouts of the program's own requests are never dropped.
        if header.status == 0 && packets.len() >= MAX_PACKETS {
            return;
        }
        packets.push_back(packet);
        let is_first = packets.len() == 1;
        drop(packets);
        if is_first {
            (self.wake)();
        }
    }

    pub(in crate::sim) fn pop(&self) -> Option<Vec<u8>> {
        self.lock().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lid;
    use crate::transport::Address;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn wakes_when_it_was_empty_and_drops_beyond_its_limit() {
        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = wakes.clone();
        let queue = ReceiveQueue::new(Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        let address = Address::smi(Lid(1));
        let received =
            UserHeader { id: 3, status: 0, timeout_ms: 0, retries: 0, length: 64, address };
        for _ in 0..MAX_PACKETS + 5 {
            queue.push(received, OLD_HEADER_SIZE, &[7; 2]);
        }
        queue.push(UserHeader { status: 110, ..received }, OLD_HEADER_SIZE, &[]);
        assert_eq!((queue.lock().len(), wakes.load(Ordering::Relaxed)), (MAX_PACKETS + 1, 1));
        let first = queue.pop().expect("the queue is full");
        assert_eq!((first.len(), &first[OLD_HEADER_SIZE..]), (OLD_HEADER_SIZE + 2, &[7, 7][..]));
        queue.lock().clear();
        queue.push(received, HEADER_SIZE, &[]);
        assert_eq!(
            (queue.pop().map(|packet| packet.len()), queue.pop()),
            (Some(HEADER_SIZE), None)
        );
        assert_eq!(wakes.load(Ordering::Relaxed), 2);
    }
}
