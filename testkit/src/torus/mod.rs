//! Tori with their torus-2QoS.conf, random ones and single failures, routed by torus-2QoS, with
//! their tables by GUID.

pub mod failures;
pub mod random;
pub mod subnet;
