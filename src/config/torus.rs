//! torus-2QoS.conf: the shape of the torus, its seeds, and the order of ports.
//!
//! A line is one directive. The grammar is that of torus-2QoS.conf(5) with its leniencies: numbers
//! are read as by C's `strtoul` with base 0, and words after the last argument of a directive are
//! ignored. The parser reads the whole file and reports every invalid line with its position. The
//! routing engine checks the file against the fabric, such as the existence of the seed switches
//! and of the ports in `port_order`.

mod scan;
mod write;

use crate::ids::Guid;
use crate::notes::{Note, Severity};
use scan::{TorusToken, signed, tokens, unsigned, unsigned_prefix};
use std::path::Path;

use super::Diagnostic;
use super::text_file::ReadError;

/// The engine that reads the file.
pub const ENGINE: &str = "torus-2QoS";

/// Upper bound, exclusive, of the port numbers in `port_order`.
const PORT_LIMIT: u64 = 255;

/// A torus-2QoS.conf without errors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TorusConfig {
    /// The `torus` or `mesh` line; `None` if the file has neither.
    pub size: Option<TorusSize>,
    /// Seeds in file order; empty if the file has no link, no dateline and no `next_seed`.
    pub seeds: Vec<Seed>,
    /// Limit of ports in a group of parallel cables, and of host ports plus port 0.
    pub portgroup_max_ports: u32,
    /// Port numbers (0..=254) of `port_order` without duplicates. Ports that are not listed follow
    /// in ascending order.
    pub port_order: Vec<u8>,
    /// Number of changes after which the change report stops.
    pub max_changes: u32,
    /// Notes about oddities that are not errors.
    pub notes: Vec<Note>,
}

impl Default for TorusConfig {
    fn default() -> Self {
        Self {
            size: None,
            seeds: Vec::new(),
            portgroup_max_ports: 16,
            port_order: Vec::new(),
            max_changes: 32,
            notes: Vec::new(),
        }
    }
}

/// Radices of the dimensions x, y, z, and whether they wrap around.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TorusSize {
    /// Number of switches in each dimension; 1 for unused dimensions.
    pub radix: [u32; 3],
    /// True for dimensions that wrap around. Dimensions of radix 2 never do.
    pub looped: [bool; 3],
}

/// A switch and its neighbours, from which the engine derives the coordinates of all switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seed {
    /// Links by `2 * dimension + (0 for plus, 1 for minus)`.
    pub links: [Option<SeedLink>; 6],
    /// Distance of the origin from the dateline in each dimension.
    pub dateline: [i64; 3],
}

/// A link of a seed, as the node GUIDs of its switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeedLink {
    pub origin: Guid,
    pub neighbor: Guid,
}

impl TorusConfig {
    /// Parses the text of `file`.
    ///
    /// # Errors
    /// One note for every invalid line, with file, line and column.
    pub fn parse(file: &Path, text: &str) -> Result<Self, Vec<Note>> {
        let mut parser = TorusParser { file, line: 0, config: Self::default(), errors: Vec::new() };
        for (index, line) in text.split('\n').enumerate() {
            parser.line = u32::try_from(index + 1).unwrap_or(u32::MAX);
            parser.directive(line);
        }
        if parser.errors.is_empty() { Ok(parser.config) } else { Err(parser.errors) }
    }

    /// The note that the engine reports if the file cannot be read.
    pub fn unreadable(error: &ReadError) -> Note {
        Note::error("4E11", format!("cannot read {error}"))
    }

    /// All port numbers 0..=254 in the order in which the engine assigns destinations to ports.
    pub fn full_port_order(&self) -> Vec<u8> {
        let mut listed = [false; 256];
        self.port_order.iter().for_each(|&port| listed[usize::from(port)] = true);
        let rest = (0..PORT_LIMIT as u8).filter(|&port| !listed[usize::from(port)]);
        self.port_order.iter().copied().chain(rest).collect()
    }
}

