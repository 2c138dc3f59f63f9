//! Groups of ports and the rules that choose ports.

use crate::config::literal::quoted;
use crate::ids::Guid;
use regex::{Regex, RegexBuilder};

/// Largest size in bytes of a compiled regular expression.
const MAX_PATTERN_SIZE: usize = 1 << 20;

/// A group as defined in the file.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainPortGroup {
    pub name: String,
    /// Description for people.
    pub usage: String,
    /// Line of the definition.
    pub line: u32,
    /// The group has the ports of all rules.
    pub rules: Vec<PortRule>,
}

/// A group of the file, by its index, or a predefined one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupRef {
    All,
    AllSwitches,
    AllCas,
    AllRouters,
    Defined(usize),
}

/// A rule that chooses ports.
#[derive(Clone, PartialEq, Debug)]
pub enum PortRule {
    /// Nodes or end ports by GUID.
    Guids(Vec<GuidPorts>),
    /// All nodes and end ports with a GUID in this range, including both ends.
    GuidRange(Guid, Guid),
    /// Channel adapters by host name.
    Names(Vec<HostPorts>),
    /// Nodes whose description begins with a match of the regular expression, with one port or all.
    Pattern(Pattern, Option<u8>),
    Union([GroupRef; 2]),
    /// The ports of the first group that are not in the second one.
    Subtract([GroupRef; 2]),
}

/// A node or end port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuidPorts {
    pub guid: Guid,
    /// Ranges of port numbers, including both ends; empty for all ports.
    pub ports: Vec<(u8, u8)>,
}

/// Ports of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostPorts {
    pub hostname: String,
    pub port: Option<u8>,
    /// Number of the channel adapter: 1 for a node description with `HCA-1`.
    pub hca_index: Option<u8>,
}

/// A regular expression for node descriptions.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Pattern {
    /// Compiles a regular expression.
    ///
    /// # Errors
    /// The text is not a regular expression, or a very large one.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let anchored = format!("^(?:{text})");
        let built = RegexBuilder::new(&anchored).size_limit(MAX_PATTERN_SIZE).build();
        match built {
            // Tried alone, too, because the parentheses added above could match stray ones.
            Ok(regex) if Regex::new(text).is_ok() => Ok(Self(regex)),
            Err(regex::Error::CompiledTooBig(_)) => {
                Err("the regular expression is too large".to_owned())
            }
            _ => Err(format!("{} is not a regular expression", quoted(text))),
        }
    }

    /// True if the description begins with a match.
    pub fn matches(&self, description: &str) -> bool {
        self.0.is_match(description)
    }
}

impl GuidPorts {
    /// True if the port number is chosen.
    pub fn contains(&self, port: u8) -> bool {
        self.ports.is_empty()
            || self.ports.iter().any(|&(first, last)| (first..=last).contains(&port))
    }
}
