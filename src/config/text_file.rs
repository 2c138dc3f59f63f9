//! Reading of text files, with the position of bytes that are not UTF-8.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// "No such file or directory" (errno(3)).
const ENOENT: i32 = 2;

/// The byte order mark that some editors put before the text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A line without its comment, which begins with `#`.
pub fn without_comment(line: &str) -> &str {
    line.split_once('#').map_or(line, |(before, _)| before)
}

/// Reads a configuration file as UTF-8, without a byte order mark. Other bytes in comments, which begin with `#`, are replaced.
///
/// # Errors
/// The file cannot be read, or is not UTF-8 outside of comments.
pub fn read_text(path: &Path) -> Result<String, ReadError> {
    decode(path, read_bytes(path)?)
}

/// The bytes of a file.
///
/// # Errors
/// The file cannot be read.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>, ReadError> {
    std::fs::read(path)
        .map_err(|error| ReadError { path: path.to_path_buf(), cause: ReadErrorCause::Io(error) })
}

/// The text of a file with these bytes, as [`read_text`].
///
/// # Errors
/// It is not UTF-8 outside of comments.
pub fn decode(path: &Path, bytes: Vec<u8>) -> Result<String, ReadError> {
    let text = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&bytes);
    let bytes = match std::str::from_utf8(text) {
        Ok(_) => text.to_vec(),
        Err(_) => with_readable_comments(text),
    };
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let cause = ReadErrorCause::not_utf8(error.as_bytes(), valid);
        ReadError { path: path.to_path_buf(), cause }
    })
}

/// The text with U+FFFD in place of bytes in comments that are not UTF-8.
fn with_readable_comments(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let comment = line.iter().position(|&byte| byte == b'#').unwrap_or(line.len());
        let (code, comment) = line.split_at(comment);
        text.extend_from_slice(code);
        text.extend_from_slice(String::from_utf8_lossy(comment).as_bytes());
    }
    text
}

/// A file that cannot be read as text.
#[derive(Debug)]
pub struct ReadError {
    path: PathBuf,
    cause: ReadErrorCause,
}

#[derive(Debug)]
enum ReadErrorCause {
    Io(io::Error),
    /// Line, column and value of the first byte that is not UTF-8.
    NotUtf8(usize, usize, u8),
}

impl ReadErrorCause {
    /// `valid` is the number of bytes before the first invalid one.
    fn not_utf8(bytes: &[u8], valid: usize) -> Self {
        let before = String::from_utf8_lossy(&bytes[..valid]);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Self::NotUtf8(line, column, bytes.get(valid).copied().unwrap_or(0))
    }
}

impl ReadError {
    /// The error for a file that does not exist.
    pub fn not_found(path: &Path) -> Self {
        let cause = ReadErrorCause::Io(io::Error::from_raw_os_error(ENOENT));
        Self { path: path.to_path_buf(), cause }
    }

    /// True if the file does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(&self.cause, ReadErrorCause::Io(error) if error.kind() == io::ErrorKind::NotFound)
    }

    /// Line and column of the first byte that is not UTF-8; zeros for other errors.
    pub fn position(&self) -> (u32, u32) {
        match self.cause {
            ReadErrorCause::Io(_) => (0, 0),
            ReadErrorCause::NotUtf8(line, column, _) => (line_number(line), line_number(column)),
        }
    }

    /// The message without the path and the position.
    pub fn reason(&self) -> String {
        match &self.cause {
            ReadErrorCause::Io(error) => error.to_string(),
            ReadErrorCause::NotUtf8(.., byte) => format!("byte {byte:#04x} is not valid UTF-8"),
        }
    }
}

fn line_number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let ReadErrorCause::NotUtf8(line, column, _) = self.cause {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.reason())
    }
}

impl std::error::Error for ReadError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bytes_are_located() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, b"one\n\xc3\xa4 \xff\n").unwrap();
        let error = read_text(&path).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("{}:2:3: byte 0xff is not valid UTF-8", path.display())
        );
        assert!(!error.is_not_found());
        std::fs::write(&path, b"key 1 # na\xefve\nkey 2\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "key 1 # na\u{fffd}ve\nkey 2\n");
        std::fs::write(&path, b"\xef\xbb\xbfkey 1\r\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "key 1\r\n", "the byte order mark is skipped");
        std::fs::write(&path, b"a\xff # \xff\n").unwrap();
        assert_eq!(read_text(&path).unwrap_err().position(), (1, 2));
        assert!(read_text(&folder.path().join("absent")).unwrap_err().is_not_found());
    }
}
