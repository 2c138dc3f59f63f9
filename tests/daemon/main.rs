//! The whole daemon: in this process on simulated fabrics, and as a process on ibsim.

mod activity;
mod congestion;
mod core_dumps;
mod disasters;
mod fault_injection;
mod foreign_sets;
mod held_mappings;
mod hung_managers;
mod incidents;
mod joins;
mod m_keys;
mod mass_boot;
mod own_failures;
mod process;
mod recordings;
mod recovery;
mod returned_switch;
mod roles;
mod service_manager;
mod shared_state;
mod simulation;
mod strict_roles;
mod takeover;
mod unresponsive;
mod vendor;
mod virtual_ports;
