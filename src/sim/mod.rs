//! A simulated fabric.
//!
//! * [`generate`]: tori and meshes

pub mod generate;

mod device;
mod link;
mod port_info;
mod sma;
mod tables;
