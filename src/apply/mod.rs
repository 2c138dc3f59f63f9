//! Programs the devices: sends the Sets that lead from the acknowledged state to the plan, and no
//! others.
//!
//! * [`acknowledged`]: the state that the devices acknowledged; [`set_failures`]: Sets that devices
//!   refused, and devices that acknowledge none;
//! * [`delta`]: the Sets that lead from there to a plan;
//! * [`transition`]: the order of table changes on a fabric that carries traffic;
//! * [`program`]: sends the Sets and records the answers;
//! * [`inherited`]: tables that devices hold from before, which are read first; [`held_mappings`]:
//!   reads SL to VL mappings that a plan does not write;
//! * [`link_down`]: takes links down; [`set_id`]: identifiers of Sets.
//!
//! A failed Set does not stop the others. It stays unacknowledged, is reported, and is sent again
//! with the next sweep, or after a growing delay if the device refused it.

pub mod acknowledged;
pub mod delta;
pub mod held_mappings;
pub mod inherited;
pub mod link_down;
pub mod program;
pub mod set_failures;
pub mod set_id;
pub mod transition;

pub use acknowledged::Acknowledged;
pub use program::control::{ApplyControl, Stop};
pub use program::report::ApplyReport;
pub use program::{ApplySettings, PassDevices, apply, apply_groups, apply_idle_ports};
