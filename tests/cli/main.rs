//! The command line, the subcommands and the configuration files.

mod config_mistakes;
mod opensm_options;
mod options;
mod packages;
mod partitions;
mod plan;
mod replay;
mod routing_chain;
mod torus_config;
