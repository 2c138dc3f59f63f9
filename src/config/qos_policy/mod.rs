//! qos-policy.conf: quality of service by traffic.
//!
//! ```text
//! port-groups
//!     port-group
//!         name: Storage
//!         port-guid: 0x1000000000000001, 0x1000000000000005-0x1000000000000FFA
//!     end-port-group
//! end-port-groups
//! qos-levels
//!     qos-level
//!         name: DEFAULT
//!         sl: 0
//!     end-qos-level
//! end-qos-levels
//! qos-match-rules
//!     qos-match-rule
//!         destination: Storage
//!         qos-level-name: DEFAULT
//!     end-qos-match-rule
//! end-qos-match-rules
//! qos-ulps
//!     sdp, port-num 30000 : 3
//! end-qos-ulps
//! ```
//!
//! The grammar is that of OpenSM with the additions of the 2007 proposal: levels by sequence
//! number, port names with wildcards, and `qos-setup`, which OpenSM reads and ignores. `use` takes
//! the rest of its line. Every other value ends at the next keyword, so that a file may consist of
//! one line; a list continues on the next line after a comma. `#` starts a comment. Comparison of
//! names ignores case and blanks. MTUs and rates are codes, or values with their unit.
//!
//! The stages of parsing are `statements` (text to keywords with values), `reader` (keywords to
//! sections; `section`, `fields`, `ulps` and `field_value` have the contents of sections), and
//! `resolve` (names of groups and levels to indexes). The parser reads the whole file and reports
//! every error with its position. A file with an error outside of `qos-setup` yields no
//! policy: without the rule in error, later rules would match its queries. [`crate::plan::qos`] applies a policy to a fabric.

mod field_value;
mod fields;
mod policy;
mod port_names;
mod quotes;
mod ranges;
mod reader;
mod resolve;
mod section;
mod statements;
mod ulps;

pub use policy::{
    MatchRule, NodeKinds, PolicyPlace, PortChoice, PortFilter, PortName, PortRange, QosLevel,
    QosPolicy, QosPortGroup, SlToVlScope, VlArbEntry, VlArbScope,
};
pub use ranges::Ranges;

use super::Diagnostic;
use super::diagnostic::Diagnostics;
use crate::notes::Severity;
use std::ops::RangeInclusive;
use std::path::Path;

/// OpenSM's number for errors other than those of names (`resolve`). Errors in `qos-setup` have no
/// number, since OpenSM does not find them.
pub const SYNTAX_ERROR: &str = "AC05";

impl QosPolicy {
    /// Parses the text of `file`. The diagnostics are in file order. If one of them is an error,
    /// there is no policy; errors within `qos-setup`, which OpenSM ignores, cost that section only.
    pub fn parse(file: &Path, text: &str) -> (Option<Self>, Vec<Diagnostic>) {
        let mut diagnostics = Diagnostics::new(file);
        let sections = reader::read(text, &mut diagnostics);
        let setup_lines = sections.setup_lines.clone();
        let mut policy = resolve::resolve(file, sections, &mut diagnostics);
        let mut found = diagnostics.into_sorted();
        for found in &mut found {
            if found.severity == Severity::Error && !is_setup(&setup_lines, found.line) {
                found.code.get_or_insert(SYNTAX_ERROR);
            }
        }
        let errors = found.iter().filter(|found| found.severity == Severity::Error);
        let (setup, others): (Vec<_>, Vec<_>) =
            errors.partition(|error| is_setup(&setup_lines, error.line));
        if !setup.is_empty() {
            policy.vl_arbitration.clear();
            policy.sl_to_vl.clear();
        }
        (others.is_empty().then_some(policy), found)
    }
}

fn is_setup(setup_lines: &[RangeInclusive<u32>], line: u32) -> bool {
    setup_lines.iter().any(|lines| lines.contains(&line))
}

#[cfg(test)]
mod tests;
