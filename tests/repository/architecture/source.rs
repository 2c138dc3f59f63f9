//! The files below src/, without comments and tests.

use std::fs;
use std::path::Path;

pub(crate) struct Source {
    /// Path below src/.
    pub(crate) name: String,
    /// Number of lines, comments and tests included.
    pub(crate) lines: usize,
    /// The text without line comments and without the test module at its end; empty for a file of
    /// tests. Lines keep their numbers.
    pub(crate) code: String,
}

impl Source {
    fn read(root: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a source file in UTF-8");
        let name = path.strip_prefix(root).expect("a path below src/").display().to_string();
        let code = if is_test_file(&name) { String::new() } else { code(&text) };
        Self { name, lines: text.lines().count(), code }
    }

    /// The module that the file is, as the names from the crate's root on.
    pub(crate) fn module(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.name.trim_end_matches(".rs").split('/').collect();
        if matches!(names.last(), Some(&"mod" | &"lib" | &"main")) {
            names.pop();
        }
        names
    }

    pub(crate) fn top_level_module(&self) -> &str {
        self.name.split('/').next().unwrap_or_default().trim_end_matches(".rs")
    }
}

fn is_test_file(name: &str) -> bool {
    name.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The text without line comments and without its test module.
pub(crate) fn code(text: &str) -> String {
    let lines = without_tests(text).lines();
    let lines: Vec<&str> = lines.map(|line| line.split("//").next().unwrap_or_default()).collect();
    lines.join("\n")
}

const TEST_ATTRIBUTE: &str = "#[cfg(test)]\n";

/// Test modules stand at the end of a file, or in a file of their own.
fn without_tests(text: &str) -> &str {
    let is_start = |rest: &str| rest.starts_with("mod ") || rest.starts_with("pub(super) mod ");
    let mut starts = text.match_indices(TEST_ATTRIBUTE).map(|(at, mark)| (at, at + mark.len()));
    let start = starts.find(|&(_, end)| is_start(&text[end..]));
    start.map_or(text, |(at, _)| &text[..at])
}

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a file of the repository.
pub(crate) fn repository_text(name: &str) -> String {
    let path = repository().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file below src/, by name.
pub(crate) fn sources() -> Vec<Source> {
    let root = repository().join("src");
    let mut files = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(Source::read(&root, &path));
            }
        }
    }
    assert!(files.len() > 20, "src/ holds {} files", files.len());
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}
