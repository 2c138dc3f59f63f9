//! Diagnostics of VL arbitration scopes: no matching port, tables that are too long, missing VLs.

use super::{PortSample, SetupContext, operating, vls};
use crate::config::Diagnostic;
use crate::config::qos_policy::{VlArbEntry, VlArbScope};
use crate::fabric::PortId;
use crate::notes::{Severity, counted};
use crate::plan::qos::vls::configurable_info;
use crate::wire::attr::PortInfo;
use crate::wire::attr::tables::VLARB_BLOCK;
use rayon::prelude::*;

/// Port slots that a worker thread checks at a time.
const PORTS_PER_CHUNK: usize = 4096;

/// A table of a scope.
struct Table<'a> {
    name: &'static str,
    entries: &'a [VlArbEntry],
    /// The sum of the weights of each VL.
    weights: [u32; 16],
}

impl<'a> Table<'a> {
    fn new(name: &'static str, entries: Option<&'a Vec<VlArbEntry>>) -> Self {
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

/// The ports of a scope and their shortcomings.
#[derive(Clone, Default)]
struct ArbitrationTally {
    /// Ports that the scope matches.
    matched: usize,
    /// Matched ports to which no earlier scope applies.
    owned: usize,
    /// Shortcomings for the high and the low priority table.
    tables: [Shortfall; 2],
}

/// The capabilities that ports lack for a table.
#[derive(Clone, Default)]
struct Shortfall {
    /// Ports whose table has fewer entries.
    short: PortSample,
    /// Ports that lack some of the VLs.
    without: PortSample,
    /// The VLs that any port lacks, as bits.
    vls: u16,
    /// Warnings of the routing engine, with the ports concerned.
    warnings: Vec<(&'static str, PortSample)>,
}

impl ArbitrationTally {
    fn join(&mut self, later: &Self) {
        self.matched += later.matched;
        self.owned += later.owned;
        for (own, later) in self.tables.iter_mut().zip(&later.tables) {
            own.short.join(&later.short);
            own.without.join(&later.without);
            own.vls |= later.vls;
            for (warning, sample) in &later.warnings {
                own.warning(warning).join(sample);
            }
        }
    }
}

impl Shortfall {
    fn warning(&mut self, text: &'static str) -> &mut PortSample {
        let known = self.warnings.iter().position(|(known, _)| *known == text);
        let index = known.unwrap_or_else(|| {
            self.warnings.push((text, PortSample::default()));
            self.warnings.len() - 1
        });
        &mut self.warnings[index].1
    }
}

impl SetupContext<'_> {
    pub(super) fn arbitration_diagnostics(&self) -> Vec<Diagnostic> {
        let scopes = &self.setup.policy().vl_arbitration;
        if scopes.is_empty() {
            return Vec::new();
        }
        let tables: Vec<_> = scopes.iter().map(Table::both).collect();
        let ports: Vec<PortId> = self.fabric.port_ids().collect();
        let chunks: Vec<Vec<ArbitrationTally>> = ports
            .par_chunks(PORTS_PER_CHUNK)
            .map(|ports| {
                let mut tallies = vec![ArbitrationTally::default(); scopes.len()];
                ports.iter().for_each(|&port| self.check_port(port, &tables, &mut tallies));
                tallies
            })
            .collect();
        let mut tallies = vec![ArbitrationTally::default(); scopes.len()];
        for chunk in &chunks {
            tallies.iter_mut().zip(chunk).for_each(|(own, later)| own.join(later));
        }
        let all = scopes.iter().zip(&tables).zip(&tallies);
        all.flat_map(|((scope, tables), tally)| self.report_arbitration(scope, tables, tally))
            .collect()
    }

    /// Checks a port.
    fn check_port(
        &self,
        port: PortId,
        tables: &[[Table<'_>; 2]],
        tallies: &mut [ArbitrationTally],
    ) {
        if self.fabric.port(port).info().is_none() {
            return;
        }
        let mut scopes = self.setup.arbitration_at(self.fabric, port);
        let Some(first) = scopes.next() else { return };
        tallies[first].matched += 1;
        tallies[first].owned += 1;
        scopes.for_each(|later| tallies[later].matched += 1);
        let Some(info) = configurable_info(self.fabric, self.targets, port) else { return };
        for ((table, shortfall), cap) in
            tables[first].iter().zip(&mut tallies[first].tables).zip(caps(&info))
        {
            if table.entries.len() > cap {
                shortfall.short.add(port);
            }
            let missing = missing(table.entries.iter().take(cap), &info);
            if missing != 0 {
                shortfall.vls |= missing;
                shortfall.without.add(port);
            }
            let warning = Some(table).filter(|table| cap > 0 && !table.entries.is_empty());
            if let Some(text) =
                warning.and_then(|table| self.policy.vl_arbitration_warning(port, &table.weights))
            {
                shortfall.warning(text).add(port);
            }
        }
    }

    fn report_arbitration(
        &self,
        scope: &VlArbScope,
        tables: &[Table<'_>; 2],
        tally: &ArbitrationTally,
    ) -> Vec<Diagnostic> {
        if tally.owned == 0 {
            return vec![self.unused_scope("vlarb-scope", scope.at, tally.matched > 0)];
        }
        let pairs = tables.iter().zip(&tally.tables);
        pairs.flat_map(|(table, shortfall)| self.report_table(table, shortfall)).collect()
    }

    fn report_table(&self, table: &Table<'_>, shortfall: &Shortfall) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let Some(start) = table.entries.first() else { return found };
        let Table { name, entries, .. } = table;
        if let Some(first) = shortfall.short.first {
            let info = self.info_of_example(first);
            let cap = caps(&info)[usize::from(*name == "vlarb-low")];
            let at = entries.get(cap).unwrap_or(start).at;
            let count = entries.len();
            let ports = self.such_as(&shortfall.short);
            let entries = counted(count, "entry", "entries");
            let fitting = match cap {
                0 => "none fits".to_owned(),
                1 => "only 1 fits".to_owned(),
                cap => format!("only {cap} fit"),
            };
            let message = format!(
                "{name} has {entries}, but {fitting} at {ports}; the others are ignored there"
            );
            found.push(self.diagnostic(Severity::Error, at, message));
        }
        if let Some(first) = shortfall.without.first {
            let info = self.info_of_example(first);
            let at = entries
                .iter()
                .find(|entry| entry.weight > 0 && shortfall.vls >> entry.vl & 1 == 1)
                .unwrap_or(start)
                .at;
            let ports = self.such_as(&shortfall.without);
            let has = vls(operating(&info));
            let message = format!(
                "{name} uses {}, not operational at {ports} ({has}); the lowest bits of the VL are \
                 used there",
                vls(shortfall.vls)
            );
            found.push(self.diagnostic(Severity::Warning, at, message));
        }
        for (warning, sample) in &shortfall.warnings {
            let message = format!("{name} at {}: {warning}", self.such_as(sample));
            found.push(self.diagnostic(Severity::Warning, start.at, message));
        }
        found
    }
}

/// The number of entries of a port's high and low priority tables.
fn caps(info: &PortInfo) -> [usize; 2] {
    if info.vl_cap() == 1 {
        return [0; 2];
    }
    [info.vl_arb_high_cap(), info.vl_arb_low_cap()].map(|cap| usize::from(cap).min(2 * VLARB_BLOCK))
}

/// The VLs of entries with nonzero weight that are not operational on a port, as bits.
fn missing<'a>(entries: impl Iterator<Item = &'a VlArbEntry>, info: &PortInfo) -> u16 {
    let weighty = entries.filter(|entry| entry.weight > 0);
    weighty.fold(0, |bits, entry| bits | 1 << (entry.vl & 0xF)) & !operating(info)
}
