//! What the administrator writes → typed values, with file:line:column diagnostics.
//!
//! * [`options`]: opensm.conf, one table; * [`torus`]: torus-2QoS.conf;
//! * [`suggest`]: "did you mean" for misspelt names.
//! * [`guid_lists`]: the files of GUIDs that tune routing.
//! * [`files`]: the files that the options name and a pass reads;
//! * [`qos_policy`]: qos-policy.conf, which traffic gets which service;
//! * [`guid2lid`]: the LIDs that ports had before;
//! * [`partitions`]: partitions.conf, who may talk to whom;
//! * [`prefix_routes`]: prefix-routes.conf, the ways to other subnets;
//! * `piece`, [`value`]: parts of a line with their place, and the values that people write;
//! * [`excerpt`]: findings with the line they are about.
//!
//! Parsers here are pure functions from text: whoever calls them opens the file.

pub mod excerpt;
pub mod files;
pub mod guid2lid;
pub mod guid_lists;
pub mod options;
pub mod partitions;
mod piece;
pub mod prefix_routes;
pub mod qos_policy;
pub mod suggest;
pub mod torus;
pub mod value;

use crate::notes::{Note, Severity};
use std::fmt;
use std::path::PathBuf;

/// A finding in a file, with its place.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Diagnostic {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1; 0 if the finding concerns the whole file.
    pub line: u32,
    /// Column, from 1; 0 if it concerns the whole line.
    pub column: u32,
    /// How bad.
    pub severity: Severity,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if self.line > 0 && self.column > 0 {
            write!(f, ":{}", self.column)?;
        }
        write!(f, ": {}", self.message)
    }
}

impl From<&Diagnostic> for Note {
    fn from(diagnostic: &Diagnostic) -> Self {
        Self::new(diagnostic.severity, None, diagnostic.to_string())
    }
}
