//! Parts of a line with their position.

/// A part of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span<'a> {
    source: &'a str,
    /// Byte range within the line, on character boundaries.
    start: usize,
    end: usize,
    /// Line number, from 1.
    pub line: u32,
}

impl<'a> Span<'a> {
    /// A whole line; `line` is its number.
    pub(super) fn new(source: &'a str, line: u32) -> Self {
        Self { source, start: 0, end: source.len(), line }
    }

    pub(super) fn text(&self) -> &'a str {
        self.source.get(self.start..self.end).unwrap_or("")
    }

    /// Column of the first character, from 1.
    pub(super) fn column(&self) -> u32 {
        let before = self.source.get(..self.start).unwrap_or("");
        u32::try_from(before.chars().count()).unwrap_or(u32::MAX - 1) + 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Removes white space at both ends. A span of white space becomes empty at its end.
    pub(super) fn trim(&self) -> Self {
        let text = self.text();
        let start = self.start + (text.len() - text.trim_start().len());
        Self { start, end: start + text.trim().len(), ..*self }
    }

    /// The spans before and after the first `delimiter`.
    pub(super) fn split_once(&self, delimiter: char) -> (Self, Option<Self>) {
        match self.text().find(delimiter) {
            Some(at) => {
                let head = Self { end: self.start + at, ..*self };
                let tail = Self { start: self.start + at + delimiter.len_utf8(), ..*self };
                (head, Some(tail))
            }
            None => (*self, None),
        }
    }

    /// The trimmed spans between commas, including empty ones.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let mut rest = Some(*self);
        std::iter::from_fn(move || {
            let (head, tail) = rest?.split_once(',');
            rest = tail;
            Some(head.trim())
        })
    }

    /// Splits after `bytes` bytes. If that is beyond the end or within a character, the second part
    /// is empty.
    pub(super) fn split_at(&self, bytes: usize) -> (Self, Self) {
        let at = if self.text().is_char_boundary(bytes) { self.start + bytes } else { self.end };
        (Self { end: at, ..*self }, Self { start: at, ..*self })
    }

    /// The empty span after the last character, where a missing value is reported.
    pub(super) fn after(&self) -> Self {
        Self { start: self.end, ..*self }
    }

    /// Splits `name = value` and trims both.
    pub(super) fn assignment(&self) -> (Self, Option<Self>) {
        let (name, value) = self.split_once('=');
        (name.trim(), value.map(|value| value.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_columns() {
        let line = Span::new("  ä , mtu = 4;x", 7);
        let (code, rest) = line.split_once(';');
        assert_eq!(rest.map(|rest| (rest.text(), rest.column())), Some(("x", 15)));
        let items: Vec<_> = code.items().map(|item| (item.text(), item.column())).collect();
        assert_eq!(items, [("ä", 3), ("mtu = 4", 7)]);
        let (name, value) = code.items().nth(1).unwrap().assignment();
        let value = value.unwrap();
        assert_eq!((name.text(), name.column()), ("mtu", 7));
        assert_eq!((value.text(), value.column(), value.line), ("4", 13, 7));
        assert_eq!(value.after().column(), 14);
        assert!(Span::new("   ", 1).trim().is_empty());
        assert!(Span::new("a=", 1).assignment().1.is_some_and(|value| value.is_empty()));
    }
}
