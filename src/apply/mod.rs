//! The devices brought to the plan: Sets of what differs from what each device acknowledged,
//! and no more.
//!
//! * [`acknowledged`]: what the devices are known to hold: the last plan, less what failed;
//! * [`delta`]: the Sets that lead from there to a new plan, one iterator per kind of table;
//!   `slvl`: how SL to VL mappings are bundled;
//! * [`set_id`]: the names of Sets; [`phases`]: their order, as data;
//! * [`transition`]: the order of tables where packets are under way: who must wait for whom;
//! * `progress`: how far that is;
//! * [`programmer`]: sends them, many at a time, and takes note of the answers.
//!
//! A failed Set never stops the rest. It stays unacknowledged, is reported, and goes out again
//! with the next sweep.

pub mod acknowledged;
pub mod delta;
pub mod phases;
pub mod programmer;
mod progress;
pub mod set_id;
mod slvl;
pub mod transition;

pub use acknowledged::Acknowledged;
pub use programmer::{ApplyReport, apply, apply_groups};
