//! Every LID from every switch.
//!
//! The entries of all switches for one LID point towards it like the edges of a tree. One pass
//! from the leaves to the root (an edge is followed once all that flow into its switch are known)
//! gathers which SLs come along, notes the triples they take, and finds what ends elsewhere or
//! goes in circles. LIDs at one switch mostly have the same tree, and share its pass.

use super::ends::{Destination, Sources, destinations, sources};
use super::triples::{LOCAL, Triples};
use super::wiring::{Hop, NONE, Wiring};
use super::{Checks, Fault, Faults, MAX_HOPS, walk};
use crate::fabric::{Fabric, PortId};
use crate::ids::{Lid, Sl};
use crate::plan::Plan;
use crate::plan::routing::RoutingPolicy;
use crate::wire::attr::tables::LFT_NO_PATH;
use rayon::prelude::*;

/// Destinations that are worked on together: a block of columns of the forwarding tables.
const CHUNK: usize = 64;

/// What the passes found.
pub(super) struct Found {
    pub reached: usize,
    pub longest: u32,
    pub left_out: Vec<PortId>,
    pub trees: Vec<TreeOf>,
    pub faults: Faults,
}

/// The tree of entries that lead to a LID.
#[derive(Clone, Copy)]
pub(super) struct TreeOf {
    pub lid: Lid,
    /// The LID whose tree this is: the same switches send it the same way, but for the last one.
    pub leader: Lid,
    /// Switches passed on the longest path.
    pub longest: u16,
}

impl Found {
    fn nothing() -> Self {
        let faults = Faults::default();
        Self { reached: 0, longest: 0, left_out: Vec::new(), trees: Vec::new(), faults }
    }
}

/// What all passes share.
struct Pass<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    policy: &'a dyn RoutingPolicy,
    wiring: &'a Wiring,
    triples: &'a Triples,
    hints: &'a [Sl],
    sources: &'a [Sources],
}

pub(super) fn check(
    fabric: &Fabric,
    plan: &Plan,
    checks: &Checks,
    wiring: &Wiring,
    triples: &Triples,
) -> Found {
    let policy = &*plan.routing.policy;
    let (sources, all) = (sources(fabric, plan, policy), destinations(fabric, plan, policy));
    check_some((fabric, plan, checks), &sources, &all, wiring, triples)
}

/// The same for some LIDs, in the order of [`destinations`].
pub(super) fn check_some(
    (fabric, plan, checks): (&Fabric, &Plan, &Checks),
    sources: &[Sources],
    destinations: &[Destination],
    wiring: &Wiring,
    triples: &Triples,
) -> Found {
    let (policy, hints) = (&*plan.routing.policy, checks.hints());
    let pass = Pass { fabric, plan, policy, wiring, triples, hints, sources };
    let parts: Vec<_> = destinations.par_chunks(CHUNK).map(|chunk| pass.chunk(chunk)).collect();

    let mut found = Found::nothing();
    for part in parts {
        found.trees.extend(part.trees);
        found.reached += part.reached;
        found.longest = found.longest.max(part.longest);
        found.left_out.extend(part.left_out);
        found.faults.append(part.faults);
    }
    found.left_out.sort_unstable();
    found.left_out.dedup();
    found
}

/// A switch during a pass.
#[derive(Clone, Copy)]
struct Station {
    /// Where the LID goes, as in [`Hop`].
    triples: usize,
    switch: u32,
    width: u16,
    rank: u16,
    peer_rank: u16,
    /// Neighbours whose flow is still to come.
    pending: u16,
    /// SLs that its end ports use towards the destination's group; 0 where nothing is sent.
    own: u16,
    /// SLs that pass.
    flow: u16,
    /// Switches passed so far on the longest way here, itself included.
    depth: u16,
}

/// Room for one pass over the switches.
struct Scratch {
    /// By switch: [`Station::own`].
    own: Vec<u16>,
    /// By switch.
    stations: Vec<Station>,
    /// Switches in the order of the pass, and room for one more.
    order: Vec<u32>,
}

