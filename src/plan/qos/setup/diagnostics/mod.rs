//! Diagnostics about scopes that the fabric cannot implement (section 9 of the proposal).
//!
//! * information: nodes that are in no port group;
//! * warnings: scopes without a port, arbitration entries for VLs that a port lacks;
//! * errors: tables longer than a port's, mappings to VLs that a port lacks, port numbers that a
//!   device lacks.
//!
//! The rest of a scope is applied in any case: the policy must suit a fabric that changes, and a
//! restriction of one port must not affect the others.

mod arbitration;
mod mappings;

use super::scopes::QosSetup;
use crate::config::Diagnostic;
use crate::config::qos_policy::PolicyPlace;
use crate::fabric::{Fabric, PortId};
use crate::notes::{Severity, counted};
use crate::plan::port_targets::PortTargets;
use crate::plan::qos::vls::configurable_info;
use crate::plan::routing::RoutingPolicy;
use crate::wire::attr::PortInfo;

/// The plan that the scopes are checked against.
#[derive(Clone, Copy)]
pub struct SetupContext<'a> {
    pub fabric: &'a Fabric,
    pub setup: &'a QosSetup,
    /// Name of the engine that routed the fabric.
    pub engine: &'a str,
    pub policy: &'a dyn RoutingPolicy,
    /// The PortInfo to set, by port slot.
    pub targets: &'a PortTargets,
}

/// The diagnostics of all scopes, by position in the file.
pub fn diagnostics(context: &SetupContext<'_>) -> Vec<Diagnostic> {
    let mut found = context.arbitration_diagnostics();
    found.extend(context.mapping_diagnostics());
    found.extend(context.ungrouped_nodes());
    found.sort_by_key(|found| (found.line, found.column));
    found
}

impl SetupContext<'_> {
    fn diagnostic(&self, severity: Severity, at: PolicyPlace, message: String) -> Diagnostic {
        let file = self.setup.policy().file.clone();
        Diagnostic { file, line: at.line, column: at.column, severity, message, code: None }
    }

    /// Nodes without a port in any group, which the administrator may have overlooked.
    fn ungrouped_nodes(&self) -> Option<Diagnostic> {
        let all: Vec<usize> = (0..self.setup.policy().groups.len()).collect();
        let mut forgotten = self
            .fabric
            .nodes()
            .iter()
            .filter(|node| !node.slots().any(|port| self.setup.is_in(&all, port)));
        let node = forgotten.next()?;
        let more = match forgotten.count() {
            0 => String::new(),
            more => format!(", and {}", counted(more, "more node", "more nodes")),
        };
        let name = format!("{} {} \"{}\"", node.kind(), node.guid(), node.name());
        let message = format!("no port group contains {name}{more}");
        Some(self.diagnostic(Severity::Info, PolicyPlace::default(), message))
    }

    /// A scope that applies to no port.
    fn unused_scope(&self, what: &str, at: PolicyPlace, matched: bool) -> Diagnostic {
        let message = if matched {
            format!("this {what} has no effect: earlier scopes apply to all of its ports")
        } else {
            format!("this {what} matches no port of the fabric")
        };
        self.diagnostic(Severity::Warning, at, message)
    }

    /// The target PortInfo of a port that lacks part of what its tables want.
    fn info_of_example(&self, port: PortId) -> PortInfo {
        let info = configurable_info(self.fabric, self.targets, port);
        info.expect("only ports with QoS tables are counted")
    }

    /// Describes ports by an example: `port X`, or `12 ports, such as port X`.
    fn such_as(&self, ports: &PortSample) -> String {
        let first = ports.first.map_or_else(String::new, |port| self.fabric.describe(port));
        match ports.count {
            1 => first,
            count => format!("{count} ports, such as {first}"),
        }
    }
}

/// The number of ports with a common property, and the first of them.
#[derive(Clone, Copy, Debug, Default)]
struct PortSample {
    count: usize,
    first: Option<PortId>,
}

impl PortSample {
    /// Adds a port. Ports must be added in ascending order.
    fn add(&mut self, port: PortId) {
        self.count += 1;
        self.first = self.first.or(Some(port));
    }

    /// Adds the ports of `later`, which follow those of this sample.
    fn join(&mut self, later: &Self) {
        self.count += later.count;
        self.first = self.first.or(later.first);
    }
}

/// Formats a bit set of VLs: `VL 3`, `VLs 2, 8-14`.
fn vls(bits: u16) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for vl in (0..16).filter(|vl| bits >> vl & 1 == 1) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == vl => *last = vl,
            _ => runs.push((vl, vl)),
        }
    }
    let runs: Vec<String> = runs
        .into_iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    let noun = if bits.count_ones() == 1 { "VL" } else { "VLs" };
    format!("{noun} {}", runs.join(", "))
}

/// The operational data VLs of a port, as bits.
fn operating(info: &PortInfo) -> u16 {
    let highest = u32::from(crate::plan::qos::vls::vl_mask(info)).min(14);
    ((1_u32 << (highest + 1)) - 1) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vls_in_words() {
        assert_eq!(vls(1 << 8), "VL 8");
        assert_eq!(vls(0x7F00), "VLs 8-14");
        assert_eq!(vls(0x10F5), "VLs 0, 2, 4-7, 12");
    }

    #[test]
    fn operating_vls() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(mask), [1, 1, 3, 0xF, 0xFF, 0x7FFF]);
    }

    fn mask(code: u8) -> u16 {
        let mut info = PortInfo::default();
        info.set_operational_vls(code);
        operating(&info)
    }
}
