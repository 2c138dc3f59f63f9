//! Circles of files: a file uses items of another one, which uses items of the first, directly or
//! through others.

use super::paths::{Import, imports, paths};
use super::source::{Source, sources};
use std::collections::{BTreeMap, BTreeSet};

/// A module as the names from the crate's root on.
type Module = Vec<String>;

/// A file: its `use` declarations, resolved from the crate's root on, and the rest of its text.
struct File {
    imports: Vec<Import>,
    rest: String,
}

/// The files of the crate by module.
struct Files {
    files: BTreeMap<Module, File>,
    modules: BTreeSet<Module>,
}

/// By file: the files whose items it uses, with the names of these items.
type Uses = BTreeMap<Module, BTreeMap<Module, BTreeSet<String>>>;

impl Files {
    fn new(sources: &[Source]) -> Self {
        let sources = sources.iter().filter(|source| source.name != "main.rs");
        let file = |source: &Source| {
            let module = source.module().into_iter().map(str::to_owned).collect();
            let (imports, rest) = imports(&source.code);
            (module, File { imports, rest })
        };
        let mut files: BTreeMap<Module, File> = sources.map(file).collect();
        let modules: BTreeSet<Module> = files.keys().cloned().collect();
        for (module, file) in &mut files {
            file.imports.retain_mut(|import| match resolve(&modules, module, &import.path) {
                Some(path) => {
                    import.path = path;
                    true
                }
                None => false,
            });
        }
        Self { files, modules }
    }

    /// The file that defines the item at a path, and the item's name; no name if the path is that
    /// of a module. A `mod.rs` that re-exports an item of a file below it does not define it.
    fn definition<'a>(&'a self, path: &'a [String]) -> Option<(&'a Module, Option<&'a str>)> {
        let length = (1..=path.len()).rev().find(|&n| self.files.contains_key(&path[..n]))?;
        let (module, file) = self.files.get_key_value(&path[..length])?;
        let Some(item) = path.get(length) else { return Some((module, None)) };
        let re_export = file.imports.iter().find(|import| {
            import.is_public && import.alias == *item && import.path.starts_with(module)
        });
        match re_export.and_then(|import| self.definition(&import.path)) {
            Some(found) if found.0 != module => Some(found),
            _ => Some((module, Some(item))),
        }
    }

    /// The items of other files that a file uses.
    fn uses(&self, module: &Module) -> BTreeMap<Module, BTreeSet<String>> {
        let file = &self.files[module];
        let mut uses: BTreeMap<Module, BTreeSet<String>> = BTreeMap::new();
        let mut add = |path: &[String]| {
            if let Some((other, Some(item))) = self.definition(path)
                && is_counted(module, other)
            {
                uses.entry(other.clone()).or_default().insert(item.to_owned());
            }
        };
        file.imports.iter().for_each(|import| add(&import.path));
        for path in paths(&file.rest) {
            let imported = file.imports.iter().find(|import| import.alias == path[0]);
            let path: Vec<String> = path.into_iter().map(str::to_owned).collect();
            if let Some(import) = imported {
                add(&[&import.path, &path[1..]].concat());
            } else if let Some(path) = resolve(&self.modules, module, &path) {
                add(&path);
            }
        }
        uses
    }

    fn all_uses(&self) -> Uses {
        self.files.keys().map(|module| (module.clone(), self.uses(module))).collect()
    }
}

/// The path from the crate's root on; `None` if it leads out of the crate.
fn resolve(modules: &BTreeSet<Module>, module: &Module, path: &[String]) -> Option<Vec<String>> {
    let mut base = module.clone();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (base, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                base.pop();
                rest = &rest[1..];
            }
        }
        child => {
            let child = [&base[..], &[child.to_owned()]].concat();
            modules.contains(&child).then_some(())?;
        }
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// A file and the `mod.rs` of a folder above it count as one.
fn is_counted(module: &Module, other: &Module) -> bool {
    !module.starts_with(other) && !other.starts_with(module)
}

/// The files that can be reached from each by following uses.
fn reachable(uses: &Uses) -> BTreeMap<&Module, BTreeSet<&Module>> {
    let from = |start| {
        let mut seen = BTreeSet::new();
        let mut next = vec![start];
        while let Some(module) = next.pop() {
            next.extend(uses[module].keys().filter(|other| seen.insert(*other)));
        }
        (start, seen)
    };
    uses.keys().map(from).collect()
}

/// Sets of files each of which reaches all others of its set.
fn circles(uses: &Uses) -> Vec<BTreeSet<&Module>> {
    let reachable = reachable(uses);
    let mut circles: Vec<BTreeSet<&Module>> = Vec::new();
    for (module, others) in &reachable {
        let is_known = circles.iter().any(|circle| circle.contains(module));
        if !is_known && others.contains(module) {
            circles
                .push(others.iter().copied().filter(|o| reachable[o].contains(module)).collect());
        }
    }
    circles
}

/// The uses within a circle, one per line.
fn describe(circle: &BTreeSet<&Module>, uses: &Uses) -> String {
    let mut text = format!("circle of {} files:\n", circle.len());
    for module in circle {
        for (other, items) in uses[*module].iter().filter(|(other, _)| circle.contains(other)) {
            let items: Vec<&str> = items.iter().map(String::as_str).collect();
            let from = module.join("/");
            let to = other.join("/");
            text += &format!("  {from} -> {to}: {}\n", items.join(", "));
        }
    }
    text
}

fn files_of(texts: &[(&str, &str)]) -> Files {
    let source = |&(name, code): &(&str, &str)| Source {
        name: name.to_owned(),
        lines: code.lines().count(),
        code: code.to_owned(),
    };
    Files::new(&texts.iter().map(source).collect::<Vec<_>>())
}

#[test]
fn a_circle_is_found() {
    let files = files_of(&[
        ("m/mod.rs", "pub mod a;\npub mod b;\npub use a::Item;\npub struct Shared;\n"),
        ("m/a.rs", "use super::Shared;\nuse super::b;\npub struct Item;\nfn f() { b::g(); }\n"),
        ("m/b.rs", "use super::Shared;\nuse super::Item;\npub fn g() {}\n"),
        ("m/c.rs", "use super::a::Item;\n"),
    ]);
    let uses = files.all_uses();
    let found: Vec<String> = circles(&uses).iter().map(|circle| describe(circle, &uses)).collect();
    assert_eq!(found, ["circle of 2 files:\n  m/a -> m/b: g\n  m/b -> m/a: Item\n"]);
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let uses = Files::new(&sources()).all_uses();
    let circles = circles(&uses).into_iter();
    let circles: Vec<String> = circles.map(|circle| describe(&circle, &uses)).collect();
    assert!(circles.is_empty(), "{}", circles.join("\n"));
}
