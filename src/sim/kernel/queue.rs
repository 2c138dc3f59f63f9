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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lid;
    use crate::transport::Address;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn it_rings_when_it_was_empty_and_has_an_end() {
        let rings = Arc::new(AtomicUsize::new(0));
        let counter = rings.clone();
        let queue = Queue::new(Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        }));
        let address = Address::smi(Lid(1));
        let arrived =
            UserHeader { id: 3, status: 0, timeout_ms: 0, retries: 0, length: 64, address };
        for _ in 0..LIMIT + 5 {
            queue.push(arrived, OLD_HEADER, &[7; 2]);
        }
        queue.push(UserHeader { status: 110, ..arrived }, OLD_HEADER, &[]);
        assert_eq!((queue.lock().len(), rings.load(Ordering::Relaxed)), (LIMIT + 1, 1));
        let first = queue.pop().expect("it is full");
        assert_eq!((first.len(), &first[OLD_HEADER..]), (OLD_HEADER + 2, &[7, 7][..]));
        queue.lock().clear();
        queue.push(arrived, HEADER, &[]);
        assert_eq!((queue.pop().map(|packet| packet.len()), queue.pop()), (Some(HEADER), None));
        assert_eq!(rings.load(Ordering::Relaxed), 2);
    }
}
