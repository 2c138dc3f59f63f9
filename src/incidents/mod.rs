//! Incidents: one object for each cause of trouble, open until the cause is gone.
//!
//! ```text
//! snapshots ──► losses, survey ──► Facts ──► causes (folding) ──► Book::observe ──► Change
//! ```
//!
//! * [`fact`]: what is wrong, as plain data; [`losses`]: nodes and cables that were seen and are
//!   missing, from two snapshots; [`grid_squares`]: swapped cables of a torus, from its links;
//!   [`tree_links`]: those of a fat tree of two levels, [`tree_levels`] of more; [`survey`]: links and
//!   devices that a snapshot shows as faulty; [`torus_cables`]: cables that no direction of a torus
//!   explains; [`next_failure`]: the part whose loss would cut off most; [`switch_links`]: the cables
//!   between switches;
//! * [`causes`]: folds symptoms under their [`cause`], [`outages`] the lost and silent nodes;
//! * [`incident`]: an incident, its severity and what it takes away; [`book`]: the open incidents, and
//!   those that have ended; [`store`]: the same as text, for restarts and takeovers.
//!
//! Nothing here reads a clock, opens a file, logs or sends: the time is an argument, in milliseconds
//! since 1970.

pub mod book;
pub mod cause;
pub mod causes;
pub mod fact;
pub mod grid_squares;
pub mod incident;
pub mod losses;
pub mod next_failure;
pub mod outages;
#[cfg(test)]
mod scenarios;
pub mod store;
pub mod survey;
pub mod switch_links;
#[cfg(test)]
mod tests;
pub mod torus_cables;
pub mod tree_levels;
pub mod tree_links;
