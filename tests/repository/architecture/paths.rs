//! The paths in the text of a file: imports, and paths within code.

/// An item or module that a `use` declaration names.
pub(crate) struct Import {
    /// `pub use`, `pub(crate) use` and the like.
    pub(crate) is_public: bool,
    pub(crate) path: Vec<String>,
    /// The name in this file; `*` for all names of a module.
    pub(crate) alias: String,
}

/// Divides a text into its `use` declarations, each with the groups in braces expanded, and the
/// rest.
pub(crate) fn imports(code: &str) -> (Vec<Import>, String) {
    let mut imports = Vec::new();
    let mut rest = String::new();
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let Some((is_public, start)) = use_declaration(line.trim()) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut tree = start.to_owned();
        while !tree.contains(';') {
            let Some(line) = lines.next() else { break };
            tree.push_str(line.trim());
        }
        let tree = tree.split(';').next().unwrap_or_default();
        expand(&[], tree, &mut |path, alias| imports.push(Import { is_public, path, alias }));
    }
    (imports, rest)
}

/// The tree of a line that opens a `use` declaration, and whether it is public.
fn use_declaration(line: &str) -> Option<(bool, &str)> {
    if let Some(tree) = line.strip_prefix("use ") {
        return Some((false, tree));
    }
    let (visibility, tree) = line.split_once(" use ")?;
    let is_visibility =
        visibility == "pub" || visibility.starts_with("pub(") && visibility.ends_with(')');
    is_visibility.then_some((true, tree))
}

/// Calls `found` with the path and the alias of each leaf of a use tree.
fn expand(prefix: &[String], tree: &str, found: &mut impl FnMut(Vec<String>, String)) {
    let tree = tree.trim();
    let (head, group) = match tree.split_once('{') {
        Some((head, group)) => (head, Some(group.strip_suffix('}').unwrap_or(group))),
        None => (tree, None),
    };
    let (head, alias) = head.split_once(" as ").unwrap_or((head, ""));
    let names = head.split("::").map(str::trim).filter(|name| !name.is_empty());
    let mut path: Vec<String> = prefix.iter().cloned().chain(names.map(str::to_owned)).collect();
    if let Some(group) = group {
        members(group).into_iter().for_each(|member| expand(&path, member, found));
        return;
    }
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let last = path.last().cloned().unwrap_or_default();
    found(path, if alias.is_empty() { last } else { alias.trim().to_owned() });
}

/// The members of a group, without those of groups within it.
fn members(group: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut start = 0;
    let mut members = Vec::new();
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(&group[start..]);
    members.retain(|member| !member.trim().is_empty());
    members
}

/// Every path of two names or more in code, such as `super::item::Item`.
pub(crate) fn paths(code: &str) -> Vec<Vec<&str>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = code.split(|c: char| !is_part(c)).map(|word| word.trim_matches(':'));
    let paths = words.map(|word| word.split("::").collect::<Vec<_>>());
    paths.filter(|path| path.len() > 1).collect()
}

/// The top-level modules that the `crate::` paths of a text lead to, each with its line.
pub(crate) fn imported_modules(code: &str) -> Vec<(usize, String)> {
    let mut modules = Vec::new();
    for (offset, word) in code.match_indices("crate::") {
        // $crate:: in macros counts as well; a longer word such as `some_crate::` does not.
        if code[..offset].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let line = code[..offset].matches('\n').count() + 1;
        let path = &code[offset + word.len()..];
        let heads = match path.strip_prefix('{') {
            Some(group) => {
                members(up_to_closing_brace(group)).into_iter().map(first_name).collect()
            }
            None => vec![first_name(path)],
        };
        modules.extend(heads.into_iter().map(|module| (line, module)));
    }
    modules
}

/// The inside of a group that is open already.
fn up_to_closing_brace(text: &str) -> &str {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

fn first_name(path: &str) -> String {
    path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn groups_and_paths_lead_to_modules() {
    let text = "use crate::{ids::Guid, wire::{mad, smp}};\nlet x = crate::sm::step();\n\
                // crate::sa is not code\n#[cfg(test)]\nmod tests { use crate::cli; }\n";
    let code = super::source::code(text);
    let found: Vec<String> = imported_modules(&code).into_iter().map(|(_, name)| name).collect();
    assert_eq!(found, ["ids", "wire", "sm"]);
}

#[test]
fn use_declarations_are_expanded() {
    let text = "pub(crate) use super::a::{self, B as C,\n    d::{E, *}};\nfn f() {}\n";
    let (imports, rest) = imports(text);
    let found: Vec<(String, String)> =
        imports.into_iter().map(|import| (import.path.join("::"), import.alias)).collect();
    let expected =
        [("super::a", "a"), ("super::a::B", "C"), ("super::a::d::E", "E"), ("super::a::d::*", "*")];
    assert_eq!(found, expected.map(|(path, alias)| (path.to_owned(), alias.to_owned())));
    assert_eq!(rest, "fn f() {}\n");
}
