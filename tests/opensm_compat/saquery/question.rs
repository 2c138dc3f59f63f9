//! The queries of `questions.txt`, whose first lines describe the notation.

use super::fabric::{Node, lid};

/// One run of saquery.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    /// The node at which saquery runs; the SM's if empty.
    pub at: String,
    /// The arguments of saquery.
    pub args: Vec<String>,
    pub text: String,
}

impl Question {
    /// True if the arguments contain one of these words.
    pub(crate) fn has(&self, words: &[&str]) -> bool {
        self.args.iter().any(|arg| words.contains(&arg.as_str()))
    }
}

/// All queries of a text.
pub(crate) fn all(text: &str) -> Vec<Question> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let questions: Vec<Question> = lines.flat_map(choices).map(|line| question(&line)).collect();
    assert!(questions.len() > 500, "{} questions", questions.len());
    questions
}

/// One line for each choice of every bracket.
fn choices(line: &str) -> Vec<String> {
    let Some((before, rest)) = line.split_once('[') else { return vec![line.to_owned()] };
    let (within, after) = rest.split_once(']').expect("a closing bracket");
    within.split('|').flat_map(|choice| choices(&format!("{before}{choice}{after}"))).collect()
}

fn question(line: &str) -> Question {
    let mut words: Vec<String> = line.split_whitespace().map(with_lids).collect();
    let mut at = String::new();
    if let Some(host) = words.first().and_then(|word| word.strip_prefix('@')) {
        at = host.to_owned();
        words.remove(0);
    }
    Question { at, text: format!("{line} ({})", words.join(" ")), args: words }
}

/// The word with node names replaced by their LIDs.
fn with_lids(word: &str) -> String {
    let mut parts = word.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let end = part.find(|c| !is_name(c)).unwrap_or(part.len());
        let (name, rest) = part.split_at(end);
        let base = lid(Node::parse(name).unwrap_or_else(|| panic!("{name} is no node")));
        match rest.strip_prefix("+1") {
            Some(rest) => text += &format!("{}{rest}", base + 1),
            None => text += &format!("{base}{rest}"),
        }
    }
    text
}
