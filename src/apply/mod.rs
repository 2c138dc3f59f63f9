//! Programs the devices: sends the Sets that lead from the acknowledged state to the plan, and no
//! others.
//!
//! * [`acknowledged`]: the state that the devices acknowledged;
//! * [`delta`]: the Sets that lead from there to a plan, one iterator per kind of table;
//!   `port_infos`: Sets of PortInfo; `slvl`: of SL to VL mappings; `pkeys`: of P_Key tables;
//!   `fdr10`: of ExtendedPortInfo; `in_turn`: Sets of several devices in turn;
//! * [`scope`]: the nodes that are compared; `changed`: those that may need Sets;
//! * [`inherited`]: tables that devices hold from before, which are read first;
//! * [`held_mappings`]: reads SL to VL mappings that a plan does not write;
//! * [`link_down`]: takes links down;
//! * [`set_id`]: identifiers of Sets; [`switch_info`]: SwitchInfo after a Set; [`phases`]: the
//!   order of the phases, as data;
//! * `idle_ports`: brings up ports that carry no data, and writes no tables of switches;
//! * [`transition`]: the order of table changes on a fabric that carries traffic; `progress`: the
//!   state of such a transition;
//! * [`programmer`]: sends the Sets, many at a time; `answers`: records the answers; [`report`]:
//!   the result; `sender`: keeps silent devices from delaying others; [`control`]: when programming
//!   ends early;
//! * [`set_failures`]: Sets that devices refused, and devices that acknowledge none; `pass`: those
//!   of one reconfiguration; `refused_ports`: reads ports again that refused a Set.
//!
//! A failed Set does not stop the others. It stays unacknowledged, is reported, and is sent again
//! with the next sweep, or after a growing delay if the device refused it.

pub mod acknowledged;
mod answers;
mod changed;
pub mod control;
pub mod delta;
mod fdr10;
pub mod held_mappings;
mod idle_ports;
mod in_turn;
pub mod inherited;
pub mod link_down;
mod pass;
pub mod phases;
mod pkeys;
mod port_infos;
pub mod programmer;
mod progress;
mod refused_ports;
pub mod report;
pub mod scope;
mod sender;
pub mod set_failures;
pub mod set_id;
mod slvl;
pub mod switch_info;
pub mod transition;

pub use acknowledged::Acknowledged;
pub use control::{ApplyControl, Stop};
pub use idle_ports::apply_idle_ports;
pub use programmer::{apply, apply_groups};
pub use report::ApplyReport;
