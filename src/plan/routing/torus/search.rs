//! The two searches that find a switch from its placed neighbours. Both examine cables outside the
//! torus in ascending port number and take the first hit; in a correctly cabled torus there is only
//! one.

use super::cabling::Cabling;
use crate::fabric::{PortId, SwitchId};

/// Cables that are not (yet) part of the torus.
pub(super) struct FreeCables<'a> {
    cabling: &'a Cabling,
    /// By the lower port slot of a cable.
    taken: Vec<bool>,
}

impl<'a> FreeCables<'a> {
    pub(super) fn new(cabling: &'a Cabling) -> Self {
        Self { cabling, taken: vec![false; cabling.slots()] }
    }

    /// Marks a cable as part of the torus.
    pub(super) fn take(&mut self, cable: PortId) {
        self.taken[cable.index()] = true;
    }

    /// True if the cable is not part of the torus.
    pub(super) fn is_free(&self, cable: PortId) -> bool {
        !self.taken[cable.index()]
    }

    /// Indices into [`Cabling::cables`] of the free cables.
    pub(super) fn leftover(&self) -> impl Iterator<Item = usize> + '_ {
        let cables = self.cabling.cables.iter().enumerate();
        cables.filter(|(_, cable)| self.is_free(cable[0])).map(|(index, _)| index)
    }

    /// Switches at the far ends of the free cables of a switch, by ascending port number.
    fn neighbors(&self, switch: SwitchId) -> impl Iterator<Item = SwitchId> + '_ {
        let links = self.cabling.links(switch).iter();
        links.filter(|link| self.is_free(link.cable)).map(|link| link.peer)
    }

    /// The fourth corner of a face: the common neighbour of the diagonal corners `a` and `b` other
    /// than `known`.
    pub(super) fn fourth_corner(
        &self,
        a: SwitchId,
        known: SwitchId,
        b: SwitchId,
    ) -> Option<SwitchId> {
        self.neighbors(a).find(|&n| n != known && self.neighbors(n).any(|far| far == b))
    }

    /// The neighbour of `base`, other than `opposite`, that forms a face with `base` and each of
    /// `arms`.
    pub(super) fn perpendicular(
        &self,
        base: SwitchId,
        opposite: SwitchId,
        arms: &[SwitchId],
    ) -> Option<SwitchId> {
        self.neighbors(base).find(|&n| n != opposite && self.is_square(arms, n, base))
    }

    fn is_square(&self, arms: &[SwitchId], n: SwitchId, base: SwitchId) -> bool {
        arms.iter().all(|&arm| self.fourth_corner(arm, base, n).is_some())
    }
}
