//! Swapped cables of a torus or mesh, from its links alone: no coordinates are needed, which a swapped
//! cable may falsify.
//!
//! A cable of a grid is a side of squares, of two in two dimensions and of four in three. A swapped one
//! is a side of others, and the cables beside its right place lack one. Two cables are swapped if the
//! exchange of two plugs leaves fewer cables with an unusual number of squares than any other exchange.

use super::fact::{Cable, CableEnd, ExchangedCables};
use crate::fabric::{Fabric, PortId, SwitchId};
use std::collections::{BTreeMap, BTreeSet};

/// Cables that are tried: those with the most unusual cables beside them.
const MAX_SUSPECTS: usize = 96;

/// A cable between two switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Link {
    ports: [PortId; 2],
    ends: [SwitchId; 2],
}

/// The links between switches, with the neighbours of each switch.
struct Grid {
    links: Vec<Link>,
    /// By switch: its neighbours, once for each cable.
    neighbours: Vec<Vec<SwitchId>>,
    /// By switch: the numbers of its links.
    links_at: Vec<Vec<usize>>,
}

impl Grid {
    fn new(fabric: &Fabric) -> Self {
        let mut links = Vec::new();
        for port in fabric.port_ids() {
            let Some(peer) = fabric.port(port).peer.filter(|&peer| peer > port) else { continue };
            let ends = [fabric.node_of(port).switch, fabric.node_of(peer).switch];
            if let [Some(one), Some(other)] = ends
                && one != other
            {
                links.push(Link { ports: [port, peer], ends: [one, other] });
            }
        }
        let mut links_at = vec![Vec::new(); fabric.switches().len()];
        for (number, link) in links.iter().enumerate() {
            link.ends.iter().for_each(|end| links_at[end.index()].push(number));
        }
        let neighbours = vec![Vec::new(); fabric.switches().len()];
        let mut grid = Self { links, neighbours, links_at };
        for number in 0..grid.links.len() {
            grid.connect(grid.links[number].ends);
        }
        grid
    }

    fn connect(&mut self, [one, other]: [SwitchId; 2]) {
        self.neighbours[one.index()].push(other);
        self.neighbours[other.index()].push(one);
    }

    fn disconnect(&mut self, [one, other]: [SwitchId; 2]) {
        for (at, far) in [(one, other), (other, one)] {
            let list = &mut self.neighbours[at.index()];
            if let Some(index) = list.iter().position(|&it| it == far) {
                list.swap_remove(index);
            }
        }
    }

    /// Number of squares that have a side between these switches.
    fn squares(&self, [one, other]: [SwitchId; 2]) -> usize {
        let mut count = 0;
        let mut seen: Vec<(SwitchId, SwitchId)> = Vec::new();
        for &x in self.neighbours[one.index()].iter().filter(|&&x| x != other) {
            for &y in self.neighbours[other.index()].iter().filter(|&&y| y != one && y != x) {
                if self.neighbours[x.index()].contains(&y) && !seen.contains(&(x, y)) {
                    seen.push((x, y));
                    count += 1;
                }
            }
        }
        count
    }

    /// The numbers of the links that may be in a square with a link at one of these switches.
    fn around(&self, switches: &[SwitchId]) -> BTreeSet<usize> {
        let near = switches.iter().flat_map(|at| &self.neighbours[at.index()]);
        near.chain(switches).flat_map(|at| &self.links_at[at.index()]).copied().collect()
    }

    /// The most frequent number of squares; `None` without squares.
    fn usual(&self) -> Option<usize> {
        let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
        for link in &self.links {
            *counts.entry(self.squares(link.ends)).or_default() += 1;
        }
        let (&usual, _) = counts.iter().max_by_key(|&(_, &count)| count)?;
        (usual > 0).then_some(usual)
    }
}

/// An exchange of plugs, and the number of links that it leaves with an unusual number of squares.
struct Trial {
    links: [usize; 2],
    /// The plugs to exchange.
    plugs: [PortId; 2],
    unusual: usize,
}

