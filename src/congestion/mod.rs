//! Congestion control: the settings of switches and channel adapters (IBA vol. 1, annex A10), as
//! OpenSM configures them.
//!
//! * [`settings`]: the settings that the options ask for, by kind of device
//! * [`devices`]: what the devices hold, the next request to each, and when failed ones are tried
//!   again
//! * [`status`]: the snapshot that readers get
//!
//! The state of a device is read once, and written only if it differs; afterwards only changes of
//! the options, restarts and lost trust in the devices cause requests.
//!
//! This module is pure: [`crate::daemon`] sends the requests and provides the time.

pub mod devices;
pub mod settings;
pub mod status;
