//! The fields of a line: each has a name, and stands after the one before.

use crate::ids::Gid;
use crate::wire::record::ServiceRecord;

/// What is wrong with a line: column from 1 (0: the line as a whole) and text.
pub(super) type FieldError = (u32, String);

/// A line while it is read.
pub(super) struct Fields<'a> {
    line: &'a str,
    /// Bytes read so far.
    at: usize,
}

impl<'a> Fields<'a> {
    /// The fields of `line` after its first `at` bytes.
    pub(super) fn new(line: &'a str, at: usize) -> Self {
        Self { line, at }
    }

    fn column(&self) -> u32 {
        self.line[..self.at].chars().count() as u32 + 1
    }

    /// Goes behind the next `name=`; words between are of no matter.
    fn seek(&mut self, name: &str) -> Result<(), FieldError> {
        let label = format!(" {name}=");
        let place = self.line[self.at..].find(&label);
        let place = place.ok_or_else(|| (self.column(), format!("{name} is missing")))?;
        self.at += place + label.len();
        Ok(())
    }

    /// Goes behind blanks.
    pub(super) fn skip_blanks(&mut self) {
        let rest = &self.line[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// A hex number up to a blank, a colon or the end of the line.
    pub(super) fn hex(&mut self, name: &str, max: u64) -> Result<u64, FieldError> {
        let rest = &self.line[self.at..];
        let word = rest.split([' ', '\t', '\r', ':']).next().unwrap_or_default();
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let value = u64::from_str_radix(digits, 16).ok().filter(|_| is_hex);
        let column = self.column();
        match value {
            Some(value) if value <= max => {
                self.at += word.len();
                Ok(value)
            }
            Some(_) => Err((column, format!("{name} {word} is above 0x{max:x}"))),
            None => Err((column, format!("\"{word}\" is no value of {name}: a hex number is"))),
        }
    }

    fn number(&mut self, name: &str, max: u64) -> Result<u64, FieldError> {
        self.seek(name)?;
        self.hex(name, max)
    }

    /// The field `name`, at most 8 bits wide.
    pub(super) fn u8(&mut self, name: &str) -> Result<u8, FieldError> {
        Ok(self.number(name, u8::MAX.into())? as u8)
    }

    /// At most 16 bits.
    pub(super) fn u16(&mut self, name: &str) -> Result<u16, FieldError> {
        Ok(self.number(name, u16::MAX.into())? as u16)
    }

    /// At most 32 bits.
    pub(super) fn u32(&mut self, name: &str) -> Result<u32, FieldError> {
        Ok(self.number(name, u32::MAX.into())? as u32)
    }

    /// At most 64 bits.
    pub(super) fn u64(&mut self, name: &str) -> Result<u64, FieldError> {
        self.number(name, u64::MAX)
    }

    /// Sixteen bytes as two numbers with a colon between.
    pub(super) fn pair(&mut self, name: &str) -> Result<[u8; 16], FieldError> {
        let first = self.u64(name)?;
        if !self.line[self.at..].starts_with(':') {
            return Err((self.column(), format!("{name} has one half only")));
        }
        self.at += 1;
        let second = self.hex(name, u64::MAX)?;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&first.to_be_bytes());
        bytes[8..].copy_from_slice(&second.to_be_bytes());
        Ok(bytes)
    }

    /// A GID.
    pub(super) fn gid(&mut self, name: &str) -> Result<Gid, FieldError> {
        self.pair(name).map(Gid)
    }

    /// The name of a service, between quotes, or up to a blank.
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
            // Names are written as they are: the quote that ends one stands before a blank.
            Some(quote) => inside
                .find(&format!("{quote} ")[..])
                .or_else(|| inside.ends_with(quote).then(|| inside.len() - 1))
                .ok_or_else(|| (start, format!("the quote that ends {name} is missing")))?,
            None => inside.find(' ').unwrap_or(inside.len()),
        };
        let bytes = unescaped(&inside[..end]);
        if bytes.len() > ServiceRecord::NAME_SIZE {
            let most = ServiceRecord::NAME_SIZE;
            return Err((start, format!("{name} has {} bytes, {most} fit", bytes.len())));
        }
        self.at += rest.len() - inside.len() + end;
        let mut value = [0; ServiceRecord::NAME_SIZE];
        value[..bytes.len()].copy_from_slice(&bytes);
        Ok(value)
    }
}

/// The bytes of a name, `\xNN` read as one.
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
