//! Sets of several devices in turn.
//!
//! A management agent serves one SMP at a time. The client sends those that are submitted to devices in
//! turn, but only a part of a phase is submitted at a time: a switch with 36 ports takes over a thousand
//! Sets of SL to VL mappings. A list of all Sets of a large fabric would take hundreds of MiB. Therefore
//! the lazy iterators of a number of devices are drawn from in turn.

use std::collections::VecDeque;

/// Number of devices drawn from at a time: more than a window of 64 SMPs needs, with two at a device.
const DEVICES: usize = 64;

/// Items of the iterators that `devices` yields, in turn.
pub(super) struct InTurn<D: Iterator> {
    devices: D,
    /// Iterators that may have items left, in the order of their turns.
    open: VecDeque<D::Item>,
}

/// Draws from the iterators in turn, from [`DEVICES`] at a time. The items of each keep their order.
pub(super) fn in_turn<D: Iterator<Item: Iterator>>(devices: D) -> InTurn<D> {
    InTurn { devices, open: VecDeque::with_capacity(DEVICES) }
}

impl<D: Iterator<Item: Iterator>> Iterator for InTurn<D> {
    type Item = <D::Item as Iterator>::Item;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.open.len() < DEVICES
                && let Some(mut device) = self.devices.next()
            {
                if let Some(item) = device.next() {
                    self.open.push_back(device);
                    return Some(item);
                }
                continue;
            }
            let mut device = self.open.pop_front()?;
            if let Some(item) = device.next() {
                self.open.push_back(device);
                return Some(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn consecutive_items_are_of_different_devices_and_none_is_lost() {
        let lengths = [90, 0, 130, 1, 77].into_iter().cycle().take(500);
        let devices = lengths.clone().enumerate();
        let devices = devices.map(|(device, length)| (0..length).map(move |item| (device, item)));
        let items: Vec<(usize, i32)> = in_turn(devices).collect();
        assert_eq!(items.len() as i32, lengths.sum::<i32>());
        let unique: HashSet<_> = items.iter().collect();
        assert_eq!(unique.len(), items.len());
        for part in items.windows(DEVICES).take(items.len() - 2 * 130 * DEVICES) {
            let devices: HashSet<_> = part.iter().map(|(device, _)| device).collect();
            assert!(devices.len() >= 32, "{} devices", devices.len());
        }
        let mut last = vec![-1; 500];
        for (device, item) in items {
            assert_eq!(item, last[device] + 1, "the order of a device's items");
            last[device] = item;
        }
    }
}
