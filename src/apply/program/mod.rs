//! Sends the Sets of a plan to the devices, and records their answers.
//!
//! A [`pass`] sends the Sets of one plan: of a whole plan ([`apply`]), of changed multicast groups
//! ([`apply_groups`]), or of ports that carry no data ([`apply_idle_ports`]). Its steps are
//!
//! ```text
//! begin ──► order ──► for each phase: rounds of Sets ──► take links down ──► conclude ──► record
//! ```
//!
//! * [`phases`]: the order of the phases, as data; `round`: sends the Sets of one round, many at a
//!   time; `answers`: records the answers;
//! * `sender`: keeps silent devices from delaying others; [`control`]: when programming ends early;
//! * `failures`: the failures of one pass; `refused_ports`: reads ports again that refused a Set;
//! * [`report`]: the result.

mod answers;
pub mod control;
mod failures;
mod pass;
pub mod phases;
mod refused_ports;
pub mod report;
mod round;
mod sender;

pub use pass::{ApplySettings, PassDevices, apply, apply_groups, apply_idle_ports};
