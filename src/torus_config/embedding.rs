//! An embedding: positions of the switches of a fabric in a lattice.

use super::graph::SimpleGraph;
use super::layers::FactorLayers;
use crate::config::torus::TorusSize;
use crate::plan::routing::torus::{Direction, Lattice, Position};

/// Shape, and pairs of neighbours with a number for the axis between them; equal for embeddings
/// that differ in names of axes, reflection and rotation only.
pub(super) type Identity = (Vec<(u32, bool)>, Vec<([u32; 2], usize)>);

/// Positions of switches in a lattice.
#[derive(Clone, Debug)]
pub(super) struct Embedding {
    pub lattice: Lattice,
    pub positions: Vec<Option<Position>>,
    pub switches: Vec<Option<u32>>,
}

impl Embedding {
    /// The product of up to three factors; of several vertices at one position only the lowest
    /// is placed. `None` if the lattice is larger than a subnet.
    pub(super) fn new(lines: &[FactorLayers], vertices: usize) -> Option<Self> {
        let mut size = TorusSize { radix: [1; 3], looped: [true; 3] };
        for (axis, line) in lines.iter().enumerate().take(3) {
            size.radix[axis] = line.radix;
            size.looped[axis] = line.is_looped;
        }
        Self::of(
            size,
            (0..vertices).map(|vertex| {
                let mut at = [0; 3];
                let all_known = lines.iter().zip(&mut at).all(|(line, coordinate)| {
                    line.at[vertex].map(|layer| *coordinate = i64::from(layer)).is_some()
                });
                all_known.then_some(at)
            }),
        )
    }

    /// The embedding with these coordinates, modulo the radices; of several vertices at one
    /// position only the lowest is placed. `None` if the lattice is larger than a subnet.
    pub(super) fn of(
        size: TorusSize,
        places: impl ExactSizeIterator<Item = Option<[i64; 3]>>,
    ) -> Option<Self> {
        let lattice = Lattice::new(size)?;
        let switches = vec![None; lattice.len()];
        let mut embedding = Self { lattice, positions: vec![None; places.len()], switches };
        for (vertex, at) in (0..).zip(places) {
            if let Some(at) = at {
                embedding.place(vertex, embedding.lattice.position(at));
            }
        }
        Some(embedding)
    }

    fn place(&mut self, vertex: u32, at: Position) {
        if self.switches[at.index()].is_none() {
            self.switches[at.index()] = Some(vertex);
            self.positions[vertex as usize] = Some(at);
        }
    }

    /// The switch one step from a position.
    pub(super) fn neighbor(&self, at: Position, direction: Direction) -> Option<u32> {
        let is_inside =
            self.lattice.is_active(direction.axis()) && !self.lattice.is_edge(at, direction);
        is_inside.then(|| self.switches[self.lattice.step(at, direction).index()]).flatten()
    }

    /// The direction from the first to the second vertex of an edge; `None` if they are not
    /// neighbours.
    pub(super) fn direction(&self, [from, to]: [u32; 2]) -> Option<Direction> {
        self.positions[to as usize]?;
        let at = self.positions[from as usize]?;
        Direction::ALL.into_iter().find(|&direction| self.neighbor(at, direction) == Some(to))
    }

    pub(super) fn size(&self) -> TorusSize {
        TorusSize {
            radix: self.lattice.radices(),
            looped: [0, 1, 2].map(|axis| self.lattice.is_looped(axis)),
        }
    }

    /// Number of edges between neighbours.
    pub(super) fn explained(&self, graph: &SimpleGraph) -> usize {
        graph.edges.iter().filter(|edge| self.direction(edge.ends).is_some()).count()
    }

