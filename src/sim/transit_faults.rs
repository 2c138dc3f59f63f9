//! Loss, delay and duplication of MADs on their way, by the kind of MAD: of all MADs, or of those
//! sent through one port.

use super::random::Random;
use crate::wire::mad::Method;
use std::collections::HashMap;
use std::time::Duration;

/// Kind of a MAD. Faults may affect one kind only, such as traps, or the responses to an SM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MadKind {
    /// Get, Set and everything that is neither a response nor a trap.
    Request,
    /// Responses, TrapRepress and ReportResp.
    Response,
    Trap,
}

impl MadKind {
    pub const ALL: [Self; 3] = [Self::Request, Self::Response, Self::Trap];

    pub(super) fn of(method: Method) -> Self {
        match method {
            Method::TRAP => Self::Trap,
            Method::TRAP_REPRESS => Self::Response,
            method if method.is_response() => Self::Response,
            _ => Self::Request,
        }
    }
}

/// Faults that hit MADs on their way.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct TransitFaults {
    /// Probability that a MAD is lost.
    pub(super) loss: f64,
    /// One-way delay.
    pub(super) delay: Duration,
    /// Upper bound of a random additional delay, which reorders MADs.
    pub(super) jitter: Duration,
    /// Probability that a MAD arrives twice.
    pub(super) duplication: f64,
}

impl TransitFaults {
    fn draw_delay(&self, random: &mut Random) -> Duration {
        self.delay + random.duration_below(self.jitter)
    }

    /// Draws the delay of each copy of a MAD that arrives; none if the MAD is lost.
    fn draw_copies(&self, random: &mut Random) -> Vec<Duration> {
        if random.chance(self.loss) {
            return Vec::new();
        }
        let copies = if random.chance(self.duplication) { 2 } else { 1 };
        (0..copies).map(|_| self.draw_delay(random)).collect()
    }
}

/// [`TransitFaults`] of each kind of MAD.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct FaultsByKind([TransitFaults; MadKind::ALL.len()]);

impl FaultsByKind {
    pub(super) fn of(&self, kind: MadKind) -> &TransitFaults {
        &self.0[kind as usize]
    }

    /// Changes the faults of one kind, or of all kinds.
    pub(super) fn change(&mut self, kind: Option<MadKind>, change: impl Fn(&mut TransitFaults)) {
        let affected =
            MadKind::ALL.into_iter().filter(|&each| kind.is_none_or(|kind| kind == each));
        affected.for_each(|kind| change(&mut self.0[kind as usize]));
    }

    pub(super) fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// Draws the delay of each copy of a MAD that arrives; none if the MAD is lost.
    pub(super) fn draw_copies(&self, kind: MadKind, random: &mut Random) -> Vec<Duration> {
        self.of(kind).draw_copies(random)
    }
}

/// Faults of the MADs that are sent through single ports, by port slot.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct LinkFaults(HashMap<u32, FaultsByKind>);

/// A MAD that has crossed links.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Crossing {
    /// Sum of the delays.
    pub(super) delay: Duration,
    /// A link delivered the MAD twice.
    pub(super) is_duplicated: bool,
}

impl LinkFaults {
    /// Changes the faults of the MADs of one kind, or of all, that are sent through `slot`.
    pub(super) fn change(
        &mut self,
        slot: u32,
        kind: Option<MadKind>,
        change: impl Fn(&mut TransitFaults),
    ) {
        self.0.entry(slot).or_default().change(kind, change);
        self.0.retain(|_, faults| !faults.are_none());
    }

    /// Draws what happens to a MAD that is sent through `slot`; false if it is lost.
    pub(super) fn cross(
        &self,
        slot: u32,
        kind: MadKind,
        random: &mut Random,
        crossing: &mut Crossing,
    ) -> bool {
        if self.0.is_empty() {
            return true;
        }
        let Some(faults) = self.0.get(&slot).map(|faults| faults.of(kind)) else { return true };
        if random.chance(faults.loss) {
            return false;
        }
        crossing.is_duplicated |= random.chance(faults.duplication);
        crossing.delay += faults.draw_delay(random);
        true
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &FaultsByKind)> {
        self.0.iter().map(|(&slot, faults)| (slot, faults))
    }
}
