//! VL arbitration: scopes without a port, tables that are too long, VLs that are not there.

use super::{Crowd, SetupContext, operating, vls};
use crate::config::Diagnostic;
use crate::config::qos_policy::{VlArbScope, Weight};
use crate::fabric::PortId;
use crate::notes::Severity;
use crate::plan::qos::vls::configurable_info;
use crate::wire::attr::PortInfo;
use crate::wire::attr::tables::VLARB_BLOCK;
use rayon::prelude::*;

/// Port slots looked at in one go.
const CHUNK: usize = 4096;

/// A table of a scope.
struct Table<'a> {
    name: &'static str,
    entries: &'a [Weight],
    /// Sum of weights by VL.
    weights: [u32; 16],
}

impl<'a> Table<'a> {
    fn new(name: &'static str, entries: Option<&'a Vec<Weight>>) -> Self {
        let entries = entries.map_or(&[][..], Vec::as_slice);
        let mut weights = [0; 16];
        for entry in entries {
            weights[usize::from(entry.vl & 0xF)] += u32::from(entry.weight);
        }
        Self { name, entries, weights }
    }

    /// Both tables of a scope.
    fn both(scope: &'a VlArbScope) -> [Self; 2] {
        [Self::new("vlarb-high", scope.high.as_ref()), Self::new("vlarb-low", scope.low.as_ref())]
    }
}

/// What was found of a scope.
#[derive(Clone, Default)]
struct Tally {
    /// Ports that it is for.
    matched: usize,
    /// Ports of these that no scope before it is for.
    owned: usize,
    /// By table.
    tables: [Lack; 2],
}

/// What ports lack for a table.
#[derive(Clone, Default)]
struct Lack {
    /// Ports that hold fewer entries.
    short: Crowd,
    /// Ports that have not all of the VLs.
    without: Crowd,
    /// The VLs that any of them has not, as bits.
    vls: u16,
    /// What the engine has to say, and of which ports.
    doubts: Vec<(&'static str, Crowd)>,
}

impl Tally {
    fn join(&mut self, later: &Self) {
        self.matched += later.matched;
        self.owned += later.owned;
        for (own, later) in self.tables.iter_mut().zip(&later.tables) {
            own.short.join(&later.short);
            own.without.join(&later.without);
            own.vls |= later.vls;
            for (doubt, crowd) in &later.doubts {
                own.doubt(doubt).join(crowd);
            }
        }
    }
}

impl Lack {
    fn doubt(&mut self, text: &'static str) -> &mut Crowd {
        let known = self.doubts.iter().position(|(known, _)| *known == text);
        let index = known.unwrap_or_else(|| {
            self.doubts.push((text, Crowd::default()));
            self.doubts.len() - 1
        });
        &mut self.doubts[index].1
    }
}

impl SetupContext<'_> {
    pub(super) fn of_arbitration(&self) -> Vec<Diagnostic> {
        let scopes = &self.setup.policy().vl_arbitration;
        if scopes.is_empty() {
            return Vec::new();
        }
        let tables: Vec<_> = scopes.iter().map(Table::both).collect();
        let ports: Vec<PortId> = self.fabric.port_ids().collect();
        let chunks: Vec<Vec<Tally>> = ports
            .par_chunks(CHUNK)
            .map(|ports| {
                let mut tallies = vec![Tally::default(); scopes.len()];
                ports.iter().for_each(|&port| self.arbitrate(port, &tables, &mut tallies));
                tallies
            })
            .collect();
        let mut tallies = vec![Tally::default(); scopes.len()];
        for chunk in &chunks {
            tallies.iter_mut().zip(chunk).for_each(|(own, later)| own.join(later));
        }
        let all = scopes.iter().zip(&tables).zip(&tallies);
        all.flat_map(|((scope, tables), tally)| self.tell_arbitration(scope, tables, tally))
            .collect()
    }

