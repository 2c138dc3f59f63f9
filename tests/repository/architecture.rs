//! Enforces the import rules of ARCHITECTURE.md: walks every `crate::` path under
//! src/ and compares the rooms it leads to with the ones its own room may see.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms, and what each may import besides itself: the table in ARCHITECTURE.md.
/// `None` may import everything.
fn rules() -> BTreeMap<String, Option<Vec<String>>> {
    let text = root_text("ARCHITECTURE.md");
    let section = text.split_once("## Import rules\n").expect("the section").1;
    let table = section.split_once("```text\n").expect("the table").1;
    let rows = table.lines().take_while(|line| !line.contains("```"));
    let rules: BTreeMap<_, _> = rows
        .map(|row| {
            // What stands in parentheses is an explanation.
            let row = row.split('(').next().unwrap_or_default();
            let mut words = row.split_whitespace().map(str::to_owned);
            let room = words.next().expect("a room");
            let seen: Vec<String> = words.collect();
            (room, (seen != ["everything"]).then_some(seen))
        })
        .collect();
    assert!(rules.len() > 10, "the table was not found");
    rules
}

#[test]
fn every_room_is_in_the_table() {
    let text = source_text("lib.rs");
    let rooms = text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let rooms: Vec<&str> = rooms.collect();
    let rules = rules();
    let listed: Vec<&str> = rules.keys().map(String::as_str).collect();
    assert_eq!(rooms, listed);
    for seen in rules.values().flatten().flatten() {
        assert!(rules.contains_key(seen), "{seen} is no room");
    }
}

fn source_text(name: &str) -> String {
    root_text(&format!("src/{name}"))
}

fn root_text(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Words that have no place in the pure stages.
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
fn imports_go_one_way() {
    let rules = rules();
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        let room = room_of(&file);
        let Some(Some(allowed)) = rules.get(&room) else { continue };
        for (number, target) in imports(&text) {
            if target != room && !allowed.contains(&target) {
                wrong.push(format!("{}:{number}: {room} imports {target}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_stages_are_pure() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if !["plan", "verify"].contains(&room_of(&file).as_str()) {
            continue;
        }
        for (line, number) in without_tests(&text).lines().zip(1..) {
            let code = line.split("//").next().unwrap_or_default();
            for word in IMPURE.iter().filter(|word| code.contains(**word)) {
                wrong.push(format!("{}:{number}: {word}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_code_is_at_the_port_alone() {
    for (file, text) in sources() {
        let at_port = file.components().any(|part| part.as_os_str() == "transport");
        assert!(at_port || !text.contains("allow(unsafe_code)"), "{}", file.display());
    }
}

#[test]
fn every_import_of_a_group_is_found() {
    let text = "use crate::{ids::Guid, wire::{mad, smp}};\nlet x = crate::sm::step();\n\
                // crate::sa is not code\n#[cfg(test)]\nmod tests { use crate::cli; }\n";
    let found: Vec<String> = imports(text).into_iter().map(|(_, room)| room).collect();
    assert_eq!(found, ["ids", "wire", "sm"]);
}

/// Every source file below src/ with its text.
fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.push((path, text));
            }
        }
    }
    assert!(files.len() > 20, "the sources were not found");
    files.sort();
    files
}

/// The top-level module a file belongs to.
fn room_of(file: &Path) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let first = file.strip_prefix(source).unwrap().components().next().unwrap();
    first.as_os_str().to_string_lossy().trim_end_matches(".rs").to_owned()
}

/// What stands above a module of tests.
const TEST_ATTRIBUTE: &str = "#[cfg(test)]\n";

/// Tests may see whatever they like; they stand at the end of a file, or in a file of their own.
fn without_tests(text: &str) -> &str {
    let is_start = |rest: &str| rest.starts_with("mod ") || rest.starts_with("pub(super) mod ");
    let mut starts = text.match_indices(TEST_ATTRIBUTE).map(|(at, mark)| (at, at + mark.len()));
    let start = starts.find(|&(_, end)| is_start(&text[end..]));
    start.map_or(text, |(at, _)| &text[..at])
}

/// The rooms that a text's `crate::` paths lead to, with their lines.
fn imports(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let code: Vec<&str> = without_tests(text)
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect();
    let code = code.join("\n");
    for (offset, _) in code.match_indices("crate::") {
        // $crate:: in macros counts as well; a longer word such as `some_crate::` does not.
        if code[..offset].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let line = code[..offset].matches('\n').count() + 1;
        let path = &code[offset + "crate::".len()..];
        let rooms = match path.strip_prefix('{') {
            Some(group) => group_heads(group),
            None => vec![first_name(path)],
        };
        found.extend(rooms.into_iter().map(|room| (line, room)));
    }
    found
}

/// The first name of each path in a group that is open already.
fn group_heads(group: &str) -> Vec<String> {
    let mut heads = vec![first_name(group.trim_start())];
    let mut depth = 1;
    for (offset, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => heads.push(first_name(group[offset + 1..].trim_start())),
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads.retain(|head| !head.is_empty());
    heads
}

fn first_name(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}
