//! opensm.conf.
//!
//! [`table`] has one row per key: it makes the struct [`Options`] with its defaults, the
//! parser, the template and the check that the manual page mentions every key. [`value`] knows
//! how each type is read and written.

pub mod table;
pub mod value;

pub use table::{Feature, Key, Options, Reload, TABLE};
pub use value::{CaEntries, CctEntry, CctList, Console, PartEnforce, PortMask};
