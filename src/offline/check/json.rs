//! The findings of `torus-sm check --json`.

use super::config_files::{CheckedFile, CheckedFiles};
use super::{ConfigEffect, FindingCounts};
use crate::config::Diagnostic;
use crate::notes::{Note, Severity};
use serde::Serialize;

#[derive(Serialize)]
struct CheckReport<'a> {
    files: Vec<FileReport<'a>>,
    /// Findings without a place in a file.
    findings: Vec<Finding<'a>>,
    errors: usize,
    warnings: usize,
}

#[derive(Serialize)]
struct FileReport<'a> {
    path: String,
    is_present: bool,
    findings: Vec<Finding<'a>>,
}

#[derive(Serialize)]
struct Finding<'a> {
    severity: &'static str,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    /// In characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    message: &'a str,
}

/// The findings as one JSON object, those about the effect on a fabric included.
pub(super) fn text(files: &CheckedFiles, effect: &ConfigEffect, counts: FindingCounts) -> String {
    let report = CheckReport {
        files: files.all.iter().map(|config| file(config, &effect.located)).collect(),
        findings: files.notes.iter().chain(&effect.notes).map(note).collect(),
        errors: counts.errors,
        warnings: counts.warnings,
    };
    serde_json::to_string_pretty(&report).expect("numbers and text can be serialized") + "\n"
}

fn file<'a>(file: &'a CheckedFile, found: &'a [Diagnostic]) -> FileReport<'a> {
    let further = found.iter().filter(|found| found.file == file.path());
    FileReport {
        path: file.path().display().to_string(),
        is_present: file.is_present(),
        findings: file.findings.iter().chain(further).map(located).collect(),
    }
}

fn located(found: &Diagnostic) -> Finding<'_> {
    Finding {
        severity: word(found.severity),
        line: known_line(found.line),
        column: known_line(found.column),
        message: &found.message,
    }
}

fn known_line(number: u32) -> Option<u32> {
    Some(number).filter(|&number| number > 0)
}

fn note(note: &Note) -> Finding<'_> {
    Finding { severity: word(note.severity), line: None, column: None, message: &note.text }
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}
