//! The simulator: its command, its device interface, and unmodified programs attached to it.

mod command;
mod congestion;
mod daemon_files;
mod device;
mod tools;
mod umad_ibsim;
