//! Scanner: a line to words.

use super::ConsoleError;

/// A word with an optional port number: `name[3]`, `name/3`, `"a name"[3]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Word {
    /// The word without quotes and port number.
    pub(super) text: String,
    pub(super) port: Option<u8>,
    /// Column of its first character, from 1.
    pub(super) column: usize,
    pub(super) quoted: bool,
}

/// The words of a line, up to a word that begins with `#`.
pub(super) fn words(line: &str) -> Result<Vec<Word>, ConsoleError> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let blank = rest.len() - rest.trim_start().len();
        rest = &rest[blank..];
        if rest.is_empty() || rest.starts_with('#') {
            return Ok(words);
        }
        let start = line.len() - rest.len();
        let column = line[..start].chars().count() + 1;
        let (word, length) = if let Some(inside) = rest.strip_prefix('"') {
            quoted(inside, column)?
        } else {
            let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
            (plain(&rest[..length], column), length)
        };
        words.push(word);
        rest = &rest[length..];
    }
}

/// The quoted word whose opening quote precedes `inside`, and its length with quotes and port
/// number.
fn quoted(inside: &str, column: usize) -> Result<(Word, usize), ConsoleError> {
    let Some((text, after)) = inside.split_once('"') else {
        return Err(ConsoleError::new(column, "the closing quote is missing"));
    };
    let suffix = &after[..after.find(char::is_whitespace).unwrap_or(after.len())];
    let length = text.len() + 2 + suffix.len();
    let column_after = column + text.chars().count() + 2;
    let port = match suffix {
        "" => None,
        _ => Some(port_of(suffix).ok_or_else(|| {
            ConsoleError::new(column_after, format!("'{suffix}' is not a port such as [3] or /3"))
        })?),
    };
    Ok((Word { text: text.to_owned(), port, column, quoted: true }, length))
}

fn plain(word: &str, column: usize) -> Word {
    let cut = if word.ends_with(']') { word.rfind('[') } else { word.rfind('/') };
    let (text, port) = match cut.map(|at| (&word[..at], port_of(&word[at..]))) {
        Some((text, Some(port))) if !text.is_empty() => (text, Some(port)),
        _ => (word, None),
    };
    Word { text: text.to_owned(), port, column, quoted: false }
}

/// The number in `[3]` or `/3`.
fn port_of(suffix: &str) -> Option<u8> {
    let inside = suffix.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let digits = inside.or_else(|| suffix.strip_prefix('/'))?.trim();
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str, port: Option<u8>, column: usize, quoted: bool) -> Word {
        Word { text: text.to_owned(), port, column, quoted }
    }

    #[test]
    fn words_have_columns_and_ports() {
        let line = " link \"sw 0,ü\"[3]  1,2,3/14 S-00a1[255] \"x\" # the rest";
        let wanted = [
            word("link", None, 2, false),
            word("sw 0,ü", Some(3), 7, true),
            word("1,2,3", Some(14), 20, false),
            word("S-00a1", Some(255), 29, false),
            word("x", None, 41, true),
        ];
        assert_eq!(words(line).expect("words"), wanted);
        assert_eq!(words("").expect("none"), []);
        assert_eq!(words("  # only a comment").expect("none"), []);
    }

    #[test]
    fn invalid_port_numbers_stay_in_the_word() {
        for text in ["a[256]", "a[]", "[3]", "a/b", "/3", "a[3]b", "a/-1", "a[+1]"] {
            assert_eq!(words(text).expect("a word"), [word(text, None, 1, false)], "{text}");
        }
    }

    #[test]
    fn errors_have_the_column_of_the_fault() {
        assert_eq!(column("link \"sw"), 6);
        assert_eq!(column("link \"sü\"[x]"), 10);
        assert_eq!(column("link \"sw\"[3]x"), 10);
    }

    fn column(line: &str) -> usize {
        words(line).expect_err(line).column
    }
}
