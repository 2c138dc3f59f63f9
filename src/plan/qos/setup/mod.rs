//! `qos-setup` of qos-policy.conf: SL to VL mappings and VL arbitration for groups of ports.
//!
//! OpenSM reads these scopes and ignores them; here they are carried out, as the proposal of 2007
//! that brought them describes them. A [`QosSetup`] answers which scope is for a port, or for a pair
//! of input and output port:
//!
//! * `vlarb-scope`: the ports of the groups of `group`, and those cabled to ports of the groups of
//!   `across`;
//! * `sl2vl-scope`: the same ports as outputs (all, where it names neither), of these those whose
//!   numbers `to` has and that are cabled to ports of the groups of `across-to`; each for the inputs
//!   of the same switch whose numbers `from` has and that are cabled to ports of the groups of
//!   `across-from`. A channel adapter or router has a single input, its own packets: it counts as
//!   number 0, as that of a switch's own packets does, and is cabled to nothing.
//!
//! The first scope that is for a port counts, with all it says; what it does not say, and ports
//! that no scope is for, are left to the `qos_*` options. Tables are cut to what a port supports
//! in the same way as those of the options, by [`super::tables()`]. [`mod@diagnostics`] reports the scopes
//! that the fabric cannot follow (section 9 of the proposal).
//!
//! Nothing is computed ahead but the members of the groups: where cables change, the answers do,
//! too.

mod diagnostics;
mod scopes;
#[cfg(test)]
mod tests;

pub use diagnostics::{SetupContext, diagnostics};
pub use scopes::QosSetup;
