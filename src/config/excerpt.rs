//! Diagnostics with the line of the file and a caret under the position:
//!
//! ```text
//! partitions.conf:3:14: error: an MTU is …
//!     Storage=0x10,mtu=9 : ALL;
//!                      ^
//! ```

use super::Diagnostic;
use crate::notes::Severity;
use std::fmt::Write;

/// Indentation of the line of the file.
const MARGIN: &str = "    ";

/// Renders a diagnostic with the line of `text` that it refers to, and carets under the word. A
/// diagnostic about a whole line has no caret; one about the whole file has no line.
pub fn render(diagnostic: &Diagnostic, text: &str) -> String {
    let index = (diagnostic.line as usize).checked_sub(1);
    rendered(diagnostic, index.and_then(|index| text.lines().nth(index)))
}

/// Renders all diagnostics about a text. The text is split into lines only once, since a long file
/// may have as many errors as lines.
pub fn render_all(diagnostics: &[Diagnostic], text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let rendered = diagnostics.iter().map(|found| {
        let index = (found.line as usize).checked_sub(1);
        rendered(found, index.and_then(|index| lines.get(index).copied()))
    });
    rendered.collect()
}

fn rendered(diagnostic: &Diagnostic, source: Option<&str>) -> String {
    let Diagnostic { file, line, column, severity, message, .. } = diagnostic;
    let severity = match severity {
        Severity::Info => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    };
    let mut out = file.display().to_string();
    if *line > 0 {
        let _ = write!(out, ":{line}");
        if *column > 0 {
            let _ = write!(out, ":{column}");
        }
    }
    let _ = write!(out, ": {severity}: {message}");
    if let Some(source) = source {
        let _ = write!(out, "\n{MARGIN}{}", source.trim_end());
        if *column > 0 {
            let _ = write!(out, "\n{MARGIN}{}", caret(source, *column as usize - 1));
        }
    }
    out
}

/// Blanks up to the character at `start`, with the tabs of the line for alignment, and the carets.
fn caret(source: &str, start: usize) -> String {
    let blanks = source.chars().take(start).map(|c| if c == '\t' { '\t' } else { ' ' });
    let mut line: String = blanks.collect();
    let short = start.saturating_sub(line.chars().count());
    line.extend(std::iter::repeat_n(' ', short));
    let word = source.chars().skip(start).take_while(|c| !ends_word(c)).count();
    line.extend(std::iter::repeat_n('^', word.max(1)));
    line
}

fn ends_word(c: &char) -> bool {
    c.is_whitespace() || [',', ';', '='].contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: u32, column: u32) -> Diagnostic {
        let severity = Severity::Error;
        Diagnostic { file: "f".into(), line, column, severity, message: "wrong".into(), code: None }
    }

    #[test]
    fn the_caret_is_under_the_word() {
        let text = "one\n\ttwo = 0x12, drei\n";
        assert_eq!(
            render(&found(2, 8), text),
            "f:2:8: error: wrong\n    \ttwo = 0x12, drei\n    \t      ^^^^"
        );
        assert_eq!(render(&found(2, 0), text), "f:2: error: wrong\n    \ttwo = 0x12, drei");
        assert_eq!(render(&found(1, 9), text), "f:1:9: error: wrong\n    one\n            ^");
        assert_eq!(render(&found(0, 0), text), "f: error: wrong");
        assert_eq!(render(&found(9, 1), text), "f:9:1: error: wrong", "the line does not exist");
        let all = [found(0, 0), found(2, 8), found(1, 9), found(9, 1)];
        assert_eq!(render_all(&all, text), all.clone().map(|found| render(&found, text)));
    }
}
