//! Reading and writing of the bytes of a recording.

use std::fmt;

/// A recording, or a part of it, that cannot be decoded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct DecodeError {
    /// Offset in bytes from the start of the file.
    pub offset: usize,
    pub problem: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.problem)
    }
}

/// Appends an unsigned number, 7 bits a byte, the low ones first (LEB128).
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A position in the bytes of a recording.
#[derive(Clone, Debug)]
pub(super) struct ByteReader<'a> {
    rest: &'a [u8],
    /// Offset of `rest` in the file.
    offset: usize,
}

impl<'a> ByteReader<'a> {
    /// Reads `bytes`, which begin at `offset` of the file.
    pub(super) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Self { rest: bytes, offset }
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// An error at the present position.
    pub(super) fn error(&self, problem: impl Into<String>) -> DecodeError {
        DecodeError { offset: self.offset, problem: problem.into() }
    }

    pub(super) fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(len) else {
            let left = self.rest.len();
            let problem = format!("{what} takes {len} bytes, but only {left} are left");
            return Err(self.error(problem));
        };
        self.rest = rest;
        self.offset += len;
        Ok(taken)
    }

    pub(super) fn byte(&mut self, what: &str) -> Result<u8, DecodeError> {
        Ok(self.take(1, what)?[0])
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32, DecodeError> {
        let bytes = self.take(4, what)?;
        Ok(bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte)))
    }

    /// Reads a number that [`put_number`] wrote.
    pub(super) fn number(&mut self, what: &str) -> Result<u64, DecodeError> {
        let start = self.clone();
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(start.error(format!("{what} exceeds 64 bits")))
    }

    /// Reads a number and checks its maximum.
    pub(super) fn number_to(&mut self, max: u64, what: &str) -> Result<u64, DecodeError> {
        let start = self.clone();
        let number = self.number(what)?;
        if number <= max {
            Ok(number)
        } else {
            Err(start.error(format!("{what} is {number}, the maximum is {max}")))
        }
    }
}
