//! What the comparison of policies with OpenSM is made of: generated files, generated questions,
//! fabrics with a subnet manager on each, and what their devices and administrators say.

pub mod differences;
pub mod draw;
pub mod files;
pub mod groups;
pub mod indexes;
pub mod judge;
pub mod memory;
pub mod of_partitions;
pub mod postman;
pub mod questions;
pub mod site;
