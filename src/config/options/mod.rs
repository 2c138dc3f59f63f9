//! opensm.conf.
//!
//! * [`table`]: one row for each key. It makes the struct [`Options`] with its defaults, the
//!   parser, the template and the list of keys in the manual page.
//! * [`key`]: the type of a row; [`value`]: the types of values, and how they are read and written;
//!   [`vl_lists`]: lists of VLs.
//! * `congestion_values`: types of the keys of congestion control;
//! * `permissions`: types of the keys that permit requests of others;
//! * [`parse`]: the lexical rules of the file; [`mod@template`]: options back to a file.
//! * [`adaptive`]: engines with adaptive routing;
//! * [`reconcile`]: options that depend on each other, and reloading.
//!
//! The format is OpenSM's. Values that OpenSM does not accept are repaired as OpenSM
//! repairs them, each with its place in the file: `check` counts them as errors, a start as
//! warnings. Unknown keys cause warnings.

mod activity_subjects;
pub mod adaptive;
mod congestion_values;
pub mod key;
pub mod parse;
mod permissions;
pub mod reconcile;
pub mod table;
mod template;
pub mod value;
pub mod vl_lists;

pub use activity_subjects::ActivitySubjects;
pub use congestion_values::{CaEntries, CctList, InjectionRate, SwitchPortMask};
pub use key::{Reload, SECRET_KEYS, Support};
pub use parse::keys_of;
pub use permissions::{PortGuids, SaTrust};
pub use table::{Options, RTR_PR_INHERIT, TABLE};
pub use template::template;
pub use value::{Console, LogFormat, PartEnforce, VendorAttributes};

/// A row of the table.
pub type Key = key::KeyOf<Options>;

/// The names in a value of `routing_engine` or `-R`, separated by commas or blanks.
pub fn listed_engines(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', ' ', '\t', '\n']).filter(|name| !name.is_empty())
}

/// The engines in a value of `routing_engine` or `-R`: that of an engine with adaptive routing stands
/// for its routes.
pub fn engine_names(list: &str) -> impl Iterator<Item = &str> {
    listed_engines(list).map(adaptive::routes_of)
}
