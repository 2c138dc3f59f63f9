//! Vendor-specific attributes: the capabilities that devices announce in GeneralInfo.
//!
//! * [`adaptive`]: adaptive routing of switches
//! * [`nodes`]: which devices are asked, and what they answered
//! * [`rates`]: rate limits of ports, what they hold, and the next request to each
//! * [`virtual_ports`]: vports of adapter ports
//! * [`status`]: the snapshot that readers get
//!
//! This module is pure: [`crate::daemon`] sends the requests.

pub mod adaptive;
pub mod nodes;
pub mod rates;
pub mod status;
pub mod virtual_ports;