    /// Pairs of placed neighbours, lower position first, with the axis between them.
    pub(super) fn pairs(&self) -> impl Iterator<Item = ([u32; 2], usize)> + '_ {
        self.lattice.positions().flat_map(move |at| {
            (0..3).filter_map(move |axis| {
                let above = self.neighbor(at, Direction::plus(axis))?;
                Some(([self.switches[at.index()]?, above], axis))
            })
        })
    }

    /// Number of faults that the embedding implies: edges between vertices that are not neighbours,
    /// neighbours without an edge, empty positions, and switches without a position.
    pub(super) fn faults(&self, graph: &SimpleGraph) -> usize {
        let mut explained = 0;
        let mut absent = 0;
        for ([a, b], _) in self.pairs() {
            match graph.edge(a, b) {
                Some(_) => explained += 1,
                None => absent += 1,
            }
        }
        let placed = self.placed();
        let empty = self.lattice.len() - placed;
        let outside = self.positions.len() - placed;
        graph.edges.len() - explained + absent + empty + outside
    }

    /// See [`Identity`].
    pub(super) fn identity(&self) -> Identity {
        let mut axes: Vec<(u32, bool)> =
            (0..3).map(|axis| (self.lattice.radix(axis), self.lattice.is_looped(axis))).collect();
        axes.sort_unstable();
        let mut pairs: Vec<([u32; 2], usize)> =
            self.pairs().map(|([a, b], axis)| ([a.min(b), a.max(b)], axis)).collect();
        pairs.sort_unstable();
        let mut names = [None; 3];
        let mut known = 0;
        for (_, axis) in &mut pairs {
            let name = *names[*axis].get_or_insert_with(|| {
                known += 1;
                known - 1
            });
            *axis = name;
        }
        (axes, pairs)
    }

    pub(super) fn placed(&self) -> usize {
        self.switches.iter().flatten().count()
    }

    /// Positions without a switch, in ascending order.
    pub(super) fn missing(&self) -> impl Iterator<Item = Position> + '_ {
        self.lattice.positions().filter(|at| self.switches[at.index()].is_none())
    }

    /// Places remaining switches at empty positions: a switch is placed if its edges lead to more
    /// neighbours of one empty position than of any other, and that position explains at least half
    /// of its edges.
    pub(super) fn place_remaining(&mut self, graph: &SimpleGraph) {
        loop {
            let found = (0..graph.len() as u32)
                .filter(|&vertex| self.positions[vertex as usize].is_none())
                .find_map(|vertex| Some((vertex, self.best_empty_position(graph, vertex)?)));
            match found {
                Some((vertex, at)) => self.place(vertex, at),
                None => return,
            }
        }
    }

    fn best_empty_position(&self, graph: &SimpleGraph, vertex: u32) -> Option<Position> {
        let mut votes: Vec<(Position, usize)> = Vec::new();
        for &(neighbor, _) in graph.neighbors(vertex) {
            let Some(at) = self.positions[neighbor as usize] else { continue };
            for direction in Direction::ALL {
                let axis = direction.axis();
                if !self.lattice.is_active(axis) || self.lattice.is_edge(at, direction) {
                    continue;
                }
                let empty = self.lattice.step(at, direction);
                if self.switches[empty.index()].is_some() {
                    continue;
                }
                match votes.iter_mut().find(|(known, _)| *known == empty) {
                    Some((_, count)) => *count += 1,
                    None => votes.push((empty, 1)),
                }
            }
        }
        let most = votes.iter().map(|&(_, count)| count).max()?;
        let mut best = votes.iter().filter(|&&(_, count)| count == most);
        let &(empty, _) = best.next()?;
        (best.next().is_none() && 2 * most >= graph.degree(vertex)).then_some(empty)
    }

    /// The same embedding with permuted axes: axis `order[n]` becomes axis `n`.
    pub(super) fn with_axes(&self, order: [usize; 3]) -> Option<Self> {
        let radix = order.map(|axis| self.lattice.radix(axis));
        let looped = order.map(|axis| self.lattice.is_looped(axis));
        let lattice = Lattice::new(TorusSize { radix, looped })?;
        self.moved(lattice, |at| order.map(|axis| self.lattice.coordinate(at, axis).into()))
    }

    /// The same embedding with the dateline of each looped dimension just below `origin`.
    pub(super) fn with_origin(&self, origin: Position) -> Option<Self> {
        let shift = [0, 1, 2].map(|axis| {
            let here = i64::from(self.lattice.coordinate(origin, axis));
            if self.lattice.is_looped(axis) { here } else { 0 }
        });
        self.moved(self.lattice.clone(), |at| {
            [0, 1, 2].map(|axis| coordinate(&shift, &self.lattice, at, axis))
        })
    }

    /// The same embedding with mirrored axes: axis `n` if bit `n` of `axes` is set.
    pub(super) fn mirrored(&self, axes: u8) -> Option<Self> {
        self.moved(self.lattice.clone(), |at| {
            [0, 1, 2].map(|axis| {
                let here = self.lattice.coordinate(at, axis);
                let is_turned = axes >> axis & 1 == 1;
                i64::from(if is_turned { self.lattice.radix(axis) - 1 - here } else { here })
            })
        })
    }

    fn moved(&self, lattice: Lattice, to: impl Fn(Position) -> [i64; 3]) -> Option<Self> {
        let mut embedding = Self {
            switches: vec![None; lattice.len()],
            positions: vec![None; self.positions.len()],
            lattice,
        };
        for (vertex, at) in (0..).zip(&self.positions) {
            if let Some(at) = at {
                let there = embedding.lattice.position(to(*at));
                embedding.place(vertex, there);
            }
        }
        Some(embedding)
    }
}

fn coordinate(shift: &[i64; 3], lattice: &Lattice, at: Position, axis: usize) -> i64 {
    i64::from(lattice.coordinate(at, axis)) - shift[axis]
}
