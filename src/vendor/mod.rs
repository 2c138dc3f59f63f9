//! Vendor-specific attributes: the capabilities that devices announce in GeneralInfo.
//!
//! * [`nodes`]: which devices are asked, and what they answered
//! * [`status`]: the snapshot that readers get
//!
//! This module is pure: [`crate::daemon`] sends the requests.

pub mod nodes;
pub mod status;
