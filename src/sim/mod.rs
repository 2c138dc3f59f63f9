//! A simulated fabric.
//!
//! * [`generate`]: tori and meshes

pub mod generate;
