//! Reads the fields of a line, `name=value`, in a fixed order.

use crate::ids::{Gid, Guid};
use crate::wire::record::ServiceRecord;

/// Column, from 1 (0 for the whole line), and message of an invalid line.
pub(super) type FieldError = (u32, String);

/// A line with the position up to which it has been read.
pub(super) struct Fields<'a> {
    line: &'a str,
    /// Offset in bytes.
    at: usize,
}

impl<'a> Fields<'a> {
    /// Starts at the offset `at` in bytes.
    pub(super) fn new(line: &'a str, at: usize) -> Self {
        Self { line, at }
    }

    fn column(&self) -> u32 {
        self.line[..self.at].chars().count() as u32 + 1
    }

    /// Skips to the value of the next field `name`. Other fields are ignored.
    fn seek(&mut self, name: &str) -> Result<(), FieldError> {
        let label = format!(" {name}=");
        let place = self.line[self.at..].find(&label);
        let place = place.ok_or_else(|| (self.column(), format!("{name} is missing")))?;
        self.at += place + label.len();
        Ok(())
    }

    /// Skips blanks.
    pub(super) fn skip_blanks(&mut self) {
        let rest = &self.line[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Reads a hexadecimal number of at most `max` up to a blank, a colon or the end of the line.
    pub(super) fn hex(&mut self, name: &str, max: u64) -> Result<u64, FieldError> {
        let rest = &self.line[self.at..];
        let word = rest.split([' ', '\t', '\r', ':']).next().unwrap_or("");
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        let column = self.column();
        match value {
            Some(value) if value <= max => {
                self.at += word.len();
                Ok(value)
            }
            Some(_) => Err((column, format!("{name} {word} exceeds the maximum of 0x{max:x}"))),
            None => Err((
                column,
                format!("\"{word}\" is not a valid {name}: a hexadecimal number is expected"),
            )),
        }
    }

    fn number(&mut self, name: &str, max: u64) -> Result<u64, FieldError> {
        self.seek(name)?;
        self.hex(name, max)
    }

    pub(super) fn u8(&mut self, name: &str) -> Result<u8, FieldError> {
        Ok(self.number(name, u8::MAX.into())? as u8)
    }

    pub(super) fn u16(&mut self, name: &str) -> Result<u16, FieldError> {
        Ok(self.number(name, u16::MAX.into())? as u16)
    }

    pub(super) fn u32(&mut self, name: &str) -> Result<u32, FieldError> {
        Ok(self.number(name, u32::MAX.into())? as u32)
    }

    pub(super) fn u64(&mut self, name: &str) -> Result<u64, FieldError> {
        self.number(name, u64::MAX)
    }

    /// Reads 16 bytes, written as two 64-bit numbers separated by a colon.
    pub(super) fn pair(&mut self, name: &str) -> Result<[u8; 16], FieldError> {
        let first = self.u64(name)?;
        if !self.line[self.at..].starts_with(':') {
            return Err((self.column(), format!("the second half of {name} is missing")));
        }
        self.at += 1;
        let second = self.hex(name, u64::MAX)?;
        Ok(Gid::new(first, Guid(second)).0)
    }

    pub(super) fn gid(&mut self, name: &str) -> Result<Gid, FieldError> {
        self.pair(name).map(Gid)
    }

    /// Reads a ServiceName, which is quoted or ends at a blank.
    pub(super) fn name(
        &mut self,
        name: &str,
    ) -> Result<[u8; ServiceRecord::NAME_SIZE], FieldError> {
        self.seek(name)?;
        let start = self.column();
        let rest = &self.line[self.at..];
        let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let inside = &rest[quote.map_or(0, char::len_utf8)..];
        let end = match quote {
            // Names may contain quotes: the closing one precedes a blank.
            Some(quote) => inside
                .find(&format!("{quote} ")[..])
                .or_else(|| inside.ends_with(quote).then(|| inside.len() - 1))
                .ok_or_else(|| (start, format!("the closing quote of {name} is missing")))?,
            None => inside.find(' ').unwrap_or(inside.len()),
        };
        let bytes = unescaped(&inside[..end]);
        if bytes.len() > ServiceRecord::NAME_SIZE {
            let max = ServiceRecord::NAME_SIZE;
            return Err((start, format!("{name} has {} bytes; the maximum is {max}", bytes.len())));
        }
        self.at += rest.len() - inside.len() + end;
        let mut value = [0; ServiceRecord::NAME_SIZE];
        value[..bytes.len()].copy_from_slice(&bytes);
        Ok(value)
    }
}

/// The bytes of a name, with `\xNN` replaced by the byte.
fn unescaped(text: &str) -> Vec<u8> {
    let raw = text.as_bytes();
    let mut bytes = Vec::with_capacity(raw.len());
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        let code = raw.get(at..at + 4).filter(|code| code.starts_with(b"\\x"));
        let digits = code.and_then(|code| std::str::from_utf8(&code[2..]).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                bytes.push(value);
                at += 4;
            }
            None => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}
