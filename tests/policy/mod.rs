//! What the comparison of policies with OpenSM is made of: generated files, generated questions,
//! fabrics with a subnet manager on each, and what their devices and administrators say.

pub(crate) mod differences;
pub(crate) mod draw;
pub(crate) mod files;
pub(crate) mod groups;
pub(crate) mod indexes;
pub(crate) mod judge;
pub(crate) mod memory;
pub(crate) mod of_partitions;
pub(crate) mod postman;
pub(crate) mod questions;
pub(crate) mod site;
