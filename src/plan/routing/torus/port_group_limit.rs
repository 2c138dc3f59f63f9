//! Port groups beyond `portgroup_max_ports`.

use super::cabling::Cabling;
use super::grid::Grid;
use super::lattice::Position;
use crate::fabric::{Fabric, SwitchId};
use crate::notes::{Note, Severity, counted};
use std::collections::BTreeSet;

/// The port groups of a torus that are larger than the limit, and the limit that they need.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PortGroupLimit {
    limit: usize,
    /// Pairs of neighbouring switches with too many parallel cables.
    bundles: BTreeSet<[SwitchId; 2]>,
    /// The largest number of parallel cables of such a pair.
    widest: usize,
    /// Positions of switches with too many local ports: port 0 and the ports to hosts.
    local: Vec<Position>,
    /// The largest number of local ports.
    most_local: usize,
    /// The smallest limit with which all ports of the placed switches can be used.
    needed: usize,
}

impl PortGroupLimit {
    /// Compares the limit with the ports of the placed switches. `overfull` are pairs of neighbouring
    /// switches with cables that did not fit. `None` if all fits.
    pub(super) fn exceeded(
        grid: &Grid,
        cabling: &Cabling,
        limit: usize,
        overfull: impl Iterator<Item = [SwitchId; 2]>,
    ) -> Option<Self> {
        let bundles: BTreeSet<[SwitchId; 2]> =
            overfull.map(|[a, b]| [a.min(b), a.max(b)]).collect();
        let placed: BTreeSet<SwitchId> = grid.placed().map(|(_, switch)| switch).collect();
        let neighbors = placed.iter().flat_map(|&switch| {
            let links = cabling.links(switch).iter().filter(move |link| link.peer > switch);
            links.filter(|link| placed.contains(&link.peer)).map(move |link| [switch, link.peer])
        });
        let local: Vec<Position> = grid
            .placed()
            .filter(|&(_, switch)| local_ports(cabling, switch) > limit)
            .map(|(at, _)| at)
            .collect();
        if bundles.is_empty() && local.is_empty() {
            return None;
        }
        let most_local =
            placed.iter().map(|&switch| local_ports(cabling, switch)).max().unwrap_or(0);
        let needed =
            neighbors.map(|a| parallel_cables(cabling, a)).max().unwrap_or(0).max(most_local);
        let widest = bundles.iter().map(|&pair| parallel_cables(cabling, pair)).max().unwrap_or(0);
        Some(Self { limit, bundles, widest, local, most_local, needed })
    }

    /// True if switches have more local ports than the limit, which no torus can have.
    pub(super) fn has_local(&self) -> bool {
        !self.local.is_empty()
    }

    /// True if parallel cables are left over, which the discovery can take for other cables.
    pub(super) fn has_bundles(&self) -> bool {
        !self.bundles.is_empty()
    }

    /// The message. It is an error if the fabric `is_unroutable` for this reason.
    pub(super) fn note(&self, fabric: &Fabric, grid: &Grid, is_unroutable: bool) -> Note {
        let Self { limit, widest, most_local, needed, .. } = self;
        let mut excess = Vec::new();
        if let Some(pair) = self.bundles.first() {
            let [one, other] = pair.map(|switch| {
                let node = fabric.switch(switch);
                format!("{} \"{}\"", node.guid(), node.name())
            });
            excess.push(format!(
                "{} up to {widest} parallel cables, the first {one} and {other}",
                counted(
                    self.bundles.len(),
                    "pair of neighbouring switches has",
                    "pairs of neighbouring switches have"
                )
            ));
        }
        if let Some(&at) = self.local.first() {
            excess.push(format!(
                "{} up to {most_local} local ports (port 0 and the ports to hosts), the first {}",
                counted(self.local.len(), "switch has", "switches have"),
                grid.describe(fabric, at)
            ));
        }
        let unused = if is_unroutable { "" } else { "; the cables beyond it are not used" };
        let text = format!(
            "portgroup_max_ports of torus-2QoS.conf is {limit}, but {}{unused}: set it to at least \
             {needed}",
            excess.join(", and ")
        );
        let code = match (self.has_local(), limit) {
            (false, _) => "4E17",
            (true, 0) => "4E1D",
            (true, _) => "4E1E",
        };
        let severity = if is_unroutable { Severity::Error } else { Severity::Warning };
        Note::new(severity, Some(code), text)
    }
}

fn local_ports(cabling: &Cabling, switch: SwitchId) -> usize {
    cabling.hosts(switch).len() + 1
}

fn parallel_cables(cabling: &Cabling, [a, b]: [SwitchId; 2]) -> usize {
    cabling.links(a).iter().filter(|link| link.peer == b).count()
}