impl Scratch {
    fn new(switches: usize) -> Self {
        Self {
            own: vec![0; switches],
            stations: Vec::with_capacity(switches),
            order: vec![0; switches + 1],
        }
    }

    /// Puts the switches that nothing flows into at the head of the order; their number.
    fn leaves(&mut self) -> usize {
        let mut count = 0;
        // Without a branch, for nobody can predict it; what is not a leaf is overwritten.
        for (station, switch) in self.stations.iter().zip(0u32..) {
            self.order[count] = switch;
            count += usize::from(station.pending == 0);
        }
        count
    }
}

/// What became of a column.
#[derive(Clone, Copy)]
enum Verdict {
    Reached { longest: u32 },
    Broken,
}

impl Pass<'_> {
    fn chunk(&self, chunk: &[Destination]) -> Found {
        let switches = self.wiring.switches();
        let columns = self.columns(chunk);
        let mut scratch = Scratch::new(switches);
        let mut found = Found::nothing();
        let mut before: Option<(&Destination, &[u8], Verdict)> = None;
        let mut leader = Lid(0);
        for (to, column) in chunk.iter().zip(columns.chunks_exact(switches + PAD)) {
            let column = &column[..switches];
            if column.iter().all(|&port| port == LFT_NO_PATH) {
                found.left_out.push(to.port);
                continue;
            }
            let verdict = match before {
                Some((last, same, verdict @ Verdict::Reached { .. }))
                    if last.group == to.group && shares_tree(last, same, to, column) =>
                {
                    verdict
                }
                _ => {
                    leader = to.lid;
                    if before.is_none_or(|(last, ..)| last.group != to.group) {
                        self.own_sls(to, &mut scratch.own);
                    }
                    self.trace(to, column, &mut scratch)
                }
            };
            match verdict {
                Verdict::Reached { longest } => {
                    let longest_here = longest.min(u16::MAX.into()) as u16;
                    found.trees.push(TreeOf { lid: to.lid, leader, longest: longest_here });
                    found.reached += 1;
                    found.longest = found.longest.max(longest);
                }
                Verdict::Broken => self.explain(to, column, &mut scratch, &mut found.faults),
            }
            before = Some((to, column, verdict));
        }
        found
    }

    /// The forwarding tables' columns of these LIDs, each with [`PAD`] bytes behind it.
    fn columns(&self, chunk: &[Destination]) -> Vec<u8> {
        let height = self.wiring.switches() + PAD;
        let mut columns = vec![LFT_NO_PATH; chunk.len() * height];
        for (switch, table) in self.plan.routing.lfts.iter().enumerate().take(height - PAD) {
            for (index, to) in chunk.iter().enumerate() {
                if let Some(&port) = table.0.get(to.lid.index()) {
                    columns[index * height + switch] = port;
                }
            }
        }
        columns
    }

    /// The SLs of paths to `to` from each switch.
    fn own_sls(&self, to: &Destination, own: &mut [u16]) {
        for (own, sources) in own.iter_mut().zip(self.sources) {
            *own = sources.sls(self.policy, to.port, self.hints);
        }
    }

    /// Reads a column: where each switch sends the LID, and how many send it to each.
    fn read(&self, column: &[u8], scratch: &mut Scratch) {
        scratch.stations.clear();
        let switches = column.iter().zip(&scratch.own).zip(0u32..);
        scratch.stations.extend(switches.map(|((&port, &own), switch)| {
            let slot = match port {
                LFT_NO_PATH => NONE,
                port => self.wiring.slot(switch, port),
            };
            let hop = if slot == NONE { &Hop::NOWHERE } else { self.wiring.hop(slot) };
            let Hop { triples, switch, width, rank, peer_rank, .. } = *hop;
            let (pending, depth) = (0, 1);
            Station { triples, switch, width, rank, peer_rank, pending, own, flow: own, depth }
        }));
        for index in 0..scratch.stations.len() {
            let next = scratch.stations[index].switch;
            if next != NONE {
                scratch.stations[next as usize].pending += 1;
            }
        }
    }

    /// The pass over one column.
    fn trace(&self, to: &Destination, column: &[u8], scratch: &mut Scratch) -> Verdict {
        self.read(column, scratch);
        let mut lost = column[to.switch as usize] != to.exit;
        let mut known = scratch.leaves();
        let Scratch { stations, order, .. } = scratch;
        let mut position = 0;
        while position < known {
            let here = order[position];
            position += 1;
            let station = stations[here as usize];
            if station.switch == NONE {
                lost |= here != to.switch && station.flow != 0;
                continue;
            }
            let next = &mut stations[station.switch as usize];
            next.pending -= 1;
            order[known] = station.switch;
            known += usize::from(next.pending == 0);
            if station.flow == 0 {
                continue;
            }
            next.flow |= station.flow;
            next.depth = next.depth.max(station.depth.saturating_add(1));
            let next = *next;
            if next.switch != NONE {
                self.note_triples(&station, &next, &stations[next.switch as usize]);
            }
        }
        let longest = u32::from(stations[to.switch as usize].depth);
        if lost || known < column.len() && stuck(stations) || longest > MAX_HOPS {
            Verdict::Broken
        } else {
            Verdict::Reached { longest }
        }
    }

    /// Notes what flows out of a switch: from its own end ports one channel further, and all of
    /// it two channels further.
    #[inline]
    fn note_triples(&self, here: &Station, second: &Station, third: &Station) {
        if here.own != 0 {
            self.triples.add((here.triples, here.width), LOCAL, second.rank, here.own);
        }
        if third.switch != NONE {
            let channel = (second.triples, second.width);
            self.triples.add(channel, here.peer_rank + 1, third.rank, here.flow);
        }
    }

    /// Counts the end ports that do not reach a LID, and describes the first.
    fn explain(&self, to: &Destination, column: &[u8], scratch: &mut Scratch, faults: &mut Faults) {
        self.read(column, scratch);
        for (switch, sources) in self.sources.iter().enumerate() {
            if sources.ports.is_empty() || Self::arrives(to, column, &scratch.stations, switch) {
                continue;
            }
            for &source in sources.ports.iter().filter(|&&source| source != to.port) {
                faults.add(|| Fault::Unreachable {
                    source_port: self.fabric.describe(source),
                    lid: to.lid,
                    destination: self.fabric.describe(to.port),
                    end: walk::walk(self.fabric, self.plan, source, to.lid)
                        .end
                        .describe(self.fabric),
                });
            }
        }
    }

    /// Follows a column from one switch.
    fn arrives(to: &Destination, column: &[u8], hops: &[Station], from: usize) -> bool {
        let mut here = from as u32;
        for _ in 0..MAX_HOPS {
            if here == to.switch && column[here as usize] == to.exit {
                return true;
            }
            here = hops[here as usize].switch;
            if here == NONE {
                return false;
            }
        }
        false
    }
}

/// Bytes between columns, so that columns of a power of two of switches do not fall on the same
/// lines of the processor's caches.
const PAD: usize = 64;

/// True if something flows into switches that the pass never came to: those on a ring.
fn stuck(stations: &[Station]) -> bool {
    stations.iter().any(|station| station.pending > 0 && station.flow != 0)
}

/// True if two LIDs at one switch have the same entries everywhere else, and their own there.
fn shares_tree(a: &Destination, a_column: &[u8], b: &Destination, b_column: &[u8]) -> bool {
    let at = a.switch as usize;
    a.switch == b.switch
        && b_column[at] == b.exit
        && a_column[at] == a.exit
        && a_column[..at] == b_column[..at]
        && a_column[at + 1..] == b_column[at + 1..]
}
