//! opensm.conf.
//!
//! [`table`] has one row per key: it makes the struct [`Options`] with its defaults, the
//! parser, the template and the check that the manual page mentions every key. [`value`] knows
//! how each type is read and written, [`lists`] those of VLs; [`parse`] has the file's lexical
//! rules, [`mod@template`] the way back, [`settle`] what follows from several values together.
//!
//! The file is OpenSM's, but for two things: a boolean that is neither TRUE nor FALSE is an
//! error (OpenSM takes it for FALSE; 1, YES and ON are TRUE here), and so is a number out of
//! its range (OpenSM repairs some and takes the rest). The daemon does not start with a wrong
//! value, and keeps its configuration when a reload brings one; unknown keys are warnings.

pub mod lists;
pub mod parse;
pub mod settle;
pub mod table;
mod template;
pub mod value;

pub use table::{Feature, Key, OF_PATH, Options, Reload, TABLE};
pub use template::template;
pub use value::{CaEntries, CctEntry, CctList, Console, PartEnforce, PortMask};
