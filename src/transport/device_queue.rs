//! Queued subnet management requests, in turn over the devices they go to.
//!
//! A subnet management agent handles one request at a time and holds few: those that find its queue
//! full are lost, and cost a timeout. Callers submit the requests of a device together, so a window
//! that is filled in the order of submission meets two or three devices, of which each works alone.
//! Therefore the next request is the oldest one of the next device, in a circle of devices that have
//! requests waiting and fewer than their limit in flight. The requests of a device keep their order.
//!
//! A device is identified by the route to it. Two routes to one device are two devices here, which
//! costs some of the protection and nothing else.

use super::in_flight::DeviceId;
use super::waiting_requests::{Queued, RequestList, RequestPool};
use crate::wire::smp::SmpRoute;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Devices whose entries may be kept while all are idle; discovery has requests to all devices waiting at a
/// time.
const MAX_IDLE_DEVICES: usize = 512;

#[derive(Default)]
struct QueuedDevice {
    /// Key of the device in [`DeviceQueue::by_route`]; `None` if the entry is free.
    route: Option<SmpRoute>,
    waiting: RequestList,
    /// Requests in flight that are not stalled.
    in_flight: usize,
    /// True while the device is in [`DeviceQueue::circle`].
    is_in_circle: bool,
}

/// The requests that wait to be sent.
#[derive(Default)]
pub(super) struct DeviceQueue {
    by_route: FxHashMap<SmpRoute, DeviceId>,
    /// The requests of all devices.
    pool: RequestPool,
    devices: Vec<QueuedDevice>,
    free: Vec<DeviceId>,
    /// Devices that may be sent a request, in the order of their turns. A device whose requests were
    /// cancelled may still be in it.
    circle: VecDeque<DeviceId>,
}

impl DeviceQueue {
    /// Adds a request behind those to the same device. `limit`: maximum number of requests in flight
    /// to one device.
    pub(super) fn push(&mut self, queued: Queued, limit: usize) {
        let route = queued.request.route;
        let id = match self.by_route.get(&route) {
            Some(&id) => id,
            None => self.add(route),
        };
        self.pool.push_back(&mut self.devices[id.0 as usize].waiting, queued);
        self.enter_circle(id, limit);
    }

    /// Takes the next request, which counts as in flight to its device until
    /// [`Self::release`].
    pub(super) fn pop(&mut self, limit: usize) -> Option<(DeviceId, Queued)> {
        loop {
            let id = self.circle.pop_front()?;
            let device = &mut self.devices[id.0 as usize];
            device.is_in_circle = false;
            if device.in_flight < limit
                && let Some(queued) = self.pool.pop_front(&mut device.waiting)
            {
                device.in_flight += 1;
                debug_assert!(
                    device.in_flight <= limit,
                    "a device is not sent more than it is to be"
                );
                self.enter_circle(id, limit);
                return Some((id, queued));
            }
            self.remove_if_idle(id);
            self.shrink_if_idle();
        }
    }

    /// True if a request may be sent, as far as the devices are concerned.
    pub(super) fn has_ready(&self) -> bool {
        !self.circle.is_empty()
    }

    /// Records that a request to the device ended or stalled.
    pub(super) fn release(&mut self, id: DeviceId, limit: usize) {
        let device = self.device(id);
        debug_assert!(device.in_flight > 0, "each release belongs to a request in flight");
        device.in_flight -= 1;
        self.enter_circle(id, limit);
        self.remove_if_idle(id);
        self.shrink_if_idle();
    }

    /// Removes the requests that `is_removed` selects, and returns them.
    pub(super) fn remove(&mut self, is_removed: impl Fn(&Queued) -> bool) -> Vec<Queued> {
        let mut removed = Vec::new();
        for at in 0..self.devices.len() {
            let mut all = std::mem::take(&mut self.devices[at].waiting);
            if all.is_empty() {
                continue;
            }
            let kept = &mut self.devices[at].waiting;
            while let Some(queued) = self.pool.pop_front(&mut all) {
                if is_removed(&queued) {
                    removed.push(queued);
                } else {
                    self.pool.push_back(kept, queued);
                }
            }
            self.remove_if_idle(DeviceId(at as u32));
        }
        removed
    }

