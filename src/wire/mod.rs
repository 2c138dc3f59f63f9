//! Bytes ↔ types, with no policy. Nothing here fails on unknown values or panics on short
//! input: a view is laid over the bytes, and whoever reads it judges.
//!
//! * [`bits`]: how a record's fields are laid over bytes
//! * [`mad`]: the 24-byte header all management datagrams share, and the 256-byte MAD
//! * [`smp`]: subnet management packets, directed-route and LID-routed
//! * [`attr`]: one file per subnet management attribute
//! * [`perf`]: performance management and its counters
//! * [`sa`]: RMPP and SA headers; [`record`]: one file per SA record

pub mod attr;
pub mod bits;
pub mod mad;
pub mod perf;
pub mod record;
pub mod sa;
pub mod smp;
