//! Quotation marks in values: straight ones, and the curly ones that word processors insert.

use crate::config::span::Span;

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\u{201c}' | '\u{201d}')
}

/// The text without quotes, and with single blanks between words.
pub(super) fn unquoted(text: &str) -> String {
    let text: String = text.chars().filter(|c| !is_quote(*c)).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The trimmed items between commas; a comma within quotes does not separate items.
pub(super) fn items(list: Span<'_>) -> Vec<Span<'_>> {
    let mut items = Vec::new();
    let mut rest = list;
    loop {
        let mut quoted = false;
        let comma = rest.text().char_indices().find(|(_, c)| {
            quoted ^= is_quote(*c);
            *c == ',' && !quoted
        });
        let Some((at, _)) = comma else { break };
        let (item, after) = rest.split_at(at);
        items.push(item.trim());
        rest = after.split_at(1).1;
    }
    items.push(rest.trim());
    items
}