/// The two swapped cables of a grid; `None` if no exchange is better than all others.
pub fn swapped(fabric: &Fabric) -> Option<ExchangedCables> {
    let mut grid = Grid::new(fabric);
    let usual = grid.usual()?;
    let unusual: BTreeSet<usize> = (0..grid.links.len())
        .filter(|number| grid.squares(grid.links[*number].ends) != usual)
        .collect();
    if unusual.is_empty() {
        return None;
    }
    let beside = |number: usize| -> usize {
        let ends = grid.links[number].ends.iter();
        let at = ends.flat_map(|end| &grid.links_at[end.index()]);
        at.filter(|beside| unusual.contains(beside)).count()
    };
    let numbers = 0..grid.links.len();
    let mut suspects: Vec<(usize, usize)> =
        numbers.map(|number| (beside(number), number)).collect();
    suspects.sort_by_key(|&(beside, number)| (std::cmp::Reverse(beside), number));
    suspects.truncate(MAX_SUSPECTS);
    let mut best: Option<Trial> = None;
    let mut is_tied = false;
    for (index, &(_, one)) in suspects.iter().enumerate() {
        for &(_, other) in &suspects[index + 1..] {
            for crossing in [1, 0] {
                let trial = tried(&mut grid, &unusual, [one, other], crossing, usual);
                let Some(trial) = trial else { continue };
                let least = best.as_ref().map_or(unusual.len(), |best| best.unusual);
                if trial.unusual < least {
                    (best, is_tied) = (Some(trial), false);
                } else if trial.unusual == least {
                    is_tied = true;
                }
            }
        }
    }
    // Exchanges that all leave a regular grid are equally good.
    let Trial { links, plugs, .. } = best.filter(|best| !is_tied || best.unusual == 0)?;
    let [one, other] = links.map(|number| Cable::of(fabric, grid.links[number].ports[0]));
    let mut cables = [one?, other?];
    cables.sort_unstable();
    let mut plugs = plugs.map(|port| CableEnd::of(fabric, port));
    plugs.sort_unstable();
    let reason = "neither is a side of the squares of the grid, and the exchange makes both one";
    Some(ExchangedCables { cables, plugs, reason: reason.to_owned() })
}

/// True if all cables between switches are sides of equally many squares.
#[cfg(test)]
pub(super) fn is_regular(fabric: &Fabric) -> bool {
    let grid = Grid::new(fabric);
    let usual = grid.usual();
    grid.links.iter().all(|link| Some(grid.squares(link.ends)) == usual)
}

/// Tries the exchange of the second plug of the first link with plug `crossing` of the other one. `None`
/// if one of the links would not be one of the grid.
fn tried(
    grid: &mut Grid,
    unusual: &BTreeSet<usize>,
    links: [usize; 2],
    crossing: usize,
    usual: usize,
) -> Option<Trial> {
    let [one, other] = links.map(|number| grid.links[number]);
    let made = [[one.ends[0], other.ends[crossing]], [other.ends[1 - crossing], one.ends[1]]];
    if made.iter().any(|[from, to]| from == to || grid.neighbours[from.index()].contains(to)) {
        return None;
    }
    [one, other].iter().for_each(|link| grid.disconnect(link.ends));
    made.iter().for_each(|&ends| grid.connect(ends));
    let fits = made.iter().all(|&ends| grid.squares(ends) >= usual);
    let left = fits.then(|| {
        let mut affected = grid.around(&[one.ends, other.ends].concat());
        affected.extend(unusual);
        affected
            .iter()
            .filter(|number| {
                !links.contains(number) && grid.squares(grid.links[**number].ends) != usual
            })
            .count()
    });
    made.iter().for_each(|&ends| grid.disconnect(ends));
    [one, other].iter().for_each(|link| grid.connect(link.ends));
    let plugs = [one.ports[1], other.ports[crossing]];
    left.map(|unusual| Trial { links, plugs, unusual })
}
