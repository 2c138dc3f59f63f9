//! Pieces of a line that know where they stand.

/// A part of a line of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece<'a> {
    line: &'a str,
    /// Byte range within the line, on character boundaries.
    start: usize,
    end: usize,
    /// Number of the line, from 1.
    pub number: u32,
}

impl<'a> Piece<'a> {
    /// A whole line.
    pub(super) fn new(line: &'a str, number: u32) -> Self {
        Self { line, start: 0, end: line.len(), number }
    }

    /// Its characters.
    pub(super) fn text(&self) -> &'a str {
        self.line.get(self.start..self.end).unwrap_or_default()
    }

    /// The column of its first character, from 1.
    pub(super) fn column(&self) -> u32 {
        let before = self.line.get(..self.start).unwrap_or_default();
        u32::try_from(before.chars().count()).unwrap_or(u32::MAX - 1) + 1
    }

    /// True if there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Without white space at both ends. Of nothing but white space the end remains.
    pub(super) fn trim(&self) -> Self {
        let text = self.text();
        let start = self.start + (text.len() - text.trim_start().len());
        Self { start, end: start + text.trim().len(), ..*self }
    }

    /// What stands before the first `delimiter`, and behind it if there is one.
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

    /// The pieces between commas, trimmed; empty ones too.
    pub(super) fn items(&self) -> impl Iterator<Item = Self> + use<'a> {
        let mut rest = Some(*self);
        std::iter::from_fn(move || {
            let (head, tail) = rest?.split_once(',');
            rest = tail;
            Some(head.trim())
        })
    }

    /// The first `bytes` bytes, and the others. A number that is not on a character's boundary
    /// or beyond the end leaves nothing to the others.
    pub(super) fn split_at(&self, bytes: usize) -> (Self, Self) {
        let at = if self.text().is_char_boundary(bytes) { self.start + bytes } else { self.end };
        (Self { end: at, ..*self }, Self { start: at, ..*self })
    }

    /// The piece behind the last character of this one.
    pub(super) fn behind(&self) -> Self {
        Self { start: self.end, ..*self }
    }

    /// `name = value`, both trimmed.
    pub(super) fn assignment(&self) -> (Self, Option<Self>) {
        let (name, value) = self.split_once('=');
        (name.trim(), value.map(|value| value.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_know_their_columns() {
        let line = Piece::new("  ä , mtu = 4;x", 7);
        let (code, rest) = line.split_once(';');
        assert_eq!(rest.map(|rest| (rest.text(), rest.column())), Some(("x", 15)));
        let items: Vec<_> = code.items().map(|item| (item.text(), item.column())).collect();
        assert_eq!(items, [("ä", 3), ("mtu = 4", 7)]);
        let (name, value) = code.items().nth(1).unwrap().assignment();
        let value = value.unwrap();
        assert_eq!((name.text(), name.column()), ("mtu", 7));
        assert_eq!((value.text(), value.column(), value.number), ("4", 13, 7));
        assert_eq!(value.behind().column(), 14);
        assert!(Piece::new("   ", 1).trim().is_empty());
        assert!(Piece::new("a=", 1).assignment().1.is_some_and(|value| value.is_empty()));
    }
}
