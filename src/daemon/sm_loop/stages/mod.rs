//! The stages of the SM loop: values in, an outcome out.
//!
//! * `sweep`: observes the fabric;
//! * [`reconfigure`]: plans, verifies, applies and publishes, all of it or multicast groups only;
//! * [`mastership`]: the role of this SM among others.

pub mod mastership;
pub mod reconfigure;
pub(super) mod sweep;
