//! The numbers of the nodes of a channel dependency graph, and masks of those of a position.

use super::links::Links;

/// Nodes of a position: 6 directions by 4 VLs.
pub(super) const NODES: u32 = 24;
pub(super) const VLS: u32 = 4;
/// The nodes of the first direction.
const OF_DIRECTION: u32 = 0b1111;
/// The node of the channel from a position in a direction, with a VL.
#[inline]
pub(super) fn node(at: u32, direction: u8, vl: u8) -> u32 {
    at * NODES + branch(direction, vl)
}

/// The number of a node among those of its position.
#[inline]
pub(super) fn branch(direction: u8, vl: u8) -> u32 {
    u32::from(direction) * VLS + u32::from(vl)
}

/// The bit of a node in the masks of its successors' predecessors.
#[inline]
pub(super) fn own_bit(node: u32) -> u32 {
    1 << (node % NODES)
}

/// A dependency: a node, and the branch that its packets wait for at the next switch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Dependency {
    pub node: u32,
    pub branch: u32,
}

/// What a graph knows of a node, in one place of the processor's cache.
#[derive(Clone, Copy, Default)]
pub(super) struct GraphNode {
    pub successors: u32,
    pub predecessors: u32,
    /// Dependencies that are known to close a cycle.
    pub blocked: u32,
    /// Dependencies that are known to close a cycle together with some other one.
    pub conflicting: u32,
}

/// First node of the switch to which a channel leads.
#[inline]
pub(super) fn end(links: &Links, node: u32) -> u32 {
    links.neighbor(node / NODES, (node % NODES / VLS) as u8) * NODES
}

/// Nodes of a position.
#[derive(Clone, Copy)]
pub(super) struct Branches {
    pub at: u32,
    pub mask: u32,
}

impl Branches {
    #[inline]
    pub(super) fn nodes(self) -> impl Iterator<Item = u32> {
        bits(self.mask).map(move |branch| self.at * NODES + branch)
    }
}

/// The nodes that enter the switch of a node, of a mask of branches.
#[inline]
pub(super) fn forerunners(
    links: &Links,
    node: u32,
    mut mask: u32,
) -> impl Iterator<Item = Branches> {
    std::iter::from_fn(move || {
        let direction = (mask != 0).then(|| mask.trailing_zeros() / VLS)?;
        let of_direction = mask & OF_DIRECTION << (direction * VLS);
        mask ^= of_direction;
        let at = links.neighbor(node / NODES, direction as u8 ^ 1);
        Some(Branches { at, mask: of_direction })
    })
}

pub(super) fn bits(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < u32::BITS).then_some(bit)
    })
}
