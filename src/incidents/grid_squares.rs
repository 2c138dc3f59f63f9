//! Swapped cables of a torus or mesh, from its links alone: no coordinates are needed, which a swapped
//! cable may falsify.
//!
//! A cable of a grid is a side of squares, of two in two dimensions and of four in three. A swapped one
//! is a side of others, and the cables beside its right place lack one. Two cables are swapped if the
//! exchange of two plugs leaves fewer cables with an unusual number of squares than any other exchange.

use super::fact::ExchangedCables;
use super::switch_links::{SwitchLink, SwitchLinks};
use crate::fabric::{Fabric, PortId, SwitchId};
use std::collections::{BTreeMap, BTreeSet};

/// Cables that are tried: those with the most unusual cables beside them.
const MAX_SUSPECTS: usize = 96;

/// A switch beside another one.
struct GridNeighbour {
    switch: SwitchId,
    cables: u32,
}

/// The links between switches, with the neighbours of each switch.
struct SquareGrid {
    links: Vec<SwitchLink>,
    /// By switch.
    neighbours: Vec<Vec<GridNeighbour>>,
    /// By switch: the numbers of its links.
    links_at: Vec<Vec<usize>>,
}

impl SquareGrid {
    fn new(fabric: &Fabric) -> Self {
        let SwitchLinks { mut links, .. } = SwitchLinks::of(fabric);
        links.retain(|link| link.ends[0] != link.ends[1]);
        let switches = fabric.switches().len();
        let mut links_at = vec![Vec::new(); switches];
        for (number, link) in links.iter().enumerate() {
            link.ends.iter().for_each(|end| links_at[end.index()].push(number));
        }
        let neighbours = (0..switches).map(|_| Vec::new()).collect();
        let mut grid = Self { links, neighbours, links_at };
        for number in 0..grid.links.len() {
            grid.connect(grid.links[number].ends);
        }
        grid
    }

    fn connect(&mut self, [one, other]: [SwitchId; 2]) {
        for (at, far) in [(one, other), (other, one)] {
            let list = &mut self.neighbours[at.index()];
            match list.iter_mut().find(|it| it.switch == far) {
                Some(known) => known.cables += 1,
                None => list.push(GridNeighbour { switch: far, cables: 1 }),
            }
        }
    }

    fn disconnect(&mut self, [one, other]: [SwitchId; 2]) {
        for (at, far) in [(one, other), (other, one)] {
            let list = &mut self.neighbours[at.index()];
            if let Some(index) = list.iter().position(|it| it.switch == far) {
                list[index].cables -= 1;
                if list[index].cables == 0 {
                    list.swap_remove(index);
                }
            }
        }
    }

    fn beside(&self, switch: SwitchId) -> impl Iterator<Item = SwitchId> {
        self.neighbours[switch.index()].iter().map(|it| it.switch)
    }

    /// Number of cables between two switches.
    fn cables(&self, one: SwitchId, other: SwitchId) -> u32 {
        let found = self.neighbours[one.index()].iter().find(|it| it.switch == other);
        found.map_or(0, |it| it.cables)
    }

    /// Number of squares that have a side between these switches.
    fn squares(&self, [one, other]: [SwitchId; 2]) -> usize {
        let mut count = 0;
        for x in self.beside(one).filter(|&x| x != other) {
            count += self.beside(x).filter(|&y| y != one && self.cables(y, other) > 0).count();
        }
        count
    }

    /// By switch: number of squares of which a cable to it from this switch would be a side.
    fn squares_from(&self, one: SwitchId) -> Vec<usize> {
        let mut squares = vec![0; self.neighbours.len()];
        for x in self.beside(one) {
            for y in self.beside(x).filter(|&y| y != one) {
                self.beside(y).filter(|&other| other != x).for_each(|at| squares[at.index()] += 1);
            }
        }
        squares
    }

    /// By link: number of squares of which it is a side.
    fn squares_of_links(&self) -> Vec<usize> {
        let mut squares = vec![0; self.links.len()];
        for (switch, links_at) in (0..).map(SwitchId).zip(&self.links_at) {
            let from_here = self.squares_from(switch);
            for &number in links_at.iter().filter(|&&it| self.links[it].ends[0] == switch) {
                squares[number] = from_here[self.links[number].ends[1].index()];
            }
        }
        squares
    }

    /// The numbers of the links that may be in a square with a link at one of these switches.
    fn around(&self, switches: &[SwitchId]) -> BTreeSet<usize> {
        let near = switches.iter().flat_map(|&at| self.beside(at));
        let at = near.chain(switches.iter().copied());
        at.flat_map(|at| &self.links_at[at.index()]).copied().collect()
    }
}

/// The most frequent one of the numbers of squares; `None` if that is 0.
fn usual(squares: &[usize]) -> Option<usize> {
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for &squares in squares {
        *counts.entry(squares).or_insert(0) += 1;
    }
    let (&usual, _) = counts.iter().max_by_key(|&(_, &count)| count)?;
    (usual > 0).then_some(usual)
}

/// An exchange of plugs, and the number of links that it leaves with an unusual number of squares.
struct PlugExchange {
    links: [usize; 2],
    /// The plugs to exchange.
    plugs: [PortId; 2],
    unusual: usize,
}

/// The search for two swapped cables.
struct ExchangeSearch {
    grid: SquareGrid,
    /// The number of squares of most links.
    usual: usize,
    /// The numbers of the other links.
    unusual: BTreeSet<usize>,
    /// By switch: [`SquareGrid::squares_from`] of the switches of suspects.
    squares_from: Vec<Vec<usize>>,
}