/// An error in the current line. `code` is OpenSM's `ERR` number.
struct TorusLineError {
    code: &'static str,
    column: u32,
    message: String,
}

impl TorusLineError {
    fn new(column: u32, message: impl Into<String>) -> Self {
        Self { code: "4E13", column, message: message.into() }
    }
}

struct TorusParser<'a> {
    file: &'a Path,
    line: u32,
    config: TorusConfig,
    errors: Vec<Note>,
}

impl TorusParser<'_> {
    fn directive(&mut self, line: &str) {
        let mut words = tokens(line);
        let Some(keyword) = words.next() else { return };
        if keyword.text.starts_with('#') {
            return;
        }
        let arguments: Vec<TorusToken<'_>> = words.collect();
        let end = line.trim_end().len() as u32 + 1;
        if let Err(error) = self.apply(keyword, &Arguments { words: &arguments, end }) {
            let text = self.place(error.column, Severity::Error, error.message);
            self.errors.push(Note::error(error.code, text));
        }
    }

    fn place(&self, column: u32, severity: Severity, message: String) -> String {
        let file = self.file.to_path_buf();
        let line = self.line;
        Diagnostic { file, line, column, severity, message, code: None }.to_string()
    }

    fn apply(
        &mut self,
        keyword: TorusToken<'_>,
        arguments: &Arguments<'_>,
    ) -> Result<(), TorusLineError> {
        match keyword.text {
            "torus" => self.size(keyword, arguments, true),
            "mesh" => self.size(keyword, arguments, false),
            "xp_link" => self.link(arguments, 0),
            "xm_link" => self.link(arguments, 1),
            "yp_link" => self.link(arguments, 2),
            "ym_link" => self.link(arguments, 3),
            "zp_link" => self.link(arguments, 4),
            "zm_link" => self.link(arguments, 5),
            "x_dateline" => self.dateline(arguments, 0),
            "y_dateline" => self.dateline(arguments, 1),
            "z_dateline" => self.dateline(arguments, 2),
            "next_seed" => {
                self.config.seeds.push(Seed::default());
                Ok(())
            }
            "portgroup_max_ports" => {
                self.config.portgroup_max_ports = arguments.count(0, "a number of ports")?;
                Ok(())
            }
            "max_changes" => {
                self.config.max_changes = arguments.count(0, "a number of changes")?;
                Ok(())
            }
            "port_order" => self.port_order(arguments),
            other => Err(TorusLineError {
                code: "4E12",
                column: keyword.column,
                message: unknown_keyword(other),
            }),
        }
    }

    fn size(
        &mut self,
        keyword: TorusToken<'_>,
        arguments: &Arguments<'_>,
        looped_by_default: bool,
    ) -> Result<(), TorusLineError> {
        if self.config.size.is_some() {
            let message = format!("a second size line (`{}`): only one is allowed", keyword.text);
            return Err(TorusLineError::new(keyword.column, message));
        }
        let mut size = TorusSize { radix: [0; 3], looped: [looped_by_default; 3] };
        for axis in 0..3 {
            let word = arguments.word(axis, "three radices, for x, y and z")?;
            let (radix, rest) = unsigned_prefix(word.text);
            size.radix[axis] = u32::try_from(radix).unwrap_or(u32::MAX);
            match rest.as_bytes().first() {
                Some(b't' | b'T') => size.looped[axis] = true,
                Some(b'm' | b'M') => size.looped[axis] = false,
                _ => {}
            }
            // A loop of two switches is a pair of parallel cables.
            size.looped[axis] &= size.radix[axis] != 2;
        }
        self.config.size = Some(size);
        Ok(())
    }

    fn current_seed(&mut self) -> &mut Seed {
        if self.config.seeds.is_empty() {
            self.config.seeds.push(Seed::default());
        }
        self.config.seeds.last_mut().expect("a seed was just made if there was none")
    }

    fn link(&mut self, arguments: &Arguments<'_>, slot: usize) -> Result<(), TorusLineError> {
        let expected = "two switch GUIDs, origin and neighbour";
        let origin = arguments.word(0, expected)?;
        let neighbor = arguments.word(1, expected)?;
        let origin = self.guid(origin);
        let neighbor = self.guid(neighbor);
        self.current_seed().links[slot] = Some(SeedLink { origin, neighbor });
        Ok(())
    }

    /// A GUID as OpenSM reads it; a note names one that is misspelt.
    fn guid(&mut self, word: TorusToken<'_>) -> Guid {
        let guid = Guid(unsigned(word.text));
        let digits = word.text.strip_prefix("0x").or_else(|| word.text.strip_prefix("0X"));
        let is_plain = digits.is_some_and(|digits| {
            (1..=16).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit())
        });
        if !is_plain || guid.0 == 0 {
            let message = format!(
                "`{}` is not a GUID such as 0x0002c90300000001: it is read as {guid}, as by OpenSM",
                word.text
            );
            let text = self.place(word.column, Severity::Warning, message);
            self.config.notes.push(Note::warning(text));
        }
        guid
    }

    fn dateline(&mut self, arguments: &Arguments<'_>, axis: usize) -> Result<(), TorusLineError> {
        let word = arguments.word(0, "a distance")?;
        let value = signed(word.text);
        let out_of_range =
            |message| Err(TorusLineError { code: "4E10", column: word.column, message });
        let radix = self.config.size.map_or(0, |size| i64::from(size.radix[axis]));
        if radix == 0 {
            return out_of_range(
                "a dateline before the `torus` or `mesh` line: its range follows from the radix"
                    .to_owned(),
            );
        }
        if value.abs() >= radix {
            let axis = ['x', 'y', 'z'][axis];
            let most = radix - 1;
            return out_of_range(format!("{axis}_dateline {value} is not from -{most} to {most}"));
        }
        self.current_seed().dateline[axis] = value;
        Ok(())
    }

    fn port_order(&mut self, arguments: &Arguments<'_>) -> Result<(), TorusLineError> {
        let mut order: Vec<u8> = Vec::with_capacity(arguments.words.len());
        for word in arguments.words {
            let value = unsigned(word.text);
            if value >= PORT_LIMIT {
                let message = format!("port number {} is not from 0 to 254", word.text);
                return Err(TorusLineError::new(word.column, message));
            }
            if order.contains(&(value as u8)) {
                let message = format!("port {value} is already in port_order: ignored");
                let text = self.place(word.column, Severity::Info, message);
                self.config.notes.push(Note::info(text));
            } else {
                order.push(value as u8);
            }
        }
        self.config.port_order = order;
        Ok(())
    }
}

