//! Comparison with Debian's opensm, and checks by Debian's tools. Tests print SKIPPED where those
//! are not installed.

mod bring_up;
mod cold_lids;
mod congestion;
mod console;
mod engines;
mod faults;
mod foreign_key;
mod ibdmchk;
mod keys;
mod m_keys;
mod opensm;
mod perfmgr;
mod policy;
mod roles;
mod sa;
mod sa_dump;
mod sa_queries;
mod saquery;
mod shadow;
mod torus_failures;
mod torus_random;
mod vports;
