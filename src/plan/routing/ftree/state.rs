//! State that walks change: the switches with their port groups and cables, and the routes on
//! these.

use std::ops::Range;

/// No route, as distance or as output port.
pub(super) const NONE: u8 = u8::MAX;

/// No switch.
pub(super) const NO_SWITCH: u16 = u16::MAX;

/// The most switches that a walk can number.
pub(super) const MAX_SWITCHES: usize = NO_SWITCH as usize;

/// A port group in the order of its switch.
#[derive(Clone, Copy)]
pub(super) struct GroupLoad {
    /// Number of routes in the upper half, position of the peer's index in the lower half.
    pub load: u64,
    /// The first of its cables.
    pub first_cable: u32,
    pub peer: u16,
    /// The number of cables, and the peer's port of a single one.
    pub cables: u8,
    pub peer_port: u8,
}

/// One route in [`GroupLoad::load`].
pub(super) const ROUTE: u64 = 1 << 32;

/// A cable of a group of several.
pub(super) struct CableLoad {
    pub peer_port: u8,
    pub routes_up: u32,
    pub routes_down: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    Up,
    Down,
}

/// A switch and the ranges of its groups.
#[derive(Clone, Copy)]
pub(super) struct SwitchLoad {
    pub down: (u32, u32),
    pub siblings: (u32, u32),
    pub up: (u32, u32),
    pub is_root: bool,
    pub is_leaf: bool,
    /// A descent from here counted a route since the down groups were sorted.
    pub is_changed: bool,
    /// Number of channel adapter ports, which count as down groups.
    pub adapters: u16,
    /// Down groups before the adapters in OpenSM's order.
    pub before_adapters: u16,
    /// The down group at which the next ascent against the direction of the tree begins.
    pub turn: u16,
}

impl SwitchLoad {
    pub(super) fn down(&self) -> Range<usize> {
        self.down.0 as usize..self.down.1 as usize
    }

    pub(super) fn siblings(&self) -> Range<usize> {
        self.siblings.0 as usize..self.siblings.1 as usize
    }

    pub(super) fn up(&self) -> Range<usize> {
        self.up.0 as usize..self.up.1 as usize
    }

    /// Number of down groups in OpenSM's count, which includes channel adapters.
    pub(super) fn down_count(&self) -> usize {
        self.down().len() + usize::from(self.adapters)
    }

    /// True if a descent to this switch ends here.
    pub(super) fn is_bottom(&self) -> bool {
        self.down.0 == self.down.1
    }
}

/// Sorts a short, nearly sorted slice; equal groups keep their order.
pub(super) fn sort<K: Ord>(groups: &mut [GroupLoad], key: impl Fn(&GroupLoad) -> K) {
    for next in 1..groups.len() {
        let group = groups[next];
        let mut place = next;
        while place > 0 && key(&groups[place - 1]) > key(&group) {
            groups[place] = groups[place - 1];
            place -= 1;
        }
        groups[place] = group;
    }
}
