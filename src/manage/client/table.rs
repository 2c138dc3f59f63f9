//! Columns of text, which may have colours.

use crate::cli::color::{STRONG, painted};
use anstream::adapter::strip_str;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Space between two columns.
const GAP: &str = "  ";

/// Columns of a terminal that a text has at least when it is cut.
const MIN_CUT: usize = 20;

/// Rows under a heading. Columns are as wide as their longest text.
pub(super) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(super) fn new(heading: &[&str]) -> Self {
        Self { rows: vec![heading.iter().map(|&name| name.to_owned()).collect()] }
    }

    pub(super) fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    /// Cuts the texts of a column so that lines have at most `max` columns of a terminal, as far as the other
    /// columns and `MIN_CUT` columns for this one allow.
    pub(super) fn cut(&mut self, column: usize, max: usize) {
        let others: usize = self
            .widths()
            .iter()
            .enumerate()
            .map(|(at, width)| if at == column { 0 } else { *width })
            .sum();
        let gaps = self.widths().len().saturating_sub(1) * GAP.len();
        let room = max.saturating_sub(others + gaps).max(MIN_CUT);
        for text in self.rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            if display_width(text) > room {
                *text = start_of(text, room - 1) + "…";
            }
        }
    }

    /// The widths of the columns.
    fn widths(&self) -> Vec<usize> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        (0..columns)
            .map(|column| {
                let texts = self.rows.iter().filter_map(|row| row.get(column));
                texts.map(|text| display_width(text)).max().unwrap_or(0)
            })
            .collect()
    }

    /// The table, each line after `indent`.
    pub(super) fn text(&self, indent: &str) -> String {
        let widths = self.widths();
        let mut out = String::new();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = indent.to_owned();
            for (text, &width) in row.iter().zip(&widths) {
                let padding = " ".repeat(width - display_width(text));
                line.push_str(&format!("{text}{padding}{GAP}"));
            }
            let line = line.trim_end();
            out.push_str(&if number == 0 { painted(STRONG, line) } else { line.to_owned() });
            out.push('\n');
        }
        out
    }
}

/// The start of a text without colours that takes at most `max` columns of a terminal.
fn start_of(text: &str, max: usize) -> String {
    let mut width = 0;
    let fitting = text.chars().take_while(|it| {
        width += it.width().unwrap_or(0);
        width <= max
    });
    fitting.collect()
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
        let mut table = TextTable::new(&["A", "NAME"]);
        assert!(table.is_empty());
        table.add(vec!["100".into(), "x".into()]);
        // A wide character takes two columns, a colour none.
        table.add(vec!["日本".into(), painted(STRONG, "y")]);
        let shown = strip_str(&table.text(" ")).to_string();
        assert_eq!(shown, " A     NAME\n 100   x\n 日本  y\n");
        assert!(!table.is_empty());
    }

    #[test]
    fn a_column_is_cut_to_the_width_of_the_terminal() {
        let mut table = TextTable::new(&["SEVERITY", "INCIDENT", "ID"]);
        let long = "the cable 日本 is lost, and a lot more is to be said about it";
        table.add(vec!["warning".into(), long.into(), "cable-1".into()]);
        table.cut(1, 45);
        let shown = strip_str(&table.text("")).to_string();
        let line = shown.lines().nth(1).expect("a row");
        assert_eq!(line, "warning   the cable 日本 is lost, a…  cable-1");
        assert_eq!(display_width(line), 45);
        table.cut(1, 5);
        assert!(table.text("").contains("the cable 日本 is l…"), "{}", table.text(""));
    }
}
