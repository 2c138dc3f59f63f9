//! Wire formats: conversion between bytes and types, without policy. Nothing here fails on unknown
//! values or panics on short input; the users of a record check its values.
//!
//! * [`bits`]: bit fields of records; `gid`: fields of GIDs
//! * [`mad`]: the 256-byte MAD and its common header of 24 bytes
//! * [`smp`]: subnet management packets, directed-route and LID-routed
//! * [`attr`]: one file per subnet management attribute
//! * [`perf`]: performance management and its counters; [`congestion`]: congestion control
//! * [`vendor`]: vendor-specific attributes of subnet management
//! * [`sa`]: RMPP and SA headers; [`record`]: one file per SA record
//! * [`defined`]: the bytes of a MAD that its sender defined, without keys

pub mod attr;
pub mod bits;
pub mod congestion;
pub mod defined;
mod gid;
pub mod mad;
pub mod perf;
pub mod record;
pub mod sa;
pub mod smp;
pub mod vendor;
