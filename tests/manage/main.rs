//! The management interface: its server on daemons in this process, and the commands that use it.

mod actions;
mod browser;
mod client;
mod commands;
mod congestion;
mod console;
mod descriptions;
mod encodings;
mod events;
mod hostile_clients;
mod metrics;
mod network;
mod page;
mod page_views;
mod perfmgr;
mod promtool;
mod random_requests;
mod recording;
mod repair;
mod traffic;
mod words;
