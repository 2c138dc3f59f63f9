//! Diagnostics of SL to VL mapping scopes: no matching port, missing port numbers, missing VLs.

use super::{PortSample, SetupContext, operating, vls};
use crate::config::Diagnostic;
use crate::config::qos_policy::{PortChoice, PortRange, SlToVlScope};
use crate::fabric::{NodeId, PortId};
use crate::ids::PortNum;
use crate::notes::Severity;
use crate::plan::qos::vls::{DROPPED_VL, configurable_info};
use crate::wire::attr::CapMask;
use rayon::prelude::*;

/// Nodes that a worker thread checks at a time.
const NODES_PER_CHUNK: usize = 256;

/// The ports of a scope and their shortcomings.
#[derive(Clone, Default)]
struct ScopeTally {
    /// True if the scope matches a pair of ports.
    matched: bool,
    /// True if the scope matches a pair of ports to which no earlier scope applies.
    owned: bool,
    /// Outputs that lack some of the VLs.
    without: PortSample,
    /// The VLs that any output lacks, as bits.
    vls: u16,
    /// Outputs without SL to VL mapping.
    mapless: PortSample,
    /// Devices that lack a port of a range, by range of `from` and then of `to`.
    absent: Vec<PortSample>,
}

impl ScopeTally {
    fn of(scope: &SlToVlScope) -> Self {
        let ranges = scope.from.ranges().len() + scope.to.ranges().len();
        Self { absent: vec![PortSample::default(); ranges], ..Self::default() }
    }

    fn join(&mut self, later: &Self) {
        self.matched |= later.matched;
        self.owned |= later.owned;
        self.without.join(&later.without);
        self.vls |= later.vls;
        self.mapless.join(&later.mapless);
        self.absent.iter_mut().zip(&later.absent).for_each(|(own, later)| own.join(later));
    }
}

/// The port ranges of a scope in the order of [`ScopeTally::absent`], each with true for inputs.
fn ranges(scope: &SlToVlScope) -> impl Iterator<Item = (bool, &PortRange)> {
    let from = scope.from.ranges().iter().map(|range| (true, range));
    from.chain(scope.to.ranges().iter().map(|range| (false, range)))
}

/// True if the scope applies to all inputs.
fn takes_all(scope: &SlToVlScope) -> bool {
    !matches!(scope.from, PortChoice::Ranges(_)) && scope.across_from.is_empty()
}

