//! Types of values in opensm.conf, with their parsing and formatting.

use crate::ids::{CcKey, Guid, MKey, SmKey};

/// Format and range of a value.
#[derive(Clone, Copy, Debug)]
pub struct ValueFormat {
    min: i64,
    max: Option<i64>,
    /// Numbers outside of the range with a special meaning, and the meaning.
    or: &'static [(i64, &'static str)],
    hex: Option<usize>,
    repair: OutOfRange,
    /// The text that `(null)` stands for, where a value is required.
    null: Option<&'static str>,
}

/// The value that OpenSM uses for a number that fits into the type and is out of range.
#[derive(Clone, Copy, Debug)]
enum OutOfRange {
    Ignored,
    Replaced(i64),
    /// As many low bits of the number as the field of the attribute has.
    LowBits(u32),
    Nearest,
}

impl ValueFormat {
    /// Decimal, with the whole range of the type.
    pub const PLAIN: Self = Self {
        min: i64::MIN,
        max: None,
        or: &[],
        hex: None,
        repair: OutOfRange::Ignored,
        null: None,
    };

    /// The same format with a range.
    pub const fn range(self, min: i64, max: i64) -> Self {
        Self { min, max: Some(max), ..self }
    }

    /// The same format with numbers that have a special meaning.
    pub const fn or(self, special: &'static [(i64, &'static str)]) -> Self {
        Self { or: special, ..self }
    }

    /// The same format; OpenSM replaces numbers out of range by `number`.
    pub const fn else_use(self, number: i64) -> Self {
        Self { repair: OutOfRange::Replaced(number), ..self }
    }

    /// The same format; OpenSM writes the low `bits` of numbers out of range to the devices.
    pub const fn else_low_bits(self, bits: u32) -> Self {
        Self { repair: OutOfRange::LowBits(bits), ..self }
    }

    /// The same format; numbers out of range act as the nearest one in the range.
    pub const fn else_nearest(self) -> Self {
        Self { repair: OutOfRange::Nearest, ..self }
    }

    /// The same format; `(null)` stands for `text`.
    pub const fn null(self, text: &'static str) -> Self {
        Self { null: Some(text), ..self }
    }

    fn admits(&self, number: i128) -> bool {
        let is_in = number >= self.min.into() && self.max.is_none_or(|max| number <= max.into());
        is_in || self.or.iter().any(|&(other, _)| number == other.into())
    }

    /// The number that OpenSM uses instead of one that is not admitted.
    fn repaired(&self, number: i128) -> Option<i128> {
        match self.repair {
            OutOfRange::Ignored => None,
            OutOfRange::Replaced(other) => Some(other.into()),
            OutOfRange::LowBits(bits) => Some(number & ((1 << bits) - 1)),
            OutOfRange::Nearest => {
                let max = self.max.map_or(number, i128::from);
                Some(number.min(max).max(self.min.into()))
            }
        }
    }
}

/// Hexadecimal with at least `digits` digits.
pub const fn hex(digits: usize) -> ValueFormat {
    ValueFormat { hex: Some(digits), ..ValueFormat::PLAIN }
}

/// Decimal, from `min` to `max`.
pub const fn range(min: i64, max: i64) -> ValueFormat {
    ValueFormat::PLAIN.range(min, max)
}

/// A value of opensm.conf.
pub trait Value: Sized {
    /// Sets the value from text without comments, quotes and outer blanks.
    ///
    /// # Errors
    /// The text is invalid. [`Value::expects`] completes the message.
    fn assign(&mut self, text: &str, format: ValueFormat) -> Result<(), String>;

    /// Sets the value that OpenSM makes of text that [`Value::assign`] rejects. Returns false if
    /// OpenSM ignores the line.
    fn repair(&mut self, _: &str, _: ValueFormat) -> bool {
        false
    }

    /// The value in the format of the file, one element for each line.
    fn lines(&self, format: ValueFormat) -> Vec<String>;

    /// Description of valid values, with an example where it helps.
    fn expects(format: ValueFormat) -> String;
}

/// Parses a number as C does: 0x for hexadecimal, a leading 0 for octal, else decimal.
pub fn number(text: &str) -> Result<i128, String> {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let (base, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        None => (10, digits),
    };
    // from_str_radix would accept a second sign.
    if !digits.starts_with(|c: char| c.is_digit(base)) {
        return Err(format!("'{text}' is not a number"));
    }
    match i128::from_str_radix(digits, base) {
        Ok(value) => Ok(sign * value),
        Err(error) if *error.kind() == std::num::IntErrorKind::PosOverflow => {
            Err(format!("{text} is out of range"))
        }
        Err(_) => Err(format!("'{text}' is not a number")),
    }
}

macro_rules! integers {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn assign(&mut self, text: &str, format: ValueFormat) -> Result<(), String> {
                let wide = number(text)?;
                *self = Self::try_from(wide)
                    .ok()
                    .filter(|_| format.admits(wide))
                    .ok_or_else(|| format!("{text} is out of range"))?;
                Ok(())
            }

            fn repair(&mut self, text: &str, format: ValueFormat) -> bool {
                let fits = number(text).ok().filter(|&number| Self::try_from(number).is_ok());
                let repaired = fits.and_then(|number| format.repaired(number));
                let repaired = repaired.and_then(|number| Self::try_from(number).ok());
                repaired.map(|value| *self = value).is_some()
            }

            fn lines(&self, format: ValueFormat) -> Vec<String> {
                vec![match format.hex {
                    Some(digits) => format!("0x{self:0digits$x}"),
                    None => self.to_string(),
                }]
            }

            fn expects(format: ValueFormat) -> String {
                let min = i128::from(format.min).max(Self::MIN.into());
                let max = format.max.map_or(Self::MAX.into(), i128::from);
                let or = format.or.iter();
                let or: String =
                    or.map(|(number, meaning)| format!(", or {number}: {meaning}")).collect();
                match format.hex {
                    Some(_) => format!("a number from {min:#x} to {max:#x}{or}"),
                    None => format!("a number from {min} to {max}{or}"),
                }
            }
        }
    )+};
}

