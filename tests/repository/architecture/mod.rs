//! The rules of the source tree:
//!
//! * A top-level module imports only the modules that the table in ARCHITECTURE.md lists.
//! * `plan` and `verify` perform no I/O, read no clock and log nothing.
//! * `unsafe` is allowed in `transport`, and for a call of the allocator in `daemon::process::memory`.
//! * No circle of files: if a file uses an item of another one, that one uses nothing of the first,
//!   directly or through others. A file and the `mod.rs` above it do not count, because a `mod.rs`
//!   defines the types that the files of its folder share, and offers their functions to the
//!   outside.
//! * No file has more than 500 lines.
//! * No conversion between numbers and bytes in network byte order outside of `wire`.
//!
//! Test modules are exempt from all of them but the length.

mod circles;
mod paths;
mod source;

use paths::imported_modules;
use source::{Source, repository_text, sources};
use std::collections::{BTreeMap, BTreeSet};

/// Top-level modules, and the modules that each may import besides itself, from the table in
/// ARCHITECTURE.md. `None` may import everything.
fn import_rules() -> BTreeMap<String, Option<Vec<String>>> {
    let text = repository_text("ARCHITECTURE.md");
    let section = text.split_once("## Import rules\n").expect("the section").1;
    let table = section.split_once("```text\n").expect("the table").1;
    let rows = table.lines().take_while(|line| !line.contains("```"));
    let rules: BTreeMap<_, _> = rows.map(import_rule).collect();
    assert!(rules.len() > 10, "ARCHITECTURE.md has no table of imports");
    rules
}

/// A row of the table; an explanation stands in parentheses.
fn import_rule(row: &str) -> (String, Option<Vec<String>>) {
    let mut words = row.split('(').next().unwrap_or_default().split_whitespace().map(str::to_owned);
    let module = words.next().expect("a module");
    let allowed: Vec<String> = words.collect();
    (module, (allowed != ["everything"]).then_some(allowed))
}

#[test]
fn every_module_is_in_the_table_of_imports() {
    let text = repository_text("src/lib.rs");
    let declared = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let declared: BTreeSet<&str> = declared.collect();
    let rules = import_rules();
    let listed: BTreeSet<&str> = rules.keys().map(String::as_str).collect();
    assert_eq!(declared, listed);
    for allowed in rules.values().flatten().flatten() {
        assert!(rules.contains_key(allowed), "{allowed} is not a module");
    }
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let rules = import_rules();
    let mut violations = Vec::new();
    for source in sources() {
        let module = source.top_level_module();
        let Some(Some(allowed)) = rules.get(module) else { continue };
        for (line, target) in imported_modules(&source.code) {
            if target != module && !allowed.contains(&target) {
                violations.push(format!("{}:{line}: {module} imports {target}", source.name));
            }
        }
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// Names that the pure stages must not use.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "std::time::Instant",
    "Instant::now",
    "SystemTime",
    "tokio::",
    "tracing::",
    "chrono::",
    "rand::",
    "thread_rng",
    "println!",
    "eprintln!",
];

#[test]
fn plan_and_verify_are_pure() {
    let sources = sources();
    let pure = sources.iter().filter(|s| ["plan", "verify"].contains(&s.top_level_module()));
    let violations: Vec<String> = pure.flat_map(|source| occurrences(source, IMPURE)).collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

/// The lines of a file that contain one of `words`, for messages.
fn occurrences(source: &Source, words: &[&str]) -> Vec<String> {
    let lines = source.code.lines().zip(1..);
    lines
        .flat_map(|(line, number)| {
            let found = words.iter().filter(move |word| line.contains(**word));
            found.map(move |word| format!("{}:{number}: {word}", source.name))
        })
        .collect()
}

#[test]
fn unsafe_code_is_confined() {
    let system_calls = ["daemon/process/memory.rs", "daemon/process/priority.rs"];
    for source in sources() {
        let is_allowed = source.top_level_module() == "transport"
            || system_calls.iter().any(|name| source.name.ends_with(name));
        assert!(is_allowed || !source.code.contains("allow(unsafe_code)"), "{}", source.name);
    }
}

const MAX_LINES: usize = 500;

#[test]
fn no_file_is_longer_than_500_lines() {
    let long = sources().into_iter().filter(|source| source.lines > MAX_LINES);
    let long: Vec<String> = long.map(|s| format!("{}: {} lines", s.name, s.lines)).collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

/// Conversions between numbers and bytes in network byte order.
const BYTE_ORDER: &[&str] = &["from_be_bytes", "to_be_bytes", "from_be(", ".to_be()"];

/// Files outside of `wire` that may convert:
/// * `ids.rs` composes a GID, which is bytes, of a prefix and a GUID;
/// * `transport/umad` and `transport/sysfs.rs` are the ABI of the kernel's ib_umad, whose address
///   fields are in network byte order;
/// * `sim/kernel` and `sim/serve` are the other side of that ABI.
const MAY_CONVERT: &[&str] =
    &["wire/", "ids.rs", "transport/umad/", "transport/sysfs.rs", "sim/kernel/", "sim/serve/"];

#[test]
fn byte_order_is_confined_to_wire() {
    let sources = sources();
    let is_exempt =
        |source: &&Source| MAY_CONVERT.iter().any(|start| source.name.starts_with(start));
    let others = sources.iter().filter(|source| !is_exempt(source));
    let violations: Vec<String> =
        others.flat_map(|source| occurrences(source, BYTE_ORDER)).collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
