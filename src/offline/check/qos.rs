//! Effect of QoS on a fabric, as text: the ports to which each scope of the policy applies, and the
//! levels with the rules that select them.

use super::vl_tables;
use crate::cli::configuration;
use crate::config::Diagnostic;
use crate::config::files;
use crate::config::literal::{mtu_in_words, rate_in_words};
use crate::config::options::Options;
use crate::config::qos_policy::{
    MatchRule, PolicyPlace, QosLevel, QosPolicy, Ranges, SlToVlScope, VlArbEntry, VlArbScope,
};
use crate::fabric::{Fabric, PortId};
use crate::ids::PortNum;
use crate::plan::Plan;
use crate::plan::compute::{PlanInput, Registrations};
use crate::plan::lids::Memory;
use crate::plan::partitions::Partition;
use crate::plan::qos::setup::{QosSetup, SetupContext, diagnostics};
use crate::plan::routing::{RoutingError, torus};
use crate::verify::baseline::plan_and_verify;
use crate::verify::{Checks, Verified};
use crate::wire::attr::tables::SlToVl;
use std::fmt::Write;
use std::sync::Arc;

/// Appends a line; writing to a `String` cannot fail.
macro_rules! put {
    ($out:expr, $($part:tt)*) => {{
        let _ = writeln!($out, $($part)*);
    }};
}

/// The effect of QoS as text, and findings about the fabric.
pub(super) struct Shown {
    pub text: String,
    /// Scopes that the fabric cannot satisfy.
    pub findings: Vec<Diagnostic>,
}

/// Describes the effect of QoS in a plan. `policy` is the QoS policy, if there is one.
pub(super) fn shown(fabric: &Fabric, plan: &Plan, policy: Option<&Arc<QosPolicy>>) -> Shown {
    let mut text = format!("QoS with the routes of {}:\n", plan.routing.engine);
    if let Some(setup) = &plan.qos.setup {
        ScopeReport { fabric, plan, setup }.put(&mut text);
    }
    match policy {
        Some(policy) => put_levels(&mut text, policy, plan.routing.engine),
        None => put!(text, "  no policy: paths have the SLs of their partitions"),
    }
    text += &vl_tables::shown(fabric, plan);
    Shown { text, findings: scope_findings(fabric, plan) }
}

/// Scopes of the policy that the fabric cannot satisfy.
pub(super) fn scope_findings(fabric: &Fabric, plan: &Plan) -> Vec<Diagnostic> {
    let Some(setup) = &plan.qos.setup else { return Vec::new() };
    let engine = plan.routing.engine;
    let policy = &*plan.routing.policy;
    diagnostics(&SetupContext { fabric, setup, engine, policy, targets: &plan.ports })
}

/// The reason why there is no plan.
pub(super) struct Unrouted {
    pub text: String,
    /// The failures of the engines; empty if verification failed.
    pub errors: Vec<RoutingError>,
}

/// Plans the fabric, and verifies the plan.
///
/// # Errors
/// Returns the reason why there is no plan that the daemon would apply.
pub(super) fn planned(
    fabric: &Fabric,
    options: &Options,
    partitions: &[Partition],
    policy: Option<&Arc<QosPolicy>>,
) -> Result<Verified, Unrouted> {
    // Errors in these files have been reported already.
    let (routing_files, _) = files::routing_files(options);
    let chain = configuration::chain(options, routing_files)
        .map_err(|text| Unrouted { text, errors: Vec::new() })?;
    let input = PlanInput {
        fabric,
        options,
        memory: &Memory::default(),
        torus_config: &files::torus_config(options),
        partitions,
        observed_pkeys: &[],
        registrations: Registrations::default(),
        previous: None,
        reregister: &|_| false,
        chain: &chain,
        qos_policy: policy,
    };
    let outcome = plan_and_verify(&input, None, &Checks::new(options.qos));
    let planned = outcome.map_err(|failure| {
        let engines = failure.routing_errors.iter().map(|error| error.engine);
        let text = format!("{} found no routes", engines.collect::<Vec<_>>().join(" and "));
        Unrouted { text, errors: failure.routing_errors }
    })?;
    planned.verdict.map_err(|failure| Unrouted {
        text: format!("the plan is faulty and would not be applied: {failure}"),
        errors: Vec::new(),
    })
}

/// Number of ports to which a scope applies, also by group as (name, number). A port may be in
/// several groups.
#[derive(Clone, Default)]
struct PortCount {
    ports: usize,
    rows: usize,
    groups: Vec<(String, usize)>,
}

impl PortCount {
    /// Zero counts for groups with these names.
    fn of(names: impl Iterator<Item = String>) -> Self {
        Self { groups: names.map(|name| (name, 0)).collect(), ..Self::default() }
    }

