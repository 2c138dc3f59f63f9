//! What of the scopes a fabric cannot follow: section 9 of the proposal.
//!
//! Nodes that no port group has: a note. Scopes without a port, entries of arbitration for VLs that a port lacks: warnings. Tables
//! longer than a port's, mappings to VLs that it lacks, port numbers that a device lacks: errors.
//! Whatever it is, the rest is carried out: the policy is for a fabric that changes, and what
//! one port cannot do the others can.

mod arbitration;
mod mappings;

use super::scopes::QosSetup;
use crate::config::Diagnostic;
use crate::config::qos_policy::Place;
use crate::fabric::{Fabric, Node, PortId};
use crate::notes::Severity;
use crate::plan::paged_vec::PagedVec;
use crate::plan::routing::RoutingPolicy;
use crate::wire::attr::PortInfo;

/// What the scopes are to be carried out on.
#[derive(Clone, Copy)]
pub struct SetupContext<'a> {
    /// The fabric.
    pub fabric: &'a Fabric,
    /// The scopes.
    pub setup: &'a QosSetup,
    /// Name of the engine that routed the fabric.
    pub engine: &'a str,
    /// What it decides.
    pub policy: &'a dyn RoutingPolicy,
    /// By port slot: the PortInfo that is to be set.
    pub targets: &'a PagedVec<Option<PortInfo>>,
}

/// What the operator is to hear of the scopes, by place in the file.
pub fn diagnostics(context: &SetupContext<'_>) -> Vec<Diagnostic> {
    let mut found = context.of_arbitration();
    found.extend(context.of_mappings());
    found.extend(context.of_nodes());
    found.sort_by_key(|found| (found.line, found.column));
    found
}

impl SetupContext<'_> {
    fn say(&self, severity: Severity, at: Place, message: String) -> Diagnostic {
        let file = self.setup.policy().file.clone();
        Diagnostic { file, line: at.line, column: at.column, severity, message }
    }

    /// Nodes without a port in any group: what was forgotten, maybe.
    fn of_nodes(&self) -> Option<Diagnostic> {
        let all: Vec<usize> = (0..self.setup.policy().groups.len()).collect();
        let is_forgotten = |node: &&Node| {
            let first = node.first_port.0;
            let mut ports = (first..=first + u32::from(node.num_ports())).map(PortId);
            !ports.any(|port| self.setup.is_in(&all, port))
        };
        let mut forgotten = self.fabric.nodes().iter().filter(is_forgotten);
        let node = forgotten.next()?;
        let more = match forgotten.count() {
            0 => String::new(),
            more => format!(", and {more} more nodes"),
        };
        let name = format!("{} {} \"{}\"", node.kind(), node.guid(), node.description);
        let message = format!("no port group has {name}{more}");
        Some(self.say(Severity::Info, Place::default(), message))
    }

    /// A scope of which nothing remains.
    fn idle(&self, what: &str, at: Place, matched: bool) -> Diagnostic {
        let message = match matched {
            false => format!("this {what} matches no port of the fabric"),
            true => format!("this {what} has no effect: scopes before it have all of its ports"),
        };
        self.say(Severity::Warning, at, message)
    }

    /// `port X`, or `12 ports, such as port X`.
    fn such_as(&self, crowd: &Crowd) -> String {
        let first = crowd.first.map(|port| self.fabric.describe(port)).unwrap_or_default();
        match crowd.count {
            1 => first,
            count => format!("{count} ports, such as {first}"),
        }
    }
}

/// Ports that have something in common.
#[derive(Clone, Copy, Debug, Default)]
struct Crowd {
    count: usize,
    /// The first of them.
    first: Option<PortId>,
}

impl Crowd {
    /// Adds a port that comes behind those before.
    fn add(&mut self, port: PortId) {
        self.count += 1;
        self.first = self.first.or(Some(port));
    }

    /// Adds a crowd that comes behind this one.
    fn join(&mut self, later: &Self) {
        self.count += later.count;
        self.first = self.first.or(later.first);
    }
}

/// `VL 3`, `VLs 2, 8-14`: the VLs whose bits are set.
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
        .map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    let noun = if bits.count_ones() == 1 { "VL" } else { "VLs" };
    format!("{noun} {}", runs.join(", "))
}

/// The data VLs that operate on a port, as bits.
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
        let told = |code| {
            let mut info = PortInfo::default();
            info.set_operational_vls(code);
            operating(&info)
        };
        assert_eq!([0, 1, 2, 3, 4, 5].map(told), [1, 1, 3, 0xF, 0xFF, 0x7FFF]);
    }
}
