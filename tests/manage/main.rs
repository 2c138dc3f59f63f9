//! The management interface: its server on daemons in this process, and the commands that use it.

mod actions;
mod client;
mod commands;
mod descriptions;
mod events;
mod hostile_clients;
mod metrics;
