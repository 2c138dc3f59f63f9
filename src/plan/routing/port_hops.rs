//! Hops through ports that are not those of shortest paths, as multicast trees see them.
//!
//! A multicast tree leads from its root to each member through the first port whose hops are the
//! distance. Hops through a port are those of its link and the distance behind it, except where the
//! routing engine found a longer way through the port, as in OpenSM's hop tables.

use crate::fabric::SwitchId;
use rustc_hash::FxHashMap;

/// The exceptions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PortHops {
    by_target: FxHashMap<SwitchId, Vec<Hops>>,
    detours: Detours,
}

/// Ways of packets that all pass one switch, since they have no other way.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Detours {
    /// By switch: the port towards the common switch, and the hops to it.
    pub outward: Vec<(u8, u8)>,
    /// By target: the hops from the common switch, and the switches with a detour, one bit each.
    by_target: FxHashMap<SwitchId, (u8, Vec<u64>)>,
}

impl Detours {
    /// Detours over a common switch.
    pub fn new(outward: Vec<(u8, u8)>) -> Self {
        Self { outward, by_target: FxHashMap::default() }
    }

    /// Adds a detour to a target, which is `hops` from the common switch.
    pub fn add(&mut self, from: SwitchId, target: SwitchId, hops: u8) {
        let words = self.outward.len().div_ceil(64);
        let (known, switches) =
            self.by_target.entry(target).or_insert_with(|| (hops, vec![0; words]));
        *known = hops;
        switches[from.index() / 64] |= 1 << (from.index() % 64);
    }

    /// The hops from a switch to a target, if a detour begins at this port.
    fn of(&self, target: SwitchId, from: SwitchId, port: u8) -> Option<u8> {
        let (hops, switches) = self.by_target.get(&target)?;
        let is_on_detour = switches.get(from.index() / 64)? >> (from.index() % 64) & 1 == 1;
        let &(out, before) = self.outward.get(from.index())?;
        (is_on_detour && out == port).then(|| before.saturating_add(*hops))
    }
}

/// The hops from a switch to a target through a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hops {
    pub from: SwitchId,
    pub port: u8,
    pub hops: u8,
}

impl PortHops {
    /// Adds exceptions for a target. Of several for a port, the last one applies.
    pub fn extend(&mut self, target: SwitchId, hops: impl IntoIterator<Item = Hops>) {
        let mut hops = hops.into_iter().peekable();
        if hops.peek().is_some() {
            self.by_target.entry(target).or_default().extend(hops);
        }
    }

    /// Sets the detours, which take precedence.
    pub fn set_detours(&mut self, detours: Detours) {
        self.detours = detours;
    }

    /// The hops from a switch through a port to a target, if they are an exception.
    pub fn of(&self, target: SwitchId, from: SwitchId, port: u8) -> Option<u8> {
        self.detours.of(target, from, port).or_else(|| {
            let mut hops = self.by_target.get(&target)?.iter().rev();
            hops.find(|hops| (hops.from, hops.port) == (from, port)).map(|hops| hops.hops)
        })
    }
}