    fn add(&mut self, rows: usize, groups: impl Iterator<Item = String>) {
        self.ports += 1;
        self.rows += rows;
        for name in groups {
            if let Some((_, count)) = self.groups.iter_mut().find(|(known, _)| *known == name) {
                *count += 1;
            }
        }
    }

    fn by_group(&self) -> String {
        let groups = self.groups.iter().map(|(name, count)| format!("{name} {count}"));
        match groups.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => none,
            groups => format!(" ({groups})"),
        }
    }
}

/// Describes the tables of scopes.
struct ScopeReport<'a> {
    fabric: &'a Fabric,
    plan: &'a Plan,
    setup: &'a QosSetup,
}

impl ScopeReport<'_> {
    fn put(&self, out: &mut String) {
        let policy = self.setup.policy();
        let (scoped, others) = self.arbitrations();
        for (scope, count) in policy.vl_arbitration.iter().zip(&scoped) {
            let line = scope.at.line;
            let ports = count.ports;
            put!(out, "  vlarb-scope of line {line}: {ports} ports{}", count.by_group());
            put!(out, "    {}", arbitration_in_words(scope));
        }
        if !scoped.is_empty() {
            put!(out, "  VL arbitration by the options: {others} ports");
        }
        let is_rejected = self.plan.routing.policy.decides_sl_to_vl();
        let (scoped, others) = self.mappings();
        for (scope, count) in policy.sl_to_vl.iter().zip(&scoped) {
            let PolicyPlace { line, .. } = scope.at;
            if is_rejected {
                put!(out, "  sl2vl-scope of line {line}: rejected");
                continue;
            }
            let ports = count.ports;
            let rows = count.rows;
            put!(
                out,
                "  sl2vl-scope of line {line}: {rows} mappings to {ports} ports{}",
                count.by_group()
            );
            put!(out, "    sl2vl-table {}", scope.vls.map(|vl| vl.to_string()).join(","));
        }
        if !scoped.is_empty() {
            let whose = if is_rejected { self.plan.routing.engine } else { "the options" };
            put!(out, "  SL to VL by {whose}: {others} mappings");
        }
    }

    /// Counts by scope, and the number of ports without a scope.
    fn arbitrations(&self) -> (Vec<PortCount>, usize) {
        let scopes = &self.setup.policy().vl_arbitration;
        let blank = scopes.iter().map(|scope| {
            let own = self.names(&scope.groups, "");
            PortCount::of(own.chain(self.names(&scope.across, "across ")))
        });
        let mut counts: Vec<PortCount> = blank.collect();
        let mut others = 0;
        for port in self.fabric.port_ids() {
            let blocks = self.plan.qos.vl_arbitration.get(port.index());
            if blocks.is_none_or(|blocks| blocks.is_empty()) {
                continue;
            }
            let scope = self.setup.arbitration_at(self.fabric, port).next();
            match scope.and_then(|index| Some((scopes.get(index)?, counts.get_mut(index)?))) {
                Some((scope, count)) => {
                    let own = self.groups(&scope.groups, port);
                    count.add(0, own.chain(self.groups_across(&scope.across, "across ", port)));
                }
                None => others += 1,
            }
        }
        (counts, others)
    }

    /// Counts by scope, and the number of mappings without a scope.
    fn mappings(&self) -> (Vec<PortCount>, usize) {
        let scopes = &self.setup.policy().sl_to_vl;
        let mut counts: Vec<PortCount> =
            scopes.iter().map(|scope| PortCount::of(self.mapping_names(scope))).collect();
        let mut others = 0;
        for node in self.fabric.node_ids() {
            let rows = self.plan.qos.sl_to_vl_of(node);
            for rows in rows.chunk_by(|(_, one, _), (_, two, _)| one == two) {
                let number = rows.first().map_or(0, |&(_, output, _)| output);
                let Some(output) = self.fabric.port_of(node, PortNum(number)) else { continue };
                let owners = self.owners(output, rows);
                others += owners.iter().filter(|owner| owner.is_none()).count();
                for (index, (scope, count)) in scopes.iter().zip(&mut counts).enumerate() {
                    let owned = owners.iter().filter(|owner| **owner == Some(index)).count();
                    if owned > 0 {
                        let own = self.groups(&scope.groups, output);
                        let across = self.groups_across(&scope.across, "across ", output);
                        let to = self.groups_across(&scope.across_to, "across-to ", output);
                        count.add(owned, own.chain(across).chain(to));
                    }
                }
            }
        }
        (counts, others)
    }

    /// The scope that determines each row to an output port.
    fn owners(&self, output: PortId, rows: &[(u8, u8, SlToVl)]) -> Vec<Option<usize>> {
        if self.plan.routing.policy.decides_sl_to_vl() {
            return vec![None; rows.len()];
        }
        let node = self.fabric.port(output).node;
        let is_switch = self.fabric.node(node).is_switch();
        let candidates: Vec<usize> = self.setup.mappings_to(self.fabric, output).collect();
        rows.iter()
            .map(|&(input, ..)| {
                let input = self.fabric.port_of(node, PortNum(input)).filter(|_| is_switch);
                self.setup.mapping(self.fabric, &candidates, input.unwrap_or(output))
            })
            .collect()
    }

    fn mapping_names<'b>(&'b self, scope: &'b SlToVlScope) -> impl Iterator<Item = String> + 'b {
        self.names(&scope.groups, "")
            .chain(self.names(&scope.across, "across "))
            .chain(self.names(&scope.across_to, "across-to "))
    }

    fn names<'b>(&'b self, groups: &'b [usize], how: &'b str) -> impl Iterator<Item = String> + 'b {
        let known = groups.iter().filter_map(|&group| self.setup.policy().groups.get(group));
        known.map(move |group| format!("{how}{}", group.name))
    }

    /// Names of the groups that contain the port.
    fn groups<'b>(
        &'b self,
        groups: &'b [usize],
        port: PortId,
    ) -> impl Iterator<Item = String> + 'b {
        let has = groups.iter().filter(move |&&group| self.setup.is_in(&[group], port));
        has.filter_map(|&group| Some(self.setup.policy().groups.get(group)?.name.clone()))
    }

    /// Names of the groups that contain the peer of the port.
    fn groups_across<'b>(
        &'b self,
        groups: &'b [usize],
        how: &'b str,
        port: PortId,
    ) -> impl Iterator<Item = String> + 'b {
        let peer = self.fabric.port(port).peer;
        let names = peer.into_iter().flat_map(move |peer| self.groups(groups, peer));
        names.map(move |name| format!("{how}{name}"))
    }
}

