//! Scanner of one line of a fabric file, which knows the current column for errors.

use super::LineError;
use crate::fabric::link_rate::LinkRate;
use crate::ids::PortNum;

/// A line and the current position in it.
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str, line: u32) -> Self {
        Self { text, at: 0, line }
    }

    pub(super) fn line(&self) -> u32 {
        self.line
    }

    /// The current column, from 1.
    pub(super) fn column(&self) -> u32 {
        u32::try_from(self.at + 1).unwrap_or(u32::MAX)
    }

    pub(super) fn fault_at(&self, column: u32, message: impl Into<String>) -> LineError {
        LineError { line: self.line, column, message: message.into() }
    }

    fn fault(&self, message: impl Into<String>) -> LineError {
        self.fault_at(self.column(), message)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    /// Takes bytes as long as `wanted` holds.
    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.bytes().position(|byte| !wanted(byte)).unwrap_or(rest.len());
        self.at += len;
        &rest[..len]
    }

    pub(super) fn blanks(&mut self) {
        self.take_while(|byte| byte.is_ascii_whitespace());
    }

    pub(super) fn at_end(&self) -> bool {
        self.rest().is_empty()
    }

    pub(super) fn looking_at(&self, wanted: char) -> bool {
        self.rest().starts_with(wanted)
    }

    /// Takes `wanted` if it comes next.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        let there = self.looking_at(wanted);
        if there {
            self.at += wanted.len_utf8();
        }
        there
    }

    pub(super) fn expect(&mut self, wanted: char) -> Result<(), LineError> {
        if self.take(wanted) { Ok(()) } else { Err(self.fault(format!("expected '{wanted}'"))) }
    }

    /// A run of ASCII letters, possibly empty.
    pub(super) fn word(&mut self) -> &'a str {
        self.take_while(|byte| byte.is_ascii_alphabetic())
    }

    /// A decimal number, or a hexadecimal one after `0x`.
    pub(super) fn number(&mut self) -> Result<u64, LineError> {
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.at += 2;
            return self.hex();
        }
        let start = self.column();
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        digits.parse().map_err(|_| self.fault_at(start, "expected a number of at most 64 bits"))
    }

    /// Hexadecimal digits, with or without `0x`.
    pub(super) fn hex(&mut self) -> Result<u64, LineError> {
        if self.rest().starts_with("0x") {
            self.at += 2;
        }
        let start = self.column();
        let digits = self.take_while(|byte| byte.is_ascii_hexdigit());
        u64::from_str_radix(digits, 16)
            .map_err(|_| self.fault_at(start, "expected a hexadecimal number of at most 64 bits"))
    }

    /// Non-empty text in double quotes, without the quotes.
    pub(super) fn quoted(&mut self) -> Result<&'a str, LineError> {
        let start = self.column();
        self.expect('"')?;
        let text = self.take_while(|byte| byte != b'"');
        if !self.take('"') {
            return Err(self.fault_at(start, "the quotation mark is not closed"));
        }
        if text.is_empty() {
            return Err(self.fault_at(start, "a node needs a name"));
        }
        Ok(text)
    }

    /// A port number in brackets, and the column of its first digit.
    pub(super) fn port_number(&mut self) -> Result<(PortNum, u32), LineError> {
        self.expect('[')?;
        let start = self.column();
        let number = self.number()?;
        self.expect(']')?;
        match u8::try_from(number) {
            Ok(number) => Ok((PortNum(number), start)),
            Err(_) => Err(self.fault_at(start, format!("{number} is not a port number"))),
        }
    }

    /// Skips the number of the port on the outside of its chassis, `[ext 5]`.
    pub(super) fn external_port(&mut self) {
        if self.rest().starts_with("[ext ") {
            self.take_while(|byte| byte != b']');
            self.take(']');
        }
    }

    /// Skips the options between the peer and the comment: `(guid)`, `w=4`, `s=7`, `e=1`.
    pub(super) fn port_tail(&mut self) -> Result<(), LineError> {
        // ibnetdiscover writes a blank before the GUID in the cables of channel adapters.
        self.blanks();
        if self.take('(') {
            self.hex()?;
            self.expect(')')?;
        }
        loop {
            self.blanks();
            if self.at_end() || self.looking_at('#') {
                return Ok(());
            }
            let start = self.column();
            if !matches!(self.word(), "w" | "s" | "e") {
                return Err(self.fault_at(start, "expected an option (w=, s=, e=) or a # comment"));
            }
            self.expect('=')?;
            self.number()?;
        }
    }

    /// The description in the comment of a header: in quotes, or bare up to the words about port 0.
    pub(super) fn description(&mut self) -> Result<Option<String>, LineError> {
        self.blanks();
        if self.at_end() {
            return Ok(None);
        }
        self.expect('#')?;
        self.blanks();
        if self.take('"') {
            // Descriptions may have quotation marks themselves.
            let rest = self.rest();
            let len = rest.rfind('"').unwrap_or(rest.len());
            self.at += len;
            self.take('"');
            return Ok(Some(rest[..len].to_owned()));
        }
        let rest = self.rest();
        let ends = [" enhanced port ", " base port ", " lid ", " lmc "];
        let len = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
        self.at += len;
        let text = rest[..len].trim_end();
        Ok((!text.is_empty()).then(|| text.to_owned()))
    }

    /// The width and speed at the end of a comment, such as `4xEDR`.
    pub(super) fn rate(&self) -> Option<LinkRate> {
        let rest = self.rest();
        let tail = &rest[rest.rfind('"').unwrap_or(0)..];
        tail.split_ascii_whitespace().find_map(LinkRate::from_name)
    }

    /// True if the comment of a header, after the description, says so.
    pub(super) fn has_enhanced_port0(&self) -> bool {
        self.rest().trim_start().starts_with("enhanced port 0")
    }

    /// `lid N` and `lmc N` of a comment, up to the first quotation mark; `None` for LID 0.
    pub(super) fn lid_lmc(&mut self) -> Result<Option<(u16, u8)>, LineError> {
        let start = self.at;
        let end = self.rest().find('"').map_or(self.text.len(), |quote| start + quote);
        let Some(lid) = self.value_after("lid", start, end)? else { return Ok(None) };
        let lmc = self.value_after("lmc", start, end)?.unwrap_or((0, start));
        let Some(base) = u16::try_from(lid.0).ok().filter(|&lid| lid <= 0xBFFF) else {
            return Err(self.fault_at(column(lid.1), format!("{} is not a unicast LID", lid.0)));
        };
        let Some(bits) = u8::try_from(lmc.0).ok().filter(|&lmc| lmc <= 7) else {
            return Err(self.fault_at(column(lmc.1), format!("{} is not an LMC (0 to 7)", lmc.0)));
        };
        Ok((base != 0).then_some((base, bits)))
    }

    /// The number after the word `key` between two positions of the line, and its own position.
    fn value_after(
        &self,
        key: &str,
        start: usize,
        end: usize,
    ) -> Result<Option<(u64, usize)>, LineError> {
        let part = self.text.get(start..end).unwrap_or("");
        let Some(at) = part.match_indices(key).map(|(at, _)| at).find(|&at| is_key(at, part, key))
        else {
            return Ok(None);
        };
        let mut value = Scan { text: self.text, at: start + at + key.len(), line: self.line };
        value.blanks();
        let place = value.at;
        value.number().map(|number| Some((number, place)))
    }
}

fn is_key(at: usize, part: &str, key: &str) -> bool {
    let before = part[..at].bytes().last();
    let after = part[at + key.len()..].bytes().next();
    before.is_none_or(|byte| byte.is_ascii_whitespace() || byte == b'#')
        && after.is_some_and(|byte| byte.is_ascii_whitespace())
}

fn column(at: usize) -> u32 {
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}