fn unknown_keyword(word: &str) -> String {
    const KEYWORDS: [&str; 15] = [
        "torus",
        "mesh",
        "xp_link",
        "xm_link",
        "yp_link",
        "ym_link",
        "zp_link",
        "zm_link",
        "x_dateline",
        "y_dateline",
        "z_dateline",
        "next_seed",
        "portgroup_max_ports",
        "port_order",
        "max_changes",
    ];
    match KEYWORDS.iter().find(|keyword| keyword.eq_ignore_ascii_case(word)) {
        Some(keyword) => format!("unknown keyword `{word}`: keywords are lower case, `{keyword}`"),
        None => format!("unknown keyword `{word}`"),
    }
}

/// Words after a keyword.
struct Arguments<'a> {
    words: &'a [TorusToken<'a>],
    /// Column after the last character of the line, where a missing argument is reported.
    end: u32,
}

impl<'a> Arguments<'a> {
    fn word(&self, index: usize, expected: &str) -> Result<TorusToken<'a>, TorusLineError> {
        self.words.get(index).copied().ok_or_else(|| {
            TorusLineError::new(self.end, format!("argument missing: expected {expected}"))
        })
    }

    fn count(&self, index: usize, expected: &str) -> Result<u32, TorusLineError> {
        let value = unsigned(self.word(index, expected)?.text);
        Ok(u32::try_from(value).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests;