impl SetupContext<'_> {
    pub(super) fn mapping_diagnostics(&self) -> Vec<Diagnostic> {
        let scopes = &self.setup.policy().sl_to_vl;
        let Some(first) = scopes.first() else { return Vec::new() };
        if self.policy.decides_sl_to_vl() {
            let count = scopes.len();
            let engine = self.engine;
            let scopes = if count == 1 { "this sl2vl-scope is" } else { "all sl2vl-scopes are" };
            let message = format!(
                "{scopes} rejected: {engine} computes all SL to VL tables itself, because its routes \
                 are free of credit loops only with these"
            );
            return vec![self.diagnostic(Severity::Error, first.at, message)];
        }
        let nodes: Vec<NodeId> = self.fabric.node_ids().collect();
        let blank: Vec<ScopeTally> = scopes.iter().map(ScopeTally::of).collect();
        let chunks: Vec<Vec<ScopeTally>> = nodes
            .par_chunks(NODES_PER_CHUNK)
            .map(|nodes| {
                let mut tallies = blank.clone();
                nodes.iter().for_each(|&node| self.check_node(node, &mut tallies));
                tallies
            })
            .collect();
        let mut tallies = blank;
        for chunk in &chunks {
            tallies.iter_mut().zip(chunk).for_each(|(own, later)| own.join(later));
        }
        let all = scopes.iter().zip(&tallies);
        all.flat_map(|(scope, tally)| self.report_mapping(scope, tally)).collect()
    }

    /// Checks a node.
    fn check_node(&self, id: NodeId, tallies: &mut [ScopeTally]) {
        let node = self.fabric.node(id);
        let ports = (0..=node.num_ports()).filter_map(|num| self.fabric.port_of(id, PortNum(num)));
        let inputs: Vec<PortId> = ports.collect();
        // Channel adapters have no port 0.
        let outputs = inputs.iter().skip(usize::from(!node.is_switch()));
        let mut targets: Vec<usize> = Vec::new();
        for &output in outputs.filter(|&&port| self.fabric.port(port).info().is_some()) {
            targets.extend(self.setup.targeting(self.fabric, output).map(|(index, _)| index));
            let own = [output];
            let inputs = if node.is_switch() { &inputs[..] } else { &own };
            self.check_output(output, inputs, tallies);
        }
        targets.sort_unstable();
        targets.dedup();
        for index in targets {
            let scope = &self.setup.policy().sl_to_vl[index];
            for ((is_input, range), absent) in ranges(scope).zip(&mut tallies[index].absent) {
                if range.last > node.num_ports() && (node.is_switch() || !is_input) {
                    absent.add(node.first_port);
                }
            }
        }
    }

    /// Checks an output port.
    fn check_output(&self, output: PortId, inputs: &[PortId], tallies: &mut [ScopeTally]) {
        let all = &self.setup.policy().sl_to_vl;
        let scopes: Vec<usize> = self.setup.mappings_to(self.fabric, output).collect();
        let setup = self.setup;
        for &index in &scopes {
            let tally = &mut tallies[index];
            tally.matched |=
                inputs.iter().any(|&input| setup.mapping(self.fabric, &[index], input).is_some());
        }
        let mut owners: Vec<usize> = match scopes.first() {
            None => return,
            Some(&first) if takes_all(&all[first]) => vec![first],
            _ => inputs
                .iter()
                .filter_map(|&input| setup.mapping(self.fabric, &scopes, input))
                .collect(),
        };
        owners.sort_unstable();
        owners.dedup();
        let info = configurable_info(self.fabric, self.targets, output);
        let node = self.fabric.node_of(output);
        for index in owners {
            let tally = &mut tallies[index];
            tally.owned = true;
            let Some(info) = info else { continue };
            // On switches, only port 0 has a capability mask.
            let owner = if node.is_switch() { node.first_port } else { output };
            let able = self.fabric.port(owner).info().is_some_and(|i| i.has(CapMask::SL_MAPPING));
            let wanted = all[index].vls.iter().filter(|&&vl| vl != DROPPED_VL);
            let missing = wanted.fold(0, |bits, vl| bits | 1 << (vl & 0xF)) & !operating(&info);
            if !able {
                tally.mapless.add(output);
            } else if missing != 0 {
                tally.vls |= missing;
                tally.without.add(output);
            }
        }
    }

    fn report_mapping(&self, scope: &SlToVlScope, tally: &ScopeTally) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        for ((_, range), absent) in ranges(scope).zip(&tally.absent) {
            found.extend(self.report_absent(range, absent));
        }
        if !tally.owned {
            found.push(self.unused_scope("sl2vl-scope", scope.at, tally.matched));
        }
        if tally.mapless.count > 0 {
            let message =
                format!("SL to VL mapping is not supported at {}", self.such_as(&tally.mapless));
            found.push(self.diagnostic(Severity::Warning, scope.at, message));
        }
        if let Some(first) = tally.without.first {
            let info = self.info_of_example(first);
            let place = scope
                .vls
                .iter()
                .position(|vl| *vl != DROPPED_VL && tally.vls >> vl & 1 == 1)
                .and_then(|sl| scope.written.get(sl));
            let ports = self.such_as(&tally.without);
            let has = vls(operating(&info));
            let message = format!(
                "the sl2vl-table uses {}, not operational at {ports} ({has}); the lowest bits of \
                 the VL are used there",
                vls(tally.vls)
            );
            found.push(self.diagnostic(Severity::Error, *place.unwrap_or(&scope.at), message));
        }
        found
    }

    fn report_absent(&self, range: &PortRange, absent: &PortSample) -> Option<Diagnostic> {
        let node = self.fabric.node_of(absent.first?);
        let one = format!("{} {} \"{}\"", node.kind(), node.guid(), node.name());
        let devices = match absent.count {
            1 => one,
            count => format!("{count} devices, such as {one}"),
        };
        let last = range.last;
        let ports = node.num_ports();
        let message =
            format!("port {last} does not exist on {devices}; the highest port is {ports}");
        Some(self.diagnostic(Severity::Error, range.at, message))
    }
}
