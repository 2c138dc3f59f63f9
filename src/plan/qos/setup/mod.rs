//! The `qos-setup` section of qos-policy.conf: SL to VL mappings and VL arbitration for port
//! groups.
//!
//! OpenSM parses these scopes and ignores them; torus-sm implements them as described in the
//! proposal of 2007 that introduced them. A [`QosSetup`] finds the scope of a port, or of a pair of
//! input and output ports:
//!
//! * `vlarb-scope` applies to the ports in the groups of `group`, and to the ports linked to ports
//!   in the groups of `across`;
//! * `sl2vl-scope` applies to output ports selected in the same way (all ports if neither is
//!   given), restricted to the port numbers of `to` and to ports linked to the groups of
//!   `across-to`; and to the inputs of the same switch with the port numbers of `from` that are
//!   linked to the groups of `across-from`. Channel adapters and routers have a single input, their
//!   own packets. It counts as port 0, like a switch's own packets, and is not linked to any port.
//!
//! The first scope that applies to a port is used, with all its settings. Settings that it omits,
//! and ports without a scope, use the `qos_*` options. [`super::tables()`] limits the tables to the
//! capabilities of the port. [`diagnostics()`] reports scopes that the fabric cannot implement
//! (section 9 of the proposal).
//!
//! Only the members of the groups are precomputed; links are looked up in the present fabric.

mod diagnostics;
mod scopes;
#[cfg(test)]
mod tests;

pub use diagnostics::{SetupContext, diagnostics};
pub use scopes::QosSetup;
