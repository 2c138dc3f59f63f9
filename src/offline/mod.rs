//! What is done at a desk, without any port.
//!
//! * [`torus_config`]: writes torus-2QoS.conf from the cables of a fabric.

pub mod torus_config;
