//! Columns that are like one that was followed already.
//!
//! What following a column finds depends on some entries of the forwarding tables near the changed
//! switches, on the channels behind the meeting and on the SLs that changed switches send with. Most
//! columns agree in all of these with an earlier one, for many LIDs are reached by way of the
//! same few switches; then nothing new can be found.

use super::columns::Columns;
use super::ends::Destination;
use super::spread::Spread;
use super::wiring::NONE;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// An entry that was looked at: the switch, the port before and now.
pub(super) type Read = (u32, u8, u8);

/// Columns that were followed up to their meeting, and found to be without fault.
#[derive(Default)]
pub(super) struct Familiar {
    /// By the first of the changed switches, and their number.
    kinds: HashMap<(u32, usize), Vec<Kind>, BuildHasherDefault<Spread>>,
    /// Room for a key of [`Kind::followed`].
    key: Vec<u32>,
}

/// Columns with the same ways up to the meeting.
struct Kind {
    /// All entries that were looked at; those of the changed switches first.
    reads: Vec<Read>,
    meeting: u32,
    /// By the channels behind the meeting and the SLs of the changed switches: by how many switches
    /// new ways may be longer than the longest old one.
    followed: HashMap<Vec<u32>, i32, BuildHasherDefault<Spread>>,
}

impl Familiar {
    /// By how many switches the new ways of this column may be longer than the longest old one, if
    /// it is like an earlier one.
    pub(super) fn recall(&mut self, columns: &Columns<'_>, to: &Destination) -> Option<i32> {
        let changed = columns.of(to.lid);
        let Self { kinds, key } = self;
        let kinds = kinds.get(&(changed.first()?.1, changed.len()))?;
        let lid = to.lid.index();
        let is_same = |&(switch, old, new): &Read| {
            let switch = switch as usize;
            columns.old[switch][lid] == old && columns.new[switch][lid] == new
        };
        let has_same_switches = |kind: &Kind| {
            changed.iter().zip(&kind.reads).all(|(&(_, switch), read)| switch == read.0)
        };
        let is_alike = |kind: &&Kind| has_same_switches(kind) && kind.reads.iter().all(is_same);
        let kind = kinds.iter().find(is_alike)?;
        fill(key, columns, to, kind.meeting);
        kind.followed.get(&key[..]).copied()
    }

    /// Notes a column that was followed by way of the entries `reads`, those of its changed switches
    /// first.
    pub(super) fn learn(
        &mut self,
        columns: &Columns<'_>,
        to: &Destination,
        meeting: u32,
        reads: Vec<Read>,
        excess: i32,
    ) {
        let changed = columns.of(to.lid);
        let Some(&(_, first)) = changed.first() else { return };
        fill(&mut self.key, columns, to, meeting);
        let kinds = self.kinds.entry((first, changed.len())).or_default();
        let known = kinds.iter().position(|kind| kind.meeting == meeting && kind.reads == reads);
        let known = known.unwrap_or_else(|| {
            kinds.push(Kind { reads, meeting, followed: HashMap::default() });
            kinds.len() - 1
        });
        kinds[known].followed.insert(self.key.clone(), excess);
    }
}

/// Fills in the two channels behind the meeting, and the SLs of the changed switches.
fn fill(key: &mut Vec<u32>, columns: &Columns<'_>, to: &Destination, meeting: u32) {
    let proof = columns.proof;
    key.clear();
    let mut here = meeting;
    for _ in 0..2 {
        let port = columns.old[here as usize][to.lid.index()];
        let channel = if here == to.switch { NONE } else { columns.channel(here, port) };
        key.push(channel);
        if channel == NONE {
            break;
        }
        here = proof.steps.of(channel).to;
    }
    let policy = &*columns.plan.routing.policy;
    for &(_, switch) in columns.of(to.lid) {
        let sls = proof.sources[switch as usize].sls(policy, to.port, proof.checks.hints());
        key.push(sls.into());
    }
}
