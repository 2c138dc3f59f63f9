//! Interposed functions of the C library.
//!
//! They are not exported in tests of this crate, which use the C library's.

mod descriptors;
mod open;
mod path;
