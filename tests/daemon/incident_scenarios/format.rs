//! The text of a scenario.

use std::path::{Path, PathBuf};

/// Line between the steps of a block and what follows from them.
pub(super) const SEPARATOR: &str = "----";

/// Steps, and the lines about the incidents that must follow.
pub(super) struct Block {
    /// As written, with comments.
    pub(super) lines: Vec<String>,
}

pub(super) struct Scenario {
    pub(super) path: PathBuf,
    pub(super) blocks: Vec<Block>,
    /// Neither restarts nor takeovers are played.
    pub(super) is_once: bool,
}

impl Scenario {
    pub(super) fn parse(text: &str, path: &Path) -> Self {
        let block = |text: &str| Block {
            lines: text.lines().take_while(|line| *line != SEPARATOR).map(str::to_owned).collect(),
        };
        let blocks: Vec<Block> = text.trim().split("\n\n").map(block).collect();
        let is_once = blocks.iter().flat_map(|block| &block.lines).any(|line| line == "once");
        Self { path: path.to_owned(), blocks, is_once }
    }
}

impl Block {
    /// The steps, each with the indented lines below it.
    pub(super) fn steps(&self) -> Vec<(&str, Vec<&str>)> {
        let mut steps: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in self.lines.iter().filter(|line| !line.starts_with('#')) {
            match (line.strip_prefix("  "), steps.last_mut()) {
                (Some(text), Some((_, below))) => below.push(text),
                _ => steps.push((line, Vec::new())),
            }
        }
        steps
    }
}
