//! Columns of text, which may have colours.

use crate::cli::color::{STRONG, painted};
use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthStr as _;

/// Rows under a heading. Columns are as wide as their longest text.
pub(super) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|&name| name.to_owned()).collect()] }
    }

    pub(super) fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// The table, each line after `indent`.
    pub(super) fn text(&self, indent: &str) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let texts = self.rows.iter().filter_map(|row| row.get(column));
            texts.map(|text| display_width(text)).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = indent.to_owned();
            for (text, &width) in row.iter().zip(&widths) {
                let padding = " ".repeat(width - display_width(text));
                line.push_str(&format!("{text}{padding}  "));
            }
            let line = line.trim_end();
            out.push_str(&if number == 0 { painted(STRONG, line) } else { line.to_owned() });
            out.push('\n');
        }
        out
    }
}

/// The columns of a terminal that a text takes.
pub(super) fn display_width(text: &str) -> usize {
    strip_str(text).map(|part| part.width()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["A", "NAME"]);
        assert!(table.is_empty());
        table.add(vec!["100".into(), "x".into()]);
        // A wide character takes two columns, a colour none.
        table.add(vec!["日本".into(), painted(STRONG, "y")]);
        let shown = strip_str(&table.text(" ")).to_string();
        assert_eq!(shown, " A     NAME\n 100   x\n 日本  y\n");
        assert!(!table.is_empty());
    }
}