/// The two swapped cables of a grid; `None` if no exchange is better than all others.
pub fn swapped(fabric: &Fabric) -> Option<ExchangedCables> {
    let mut search = ExchangeSearch::new(SquareGrid::new(fabric))?;
    let suspects = search.suspects();
    let mut best: Option<PlugExchange> = None;
    let mut is_tied = false;
    for (index, &one) in suspects.iter().enumerate() {
        for &other in &suspects[index + 1..] {
            for crossing in [1, 0] {
                let least = best.as_ref().map_or(search.unusual.len(), |best| best.unusual);
                let Some(tried) = search.exchange([one, other], crossing, least) else { continue };
                is_tied = tried.unusual == least;
                if !is_tied {
                    best = Some(tried);
                }
            }
        }
    }
    // Exchanges that all leave a regular grid are equally good.
    let PlugExchange { links, plugs, .. } = best.filter(|best| !is_tied || best.unusual == 0)?;
    let ports = links.map(|number| search.grid.links[number].ports[0]);
    let reason = "neither is a side of the squares of the grid, and the exchange makes both one";
    ExchangedCables::of(fabric, ports, plugs, reason)
}

impl ExchangeSearch {
    /// A search in a grid; `None` if all links are sides of as many squares, or most of none.
    fn new(grid: SquareGrid) -> Option<Self> {
        let squares = grid.squares_of_links();
        let usual = usual(&squares)?;
        let numbers = 0..squares.len();
        let unusual: BTreeSet<usize> = numbers.filter(|&link| squares[link] != usual).collect();
        let squares_from = vec![Vec::new(); grid.neighbours.len()];
        (!unusual.is_empty()).then_some(Self { grid, usual, unusual, squares_from })
    }

    /// The numbers of the links that are tried.
    fn suspects(&mut self) -> Vec<usize> {
        let mut unusual_at = vec![0_usize; self.grid.neighbours.len()];
        for end in self.unusual.iter().flat_map(|&number| self.grid.links[number].ends) {
            unusual_at[end.index()] += 1;
        }
        let links = &self.grid.links;
        let mut suspects: Vec<usize> = (0..links.len()).collect();
        suspects.sort_by_key(|&number| {
            let beside: usize = links[number].ends.iter().map(|end| unusual_at[end.index()]).sum();
            (std::cmp::Reverse(beside), number)
        });
        suspects.truncate(MAX_SUSPECTS);
        for end in suspects.iter().flat_map(|&number| links[number].ends) {
            if self.squares_from[end.index()].is_empty() {
                self.squares_from[end.index()] = self.grid.squares_from(end);
            }
        }
        suspects
    }

    /// The exchange of the second plug of the first link with plug `crossing` of the other one. `None`
    /// if one of the links would not be one of the grid, or if more than `most` links are left unusual.
    fn exchange(
        &mut self,
        links: [usize; 2],
        crossing: usize,
        most: usize,
    ) -> Option<PlugExchange> {
        let [one, other] = links.map(|number| self.grid.links[number]);
        let made = [[one.ends[0], other.ends[crossing]], [other.ends[1 - crossing], one.ends[1]]];
        // Both new links may be opposite sides of two squares.
        let squares = made.map(|[from, to]| self.squares_from[from.index()][to.index()]);
        if squares.iter().any(|squares| squares + 2 < self.usual) {
            return None;
        }
        if made.iter().any(|&[from, to]| from == to || self.grid.cables(from, to) > 0) {
            return None;
        }
        let [[a, b], [c, d]] = made;
        let are_opposite = self.grid.cables(a, c) > 0 && self.grid.cables(b, d) > 0;
        let is_parallel =
            [one, other].iter().all(|it| self.grid.cables(it.ends[0], it.ends[1]) > 1);
        let opposite = usize::from(are_opposite) + usize::from(is_parallel);
        if squares.iter().any(|squares| squares + opposite < self.usual) {
            return None;
        }
        [one, other].iter().for_each(|link| self.grid.disconnect(link.ends));
        made.iter().for_each(|&ends| self.grid.connect(ends));
        let fits = made.iter().all(|&ends| self.grid.squares(ends) >= self.usual);
        let unusual = if fits { self.unusual_beside(links, most) } else { None };
        made.iter().for_each(|&ends| self.grid.disconnect(ends));
        [one, other].iter().for_each(|link| self.grid.connect(link.ends));
        let plugs = [one.ports[1], other.ports[crossing]];
        Some(PlugExchange { links, plugs, unusual: unusual? })
    }

    /// Number of links, without these two, with an unusual number of squares while the plugs of these two
    /// are exchanged; `None` if there are more than `most`.
    fn unusual_beside(&self, links: [usize; 2], most: usize) -> Option<usize> {
        let still = self.unusual.iter().filter(|number| !links.contains(number));
        let still = still.filter(|&&number| self.is_unusual(number)).take(most + 1).count();
        // Most exchanges leave too many of them.
        if still > most {
            return None;
        }
        let ends = links.map(|number| self.grid.links[number].ends);
        let around = self.grid.around(ends.as_flattened());
        let others = around.difference(&self.unusual).filter(|number| !links.contains(number));
        let unusual = still + others.filter(|&&number| self.is_unusual(number)).count();
        (unusual <= most).then_some(unusual)
    }

    /// True if the link is now a side of more or fewer squares than most.
    fn is_unusual(&self, link: usize) -> bool {
        self.grid.squares(self.grid.links[link].ends) != self.usual
    }
}

/// True if all cables between switches are sides of equally many squares.
#[cfg(test)]
pub(super) fn is_regular(fabric: &Fabric) -> bool {
    let grid = SquareGrid::new(fabric);
    let squares = grid.squares_of_links();
    usual(&squares).is_some_and(|usual| squares.iter().all(|&squares| squares == usual))
}
