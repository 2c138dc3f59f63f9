//! The command line, the subcommands and the configuration files.

mod config_mistakes;
mod options;
mod partitions;
mod plan;
mod replay;
mod torus_config;