integers!(u8, u16, u32, u64, i32);

impl Value for Guid {
    fn assign(&mut self, text: &str, format: ValueFormat) -> Result<(), String> {
        self.0.assign(text, format)
    }

    fn lines(&self, _: ValueFormat) -> Vec<String> {
        vec![self.to_string()]
    }

    fn expects(_: ValueFormat) -> String {
        "a GUID, such as 0x0002c90300001234".into()
    }
}

macro_rules! key_value {
    ($($key:ty),*) => {$(
        impl Value for $key {
            fn assign(&mut self, text: &str, format: ValueFormat) -> Result<(), String> {
                // The log must not show a key with a slip.
                self.0.assign(text, format).map_err(|_| "the value is no key".to_owned())
            }

            fn lines(&self, format: ValueFormat) -> Vec<String> {
                self.0.lines(format)
            }

            fn expects(format: ValueFormat) -> String {
                u64::expects(format)
            }
        }
    )*};
}
key_value!(MKey, SmKey, CcKey);

impl Value for bool {
    /// Accepts TRUE, and FALSE, NO, OFF and 0 in any case. OpenSM reads all words but TRUE as FALSE.
    fn assign(&mut self, text: &str, _: ValueFormat) -> Result<(), String> {
        *self = match text.to_ascii_lowercase().as_str() {
            _ if text == "TRUE" => true,
            "false" | "no" | "off" | "0" => false,
            _ => return Err(format!("'{text}' is neither TRUE nor FALSE")),
        };
        Ok(())
    }

    fn repair(&mut self, _: &str, _: ValueFormat) -> bool {
        *self = false;
        true
    }

    fn lines(&self, _: ValueFormat) -> Vec<String> {
        vec![if *self { "TRUE" } else { "FALSE" }.into()]
    }

    fn expects(_: ValueFormat) -> String {
        "TRUE or FALSE".into()
    }
}

impl Value for String {
    fn assign(&mut self, text: &str, format: ValueFormat) -> Result<(), String> {
        *self = match format.null {
            Some(meant) if text == NULL => meant.into(),
            _ if text.is_empty() || text == NULL => return Err("a value is required".into()),
            _ => text.into(),
        };
        Ok(())
    }

    fn lines(&self, _: ValueFormat) -> Vec<String> {
        vec![quoted(self)]
    }

    fn expects(_: ValueFormat) -> String {
        "a path, such as /etc/opensm/opensm.conf".into()
    }
}

/// The text, in quotes if it would not be read back without them.
fn quoted(text: &str) -> String {
    let is_bare = text.trim() == text && unquote(text) == text && !text.starts_with('=');
    if is_bare { text.to_owned() } else { format!("\"{text}\"") }
}

/// Removes one pair of equal quotes.
pub(super) fn unquote(value: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| value.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(value)
}

/// Text of a missing value.
pub const NULL: &str = "(null)";

impl Value for Option<String> {
    fn assign(&mut self, text: &str, _: ValueFormat) -> Result<(), String> {
        *self = (!text.is_empty() && text != NULL).then(|| text.to_owned());
        Ok(())
    }

    fn lines(&self, _: ValueFormat) -> Vec<String> {
        vec![self.as_deref().map_or_else(|| NULL.to_owned(), quoted)]
    }

    fn expects(_: ValueFormat) -> String {
        "text, or (null) for none".into()
    }
}

/// Defines an enum whose values are words; OpenSM takes other words for the one after `else`.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, else $default:ident {
        $($(#[$row:meta])* $variant:ident = $word:literal,)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($(#[$row])* $variant,)+ }

        impl $name {
            /// The word in the file.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }

        impl Value for $name {
            fn assign(&mut self, text: &str, _: ValueFormat) -> Result<(), String> {
                *self = match text {
                    $($word => Self::$variant,)+
                    _ => return Err(format!("'{text}' is not one of the accepted words")),
                };
                Ok(())
            }

            fn repair(&mut self, _: &str, _: ValueFormat) -> bool {
                *self = Self::$default;
                true
            }

            fn lines(&self, _: ValueFormat) -> Vec<String> {
                vec![self.as_str().into()]
            }

            fn expects(_: ValueFormat) -> String {
                format!("one of {}", [$($word),+].join(", "))
            }
        }
    };
}

pub(super) use words;

words! {
    /// Packets whose P_Key switches check at their external ports.
    PartEnforce, else Both {
        /// Received and sent packets.
        Both = "both",
        /// Received packets.
        In = "in",
        /// Sent packets.
        Out = "out",
        /// No packets.
        Off = "off",
    }
}

words! {
    /// Access to the operator's console.
    Console, else Off {
        Off = "off",
        /// The terminal.
        Local = "local",
        Loopback = "loopback",
        Socket = "socket",
    }
}

words! {
    /// Use of vendor-specific attributes.
    VendorAttributes, else Auto {
        /// Devices that may have them are asked.
        Auto = "auto",
        Off = "off",
    }
}

words! {
    /// Format of log lines.
    LogFormat, else Text {
        Text = "text",
        Json = "json",
    }
}
