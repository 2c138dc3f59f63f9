//! The checks that a fabric is a fat tree.

use super::hosts::Role;
use super::index::{Indices, MAX_RANKS};
use super::tree::{PortGroup, RankedTree};
use crate::fabric::SwitchId;
use crate::notes::{Note, counted};

/// Checks the number of ranks.
pub(super) fn rank_count(tree: &RankedTree<'_>) -> Result<(), Note> {
    let ranks = tree.leaf_rank as usize + 1;
    if (2..=MAX_RANKS).contains(&ranks) {
        return Ok(());
    }
    let found = counted(ranks, "rank", "ranks");
    Err(refusal(format!("the tree has {found} of switches; ftree routes 2 to {MAX_RANKS}")))
}

/// Checks that all compute nodes are at switches of the leaf rank.
pub(super) fn compute_nodes(tree: &RankedTree<'_>) -> Result<(), Note> {
    let mut nodes = tree.hosts.iter().filter(|host| host.role == Role::Compute);
    match nodes.find(|host| tree.ranks.of(host.switch) != tree.leaf_rank) {
        None => Ok(()),
        Some(host) => Err(Note::error(
            "AB26",
            format!(
                "compute node {} is attached to {}, but leaf switches have rank {}",
                tree.fabric.describe(host.port),
                tree.describe(host.switch),
                tree.leaf_rank
            ),
        )),
    }
}

/// Checks that there are two leaf switches.
pub(super) fn leaf_switches(tree: &RankedTree<'_>, leaves: &[SwitchId]) -> Result<(), Note> {
    match leaves {
        [] => Err(refusal("the fabric has no leaf switch".into())),
        [leaf] => Err(refusal(format!(
            "all compute nodes are at {}; a fat tree has two leaf switches at least",
            tree.describe(*leaf)
        ))),
        _ => Ok(()),
    }
}

/// Checks that the tree is regular: that all switches of a rank have the same number of up groups
/// and, above the leaf switches, of down groups, and all groups of a rank the same number of
/// cables. As in OpenSM, the first switch of a rank is the reference, and of the down groups of a
/// switch only the first one is compared.
pub(super) fn regularity(tree: &RankedTree<'_>, indices: &Indices) -> Result<(), Note> {
    let mut references = vec![None; tree.leaf_rank as usize + 1];
    for &switch in &tree.order {
        let rank = tree.ranks.of(switch);
        let Some(reference) = references.get_mut(rank as usize) else { continue };
        match *reference {
            None => *reference = Some(switch),
            Some(reference) => RankComparison { tree, indices, switch, reference }.check()?,
        }
    }
    Ok(())
}

/// A switch beside the reference of its rank.
struct RankComparison<'a> {
    tree: &'a RankedTree<'a>,
    indices: &'a Indices,
    switch: SwitchId,
    reference: SwitchId,
}

impl RankComparison<'_> {
    fn check(&self) -> Result<(), Note> {
        let own = self.tree.groups(self.switch);
        let reference = self.tree.groups(self.reference);
        let is_above_leaves = self.tree.ranks.of(self.switch) != self.tree.leaf_rank;
        self.equal("AB09", "upward port group", own.up.len(), reference.up.len())?;
        if is_above_leaves {
            let downs = (self.tree.down_count(self.switch), self.tree.down_count(self.reference));
            self.equal("AB0A", "downward port group", downs.0, downs.1)?;
        }
        if let Some(first) = reference.up.first() {
            for group in &own.up {
                self.equal_cables("AB0B", "up", Some(group), Some(first))?;
            }
        }
        if is_above_leaves && self.tree.down_count(self.reference) > 0 {
            self.equal_cables("AB0C", "down", own.down.first(), reference.down.first())?;
        }
        Ok(())
    }

    fn equal(
        &self,
        code: &'static str,
        what: &str,
        own: usize,
        reference: usize,
    ) -> Result<(), Note> {
        if own == reference {
            return Ok(());
        }
        let plural = format!("{what}s");
        Err(Note::error(
            code,
            format!(
                "the tree is uneven: {} has {}, but {} has {}; {}",
                self.name(self.switch),
                counted(own, what, &plural),
                self.name(self.reference),
                counted(reference, what, &plural),
                Self::REMEDY
            ),
        ))
    }

    fn equal_cables(
        &self,
        code: &'static str,
        direction: &str,
        own: Option<&PortGroup>,
        reference: Option<&PortGroup>,
    ) -> Result<(), Note> {
        if count(own) == count(reference) {
            return Ok(());
        }
        Err(Note::error(
            code,
            format!(
                "the tree is uneven: {} {direction} from {} to {}, but {} from {} to {}; {}",
                cable_text(own),
                self.name(self.switch),
                self.peer_name(own),
                cable_text(reference),
                self.name(self.reference),
                self.peer_name(reference),
                Self::REMEDY
            ),
        ))
    }

    fn name(&self, switch: SwitchId) -> String {
        format!("{} (index {})", self.tree.describe(switch), self.indices.of(switch))
    }

    const REMEDY: &'static str =
        "repair it, or name the root switches in root_guid_file to route it as it is";

    fn peer_name(&self, group: Option<&PortGroup>) -> String {
        group.map_or_else(|| "a host".to_owned(), |group| self.name(group.peer))
    }
}

fn cable_text(group: Option<&PortGroup>) -> String {
    counted(count(group), "cable", "cables")
}

/// Behind the groups of cables to switches come those of single cables to hosts.
fn count(group: Option<&PortGroup>) -> usize {
    group.map_or(1, |group| group.cables.len())
}

/// A refusal without a number in OpenSM.
pub(super) fn refusal(text: String) -> Note {
    Note::new(crate::notes::Severity::Error, None, text)
}