    /// Looks at a port.
    fn arbitrate(&self, port: PortId, tables: &[[Table<'_>; 2]], tallies: &mut [Tally]) {
        if self.fabric.port(port).info.is_none() {
            return;
        }
        let mut scopes = self.setup.arbitration_at(self.fabric, port);
        let Some(first) = scopes.next() else { return };
        tallies[first].matched += 1;
        tallies[first].owned += 1;
        scopes.for_each(|later| tallies[later].matched += 1);
        let Some(info) = configurable_info(self.fabric, self.targets, port) else { return };
        for ((table, lack), cap) in
            tables[first].iter().zip(&mut tallies[first].tables).zip(caps(&info))
        {
            if table.entries.len() > cap {
                lack.short.add(port);
            }
            let missing = missing(table.entries.iter().take(cap), &info);
            if missing != 0 {
                lack.vls |= missing;
                lack.without.add(port);
            }
            let doubt = Some(table).filter(|table| cap > 0 && !table.entries.is_empty());
            if let Some(text) =
                doubt.and_then(|table| self.policy.vl_arbitration_warning(port, &table.weights))
            {
                lack.doubt(text).add(port);
            }
        }
    }

    fn tell_arbitration(
        &self,
        scope: &VlArbScope,
        tables: &[Table<'_>; 2],
        tally: &Tally,
    ) -> Vec<Diagnostic> {
        if tally.owned == 0 {
            return vec![self.idle("vlarb-scope", scope.at, tally.matched > 0)];
        }
        let pairs = tables.iter().zip(&tally.tables);
        pairs.flat_map(|(table, lack)| self.tell_table(table, lack)).collect()
    }

    fn tell_table(&self, table: &Table<'_>, lack: &Lack) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let Some(start) = table.entries.first() else { return found };
        let Table { name, entries, .. } = table;
        if let Some(first) = lack.short.first {
            let info = configurable_info(self.fabric, self.targets, first).unwrap_or_default();
            let cap = caps(&info)[usize::from(*name == "vlarb-low")];
            let at = entries.get(cap).unwrap_or(start).at;
            let count = entries.len();
            let ports = self.such_as(&lack.short);
            let room = if cap == 0 { "none".to_owned() } else { cap.to_string() };
            let message = format!(
                "{name} has {count} entries, and there is room for {room} at {ports}: the others \
                 are left out there"
            );
            found.push(self.say(Severity::Error, at, message));
        }
        if let Some(first) = lack.without.first {
            let info = configurable_info(self.fabric, self.targets, first).unwrap_or_default();
            let concerned = |entry: &&Weight| entry.weight > 0 && lack.vls >> entry.vl & 1 == 1;
            let at = entries.iter().find(concerned).unwrap_or(start).at;
            let (ports, has) = (self.such_as(&lack.without), vls(operating(&info)));
            let message = format!(
                "{} of {name}: not at {ports}, which has {has}; there the lowest bits of the VL count",
                vls(lack.vls)
            );
            found.push(self.say(Severity::Warning, at, message));
        }
        for (doubt, crowd) in &lack.doubts {
            let message = format!("{name} at {}: {doubt}", self.such_as(crowd));
            found.push(self.say(Severity::Warning, start.at, message));
        }
        found
    }
}

/// How many entries a port holds at high and at low priority.
fn caps(info: &PortInfo) -> [usize; 2] {
    if info.vl_cap() == 1 {
        return [0; 2];
    }
    [info.vl_arb_high_cap(), info.vl_arb_low_cap()].map(|cap| usize::from(cap).min(2 * VLARB_BLOCK))
}

/// The VLs of entries with weight that do not operate on a port, as bits.
fn missing<'a>(entries: impl Iterator<Item = &'a Weight>, info: &PortInfo) -> u16 {
    let weighty = entries.filter(|entry| entry.weight > 0);
    weighty.fold(0, |bits, entry| bits | 1 << (entry.vl & 0xF)) & !operating(info)
}
