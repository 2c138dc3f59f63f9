//! SL to VL mapping and VL arbitration tables.
//!
//! The configuration knows four kinds of ports (channel adapters, routers, enhanced switch
//! ports 0, external switch ports); what is not set for a kind is inherited from the general
//! option, and from OpenSM's default after that ([`QosConfig`]). Scopes of qos-policy.conf
//! ([`setup`]) go before the options at the ports they are for. Routing engines may put
//! their own SL to VL mapping in the place of both, and rewrite VL arbitration. Last, VLs are cut
//! to those that operate.

mod options;
pub mod policy;
pub mod setup;
mod tables;
mod vls;

pub use options::QosConfig;
pub use tables::{QosSources, QosTables, tables, update};
