//! Findings in configuration files.

use super::span::Span;
use crate::notes::{Note, Severity};
use std::fmt;
use std::path::{Path, PathBuf};

/// A finding in a file, with its position.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Diagnostic {
    pub file: PathBuf,
    /// Line, from 1; 0 for a finding about the whole file.
    pub line: u32,
    /// Column in characters, from 1; 0 for a finding about the whole line.
    pub column: u32,
    pub severity: Severity,
    /// The problem and, if known, its correction.
    pub message: String,
    /// OpenSM's `ERR` number for the same fault, for the log.
    pub code: Option<&'static str>,
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
        Self::new(diagnostic.severity, diagnostic.code, diagnostic.to_string())
    }
}

/// Collects the diagnostics of one file while it is parsed.
pub(super) struct Diagnostics<'a> {
    file: &'a Path,
    found: Vec<Diagnostic>,
}

impl<'a> Diagnostics<'a> {
    pub(super) fn new(file: &'a Path) -> Self {
        Self { file, found: Vec::new() }
    }

    /// Adds a diagnostic; `line` and `column` are as in [`Diagnostic`].
    pub(super) fn add(&mut self, severity: Severity, line: u32, column: u32, message: String) {
        let file = self.file.to_path_buf();
        self.found.push(Diagnostic { file, line, column, severity, message, code: None });
    }

    pub(super) fn error(&mut self, at: Span<'_>, message: impl Into<String>) {
        self.add(Severity::Error, at.line, at.column(), message.into());
    }

    /// Adds an error for which OpenSM has the `ERR` number `code`. Without a position, it is about the
    /// whole file.
    pub(super) fn coded_error(
        &mut self,
        code: Option<&'static str>,
        at: Option<Span<'_>>,
        message: String,
    ) {
        let (line, column) = at.map_or((0, 0), |at| (at.line, at.column()));
        let file = self.file.to_path_buf();
        let severity = Severity::Error;
        self.found.push(Diagnostic { file, line, column, severity, message, code });
    }

    pub(super) fn warning(&mut self, at: Span<'_>, message: impl Into<String>) {
        self.add(Severity::Warning, at.line, at.column(), message.into());
    }

    /// All diagnostics in the order of their positions.
    pub(super) fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.found.sort_by_key(|found| (found.line, found.column));
        self.found
    }
}