fn arbitration_in_words(scope: &VlArbScope) -> String {
    let limit = scope.high_limit.map(|limit| format!("vl-high-limit {limit}"));
    let parts = [table_text("vlarb-high", &scope.high), table_text("vlarb-low", &scope.low), limit];
    parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

fn table_text(name: &str, entries: &Option<Vec<VlArbEntry>>) -> Option<String> {
    let entries = entries.as_ref()?.iter().map(|entry| format!("{}:{}", entry.vl, entry.weight));
    Some(format!("{name} {}", entries.collect::<Vec<_>>().join(",")))
}

fn put_levels(out: &mut String, policy: &QosPolicy, engine: &str) {
    for (index, level) in policy.levels.iter().enumerate() {
        let name = if level.name.is_empty() { index.to_string() } else { level.name.clone() };
        put!(out, "  qos-level {name}: {}{}", level_in_words(level), uses(policy, index));
    }
    if engine == torus::NAME {
        put!(out, "  {engine} uses only bit 3 of these SLs, the QoS level");
    }
}

fn level_in_words(level: &QosLevel) -> String {
    let parts = [
        Some(format!("SL {}", level.sl)),
        level.mtu_limit.map(|mtu| format!("at most {}", mtu_in_words(mtu))),
        level.rate_limit.map(|rate| format!("at most {}", rate_in_words(rate))),
        level.packet_life.map(|life| format!("lifetime {life}")),
        ranges_text("P_Key", &level.pkeys),
        ranges_text("path bits", &level.path_bits),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn ranges_text(what: &str, ranges: &Ranges) -> Option<String> {
    let list: Vec<String> =
        ranges
            .iter()
            .map(|(first, last)| {
                if first == last { format!("{first:#x}") } else { format!("{first:#x}-{last:#x}") }
            })
            .collect();
    (!list.is_empty()).then(|| format!("{what} {}", list.join(",")))
}

/// The rules that select a level.
fn uses(policy: &QosPolicy, level: usize) -> String {
    let rules = policy.rules.iter().filter(|rule| rule.level == level);
    let lines: Vec<String> = rules.map(|MatchRule { line, .. }| line.to_string()).collect();
    let by_rule = match &lines[..] {
        [] => None,
        [line] => Some(format!("by the rule of line {line}")),
        _ => Some(format!("by the rules of lines {}", lines.join(", "))),
    };
    let by_default = (policy.default == level).then(|| "by default".to_owned());
    let both: Vec<String> = by_rule.into_iter().chain(by_default).collect();
    if both.is_empty() {
        "; no rule selects it".to_owned()
    } else {
        format!("; {}", both.join(" and "))
    }
}
