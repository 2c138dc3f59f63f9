//! The functions that stand before the C library's.
//!
//! In a test of this crate they keep their Rust names: it uses the C library's.

mod descriptors;
mod folders;
mod opening;
