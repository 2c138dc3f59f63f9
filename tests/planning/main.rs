//! Plans of all engines: verification, transitions between plans, and dump files.

mod adaptive;
mod adaptive_transitions;
mod adaptive_writes;
mod dumps;
mod engine_choice;
mod engine_failures;
mod hop_weights;
mod route_files;
mod spine_hosts;
mod strict_mode;
mod strict_transitions;
mod transitions;
mod unicast_cache;
mod up_down;
mod verify;
mod watched_port;