    fn add(&mut self, route: SmpRoute) -> DeviceId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.devices.push(QueuedDevice::default());
            // At most as many devices as requests that fit into memory.
            DeviceId((self.devices.len() - 1) as u32)
        });
        self.device(id).route = Some(route);
        self.by_route.insert(route, id);
        id
    }

    fn device(&mut self, id: DeviceId) -> &mut QueuedDevice {
        &mut self.devices[id.0 as usize]
    }

    /// Gives the device its turn, if it may be sent a request.
    fn enter_circle(&mut self, id: DeviceId, limit: usize) {
        let device = self.device(id);
        if !device.is_in_circle && device.in_flight < limit && !device.waiting.is_empty() {
            device.is_in_circle = true;
            self.circle.push_back(id);
        }
    }

    /// Frees the entry of a device without requests. One in the circle stays until its turn.
    fn remove_if_idle(&mut self, id: DeviceId) {
        let device = self.device(id);
        if device.is_in_circle || device.in_flight > 0 || !device.waiting.is_empty() {
            return;
        }
        if let Some(route) = device.route.take() {
            self.by_route.remove(&route);
            self.free.push(id);
        }
    }

    /// Gives the entries back if there are many and all are free.
    fn shrink_if_idle(&mut self) {
        if self.free.len() == self.devices.len() && self.free.len() > MAX_IDLE_DEVICES {
            *self = Self { pool: std::mem::take(&mut self.pool), ..Self::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Lid;
    use crate::transport::in_flight::{BatchId, Tag};
    use crate::transport::smp_request::SmpRequest;
    use proptest::prelude::*;

    const LIMIT: usize = 2;

    fn queued(device: u16, tag: Tag) -> Queued {
        let request = SmpRequest::get(SmpRoute::Lid(Lid(device)), 0x0011, 0);
        Queued { batch: BatchId(0), tag, request }
    }

    fn device_of(queued: &Queued) -> u16 {
        queued.request.lid().0
    }

    #[test]
    fn devices_take_turns_and_keep_the_order_of_their_requests() {
        let mut queue = DeviceQueue::default();
        for device in 1..=3 {
            for tag in 0..3 {
                queue.push(queued(device, tag), LIMIT);
            }
        }
        let mut sent = Vec::new();
        while let Some((id, request)) = queue.pop(LIMIT) {
            sent.push((id, device_of(&request), request.tag));
        }
        let order: Vec<_> = sent.iter().map(|&(_, device, tag)| (device, tag)).collect();
        assert_eq!(order, [(1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (3, 1)]);
        queue.release(sent[1].0, LIMIT);
        let (_, next) = queue.pop(LIMIT).expect("device 2 may be sent another one");
        assert_eq!((device_of(&next), next.tag), (2, 2));
        assert!(queue.pop(LIMIT).is_none());
    }

    #[test]
    fn entries_of_idle_devices_are_free_again() {
        let mut queue = DeviceQueue::default();
        for device in 1..=1000 {
            queue.push(queued(device, 0), LIMIT);
            let (id, _) = queue.pop(LIMIT).expect("the request");
            queue.release(id, LIMIT);
        }
        queue.push(queued(7, 0), LIMIT);
        assert_eq!(queue.remove(|_| true).len(), 1);
        assert!(queue.pop(LIMIT).is_none());
        assert_eq!((queue.devices.len(), queue.free.len(), queue.by_route.len()), (1, 1, 0));
    }

    #[test]
    fn entries_of_many_devices_are_given_back_when_all_are_idle() {
        let mut queue = DeviceQueue::default();
        let devices = MAX_IDLE_DEVICES as u16 + 1;
        for device in 1..=devices {
            queue.push(queued(device, 0), LIMIT);
        }
        let sent: Vec<_> = std::iter::from_fn(|| queue.pop(LIMIT)).collect();
        for (number, (id, _)) in sent.iter().enumerate() {
            assert_eq!(queue.devices.len(), usize::from(devices), "{number} are idle");
            queue.release(*id, LIMIT);
        }
        assert_eq!(queue.devices.capacity(), 0);
        queue.push(queued(7, 0), LIMIT);
        assert!(queue.pop(LIMIT).is_some());
    }

    #[derive(Clone, Copy, Debug)]
    enum QueueAction {
        Push(u16),
        Pop,
        Release(usize),
        Remove(u16),
    }

    fn action() -> impl Strategy<Value = QueueAction> {
        prop_oneof![
            4 => (0..6u16).prop_map(QueueAction::Push),
            4 => Just(QueueAction::Pop),
            3 => any::<usize>().prop_map(QueueAction::Release),
            1 => (0..6u16).prop_map(QueueAction::Remove),
        ]
    }

    proptest! {
        #[test]
        fn no_device_gets_more_than_its_limit_and_no_request_is_lost(
            actions in proptest::collection::vec(action(), 0..200),
        ) {
            let mut queue = DeviceQueue::default();
            let mut waiting: Vec<VecDeque<Tag>> = vec![VecDeque::new(); 6];
            let mut in_flight: Vec<(DeviceId, u16)> = Vec::new();
            for (tag, action) in (0..).zip(actions) {
                match action {
                    QueueAction::Push(device) => {
                        queue.push(queued(device, tag), LIMIT);
                        waiting[usize::from(device)].push_back(tag);
                    }
                    QueueAction::Pop => {
                        let flying = |device| in_flight.iter().filter(|f| f.1 == device).count();
                        let may_send = (0..6u16)
                            .any(|d| flying(d) < LIMIT && !waiting[usize::from(d)].is_empty());
                        let popped = queue.pop(LIMIT);
                        prop_assert_eq!(popped.is_some(), may_send);
                        if let Some((id, request)) = popped {
                            let device = device_of(&request);
                            prop_assert!(flying(device) < LIMIT);
                            let oldest = waiting[usize::from(device)].pop_front();
                            prop_assert_eq!(oldest, Some(request.tag));
                            in_flight.push((id, device));
                        }
                    }
                    QueueAction::Release(at) if !in_flight.is_empty() => {
                        let (id, _) = in_flight.swap_remove(at % in_flight.len());
                        queue.release(id, LIMIT);
                    }
                    QueueAction::Release(_) => {}
                    QueueAction::Remove(device) => {
                        let removed = queue.remove(|queued| device_of(queued) == device);
                        let tags: VecDeque<_> = removed.iter().map(|queued| queued.tag).collect();
                        prop_assert_eq!(&tags, &waiting[usize::from(device)]);
                        waiting[usize::from(device)].clear();
                    }
                }
            }
        }
    }
}
